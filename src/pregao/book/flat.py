"""The book by price and priority in flat arrays: the same memory for kernels and for objects.

It answers what `PriorityBook` answers, and takes the same updates. Kernels that follow a live feed
change the arrays without it knowing; nothing is ever copied from one form to the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from pregao.book import _flat_kernels as k
from pregao.book import _words as w
from pregao.book.orders import OrderBook
from pregao.book.priority import MOST_ORDER_ID, PriorityBook
from pregao.book.replay import BookState, FullBook
from pregao.book.rows import NULL, UpdateKind, none_if_null, row_of
from pregao.book.updates import (
    MessageKey,
    OrderAdded,
    OrderChanged,
    OrderDeleted,
    Side,
    SnapshotOrder,
)
from pregao.book.views import Level, Order

_LEAST_ROOM = 64
"""Orders and levels that a new book has room for; it doubles when it is full."""


class FlatBook(OrderBook):
    """A book of orders found by their number, kept in arrays that kernels know."""

    __slots__ = ("addresses", "content")

    def __init__(self, *, check_sizes: bool = True) -> None:
        super().__init__(check_sizes=check_sizes)
        self._keep(BookState.new(_LEAST_ROOM, 0))
        self._wipe()

    def _keep(self, content: BookState) -> None:
        self.content = content
        arrays = (content.meta, content.table, content.slots, content.ranks, content.ladder)
        self.addresses = (*(array.ctypes.data for array in arrays), len(content.queue) // 2)
        """Where the arrays are, as kernels take them, and for how many orders and levels."""

    def grow(self) -> None:
        """Make twice the room."""
        self._keep(self.content.grown())
        self.content.enter_all()

    # What kernels change without a word

    @property
    def steady(self) -> bool:
        """May a kernel apply the next update? Not while stale, or in the middle of a snapshot."""
        return self.fault is None and not self._snapshot

    def give(self) -> None:
        """Tell the arrays what kernels go on with."""
        self.content.meta[w.BUILDING] = self._building

    def take(self, key: tuple[int, int, int], rpt_seq: int) -> None:
        """Kernels have applied updates, the last of which has this key and count."""
        self._settle(MessageKey(*key), rpt_seq, recovery=bool(self.content.meta[w.BUILDING]))

    # What is in it

    def _wipe(self) -> None:
        k.empty(*self.addresses)

    def count(self, side: Side) -> int:
        """How many orders a side has."""
        return int(self.content.meta[w.ORDERS + side])

    def levels(self, side: Side, depth: int | None = None) -> list[Level]:
        """The best levels of a side, best first; all of them unless a depth is given."""
        count = int(self.content.meta[w.LEVELS + side])
        found = np.empty((count if depth is None else min(depth, count), k.LEVEL_WORDS), np.int64)
        k.write_levels(*self.addresses, int(side), found)
        return [Level(none_if_null(price), *rest) for price, *rest in found.tolist()]

    def best(self, side: Side) -> Level | None:
        """The best level of a side; orders without a price come before every price."""
        return next(iter(self.levels(side, 1)), None)

    def walk_levels(self, side: Side) -> Iterator[Level]:
        """The levels of a side, best first."""
        return iter(self.levels(side))

    def walk_orders(self, side: Side) -> Iterator[Order]:
        """The orders of a side in the order in which they would trade."""
        return iter(self.full().orders(side))

    def order(self, order_id: int) -> Order | None:
        """The order of that number, if it is in the book."""
        found = np.empty(k.ORDER_WORDS, np.int64)
        if not 0 <= order_id <= MOST_ORDER_ID:
            return None
        if not k.write_order(*self.addresses, order_id, found):
            return None
        number, side, price, size, firm, inserted, implied = found.tolist()
        times = none_if_null(firm), none_if_null(inserted)
        return Order(number, Side(side), none_if_null(price), size, *times, bool(implied))

    def full(self) -> FullBook:
        """All orders as columns."""
        count = self.count(Side.BID) + self.count(Side.ASK)
        sides, implieds = np.empty((2, count), np.uint8)
        ids, prices, sizes, firms, inserteds = np.empty((5, count), np.int64)
        columns = (sides, ids, prices, sizes, firms, inserteds, implieds)
        k.write_orders(*self.addresses, np.empty(1, np.int64), np.empty(1, np.uint8), *columns)
        return FullBook(0, self.state, *columns)

    def plain(self) -> PriorityBook:
        """The same orders in a book of objects."""
        book = PriorityBook(check_sizes=self.check_sizes)
        full = self.full()
        for side in Side:
            book.fill(full.orders(side))
        return book

    # Updates

    def _apply(self, row: dict[str, int], refused: Callable[[PriorityBook], None]) -> None:
        """Apply an update; ``refused`` does it to a book of objects, which says what is wrong."""
        numbers = [
            row.get(name, NULL)
            for name in ("order_id", "price", "size", "previous", "position", "firm", "inserted")
        ]
        if max(numbers) > MOST_ORDER_ID:  # an order's number or a time that no kernel can keep
            numbers = [NULL if number > MOST_ORDER_ID else number for number in numbers]
        kind, side, flags = int(row["kind"]), int(row["side"]), row.get("flags", 0)
        while True:
            code = k.apply_one(*self.addresses, self.check_sizes, kind, side, flags, *numbers)
            if code == w.NO_ROOM:
                self.grow()
            elif code == 0:
                return
            else:
                refused(self.plain())
                raise AssertionError(f"a kernel refused with {code} what a book of objects takes")

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
