"""The messages about some instruments, of all templates, in the order of each one's stream."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from pregao.book.rows import IMPLIED, NULL, RECOVERY, UpdateKind
from pregao.lake.books.columns import Codes, Numbers, codes, integers, taken
from pregao.lake.books.inputs import (
    CHANNEL_RESET,
    DELETE,
    EMPTY_BOOK,
    MASS_DELETE,
    ORDER,
    Part,
    Reader,
    serial_of,
)
from pregao.umdf.gap_columns import Item
from pregao.umdf.sequencing import LAST_SEQUENCE_VERSION
from pregao.umdf.streams import Stream

INDEX_BITS = 13
"""A packet of 64 kB has fewer messages than this many bits can count."""
BEHIND_PACKET = (1 << INDEX_BITS) - 1
"""What stands for the place behind all messages of a packet."""
_NUMBER_BITS = 32
_VERSION_BITS = 4
_RANK_BITS = 63 - INDEX_BITS - _NUMBER_BITS - _VERSION_BITS

IMPLIED_BIT = 1 << 4
RECOVERY_BIT = 1 << 5

KEY = (
    "security_id",
    "sequence_version",
    "sequence_number",
    "index_in_packet",
    "event",
    "sending_time_ns",
    "capture_time_ns",
)
_TIMES = ("transact_time_ns", "md_entry_timestamp_ns")
_ACTIONS = {
    "NEW": int(UpdateKind.ADD),
    "CHANGE": int(UpdateKind.CHANGE),
    "DELETE": int(UpdateKind.DELETE),
    "DELETE_THRU": int(UpdateKind.CLEAR_SIDE),
    "DELETE_FROM": int(UpdateKind.REMOVE_TOP),
}
SIDES = {"BID": 0, "OFFER": 1}
_UNKNOWN = 255


@dataclass(slots=True)
class Messages:
    """Messages of many templates as columns; those that change books come first."""

    security: Numbers
    place: Numbers
    """Serial of the packet and index in it, as one number that sorts like the stream goes."""
    event: Numbers
    sending: Numbers
    capture: Numbers
    count: Numbers
    """``rptSeq``; 0 where there is none."""
    item: Codes
    """What it is to the instrument's counter."""
    time: Numbers
    """When it happened; only of those that change books, and NULL where it is not told."""
    books: BookColumns

    def __len__(self) -> int:
        """How many messages there are."""
        return len(self.security)

    def of(self, securities: tuple[int, ...]) -> Messages:
        """Those about some instruments."""
        return self.taken(np.flatnonzero(np.isin(self.security, securities)))

    def taken(self, chosen: Numbers) -> Messages:
        """Some of them, in order."""
        own = chosen[chosen < len(self.books)]
        return Messages(
            self.security[chosen],
            self.place[chosen],
            self.event[chosen],
            self.sending[chosen],
            self.capture[chosen],
            self.count[chosen],
            self.item[chosen],
            self.time[own],
            self.books.taken(own),
        )


@dataclass(slots=True)
class BookColumns:
    """What messages do to books, in the columns of `pregao.book.rows.UpdateRows`."""

    kind: Codes
    side: Codes
    flags: Codes
    order_id: Numbers
    price: Numbers
    size: Numbers
    previous: Numbers
    position: Numbers
    firm: Numbers
    inserted: Numbers

    def __len__(self) -> int:
        """How many rows there are."""
        return len(self.kind)

    @staticmethod
    def empty(count: int, kind: UpdateKind) -> BookColumns:
        """Rows of one kind without any values."""
        numbers = [np.full(count, NULL, np.int64) for _ in range(7)]
        return BookColumns(
            np.full(count, kind, np.uint8),
            np.zeros(count, np.uint8),
            np.zeros(count, np.uint8),
            *numbers,
        )

    def taken(self, chosen: Numbers) -> BookColumns:
        """Some of the rows."""
        return BookColumns(*(getattr(self, column.name)[chosen] for column in fields(self)))

    @staticmethod
    def joined(parts: Sequence[BookColumns]) -> BookColumns:
        """The rows of several, one behind the other."""
        if len(parts) == 1:
            return parts[0]
        return BookColumns(
            *(
                np.concatenate([getattr(part, column.name) for part in parts])
                for column in fields(BookColumns)
            )
        )


def place_of(serial: Numbers, index: Numbers | int) -> Numbers:
    """The place of messages from their packets' serials and their index."""
    return (serial << INDEX_BITS) | index


