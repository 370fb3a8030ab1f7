"""The book by position: every message says which place of a side it is about.

This is how Binary UMDF describes books below schema version 15, and how the legacy feed does.
There the place is the only safe name of an order: its number is compared where it is given,
but two orders may share one.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from pregao.book.base import misfit
from pregao.book.faults import FaultCode
from pregao.book.orders import OrderBook, order_of
from pregao.book.updates import OrderAdded, OrderChanged, OrderDeleted, Side, SnapshotOrder
from pregao.book.views import Level, Order


class PositionBook(OrderBook):
    """A book of orders found by their place."""

    __slots__ = ("_sides",)

    def __init__(self, *, check_sizes: bool = True) -> None:
        super().__init__(check_sizes=check_sizes)
        self._wipe()

    def _wipe(self) -> None:
        self._sides: tuple[list[Order], list[Order]] = ([], [])

    def walk_levels(self, side: Side) -> Iterator[Level]:
        """The levels of a side, best first: neighbours of one price."""
        for price, orders in groupby(self._sides[side], key=lambda order: order.price):
            sizes = [order.size for order in orders]
            yield Level(price, sum(sizes), len(sizes))

    def walk_orders(self, side: Side) -> Iterator[Order]:
        """The orders of a side in the order in which they would trade."""
        return iter(self._sides[side])

    def order(self, order_id: int) -> Order | None:
        """The first order of that number, if one is in the book."""
        return next(
            (order for side in self._sides for order in side if order.order_id == order_id), None
        )

    def count(self, side: Side) -> int:
        """How many orders a side has."""
        return len(self._sides[side])

    def _find(self, update: OrderChanged | OrderDeleted) -> int:
        """The place of the order that an update is about, counted from 0."""
        if update.position is None:
            misfit(FaultCode.POSITION_MISSING, "an update of an order without its place")
        orders = self._sides[update.side]
        if not 1 <= update.position <= len(orders):
            misfit(
                FaultCode.POSITION_BEYOND_END,
                f"place {update.position} of {len(orders)} {update.side.name.lower()} orders",
            )
        order = orders[update.position - 1]
        if None not in (update.order_id, order.order_id) and update.order_id != order.order_id:
            misfit(
                FaultCode.OTHER_ORDER_AT_POSITION,
                f"place {update.position} holds order {order.order_id}, not {update.order_id}",
            )
        self._check_before(order, update)
        return update.position - 1

    def _add(self, update: OrderAdded | SnapshotOrder) -> None:
        orders = self._sides[update.side]
        position = update.position
        if position is None:
            if isinstance(update, OrderAdded):
                misfit(FaultCode.POSITION_MISSING, "a new order without a place")
            position = len(orders) + 1
        if not 1 <= position <= len(orders) + 1:
            misfit(
                FaultCode.POSITION_BEYOND_END,
                f"a new order at place {position} of"
                f" {len(orders)} {update.side.name.lower()} orders",
            )
        orders.insert(position - 1, order_of(update, update.order_id))

    def _change(self, update: OrderChanged) -> None:
        place = self._find(update)
        orders = self._sides[update.side]
        order_id = orders[place].order_id if update.order_id is None else update.order_id
        orders[place] = order_of(update, order_id)

    def _delete(self, update: OrderDeleted) -> None:
        place = self._find(update)
        del self._sides[update.side][place]

    def _clear(self, side: Side) -> None:
        self._sides[side].clear()

    def _remove_top(self, side: Side, position: int) -> None:
        self._check_top(side, position)
        del self._sides[side][:position]
