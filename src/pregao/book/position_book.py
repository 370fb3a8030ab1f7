"""The book by position: every message addresses a position on a side.

Binary UMDF describes books this way below schema version 15, and so does the legacy feed. There
only the position identifies an order reliably: its ID is compared where it is given, but two
orders may have the same one.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from pregao.book.base_book import raise_inconsistent
from pregao.book.order_book import OrderBook, order_of
from pregao.book.state import FaultCode
from pregao.book.updates import OrderAdded, OrderChanged, OrderDeleted, SnapshotOrder
from pregao.book.views import BookLevel, BookOrder
from pregao.units import Side


class PositionBook(OrderBook):
    """A book of orders by position."""

    __slots__ = ("_sides",)

    def __init__(self, *, check_sizes: bool = True) -> None:
        super().__init__(check_sizes=check_sizes)
        self._wipe()

    def _wipe(self) -> None:
        self._sides: tuple[list[BookOrder], list[BookOrder]] = ([], [])

    def walk_levels(self, side: Side) -> Iterator[BookLevel]:
        """Yield the levels of a side, best first: runs of adjacent orders with one price."""
        for price, orders in groupby(self._sides[side], key=lambda order: order.price):
            sizes = [order.size for order in orders]
            yield BookLevel(price, sum(sizes), len(sizes))

    def walk_orders(self, side: Side) -> Iterator[BookOrder]:
        """Return the orders of a side in queue order."""
        return iter(self._sides[side])

    def order(self, order_id: int) -> BookOrder | None:
        """Return the first order with this ID, or None."""
        return next(
            (order for side in self._sides for order in side if order.order_id == order_id), None
        )

    def count(self, side: Side) -> int:
        """Return the number of orders of a side."""
        return len(self._sides[side])

    def _find(self, update: OrderChanged | OrderDeleted) -> int:
        """Return the index, from 0, of the order that an update addresses."""
        if update.position is None:
            raise_inconsistent(FaultCode.POSITION_MISSING, "update of an order without a position")
        orders = self._sides[update.side]
        if not 1 <= update.position <= len(orders):
            raise_inconsistent(
                FaultCode.POSITION_BEYOND_END,
                f"position {update.position} is out of range:"
                f" the {update.side.name.lower()} side has {len(orders)} orders",
            )
        order = orders[update.position - 1]
        if None not in (update.order_id, order.order_id) and update.order_id != order.order_id:
            raise_inconsistent(
                FaultCode.OTHER_ORDER_AT_POSITION,
                f"position {update.position} has order {order.order_id}, not {update.order_id}",
            )
        self._check_before(order, update)
        return update.position - 1

    def _add(self, update: OrderAdded | SnapshotOrder) -> None:
        orders = self._sides[update.side]
        position = update.position
        if position is None:
            if isinstance(update, OrderAdded):
                raise_inconsistent(FaultCode.POSITION_MISSING, "new order without a position")
            position = len(orders) + 1
        if not 1 <= position <= len(orders) + 1:
            raise_inconsistent(
                FaultCode.POSITION_BEYOND_END,
                f"position {position} of a new order is out of range:"
                f" the {update.side.name.lower()} side has {len(orders)} orders",
            )
        orders.insert(position - 1, order_of(update, update.order_id))

    def _change(self, update: OrderChanged) -> None:
        index = self._find(update)
        orders = self._sides[update.side]
        order = order_of(update, update.order_id)
        if update.order_id is None:
            # Named by its position alone: it keeps what the update does not state (002 §9.1.1).
            price = orders[index].price if update.price is None else update.price
            order = order._replace(order_id=orders[index].order_id, price=price)
        orders[index] = order

    def _delete(self, update: OrderDeleted) -> None:
        index = self._find(update)
        del self._sides[update.side][index]

    def _clear(self, side: Side) -> None:
        self._sides[side].clear()

    def _remove_top(self, side: Side, position: int) -> None:
        self._check_top(side, position)
        del self._sides[side][:position]