def packet_of(place: Numbers, base: int) -> tuple[Any, Numbers]:
    """The sequence version and number of the packets at places."""
    serial = place >> INDEX_BITS
    version = (base - 1 + (serial >> _NUMBER_BITS)) % LAST_SEQUENCE_VERSION + 1
    return version.astype(np.int32), serial & ((1 << _NUMBER_BITS) - 1)


def read_messages(
    reader: Reader,
    part: Part,
    base: int,
    implied: bool,
    others: Mapping[int, Any],
    serials: tuple[int, int, int] | None = None,
) -> Messages:
    """The incremental messages about a range of instruments, not yet in order.

    ``base`` is the sequence version from which serials count; ``implied`` says that a bit of the
    flags marks implied orders, which it does from schema version 10 on. ``others`` are the
    messages that change no book, by template.
    """
    keys: list[tuple[Numbers, ...]] = []
    times: list[Numbers] = []
    books: list[BookColumns] = []
    items: list[Codes] = []
    for template in (ORDER, DELETE, MASS_DELETE, EMPTY_BOOK):
        columns = [*KEY, *_TIMES, "rpt_seq", *_BOOK_FIELDS[template]]
        if template == EMPTY_BOOK:
            columns = [*KEY, "md_entry_timestamp_ns"]
        for rows in reader.read(template, columns, part, serials):
            keys.append(_keys(rows, base))
            times.append(_times(rows))
            books.append(_book_columns(template, rows, implied))
            item = Item.EMPTIED if template == EMPTY_BOOK else Item.MESSAGE
            items.append(np.full(rows.num_rows, item, np.uint8))
    for rows in others.values():
        found = _keys(rows, base)
        if serials is not None:
            packets = found[1] >> INDEX_BITS
            inside = np.flatnonzero((packets >= serials[1]) & (packets <= serials[2]))
            found = tuple(column[inside] for column in found)
        keys.append(found)
        items.append(np.full(len(found[0]), Item.MESSAGE, np.uint8))
    security, place, event, sending, capture, count = (
        np.concatenate([key[at] for key in keys]) if keys else np.empty(0, np.int64)
        for at in range(6)
    )
    return Messages(
        security,
        place,
        event,
        sending,
        capture,
        count,
        np.concatenate(items) if items else np.empty(0, np.uint8),
        np.concatenate(times) if times else np.empty(0, np.int64),
        BookColumns.joined(books) if books else BookColumns.empty(0, UpdateKind.ADD),
    )


@dataclass(slots=True)
class Resets:
    """ChannelResets: they concern every instrument of the channel."""

    place: Numbers
    event: Numbers
    sending: Numbers
    capture: Numbers
    time: Numbers

    def __len__(self) -> int:
        return len(self.place)

    def taken(self, chosen: Numbers) -> Resets:
        """Some of them."""
        return Resets(*(getattr(self, column.name)[chosen] for column in fields(self)))


def read_resets(reader: Reader, base: int, serials: tuple[int, int, int] | None = None) -> Resets:
    """The ChannelResets of the incremental stream, in order."""
    columns = [*KEY[1:], "md_entry_timestamp_ns", "stream"]
    parts = []
    for found in reader.read(CHANNEL_RESET, columns, None, serials):
        rows = of_stream(found, Stream.INCREMENTAL)
        place = place_of(_serial(rows, base), integers(rows.column("index_in_packet")))
        others = [
            integers(rows.column(name))
            for name in ("event", "sending_time_ns", "capture_time_ns", "md_entry_timestamp_ns")
        ]
        parts.append(np.stack([place, *others]))
    if not parts:
        return Resets(*(np.empty(0, np.int64) for _ in range(5)))
    whole = np.concatenate(parts, axis=1)
    _, first = np.unique(whole[0], return_index=True)
    return Resets(*whole[:, first])


def of_stream(rows: Any, stream: Stream) -> Any:
    """The rows of one stream."""
    wanted = codes(rows.column("stream"), {stream.value: 1}, 0) == 1
    if wanted.all():
        return rows
    return taken(rows, np.flatnonzero(wanted))


