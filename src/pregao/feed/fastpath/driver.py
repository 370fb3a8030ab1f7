"""Fast path of a followed channel: passes the channel's state to the kernel and back.

While a channel is in sync, its packets need only the simplest of the plain path's rules.
`FastPathDriver.run` applies them in a kernel, on the same arrays that hold the books
(`pregao.book.array_book`). Packets that the kernel does not support go to the plain path, which
finds the state as if it had processed everything itself. Output is kept as rows, which become
events when a caller takes them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pregao.arrays import Int64Array, Uint8Array
from pregao.book.array_book import FlatBook
from pregao.feed.fastpath import _kernels as kernels
from pregao.feed.fastpath import _layout as w
from pregao.feed.fastpath.templates import FastPathTables

_MAX_ROWS = 65_536
"""Maximum number of output rows before they are converted to events."""
_STORE_BYTES = 8 << 20
_FIRST_CAPACITY = 64


class DatagramColumns(NamedTuple):
    """Datagrams as flat arrays, ordered by time."""

    buffer: Uint8Array
    offset: Int64Array
    length: npt.NDArray[np.int32]
    time_ns: Int64Array
    line: npt.NDArray[np.int32]
    """The number of the line on which each was received."""

    def chosen(self, rows: Int64Array) -> DatagramColumns:
        """Return some of the datagrams, in order."""
        return DatagramColumns(
            self.buffer,
            self.offset[rows],
            self.length[rows],
            self.time_ns[rows],
            self.line[rows],
        )

    def payload(self, at: int) -> bytes:
        """Return the bytes of one datagram."""
        start = int(self.offset[at])
        return self.buffer[start : start + int(self.length[at])].tobytes()


class ChangedBooks(NamedTuple):
    """Changed books, each in a complete market event."""

    security_id: Int64Array
    rows: Int64Array


Row = list[int]
"""The words of one output row, in the order of `_layout.KIND` and those after it."""


class FastPathDriver:
    """The arrays of a kernel that follows one channel."""

    def __init__(self, channel: int, tables: FastPathTables) -> None:
        self._tables = tables
        self._table: Int64Array | None = None
        self._singly = False
        self._control = np.zeros(w.CONTROL_WORDS, np.int64)
        self._words = self._control.data
        """A view of `_control`, from which one word is read three times as fast."""
        self._rows = np.empty(_MAX_ROWS * w.ROW_WORDS, np.int64)
        self._row_words = self._rows.data
        self._store = np.empty(_STORE_BYTES, np.uint8)
        self.stored = self._store.data
        """The bytes of messages that rows refer to."""
        self._scratch = np.empty(w.MAX_MESSAGES, np.int64)
        self._lines = np.empty(0, np.int64)
        self.securities: list[int] = []
        """Instruments by their index in the arrays."""
        self._indexes: dict[int, int] = {}
        self._instruments: Int64Array = np.empty(0, np.int64)
        self._changed: Int64Array = np.empty(0, np.int64)
        self._books: dict[int, FlatBook] = {}
        """Keeps the memory of books alive while the kernel has its address."""
        control = self._control
        control[w.CHANNEL] = channel
        control[w.SCHEMA] = w.ABSENT
        control[w.ROWS_CAPACITY], control[w.STORE_CAPACITY] = _MAX_ROWS, _STORE_BYTES
        for word, array in (
            (w.ROWS_AT, self._rows), (w.STORE_AT, self._store), (w.SCRATCH_AT, self._scratch),
        ):  # fmt: skip
            control[word] = array.ctypes.data
        self._set_capacity(_FIRST_CAPACITY)

    # Instruments

    def _set_capacity(self, capacity: int) -> None:
        """Set the capacity for instruments, a power of two."""
        before = self._instruments[: len(self.securities) * w.INSTRUMENT_WORDS]
        self._securities = np.zeros(capacity, np.int64)
        self._securities[: len(self.securities)] = self.securities
        self._instruments = np.zeros(capacity * w.INSTRUMENT_WORDS, np.int64)
        self._instruments[: len(before)] = before
        self._touched = np.zeros(2 * capacity, np.int64)
        changed = self._changed[: self._control[w.CHANGED]]
        self._changed = np.zeros(capacity, np.int64)
        self._changed[: len(changed)] = changed
        self._ids = np.zeros(4 * capacity, np.int64)
        kernels.enter_ids(self._ids, np.array(self.securities, np.int64), 0)
        control = self._control
        for word, array in (
            (w.INSTRUMENTS_AT, self._instruments), (w.TOUCHED_AT, self._touched),
            (w.CHANGED_AT, self._changed), (w.IDS_AT, self._ids),
        ):  # fmt: skip
            control[word] = array.ctypes.data
        control[w.IDS] = len(self._ids)

    def clear(self) -> None:
        """Remove all instruments."""
        self._control[w.CHANGED] = 0
        self.securities = []
        self._indexes, self._books = {}, {}
        self._set_capacity(_FIRST_CAPACITY)

    def _index_of(self, security_id: int) -> int:
        """Return the index of an instrument; a new one is added."""
        index = self._indexes.get(security_id)
        if index is None:
            index = self._indexes[security_id] = len(self.securities)
            if index * w.INSTRUMENT_WORDS == len(self._instruments):
                self._set_capacity(2 * index)
            self.securities.append(security_id)
            self._securities[index] = security_id
            kernels.enter_ids(self._ids, np.array(self.securities[index:], np.int64), index)
            self._instruments[index * w.INSTRUMENT_WORDS + w.SECURITY] = security_id
        return index

    def has_instrument(self, security_id: int) -> bool:
        """Whether the kernel has the instrument."""
        return security_id in self._indexes

    def set_instrument(
        self, security_id: int, last: int, book: FlatBook | None, *, steady: bool
    ) -> None:
        """Set an instrument's last count and book, and whether its next message applies as is."""
        if security_id >= 1 << 63:
            return  # beyond the kernel's signed 64 bits
        offset = self._index_of(security_id) * w.INSTRUMENT_WORDS
        words = self._instruments
        words[offset + w.STEADY] = steady
        words[offset + w.HAS_BOOK] = book is not None
        words[offset + w.LAST] = last
        if book is not None:
            self._books[security_id] = book
            words[offset + w.META_AT : offset + w.CAPACITY + 1] = book.addresses
            book.give()

    def grow_book(self) -> None:
        """Increase the capacity of the book at which the kernel stopped."""
        index = self._words[w.DETAIL]
        book = self._books[self.securities[index]]
        book.grow()
        offset = index * w.INSTRUMENT_WORDS
        self._instruments[offset + w.META_AT : offset + w.CAPACITY + 1] = book.addresses

    def changed(self, of: Collection[int] | None = None) -> Iterator[ChangedInstrument]:
        """Yield the instruments with messages processed since the last call.

        With ``of``, yield only those; the others stay for a later call.
        """
        if of is None:
            rows = self._changed[: self._words[w.CHANGED]] // w.INSTRUMENT_WORDS
            self._words[w.CHANGED] = 0
            table = self._instruments.reshape(-1, w.INSTRUMENT_WORDS)
            found = [own for own in table[rows].tolist() if own[w.CHANGE] == w.CHANGES]
            table[rows, w.CHANGE] = table[rows, w.KEY_NUMBER] = 0
        else:
            found = []
            words = self._instruments
            for each in of:  # only a few
                offset = self._indexes.get(each, -1) * w.INSTRUMENT_WORDS
                if offset >= 0 and words[offset + w.CHANGE] == w.CHANGES:
                    found.append(words[offset : offset + w.INSTRUMENT_WORDS].tolist())
                    words[offset + w.CHANGE] = w.LISTED
                    words[offset + w.KEY_NUMBER] = 0
        for own in found:
            key = (own[w.KEY_NUMBER], own[w.KEY_INDEX]) if own[w.KEY_NUMBER] else None
            yield ChangedInstrument(
                own[w.SECURITY], own[w.NUMBER], own[w.LAST], key, own[w.KEY_COUNT]
            )

    # The control block

    def set(self, **values: int) -> None:
        """Set words of the control block by name, for the kernel to continue from."""
        for name, value in values.items():
            self._words[_WORDS[name]] = value

    def words(self) -> dict[str, int]:
        """Return the words of the control block by name."""
        found = self._control.tolist()
        return {name: found[word] for name, word in _WORDS.items()}

    def set_feeds(self, feeds: Sequence[tuple[int, int]]) -> None:
        """Set the last number that each feed reached, and when it last received a packet."""
        for index, (reached, last_ns) in enumerate(feeds):
            offset = w.FEEDS + index * w.FEED_WORDS
            self._control[offset : offset + w.FEED_WORDS] = (0, 0, 0, 0, reached, last_ns)

    def feeds(self, count: int) -> list[FeedTallies]:
        """Return the counts of each feed since the last call."""
        found, words = [], self._words
        for offset in range(w.FEEDS, w.FEEDS + count * w.FEED_WORDS, w.FEED_WORDS):
            found.append(FeedTallies(*words[offset : offset + w.FEED_WORDS].tolist()))
            for word in range(offset, offset + w.FEED_REACHED):
                words[word] = 0
        return found

    def tallies(self) -> dict[str, int]:
        """Return the counts of the channel since the last call."""
        found = {}
        for name in ("delivered", "messages", "packets", "bytes"):
            found[name] = self._words[_WORDS[name]]
            self._words[_WORDS[name]] = 0
        return found

    def set_lines(self, lines: Mapping[int, int]) -> None:
        """Set the feed of each line, by its index."""
        self._lines = np.full(max(lines, default=-1) + 1, w.ABSENT, np.int64)
        for line, feed in lines.items():
            self._lines[line] = feed
        self._words[w.LINES_AT] = self._lines.ctypes.data
        self._words[w.LINES] = len(self._lines)

    def set_schema(self, schema_id: int, version: int) -> bool:
        """Read messages of this version from now on; False if unsupported or already set."""
        schema = schema_id << 16 | version
        if schema == self._words[w.SCHEMA]:
            return False
        table = self._tables.table(schema_id, version)
        if table is None:
            return False
        self._table = table  # kept alive
        self._words[w.TABLE_AT], self._control[w.SCHEMA] = table.ctypes.data, schema
        return True

    def touch(self, touched: Mapping[int, int]) -> None:
        """Set the books changed in the unfinished market event."""
        words = self._instruments
        for index, (security_id, event) in enumerate(touched.items()):
            offset = self._index_of(security_id) * w.INSTRUMENT_WORDS
            self._touched[2 * index : 2 * index + 2] = offset, event
            words[offset + w.TOUCH] = index + 1
        self._words[w.TOUCHED] = len(touched)

    def touched(self) -> dict[int, int]:
        """Return and clear the books changed in the unfinished market event."""
        count = self._words[w.TOUCHED]
        self._words[w.TOUCHED] = 0
        found = {}
        for offset, event in self._touched[: 2 * count].reshape(-1, 2).tolist():
            self._instruments[offset + w.TOUCH] = 0
            found[self.securities[offset // w.INSTRUMENT_WORDS]] = event
        return found

    # Running

    def run(self, datagrams: DatagramColumns, first: int, last: int) -> int:
        """Process datagrams. Returns the index of the first one not processed; see `status`."""
        if self._table is None:
            self._words[w.STATUS] = w.PLAIN
            return first
        stopped: int = kernels.process_datagrams(self._control, *datagrams, first, last)
        return stopped

    def pass_over(self, datagrams: DatagramColumns, at: int) -> bool:
        """Process a packet that concerns no book, which the caller has validated.

        Returns whether it was the next one.
        """
        before = self._words[w.DELIVERED]
        self._words[w.VOUCHED] = 1
        self.run(datagrams, at, at + 1)
        self._words[w.VOUCHED] = 0
        return self._words[w.DELIVERED] > before

    @property
    def status(self) -> int:
        """Why the kernel stopped."""
        return self._words[w.STATUS]

    @property
    def detail(self) -> int:
        """The message or instrument at which the kernel stopped."""
        return self._words[w.DETAIL]

    @property
    def silent_ns(self) -> int:
        """When silence will have lasted too long."""
        return self._words[w.SINCE] + self._words[w.LIMIT]

    def set_singly(self, *, singly: bool) -> None:
        """Set whether to stop after each packet that produced output."""
        if singly != self._singly:
            self._singly = singly
            self._words[w.SINGLY] = singly

    @property
    def waiting(self) -> int:
        """Number of output rows."""
        return self._words[w.ROWS]

    @property
    def now_ns(self) -> int:
        """The current time of the kernel."""
        return self._words[w.NOW]

    @property
    def event(self) -> int:
        """The number of the market event of the last message."""
        return self._words[w.EVENT]

    def last_packet(self) -> tuple[int, int, int, int]:
        """Return the sequence version, the next number, and the times of the last packet."""
        version, following, sending, received = self._words[w.VERSION : w.RECEIVED + 1].tolist()
        return version, following, sending, received

    def take_rows(self) -> list[Row]:
        """Return and clear the output rows; the messages' bytes stay until the next run."""
        count = self._words[w.ROWS]
        self._words[w.ROWS] = self._words[w.STORED] = 0
        words: list[int] = self._row_words[: count * w.ROW_WORDS].tolist()
        return [words[begin : begin + w.ROW_WORDS] for begin in range(0, len(words), w.ROW_WORDS)]

    def take_changes(self) -> Iterator[ChangedBooks | Row]:
        """Yield and clear the output rows in order, consecutive changed books together.

        The caller must exhaust it before anything else is done.
        """
        count = self._words[w.ROWS]
        rows = self._rows[: count * w.ROW_WORDS].reshape(count, w.ROW_WORDS)
        messages = np.flatnonzero(rows[:, w.KIND] == w.MESSAGE).tolist()
        begin = 0
        for end in [*messages, count]:
            if end > begin:
                yield ChangedBooks(self._securities[rows[begin:end, w.ITEM]], rows[begin:end])
            if end < count:
                yield rows[end].tolist()
            begin = end + 1
        self._words[w.ROWS] = self._words[w.STORED] = 0

    def take_messages(self) -> PendingMessages:
        """Return and clear the messages among the output rows, as copies."""
        count, stored = self._words[w.ROWS], self._words[w.STORED]
        self._words[w.ROWS] = self._words[w.STORED] = 0
        rows = self._rows[: count * w.ROW_WORDS].reshape(count, w.ROW_WORDS)
        kept = self._store[:stored].copy().data
        return PendingMessages(rows[rows[:, w.KIND] == w.MESSAGE], kept)


class PendingMessages:
    """Messages whose events are emitted later."""

    def __init__(self, rows: Int64Array, stored: memoryview) -> None:
        self._rows = rows
        self.stored = stored
        self._done = 0

    def __len__(self) -> int:
        """Number of messages left."""
        return len(self._rows) - self._done

    def take(self, limit: int) -> list[Row]:
        """Return the next messages, at most ``limit``."""
        rows: list[Row] = self._rows[self._done : self._done + limit].tolist()
        self._done += len(rows)
        return rows


class ChangedInstrument(NamedTuple):
    """An instrument with processed messages."""

    security_id: int
    number: int
    """Number of the last message's packet."""
    counted: int
    """Count of the last message."""
    key: tuple[int, int] | None
    """Packet number and index of the last message that changed the book; None if none did."""
    book_counted: int
    """Count of that message."""


class FeedTallies(NamedTuple):
    """Counts of a feed."""

    packets: int
    first: int
    duplicates: int
    heartbeats: int
    reached: int
    last_received_ns: int


_WORDS = {
    "version": w.VERSION, "next": w.NEXT, "whole_since": w.WHOLE_SINCE, "now": w.NOW,
    "since": w.SINCE, "limit": w.LIMIT, "progress": w.PROGRESS, "outdated": w.OUTDATED,
    "max_outdated": w.MAX_LAG, "event": w.EVENT, "event_at": w.EVENT_AT,
    "begins": w.BEGINS, "wanted": w.REQUESTED,
    "sending": w.SENDING, "received": w.RECEIVED, "delivered": w.DELIVERED,
    "messages": w.MESSAGES, "packets": w.PACKETS, "bytes": w.BYTES,
}  # fmt: skip
