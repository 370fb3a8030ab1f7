"""Replays updates in bulk: columns of updates in; ticks, faults and full books out.

This is the fast twin of the book classes. Its state is plain arrays that can be copied at any row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from enum import Enum
from typing import Any

import numpy as np
import numpy.typing as npt

from pregao.arrays import Int64Array, Uint8Array
from pregao.book import _kernels
from pregao.book import _state_layout as w
from pregao.book.state import FaultCode, State
from pregao.book.update_rows import NULL, UpdateKind, UpdateRows, none_if_null
from pregao.book.views import BookLevel, BookOrder, levels_of
from pregao.errors import UsageError
from pregao.units import Side

Slots = npt.NDArray[np.int32]


class BookKind(Enum):
    """Kind of book that the updates describe."""

    PRIORITY = "by price and priority"
    POSITION = "by position"
    DEPTH = "by price depth"


@dataclass(slots=True)
class TickColumns:
    """Ticks as columns; columns of levels are indexed by side, tick and level, best first.

    Absent levels have zero orders; the level of orders without a price has price NULL.
    """

    row: Int64Array
    """Last row of the event that affects this instrument."""
    event: Int64Array
    instrument: Int64Array
    state: Uint8Array
    price: Int64Array
    size: Int64Array
    orders: Slots

    def __len__(self) -> int:
        """Return the number of ticks."""
        return len(self.row)

    @staticmethod
    def empty(count: int, depth: int) -> TickColumns:
        """Allocate columns for ``count`` ticks."""
        return TickColumns(
            row=np.empty(count, np.int64),
            event=np.empty(count, np.int64),
            instrument=np.empty(count, np.int64),
            state=np.empty(count, np.uint8),
            price=np.empty((2, count, depth), np.int64),
            size=np.empty((2, count, depth), np.int64),
            orders=np.empty((2, count, depth), np.int32),
        )

    def copy(self) -> TickColumns:
        """Return a copy of the columns."""
        return TickColumns(*(getattr(self, column.name).copy() for column in fields(self)))

    def first(self, count: int) -> TickColumns:
        """Return the first ``count`` ticks, without a copy."""
        return TickColumns(
            self.row[:count],
            self.event[:count],
            self.instrument[:count],
            self.state[:count],
            self.price[:, :count],
            self.size[:, :count],
            self.orders[:, :count],
        )


@dataclass(slots=True)
class FullBook:
    """All orders of a book after a row, as columns: bids first, each side in queue order.

    A book by price depth has levels instead of orders; only their prices, sizes and order counts
    are known.
    """

    row: int
    state: State
    side: Uint8Array
    order_id: Int64Array
    price: Int64Array
    size: Int64Array
    firm: Int64Array
    inserted: Int64Array
    implied: Uint8Array
    level_orders: Int64Array | None = None
    """Number of orders of each level; None for a book of orders."""

    def __len__(self) -> int:
        """Return the number of orders or levels."""
        return len(self.side)

    @property
    def of_levels(self) -> bool:
        """Whether this is a book by price depth, which has no orders."""
        return self.level_orders is not None

    def levels(self, side: Side) -> list[BookLevel]:
        """Return the levels of a side, best first, like the book classes."""
        if self.level_orders is None:
            return list(levels_of(self.orders(side)))
        return [
            BookLevel(none_if_null(self.price[at]), int(self.size[at]), int(self.level_orders[at]))
            for at in np.flatnonzero(self.side == side)
        ]

    def orders(self, side: Side) -> list[BookOrder]:
        """Return the orders of a side, like the book classes; none for a book by price depth."""
        if self.level_orders is not None:
            return []
        return [
            BookOrder(
                none_if_null(self.order_id[at]),
                side,
                none_if_null(self.price[at]),
                int(self.size[at]),
                none_if_null(self.firm[at]),
                none_if_null(self.inserted[at]),
                bool(self.implied[at]),
            )
            for at in np.flatnonzero(self.side == side)
        ]

    def with_levels(self, level_orders: Int64Array) -> FullBook:
        """Return the rows as levels with these order counts."""
        unknown = np.full(len(self), NULL, np.int64)
        return replace(self, order_id=unknown, level_orders=level_orders)

    def rows(self, instrument: int, event: int) -> UpdateRows:
        """Return the snapshot rows that put a replay into this state."""
        rows = UpdateRows.empty(len(self) + 2)
        rows.instrument[:] = instrument
        rows.event[:] = event
        rows.kind[:] = UpdateKind.SNAPSHOT_ORDER
        rows.kind[0] = UpdateKind.SNAPSHOT_BEGIN
        rows.kind[-1] = UpdateKind.SNAPSHOT_END
        rows.side[1:-1] = self.side
        rows.flags[1:-1] = self.implied  # IMPLIED is 1
        for name in ("order_id", "price", "size", "firm", "inserted"):
            getattr(rows, name)[1:-1] = getattr(self, name)
        if self.level_orders is not None:
            rows.order_id[1:-1] = self.level_orders
        return rows


@dataclass(slots=True)
class BookState:
    """Complete state of a replay, as flat arrays."""

    meta: Int64Array
    table: Int64Array
    queue: Slots
    slots: Int64Array
    ranks: Int64Array
    ladder: Slots
    top: Int64Array

    @staticmethod
    def new(capacity: int, depth: int) -> BookState:
        """Allocate a state; ``capacity``, a power of two, counts orders plus levels."""
        return BookState(
            meta=np.zeros(w.STATE_WORDS, np.int64),
            table=np.zeros(4 * capacity, np.int64),
            queue=np.empty(2 * capacity, np.int32),
            slots=np.empty(w.SLOT_WORDS * capacity, np.int64),
            ranks=np.full(2 * (w.SCAN + capacity), w.LOWEST, np.int64),
            ladder=np.empty(2 * (w.SCAN + capacity), np.int32),
            top=np.empty((3, 2, depth), np.int64),
        )

    def copy(self) -> BookState:
        """Return a checkpoint."""
        return BookState(*(getattr(self, column.name).copy() for column in fields(self)))

    def grown(self) -> BookState:
        """Return the same book with twice the capacity."""
        capacity = len(self.queue) // 2
        grown = BookState.new(2 * capacity, self.top.shape[2])
        grown.meta[:] = self.meta
        grown.top[:] = self.top
        grown.meta[w.SLOTS_LEFT] += capacity
        grown.slots[: len(self.slots)] = self.slots
        for name in ("queue", "ranks", "ladder"):
            old = getattr(self, name).reshape(2, -1)
            getattr(grown, name).reshape(2, -1)[:, : old.shape[1]] = old
        return grown

    def enter_all(self) -> None:
        """Insert every order of a book by price and priority into the order map, still empty."""
        counts = self.meta[w.LEVELS : w.LEVELS + 2]
        _kernels.enter_all(self.table, self.slots, self.ladder, counts)


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """Result of a replay."""

    ticks: TickColumns
    faults: list[tuple[int, FaultCode]]
    books: list[FullBook]


class Replay:
    """Replays rows grouped by instrument; row numbers continue across calls.

    ``depth`` is the number of levels in a tick; with 0 there are no ticks. Without
    ``check_sizes``, sizes and prices before an update are not compared with the book. Books by
    price depth show ``market_depth`` levels, or all if it is None.
    """

    def __init__(
        self,
        kind: BookKind = BookKind.PRIORITY,
        depth: int = 10,
        *,
        market_depth: int | None = None,
        check_sizes: bool = True,
        capacity: int = 1024,
        chunk: int = 65_536,
    ) -> None:
        if depth < 0 or chunk < 1 or capacity < 1:
            raise UsageError("a replay needs capacity >= 1, chunk >= 1 and depth >= 0")
        if market_depth is not None and (market_depth < 1 or kind is not BookKind.DEPTH):
            raise UsageError("a market depth must be at least 1, and needs a book by price depth")
        self.kind = kind
        self.market_depth = market_depth
        self.depth = depth
        self.check_sizes = check_sizes
        self.chunk = chunk if depth else 1
        self.state = BookState.new(max(4, 1 << (capacity - 1).bit_length()), depth)
        self.done = 0
        """Number of rows replayed by previous calls."""
        self.faults: list[tuple[int, FaultCode]] = []
        """Rows that made a book stale, since the list was last cleared."""
        self.books: list[FullBook] = []
        """Full books requested by ``dump_at``, since the list was last cleared."""

    def run(
        self, rows: UpdateRows, *, finish: bool = True, dump_at: Sequence[int] | Int64Array = ()
    ) -> ReplayResult:
        """Replay rows and return all results; see ``stream``."""
        self.faults, self.books = [], []
        parts = [ticks.copy() for ticks in self.stream(rows, finish=finish, dump_at=dump_at)]
        parts.append(TickColumns.empty(0, self.depth))
        ticks = TickColumns(
            *(
                np.concatenate(
                    [getattr(part, column.name) for part in parts],
                    axis=1 if column.name in ("price", "size", "orders") else 0,
                )
                for column in fields(TickColumns)
            )
        )
        return ReplayResult(ticks, self.faults, self.books)

    def stream(
        self, rows: UpdateRows, *, finish: bool = True, dump_at: Sequence[int] | Int64Array = ()
    ) -> Iterator[TickColumns]:
        """Replay rows and yield ticks in chunks; the iterator must be exhausted.

        A chunk's columns are reused for the next one: copy what must live longer. Pass
        ``finish=False`` if more rows of the last event may follow in the next call.
        ``dump_at`` lists, in order, the rows after which the full book is recorded.
        """
        rows.check(levels=self.kind is BookKind.DEPTH)
        wanted = np.asarray(dump_at, np.int64)
        start = 0
        dumps = _Dumps(len(wanted), 0)
        # Allocating new pages for every chunk would cost more than writing the ticks.
        ticks = TickColumns.empty(self.chunk, self.depth)
        fault_row = np.empty(1024, np.int64)
        fault_code = np.empty(1024, np.uint8)
        while True:
            meta = self.state.meta
            meta[[w.TICKS, w.FAULTS, w.DUMPS, w.DUMPED_ORDERS]] = 0
            status = self._replay(rows, start, finish, ticks, fault_row, fault_code, wanted, dumps)
            start = int(meta[w.NEXT_ROW])
            faults = int(meta[w.FAULTS])
            self.faults += [
                (int(row), FaultCode(code))
                for row, code in zip(fault_row[:faults], fault_code[:faults], strict=True)
            ]
            levels = self.kind is BookKind.DEPTH
            self.books += dumps.books(wanted, int(meta[w.DUMPS]), levels=levels)
            wanted = wanted[int(meta[w.DUMPS]) :]
            if meta[w.TICKS]:
                yield ticks.first(int(meta[w.TICKS]))
            if status == w.DONE:
                self.done += len(rows)
                return
            if status == w.BOOK_FULL:
                self._grow()
            live = int(meta[w.ORDERS] + meta[w.ORDERS + 1])
            # Unused capacity costs nothing, but every stop of the kernel costs time.
            dumps = _Dumps(len(wanted), max(16 * live, 65_536) if len(wanted) else 0)

    def _grow(self) -> None:
        self.state = self.state.grown()
        if self.kind is BookKind.PRIORITY:
            self.state.enter_all()

    def _replay(
        self,
        rows: UpdateRows,
        start: int,
        finish: bool,
        ticks: TickColumns,
        fault_row: Int64Array,
        fault_code: Uint8Array,
        wanted: Int64Array,
        dumps: _Dumps,
    ) -> int:
        state = self.state
        by_depth = self.kind is BookKind.DEPTH
        status: int = _kernels.replay(
            self.kind is not BookKind.PRIORITY,
            (self.market_depth or w.HIGHEST) if by_depth else 0,
            self.check_sizes, self.depth, self.done, start, len(rows), finish,
            rows.kind, rows.side, rows.flags, rows.instrument, rows.event, rows.order_id,
            rows.price, rows.size, rows.previous, rows.position, rows.firm, rows.inserted,
            state.meta, state.table, state.queue, state.slots, state.ranks, state.ladder,
            state.top,
            ticks.row, ticks.event, ticks.instrument, ticks.state, ticks.price, ticks.size,
            ticks.orders,
            fault_row, fault_code,
            wanted, dumps.end, dumps.state, dumps.side, dumps.order_id, dumps.price, dumps.size,
            dumps.firm, dumps.inserted, dumps.implied,
        )  # fmt: skip
        return status


class _Dumps:
    """Output columns for full books."""

    def __init__(self, books: int, orders: int) -> None:
        self.end = np.empty(books, np.int64)
        self.state = np.empty(books, np.uint8)
        self.side = np.empty(orders, np.uint8)
        self.implied = np.empty(orders, np.uint8)
        self.order_id = np.empty(orders, np.int64)
        self.price = np.empty(orders, np.int64)
        self.size = np.empty(orders, np.int64)
        self.firm = np.empty(orders, np.int64)
        self.inserted = np.empty(orders, np.int64)

    def books(self, wanted: Int64Array, count: int, *, levels: bool) -> list[FullBook]:
        """Return the recorded books, each with its own columns."""
        full_books = []
        begin = 0
        for at in range(count):
            end = int(self.end[at])
            columns: dict[str, Any] = {
                name: getattr(self, name)[begin:end].copy()
                for name in ("side", "order_id", "price", "size", "firm", "inserted", "implied")
            }
            book = FullBook(int(wanted[at]), State(int(self.state[at])), **columns)
            full_books.append(book.with_levels(book.order_id) if levels else book)
            begin = end
        return full_books
