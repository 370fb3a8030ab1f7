"""The book by price and priority: better price first, then real before implied, then smaller ID.

Binary UMDF describes books this way from schema version 15 on.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator

from pregao.book.base_book import raise_inconsistent
from pregao.book.order_book import OrderBook, order_of
from pregao.book.state import FaultCode
from pregao.book.updates import OrderAdded, OrderChanged, OrderDeleted, SnapshotOrder
from pregao.book.views import BookLevel, BookOrder, PriceRank, price_rank, priority, ranked_price
from pregao.units import Side

MAX_ORDER_ID = 2**63 - 1
"""Highest order ID: kernels and tables store order IDs in 63 bits."""


class _Queue:
    """The orders of one price, in queue order."""

    __slots__ = ("orders", "size")

    def __init__(self) -> None:
        self.orders: list[BookOrder] = []
        self.size = 0


def _priority(order: BookOrder) -> tuple[bool, int]:
    assert order.order_id is not None
    return priority(order.order_id, order.implied)


class PriorityBook(OrderBook):
    """A book of orders by ID."""

    __slots__ = ("_counts_by_side", "_ladders", "_orders", "_queues")

    def __init__(self, *, check_sizes: bool = True) -> None:
        super().__init__(check_sizes=check_sizes)
        self._wipe()

    def _wipe(self) -> None:
        self._orders: dict[int, BookOrder] = {}
        self._queues: tuple[dict[int | None, _Queue], dict[int | None, _Queue]] = ({}, {})
        self._ladders: tuple[list[PriceRank], list[PriceRank]] = ([], [])
        self._counts_by_side = [0, 0]

    def walk_levels(self, side: Side) -> Iterator[BookLevel]:
        """Yield the levels of a side, best first."""
        for queue in self._walk(side):
            yield BookLevel(queue.orders[0].price, queue.size, len(queue.orders))

    def walk_orders(self, side: Side) -> Iterator[BookOrder]:
        """Yield the orders of a side in queue order."""
        for queue in self._walk(side):
            yield from queue.orders

    def order(self, order_id: int) -> BookOrder | None:
        """Return the order with this ID, or None."""
        return self._orders.get(order_id)

    def count(self, side: Side) -> int:
        """Return the number of orders of a side."""
        return self._counts_by_side[side]

    def fill(self, orders: Iterable[BookOrder]) -> None:
        """Add orders, each of which has a unique ID."""
        for order in orders:
            self._insert(order)

    def _walk(self, side: Side) -> Iterator[_Queue]:
        queues = self._queues[side]
        for rank in self._ladders[side]:
            yield queues[ranked_price(side, rank)]

    def _insert(self, order: BookOrder) -> None:
        assert order.order_id is not None
        queue = self._queues[order.side].get(order.price)
        if queue is None:
            queue = self._queues[order.side][order.price] = _Queue()
            insort(self._ladders[order.side], price_rank(order.side, order.price))
        insort(queue.orders, order, key=_priority)
        queue.size += order.size
        self._orders[order.order_id] = order
        self._counts_by_side[order.side] += 1

    def _remove(self, order: BookOrder) -> None:
        assert order.order_id is not None
        queues = self._queues[order.side]
        queue = queues[order.price]
        del queue.orders[bisect_left(queue.orders, _priority(order), key=_priority)]
        queue.size -= order.size
        if not queue.orders:
            del queues[order.price]
            ladder = self._ladders[order.side]
            del ladder[bisect_left(ladder, price_rank(order.side, order.price))]
        del self._orders[order.order_id]
        self._counts_by_side[order.side] -= 1

    def _find(self, update: OrderChanged | OrderDeleted) -> BookOrder:
        if update.order_id is None or not 0 <= update.order_id <= MAX_ORDER_ID:
            raise_inconsistent(FaultCode.NO_ORDER_ID, "update of an order without a valid ID")
        order = self._orders.get(update.order_id)
        if order is None:
            raise_inconsistent(
                FaultCode.UNKNOWN_ORDER, f"order {update.order_id} is not in the book"
            )
        if order.side is not update.side:
            raise_inconsistent(
                FaultCode.WRONG_SIDE,
                f"order {update.order_id} is on the {order.side.name.lower()} side",
            )
        self._check_before(order, update)
        return order

    def _add(self, update: OrderAdded | SnapshotOrder) -> None:
        if update.order_id is None or not 0 <= update.order_id <= MAX_ORDER_ID:
            raise_inconsistent(FaultCode.NO_ORDER_ID, "new order without a valid ID")
        if update.order_id in self._orders:
            raise_inconsistent(
                FaultCode.DUPLICATE_ORDER, f"order {update.order_id} is already in the book"
            )
        self._insert(order_of(update, update.order_id))

    def _change(self, update: OrderChanged) -> None:
        self._remove(self._find(update))
        self._insert(order_of(update, update.order_id))

    def _delete(self, update: OrderDeleted) -> None:
        self._remove(self._find(update))

    def _clear(self, side: Side) -> None:
        for order in self.orders(side):
            self._remove(order)

    def _remove_top(self, side: Side, position: int) -> None:
        self._check_top(side, position)
        for order in self.orders(side)[:position]:
            self._remove(order)
