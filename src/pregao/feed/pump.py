"""The pump of a followed channel: hands a channel's state to the kernel, and takes it back.

While a channel is in sync, its packets need none of the plain machine's rules but the simplest of
each. `Pump.run` lets a kernel take them in, on the very arrays in which the books are kept
(`pregao.book.flat`). What the kernel leaves alone goes to the plain machine, which finds all as if
it had done everything itself. What there is to tell waits as rows, and becomes events when
somebody asks for them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pregao.book.flat import FlatBook
from pregao.feed import _pump_kernels as kernels
from pregao.feed import _pump_words as w
from pregao.feed.columns import Numbers
from pregao.feed.event_batch import EventBatch
from pregao.feed.pump_tables import PumpTables

_MOST_ROWS = 65_536
"""So much is told at the most before it is turned into events."""
_STORE_BYTES = 8 << 20
_FIRST_ROOM = 64

Bytes = npt.NDArray[np.uint8]


class Datagrams(NamedTuple):
    """Datagrams as flat arrays, in the order of their times."""

    buffer: Bytes
    offset: Numbers
    length: npt.NDArray[np.int32]
    time_ns: Numbers
    line: npt.NDArray[np.int32]
    """The number of the line that brought each."""

    def chosen(self, rows: Numbers) -> Datagrams:
        """Some of them, in order."""
        return Datagrams(
            self.buffer,
            self.offset[rows],
            self.length[rows],
            self.time_ns[rows],
            self.line[rows],
        )

    def payload(self, at: int) -> bytes:
        """The bytes of one."""
        start = int(self.offset[at])
        return self.buffer[start : start + int(self.length[at])].tobytes()


class ToldBooks(NamedTuple):
    """Books that changed, each in an event that is over."""

    security_id: Numbers
    rows: Numbers

    def batch(self, sequence_version: int) -> EventBatch:
        """As columns of events."""
        rows = self.rows
        return EventBatch.of_books(
            self.security_id,
            sequence_version,
            *(
                rows[:, word].copy()
                for word in (w.ITEM_NUMBER, w.ITEM_EVENT, w.ITEM_SENDING, w.ITEM_RECEIVED)
            ),
        )


Row = list[int]
"""The words of one thing that is told, in the order of `_pump_words.KIND` and behind."""


class Pump:
    """The arrays of a kernel that follows one channel."""

    def __init__(self, channel: int, tables: PumpTables) -> None:
        self._tables = tables
        self._table: Numbers | None = None
        self._singly = False
        self._control = np.zeros(w.CONTROL_WORDS, np.int64)
        self._words = self._control.data
        """The same; one word of it is read three times as fast."""
        self._rows = np.empty(_MOST_ROWS * w.ROW_WORDS, np.int64)
        self._row_words = self._rows.data
        self._store = np.empty(_STORE_BYTES, np.uint8)
        self.stored = self._store.data
        """The bytes of messages that rows tell of."""
        self._scratch = np.empty(w.MOST_MESSAGES, np.int64)
        self._lines = np.empty(0, np.int64)
        self.securities: list[int] = []
        """The instruments, by their places in the arrays."""
        self._places: dict[int, int] = {}
        self._instruments: Numbers = np.empty(0, np.int64)
        self._changed: Numbers = np.empty(0, np.int64)
        self._books: dict[int, FlatBook] = {}
        """Keeps the memory of books alive as long as the kernel has its address."""
        control = self._control
        control[w.CHANNEL] = channel
        control[w.SCHEMA] = w.ABSENT
        control[w.ROWS_ROOM], control[w.STORE_ROOM] = _MOST_ROWS, _STORE_BYTES
        for word, array in (
            (w.ROWS_AT, self._rows), (w.STORE_AT, self._store), (w.SCRATCH_AT, self._scratch),
        ):  # fmt: skip
            control[word] = array.ctypes.data
        self._make_room(_FIRST_ROOM)

    # Instruments

    def _make_room(self, room: int) -> None:
        """Have room for so many instruments, which is a power of two."""
        before = self._instruments[: len(self.securities) * w.INSTRUMENT_WORDS]
        self._securities = np.zeros(room, np.int64)
        self._securities[: len(self.securities)] = self.securities
        self._instruments = np.zeros(room * w.INSTRUMENT_WORDS, np.int64)
        self._instruments[: len(before)] = before
        self._touched = np.zeros(2 * room, np.int64)
        changed = self._changed[: self._control[w.CHANGED]]
        self._changed = np.zeros(room, np.int64)
        self._changed[: len(changed)] = changed
        self._ids = np.zeros(4 * room, np.int64)
        kernels.enter_ids(self._ids, np.array(self.securities, np.int64), 0)
        control = self._control
        for word, array in (
            (w.INSTRUMENTS_AT, self._instruments), (w.TOUCHED_AT, self._touched),
            (w.CHANGED_AT, self._changed), (w.IDS_AT, self._ids),
        ):  # fmt: skip
            control[word] = array.ctypes.data
        control[w.IDS] = len(self._ids)

    def forget(self) -> None:
        """Know no instrument any more."""
        self._control[w.CHANGED] = 0
        self.securities = []
        self._places, self._books = {}, {}
        self._make_room(_FIRST_ROOM)

    def _place(self, security_id: int) -> int:
        """Where the words of an instrument are; it is made known if it is new."""
        place = self._places.get(security_id)
        if place is None:
            place = self._places[security_id] = len(self.securities)
            if place * w.INSTRUMENT_WORDS == len(self._instruments):
                self._make_room(2 * place)
            self.securities.append(security_id)
            self._securities[place] = security_id
            kernels.enter_ids(self._ids, np.array(self.securities[place:], np.int64), place)
            self._instruments[place * w.INSTRUMENT_WORDS + w.SECURITY] = security_id
        return place

    def knows(self, security_id: int) -> bool:
        """Is it an instrument that the kernel knows?"""
        return security_id in self._places

    def know(self, security_id: int, last: int, book: FlatBook | None, *, steady: bool) -> None:
        """Say how an instrument is: its last count, and whether the next message simply applies."""
        if security_id >= 1 << 63:
            return  # no kernel can name it
        at = self._place(security_id) * w.INSTRUMENT_WORDS
        words = self._instruments
        words[at + w.STEADY] = steady
        words[at + w.HAS_BOOK] = book is not None
        words[at + w.LAST] = last
        if book is not None:
            self._books[security_id] = book
            words[at + w.META_AT : at + w.ROOM + 1] = book.addresses
            book.give()

    def grow_book(self) -> None:
        """Make room in the book that the kernel stopped at."""
        place = self._words[w.DETAIL]
        book = self._books[self.securities[place]]
        book.grow()
        at = place * w.INSTRUMENT_WORDS
        self._instruments[at + w.META_AT : at + w.ROOM + 1] = book.addresses

    def changed(self, of: Collection[int] | None = None) -> Iterator[Changed]:
        """The instruments of which messages were taken in since this was last asked.

        ``of`` some instruments only: the others are still to be asked for.
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
            for each in of:  # they are few
                at = self._places.get(each, -1) * w.INSTRUMENT_WORDS
                if at >= 0 and words[at + w.CHANGE] == w.CHANGES:
                    found.append(words[at : at + w.INSTRUMENT_WORDS].tolist())
                    words[at + w.CHANGE] = w.LISTED
                    words[at + w.KEY_NUMBER] = 0
        for own in found:
            key = (own[w.KEY_NUMBER], own[w.KEY_INDEX]) if own[w.KEY_NUMBER] else None
            yield Changed(own[w.SECURITY], own[w.NUMBER], own[w.LAST], key, own[w.KEY_COUNT])

    # The control block

    def set(self, **values: int) -> None:
        """Say what the kernel goes on from, by the names of its words."""
        for name, value in values.items():
            self._words[_WORDS[name]] = value

    def words(self) -> dict[str, int]:
        """What the kernel got to, by the names of its words."""
        found = self._control.tolist()
        return {name: found[word] for name, word in _WORDS.items()}

    def set_feeds(self, feeds: Sequence[tuple[int, int]]) -> None:
        """Say what each feed reached, and when it was last heard."""
        for place, (reached, heard) in enumerate(feeds):
            at = w.FEEDS + place * w.FEED_WORDS
            self._control[at : at + w.FEED_WORDS] = (0, 0, 0, 0, reached, heard)

    def feeds(self, count: int) -> list[FeedWords]:
        """What came on each feed since this was last asked."""
        found, words = [], self._words
        for at in range(w.FEEDS, w.FEEDS + count * w.FEED_WORDS, w.FEED_WORDS):
            found.append(FeedWords(*words[at : at + w.FEED_WORDS].tolist()))
            for word in range(at, at + w.FEED_REACHED):
                words[word] = 0
        return found

    def tallies(self) -> dict[str, int]:
        """What was counted since this was last asked."""
        found = {}
        for name in ("delivered", "messages", "packets", "bytes"):
            found[name] = self._words[_WORDS[name]]
            self._words[_WORDS[name]] = 0
        return found

    def set_lines(self, lines: Mapping[int, int]) -> None:
        """Say which lines bring which of the feeds, by their places."""
        self._lines = np.full(max(lines, default=-1) + 1, w.ABSENT, np.int64)
        for line, feed in lines.items():
            self._lines[line] = feed
        self._words[w.LINES_AT] = self._lines.ctypes.data
        self._words[w.LINES] = len(self._lines)

    def set_schema(self, schema_id: int, version: int) -> bool:
        """Read messages of this version from here on; False if that cannot be, or is so."""
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
        """Say which books changed in the event that is not over yet."""
        words = self._instruments
        for place, (security_id, event) in enumerate(touched.items()):
            at = self._place(security_id) * w.INSTRUMENT_WORDS
            self._touched[2 * place : 2 * place + 2] = at, event
            words[at + w.TOUCH] = place + 1
        self._words[w.TOUCHED] = len(touched)

    def touched(self) -> dict[int, int]:
        """Which books changed in the event that is not over yet; the kernel forgets them."""
        count = self._words[w.TOUCHED]
        self._words[w.TOUCHED] = 0
        found = {}
        for at, event in self._touched[: 2 * count].reshape(-1, 2).tolist():
            self._instruments[at + w.TOUCH] = 0
            found[self.securities[at // w.INSTRUMENT_WORDS]] = event
        return found

    # Running

    def run(self, datagrams: Datagrams, first: int, last: int) -> int:
        """Take datagrams in; gives the first one that was not. `status` says why."""
        if self._table is None:
            self._words[w.STATUS] = w.PLAIN
            return first
        stopped: int = kernels.pump(self._control, *datagrams, first, last)
        return stopped

    def pass_over(self, datagrams: Datagrams, at: int) -> bool:
        """Take a packet in that concerns no book, which somebody vouches for; was it the next?"""
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
        """Where in what it stopped at."""
        return self._words[w.DETAIL]

    @property
    def silent_ns(self) -> int:
        """When silence will have lasted too long."""
        return self._words[w.SINCE] + self._words[w.LIMIT]

    def set_singly(self, *, singly: bool) -> None:
        """Stop behind each packet that told something, or not."""
        if singly != self._singly:
            self._singly = singly
            self._words[w.SINGLY] = singly

    @property
    def waiting(self) -> int:
        """How much there is to tell."""
        return self._words[w.ROWS]

    @property
    def now_ns(self) -> int:
        """The time that the kernel got to."""
        return self._words[w.NOW]

    @property
    def event(self) -> int:
        """The number of the event that the last message belongs to."""
        return self._words[w.EVENT]

    def place(self) -> tuple[int, int, int, int]:
        """Sequence version, the number that is next, and when the last packet was sent and came."""
        version, following, sending, received = self._words[w.VERSION : w.RECEIVED + 1].tolist()
        return version, following, sending, received

    def take_rows(self) -> list[Row]:
        """What there is to tell, row by row; it waits no more, but for its messages' bytes."""
        count = self._words[w.ROWS]
        self._words[w.ROWS] = self._words[w.STORED] = 0
        words: list[int] = self._row_words[: count * w.ROW_WORDS].tolist()
        return [words[at : at + w.ROW_WORDS] for at in range(0, len(words), w.ROW_WORDS)]

    def told(self) -> Iterator[ToldBooks | Row]:
        """What there is to tell, in order, books that changed by the run; it waits no more.

        It is to be iterated to its end before anything else is done.
        """
        count = self._words[w.ROWS]
        rows = self._rows[: count * w.ROW_WORDS].reshape(count, w.ROW_WORDS)
        messages = np.flatnonzero(rows[:, w.KIND] == w.MESSAGE).tolist()
        begin = 0
        for at in [*messages, count]:
            if at > begin:
                yield ToldBooks(self._securities[rows[begin:at, w.ITEM]], rows[begin:at])
            if at < count:
                yield rows[at].tolist()
            begin = at + 1
        self._words[w.ROWS] = self._words[w.STORED] = 0

    def take_messages(self) -> ToldMessages:
        """The messages that are to be told, apart from what the kernel does next."""
        count, stored = self._words[w.ROWS], self._words[w.STORED]
        self._words[w.ROWS] = self._words[w.STORED] = 0
        rows = self._rows[: count * w.ROW_WORDS].reshape(count, w.ROW_WORDS)
        kept = self._store[:stored].copy().data
        return ToldMessages(rows[rows[:, w.KIND] == w.MESSAGE], kept)


class ToldMessages:
    """Messages that somebody is to hear of, some time."""

    def __init__(self, rows: Numbers, stored: memoryview) -> None:
        self._rows = rows
        self.stored = stored
        self._done = 0

    def __len__(self) -> int:
        """How many there are left."""
        return len(self._rows) - self._done

    def take(self, most: int) -> list[Row]:
        """The next ones."""
        rows: list[Row] = self._rows[self._done : self._done + most].tolist()
        self._done += len(rows)
        return rows


class Changed(NamedTuple):
    """An instrument of which messages were taken in."""

    security_id: int
    number: int
    """Of the packet of the last one."""
    counted: int
    """The count of the last one."""
    key: tuple[int, int] | None
    """The packet and the index of the last one that changed the book; None if none did."""
    book_counted: int
    """The count of that one."""


class FeedWords(NamedTuple):
    """What came on a feed."""

    packets: int
    first: int
    duplicates: int
    heartbeats: int
    reached: int
    heard_ns: int


_WORDS = {
    "version": w.VERSION, "next": w.NEXT, "whole_since": w.WHOLE_SINCE, "now": w.NOW,
    "since": w.SINCE, "limit": w.LIMIT, "progress": w.PROGRESS, "behind": w.BEHIND,
    "most_behind": w.MOST_BEHIND, "event": w.EVENT, "event_at": w.EVENT_AT,
    "begins": w.BEGINS, "wanted": w.WANTED,
    "sending": w.SENDING, "received": w.RECEIVED, "delivered": w.DELIVERED,
    "messages": w.MESSAGES, "packets": w.PACKETS, "bytes": w.BYTES,
}  # fmt: skip
