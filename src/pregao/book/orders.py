"""What books that keep every order answer beyond their levels."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator

from pregao.book.base import Book, misfit
from pregao.book.faults import FaultCode
from pregao.book.updates import OrderAdded, OrderChanged, OrderDeleted, Side, SnapshotOrder
from pregao.book.views import Order, QueuePosition


class OrderBook(Book):
    """A book that keeps every order."""

    __slots__ = ()

    @abstractmethod
    def walk_orders(self, side: Side) -> Iterator[Order]:
        """The orders of a side in the order in which they would trade."""

    @abstractmethod
    def order(self, order_id: int) -> Order | None:
        """The order of that number, if it is in the book."""

    @abstractmethod
    def count(self, side: Side) -> int:
        """How many orders a side has."""

    def orders(self, side: Side) -> list[Order]:
        """The orders of a side in the order in which they would trade."""
        return list(self.walk_orders(side))

    def queue_position(self, order_id: int) -> QueuePosition | None:
        """Where an order stands on its side and in its level; None if it is not in the book."""
        wanted = self.order(order_id)
        if wanted is None:
            return None
        price, in_level, ahead_in_level, ahead = wanted.price, 0, 0, 0
        for place, order in enumerate(self.walk_orders(wanted.side), 1):
            if order.price != price:
                price, in_level, ahead_in_level = order.price, 0, 0
            in_level += 1
            if order.order_id == order_id:
                return QueuePosition(place, in_level, ahead, ahead_in_level)
            ahead += order.size
            ahead_in_level += order.size
        return None

    def _occupied(self) -> bool:
        return self.count(Side.BID) > 0 or self.count(Side.ASK) > 0

    def _counts(self) -> tuple[int, int]:
        return self.count(Side.BID), self.count(Side.ASK)

    def _check_top(self, side: Side, position: int) -> None:
        if not 1 <= position <= self.count(side):
            misfit(
                FaultCode.POSITION_BEYOND_END,
                f"places 1 to {position} of {self.count(side)} {side.name.lower()} orders",
            )

    def _check_before(self, order: Order, update: OrderChanged | OrderDeleted) -> None:
        """Hold what the update says about the order's past against the book."""
        if not self.check_sizes:
            return
        previous = update.size if isinstance(update, OrderDeleted) else update.previous_size
        if previous is not None and previous != order.size:
            misfit(
                FaultCode.WRONG_PREVIOUS_SIZE,
                f"order {order.order_id} had size {order.size} here, {previous} by the message",
            )
        told = update.price if isinstance(update, OrderDeleted) else None
        if told is not None and told != order.price:
            misfit(
                FaultCode.WRONG_PRICE,
                f"order {order.order_id} had price {order.price} here, {told} by the message",
            )


def order_of(update: OrderAdded | OrderChanged | SnapshotOrder, order_id: int | None) -> Order:
    """The order as an update describes it."""
    return Order(
        order_id,
        update.side,
        update.price,
        update.size,
        update.firm,
        update.insert_time_ns,
        update.implied,
    )
