"""The incremental messages about some instruments as columns, in the form that books need."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields

import numpy as np

from pregao.book.rows import NULL, UpdateKind
from pregao.feed.columns import Codes, MessageColumns, Numbers
from pregao.feed.places import INDEX_BITS, places_in
from pregao.umdf.gaps import Item

KEY = (
    "security_id",
    "sequence_version",
    "sequence_number",
    "index_in_packet",
    "event",
    "sending_time_ns",
    "capture_time_ns",
)
"""What tells a message's instrument, place, event and times."""
TIMES = ("transact_time_ns", "md_entry_timestamp_ns")
"""When a message happened: T5 where it is told, else T10."""


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

    @staticmethod
    def given_away(parts: list[BookColumns]) -> BookColumns:
        """The same, for who has no more use for the parts: each of their columns is freed before
        the next is joined, so that all is never there twice."""
        count = sum(map(len, parts))
        whole = BookColumns.empty(0, UpdateKind.ADD)
        for column in fields(BookColumns):
            own = [getattr(part, column.name) for part in parts]
            for part in parts:
                setattr(part, column.name, own[0][:0])
            joined = one_value(own, count)
            setattr(whole, column.name, np.concatenate(own) if joined is None else joined)
            del own
        return whole


def one_value(parts: Sequence[Numbers | Codes], count: int) -> Numbers | Codes | None:
    """Columns of one value, which take no room, as one such column; None if they are not."""
    values = {int(part[0]) if part.strides == (0,) else None for part in parts if len(part)}
    if len(values) != 1 or None in values:
        return None
    return np.broadcast_to(next(part[0] for part in parts if len(part)), count)


@dataclass(slots=True)
class KeyColumns:
    """Where and when messages are: instrument, place, event, times, count."""

    security: Numbers
    place: Numbers
    """See `pregao.feed.places`."""
    event: Numbers
    sending: Numbers
    capture: Numbers
    count: Numbers
    """``rptSeq``; 0 where there is none."""

    def __len__(self) -> int:
        return len(self.security)

    def taken(self, chosen: Numbers) -> KeyColumns:
        """Some of the rows."""
        return KeyColumns(*(getattr(self, column.name)[chosen] for column in fields(self)))

    def within(self, first: int, last: int) -> KeyColumns:
        """Those of packets from one serial to another."""
        packet = self.place >> INDEX_BITS
        return self.taken(np.flatnonzero((packet >= first) & (packet <= last)))


def key_columns(rows: MessageColumns, base: int) -> KeyColumns:
    """The keys of messages; serials count from the sequence version ``base``."""
    return KeyColumns(
        rows.numbers("security_id"),
        places_in(rows, base),
        rows.numbers("event"),
        rows.numbers("sending_time_ns"),
        rows.numbers("capture_time_ns"),
        rows.numbers("rpt_seq", 0) if "rpt_seq" in rows.names else np.zeros(len(rows), np.int64),
    )


@dataclass(slots=True)
class BookMessages:
    """Messages of one template that change books."""

    keys: KeyColumns
    time: Numbers
    """When each happened; NULL where it is not told."""
    books: BookColumns
    item: Item


def times_of(rows: MessageColumns) -> Numbers:
    """When messages happened: T5 where it is told, else T10."""
    names = [name for name in TIMES if name in rows.names]
    found = rows.numbers(names[0])
    for name in names[1:]:
        missing = found == NULL
        if missing.any():
            found = np.where(missing, rows.numbers(name), found)
    return found


@dataclass(slots=True)
class Messages:
    """Messages of many templates as columns; those that change books come first."""

    keys: KeyColumns
    item: Codes
    """What it is to the instrument's counter."""
    time: Numbers
    """When it happened; only of those that change books, and NULL where it is not told."""
    books: BookColumns

    def __len__(self) -> int:
        """How many messages there are."""
        return len(self.keys)

    @staticmethod
    def of(changing: Sequence[BookMessages], others: Iterable[KeyColumns]) -> Messages:
        """Put together those that change books and the keys of those that do not."""
        rest = list(others)
        parts = [*(each.keys for each in changing), *rest]
        items = [np.full(len(each.keys), each.item, np.uint8) for each in changing]
        items += [np.full(len(keys), Item.MESSAGE, np.uint8) for keys in rest]
        empty = np.empty(0, np.int64)
        keys = KeyColumns(
            *(
                np.concatenate([getattr(part, column.name) for part in parts]) if parts else empty
                for column in fields(KeyColumns)
            )
        )
        books = [each.books for each in changing]
        return Messages(
            keys,
            np.concatenate(items) if items else np.empty(0, np.uint8),
            np.concatenate([each.time for each in changing]) if changing else empty,
            BookColumns.joined(books) if books else BookColumns.empty(0, UpdateKind.ADD),
        )

    def about(self, securities: tuple[int, ...]) -> Messages:
        """Those about some instruments."""
        return self.taken(np.flatnonzero(np.isin(self.keys.security, securities)))

    def taken(self, chosen: Numbers) -> Messages:
        """Some of them, in order."""
        own = chosen[chosen < len(self.books)]
        return Messages(
            self.keys.taken(chosen), self.item[chosen], self.time[own], self.books.taken(own)
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

    @staticmethod
    def of(parts: Sequence[MessageColumns], base: int) -> Resets:
        """Those of the incremental stream, in order, each once."""
        names = ("event", "sending_time_ns", "capture_time_ns", "md_entry_timestamp_ns")
        found = [
            np.stack([places_in(rows, base), *(rows.numbers(name) for name in names)])
            for rows in parts
        ]
        if not found:
            return Resets(*(np.empty(0, np.int64) for _ in range(5)))
        whole = np.concatenate(found, axis=1)
        _, first = np.unique(whole[0], return_index=True)
        return Resets(*whole[:, first])
