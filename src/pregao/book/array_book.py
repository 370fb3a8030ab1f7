"""The book by price and priority in flat arrays that kernels and Python objects share.

It accepts the same updates as `PriorityBook` and returns the same results. Kernels that follow a
live feed change the arrays directly; nothing is copied between two forms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from pregao.book import _flat_kernels as k
from pregao.book import _state_layout as w
from pregao.book.order_book import OrderBook
from pregao.book.priority_book import MAX_ORDER_ID, PriorityBook
from pregao.book.replay import BookState, FullBook
from pregao.book.update_rows import NULL, UpdateKind, none_if_null, row_of
from pregao.book.updates import MessageKey, OrderAdded, OrderChanged, OrderDeleted, SnapshotOrder
from pregao.book.views import BookLevel, BookOrder
from pregao.units import Side

_MIN_CAPACITY = 64
"""Initial capacity in orders and levels; it doubles when the book is full."""


class FlatBook(OrderBook):
    """A book of orders by ID, in arrays that kernels can change."""

    __slots__ = ("addresses", "content")

    def __init__(self, *, check_sizes: bool = True) -> None:
        super().__init__(check_sizes=check_sizes)
        self._keep(BookState.new(_MIN_CAPACITY, 0))
        self._wipe()

    def _keep(self, content: BookState) -> None:
        self.content = content
        arrays = (content.meta, content.table, content.slots, content.ranks, content.ladder)
        self.addresses = (*(array.ctypes.data for array in arrays), len(content.queue) // 2)
        """Addresses of the arrays, in the kernels' argument order, and their capacity."""

    def grow(self) -> None:
        """Double the capacity."""
        self._keep(self.content.grown())
        self.content.enter_all()

    # Changes by kernels

    @property
    def steady(self) -> bool:
        """Whether a kernel may apply the next update: not if stale or within a snapshot."""
        return self.fault is None and not self._snapshot

    def give(self) -> None:
        """Copy the state that kernels need into the arrays."""
        self.content.meta[w.BUILDING] = self._building

    def take(self, key: tuple[int, int, int], rpt_seq: int) -> None:
        """Record that kernels applied updates up to this message key and rptSeq."""
        self._settle(MessageKey(*key), rpt_seq, recovery=bool(self.content.meta[w.BUILDING]))

    # Content

    def _wipe(self) -> None:
        k.empty(*self.addresses)

    def count(self, side: Side) -> int:
        """Return the number of orders of a side."""
        return int(self.content.meta[w.ORDERS + side])

    def levels(self, side: Side, depth: int | None = None) -> list[BookLevel]:
        """Return the best levels of a side, best first; all of them if ``depth`` is None."""
        count = int(self.content.meta[w.LEVELS + side])
        rows = np.empty((count if depth is None else min(depth, count), k.LEVEL_WORDS), np.int64)
        k.write_levels(*self.addresses, int(side), rows)
        return [BookLevel(none_if_null(price), *rest) for price, *rest in rows.tolist()]

    def best(self, side: Side) -> BookLevel | None:
        """Return the best level of a side; orders without a price precede every price."""
        return next(iter(self.levels(side, 1)), None)

    def walk_levels(self, side: Side) -> Iterator[BookLevel]:
        """Return the levels of a side, best first."""
        return iter(self.levels(side))

    def walk_orders(self, side: Side) -> Iterator[BookOrder]:
        """Return the orders of a side in queue order."""
        return iter(self.full().orders(side))

    def order(self, order_id: int) -> BookOrder | None:
        """Return the order with this ID, or None."""
        fields = np.empty(k.ORDER_WORDS, np.int64)
        if not 0 <= order_id <= MAX_ORDER_ID:
            return None
        if not k.write_order(*self.addresses, order_id, fields):
            return None
        number, side, price, size, firm, inserted, implied = fields.tolist()
        firm_and_time = none_if_null(firm), none_if_null(inserted)
        return BookOrder(
            number, Side(side), none_if_null(price), size, *firm_and_time, bool(implied)
        )

    def full(self) -> FullBook:
        """Return all orders as columns."""
        count = self.count(Side.BID) + self.count(Side.ASK)
        sides, implieds = np.empty((2, count), np.uint8)
        ids, prices, sizes, firms, inserteds = np.empty((5, count), np.int64)
        columns = (sides, ids, prices, sizes, firms, inserteds, implieds)
        k.write_orders(*self.addresses, np.empty(1, np.int64), np.empty(1, np.uint8), *columns)
        return FullBook(0, self.state, *columns)

    def plain(self) -> PriorityBook:
        """Return the same orders as a `PriorityBook`."""
        book = PriorityBook(check_sizes=self.check_sizes)
        full = self.full()
        for side in Side:
            book.fill(full.orders(side))
        return book

    # Updates

    def _apply(self, row: dict[str, int], refused: Callable[[PriorityBook], None]) -> None:
        """Apply an update; on a fault, ``refused`` repeats it on a plain book for its error."""
        numbers = [
            row.get(name, NULL)
            for name in ("order_id", "price", "size", "previous", "position", "firm", "inserted")
        ]
        if max(numbers) > MAX_ORDER_ID:  # an order ID or a time beyond 63 bits
            numbers = [NULL if number > MAX_ORDER_ID else number for number in numbers]
        kind, side, flags = int(row["kind"]), int(row["side"]), row.get("flags", 0)
        while True:
            code = k.apply_one(*self.addresses, self.check_sizes, kind, side, flags, *numbers)
            if code == w.FULL:
                self.grow()
            elif code == 0:
                return
            else:
                refused(self.plain())
                raise AssertionError(f"kernel fault {code} on an update that PriorityBook accepts")

    def _add(self, update: OrderAdded | SnapshotOrder) -> None:
        self._apply(row_of(update), lambda book: book._add(update))

    def _change(self, update: OrderChanged) -> None:
        self._apply(row_of(update), lambda book: book._change(update))

    def _delete(self, update: OrderDeleted) -> None:
        self._apply(row_of(update), lambda book: book._delete(update))

    def _clear(self, side: Side) -> None:
        self._apply({"kind": UpdateKind.CLEAR_SIDE, "side": side}, lambda book: book._clear(side))

    def _remove_top(self, side: Side, position: int) -> None:
        row = {"kind": UpdateKind.REMOVE_TOP, "side": side, "position": position}
        self._apply(row, lambda book: book._remove_top(side, position))