_BOOK_FIELDS = {
    ORDER: (
        "match_event_indicator",
        "md_update_action",
        "md_entry_type",
        "md_entry_px",
        "md_entry_size",
        "md_entry_prev_size",
        "md_entry_position_no",
        "entering_firm",
        "md_insert_timestamp_ns",
        "secondary_order_id",
    ),
    DELETE: (
        "md_entry_type",
        "md_entry_px",
        "md_entry_size",
        "md_entry_position_no",
        "secondary_order_id",
    ),
    MASS_DELETE: ("md_update_action", "md_entry_type", "md_entry_position_no"),
    EMPTY_BOOK: (),
}


def _book_columns(template: int, rows: Any, implied: bool) -> BookColumns:
    count = rows.num_rows
    if template == EMPTY_BOOK:
        return BookColumns.empty(count, UpdateKind.EMPTY)
    none = np.broadcast_to(np.int64(NULL), count)
    position = integers(rows.column("md_entry_position_no"))
    side = codes(rows.column("md_entry_type"), SIDES, _UNKNOWN)
    kind = np.full(count, UpdateKind.DELETE, np.uint8)
    if template != DELETE:
        kind = codes(rows.column("md_update_action"), _ACTIONS, _UNKNOWN)
    # What is not understood breaks the book: it must not be passed over.
    kind[(side == _UNKNOWN) | (kind == _UNKNOWN)] = UpdateKind.INTERRUPT
    side[side == _UNKNOWN] = 0
    flags = np.zeros(count, np.uint8)
    if template == MASS_DELETE:
        return BookColumns(kind, side, flags, none, none, none, none, position, none, none)
    price = integers(rows.column("md_entry_px"))
    size = integers(rows.column("md_entry_size"))
    order_id = integers(rows.column("secondary_order_id"))
    if template == DELETE:
        return BookColumns(kind, side, flags, order_id, price, none, size, position, none, none)
    bits = integers(rows.column("match_event_indicator"), 0)
    flags = ((bits & RECOVERY_BIT) != 0).astype(np.uint8) * np.uint8(RECOVERY)
    if implied:
        flags |= ((bits & IMPLIED_BIT) != 0).astype(np.uint8) * np.uint8(IMPLIED)
    return BookColumns(
        kind,
        side,
        flags,
        order_id,
        price,
        size,
        integers(rows.column("md_entry_prev_size")),
        position,
        integers(rows.column("entering_firm")),
        integers(rows.column("md_insert_timestamp_ns")),
    )


def _serial(rows: Any, base: int) -> Numbers:
    versions = integers(rows.column("sequence_version"))
    return serial_of(versions, integers(rows.column("sequence_number"), 0), base)


def _keys(rows: Any, base: int) -> tuple[Numbers, ...]:
    count = rows.num_rows
    return (
        integers(rows.column("security_id")),
        place_of(_serial(rows, base), integers(rows.column("index_in_packet"))),
        integers(rows.column("event")),
        integers(rows.column("sending_time_ns")),
        integers(rows.column("capture_time_ns")),
        integers(rows.column("rpt_seq"), 0)
        if "rpt_seq" in rows.column_names
        else np.zeros(count, np.int64),
    )


def _times(rows: Any) -> Numbers:
    """When messages happened: T5 where it is told, else T10."""
    names = [name for name in _TIMES if name in rows.column_names]
    found = integers(rows.column(names[0]))
    for name in names[1:]:
        missing = found == NULL
        if missing.any():
            found = np.where(missing, integers(rows.column(name)), found)
    return found


def ranked(*several: Numbers) -> tuple[Numbers, list[Numbers]]:
    """The distinct instruments of some columns, in order, and each column as places among them.

    Rows of an instrument stand together, so only the first of each run is looked up.
    """
    heads = [np.flatnonzero(np.append(True, one[1:] != one[:-1])[: len(one)]) for one in several]
    known = np.unique(np.concatenate([one[at] for one, at in zip(several, heads, strict=True)]))
    ranks = []
    for one, at in zip(several, heads, strict=True):
        lengths = np.diff(np.append(at, len(one)))
        ranks.append(np.repeat(np.searchsorted(known, one[at]), lengths))
    return known, ranks


def in_order(rank: Numbers, place: Numbers) -> Numbers:
    """The indexes that sort by instrument and place, equal ones kept in order."""
    most = int(place.max(initial=0))
    if most >> (63 - _RANK_BITS) == 0 and int(rank.max(initial=0)) >> _RANK_BITS == 0:
        # Files are sorted, so this is a merge of a few runs.
        return np.argsort((rank << (63 - _RANK_BITS)) | place, kind="stable")
    return np.lexsort((place, rank))
