"""Incremental messages of some instruments as columns, in the form that books need."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields

import numpy as np

from pregao.arrays import Int64Array, Uint8Array
from pregao.book.update_rows import NULL, UpdateColumns, UpdateKind
from pregao.feed.columns import MessageColumns
from pregao.feed.packet_keys import INDEX_BITS, message_serials
from pregao.umdf.gaps import GapItem

KEY = (
    "security_id",
    "sequence_version",
    "sequence_number",
    "index_in_packet",
    "event",
    "sending_time_ns",
    "capture_time_ns",
)
"""Columns of a message's instrument, packet key, event and times."""
TIMES = ("transact_time_ns", "md_entry_timestamp_ns")
"""Columns of a message's event time: T5 where present, else T10."""


@dataclass(slots=True)
class BookColumns(UpdateColumns):
    """The columns of book updates of one or more messages."""

    @staticmethod
    def empty(count: int, kind: UpdateKind) -> BookColumns:
        """Return rows of one kind without values."""
        numbers = [np.full(count, NULL, np.int64) for _ in range(7)]
        return BookColumns(
            np.full(count, kind, np.uint8),
            np.zeros(count, np.uint8),
            np.zeros(count, np.uint8),
            *numbers,
        )

    def take(self, chosen: Int64Array) -> BookColumns:
        """Return the rows at these indices."""
        return BookColumns(*(getattr(self, column.name)[chosen] for column in fields(self)))

    @staticmethod
    def concat(parts: Sequence[BookColumns]) -> BookColumns:
        """Concatenate the rows of several."""
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
        """Concatenate the rows of several and empty them.

        Each column is freed before the next is joined, so that memory never holds everything twice.
        """
        count = sum(map(len, parts))
        result = BookColumns.empty(0, UpdateKind.ADD)
        for column in fields(BookColumns):
            own = [getattr(part, column.name) for part in parts]
            for part in parts:
                setattr(part, column.name, own[0][:0])
            joined = one_value(own, count)
            setattr(result, column.name, np.concatenate(own) if joined is None else joined)
            del own
        return result


def one_value(
    parts: Sequence[Int64Array | Uint8Array], count: int
) -> Int64Array | Uint8Array | None:
    """Join columns that repeat one value, and so use no memory; None if any does not."""
    values = {int(part[0]) if part.strides == (0,) else None for part in parts if len(part)}
    if len(values) != 1 or None in values:
        return None
    return np.broadcast_to(next(part[0] for part in parts if len(part)), count)


@dataclass(slots=True)
class KeyColumns:
    """Keys of messages: instrument, message serial, event, times and count."""

    security: Int64Array
    message_serial: Int64Array
    """See `pregao.feed.packet_keys`."""
    event: Int64Array
    sending: Int64Array
    capture: Int64Array
    count: Int64Array
    """``rptSeq``; 0 where there is none."""

    def __len__(self) -> int:
        return len(self.security)

    def take(self, chosen: Int64Array) -> KeyColumns:
        """Return the rows at these indices."""
        return KeyColumns(*(getattr(self, column.name)[chosen] for column in fields(self)))

    def within(self, first: int, last: int) -> KeyColumns:
        """Return the rows of packets from one serial to another."""
        packet = self.message_serial >> INDEX_BITS
        return self.take(np.flatnonzero((packet >= first) & (packet <= last)))


def key_columns(rows: MessageColumns, base: int) -> KeyColumns:
    """Return the keys of messages; serials count from the sequence version ``base``."""
    return KeyColumns(
        rows.numbers("security_id"),
        message_serials(rows, base),
        rows.numbers("event"),
        rows.numbers("sending_time_ns"),
        rows.numbers("capture_time_ns"),
        rows.numbers("rpt_seq", 0) if "rpt_seq" in rows.names else np.zeros(len(rows), np.int64),
    )


@dataclass(slots=True)
class BookMessages:
    """Messages of one template that change books."""

    keys: KeyColumns
    time: Int64Array
    """Event time of each; NULL where there is none."""
    books: BookColumns
    item: GapItem


def times_of(rows: MessageColumns) -> Int64Array:
    """Return the event times of messages: T5 where present, else T10."""
    names = [name for name in TIMES if name in rows.names]
    times = rows.numbers(names[0])
    for name in names[1:]:
        missing = times == NULL
        if missing.any():
            times = np.where(missing, rows.numbers(name), times)
    return times


@dataclass(slots=True)
class IncrementalColumns:
    """Messages of many templates as columns; those that change books are first."""

    keys: KeyColumns
    item: Uint8Array
    """Kind of item for the instrument's counter."""
    time: Int64Array
    """Event time of the messages that change books; NULL where there is none."""
    books: BookColumns

    def __len__(self) -> int:
        """Return the number of messages."""
        return len(self.keys)

    @staticmethod
    def from_messages(
        changing: Sequence[BookMessages], others: Iterable[KeyColumns]
    ) -> IncrementalColumns:
        """Join messages that change books and the keys of those that do not."""
        rest = list(others)
        parts = [*(each.keys for each in changing), *rest]
        items = [np.full(len(each.keys), each.item, np.uint8) for each in changing]
        items += [np.full(len(keys), GapItem.MESSAGE, np.uint8) for keys in rest]
        empty = np.empty(0, np.int64)
        keys = KeyColumns(
            *(
                np.concatenate([getattr(part, column.name) for part in parts]) if parts else empty
                for column in fields(KeyColumns)
            )
        )
        books = [each.books for each in changing]
        return IncrementalColumns(
            keys,
            np.concatenate(items) if items else np.empty(0, np.uint8),
            np.concatenate([each.time for each in changing]) if changing else empty,
            BookColumns.concat(books) if books else BookColumns.empty(0, UpdateKind.ADD),
        )

    def about(self, securities: tuple[int, ...]) -> IncrementalColumns:
        """Return the messages of some instruments."""
        return self.take(np.flatnonzero(np.isin(self.keys.security, securities)))

    def take(self, chosen: Int64Array) -> IncrementalColumns:
        """Return the messages at these indices, which must be ascending."""
        own = chosen[chosen < len(self.books)]
        return IncrementalColumns(
            self.keys.take(chosen), self.item[chosen], self.time[own], self.books.take(own)
        )


@dataclass(slots=True)
class ResetColumns:
    """ChannelResets: they affect every instrument of the channel."""

    message_serial: Int64Array
    event: Int64Array
    sending: Int64Array
    capture: Int64Array
    time: Int64Array

    def __len__(self) -> int:
        return len(self.message_serial)

    def take(self, chosen: Int64Array) -> ResetColumns:
        """Return the resets at these indices."""
        return ResetColumns(*(getattr(self, column.name)[chosen] for column in fields(self)))

    @staticmethod
    def from_messages(parts: Sequence[MessageColumns], base: int) -> ResetColumns:
        """Return the resets of the incremental stream, in order and without duplicates."""
        names = ("event", "sending_time_ns", "capture_time_ns", "md_entry_timestamp_ns")
        columns = [
            np.stack([message_serials(rows, base), *(rows.numbers(name) for name in names)])
            for rows in parts
        ]
        if not columns:
            return ResetColumns(*(np.empty(0, np.int64) for _ in range(5)))
        joined = np.concatenate(columns, axis=1)
        _, first = np.unique(joined[0], return_index=True)
        return ResetColumns(*joined[:, first])
