"""Base of books that keep every order."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator

from pregao.book.base_book import BaseBook, raise_inconsistent
from pregao.book.state import FaultCode
from pregao.book.updates import OrderAdded, OrderChanged, OrderDeleted, SnapshotOrder
from pregao.book.views import BookOrder, QueuePosition
from pregao.units import Side


class OrderBook(BaseBook):
    """A book that keeps every order."""

    __slots__ = ()

    @abstractmethod
    def walk_orders(self, side: Side) -> Iterator[BookOrder]:
        """Return the orders of a side in queue order."""

    @abstractmethod
    def order(self, order_id: int) -> BookOrder | None:
        """Return the order with this ID, or None."""

    @abstractmethod
    def count(self, side: Side) -> int:
        """Return the number of orders of a side."""

    def orders(self, side: Side) -> list[BookOrder]:
        """Return the orders of a side in queue order."""
        return list(self.walk_orders(side))

    def queue_position(self, order_id: int) -> QueuePosition | None:
        """Return an order's position on its side and in its level; None if not in the book."""
        wanted = self.order(order_id)
        if wanted is None:
            return None
        price, in_level, ahead_in_level, ahead = wanted.price, 0, 0, 0
        for in_side, order in enumerate(self.walk_orders(wanted.side), 1):
            if order.price != price:
                price, in_level, ahead_in_level = order.price, 0, 0
            in_level += 1
            if order.order_id == order_id:
                return QueuePosition(in_side, in_level, ahead, ahead_in_level)
            ahead += order.size
            ahead_in_level += order.size
        return None

    def _occupied(self) -> bool:
        return self.count(Side.BID) > 0 or self.count(Side.ASK) > 0

    def _counts(self) -> tuple[int, int]:
        return self.count(Side.BID), self.count(Side.ASK)

    def _check_top(self, side: Side, position: int) -> None:
        if not 1 <= position <= self.count(side):
            raise_inconsistent(
                FaultCode.POSITION_BEYOND_END,
                f"positions 1 to {position} are out of range:"
                f" the {side.name.lower()} side has {self.count(side)} orders",
            )

    def _check_before(self, order: BookOrder, update: OrderChanged | OrderDeleted) -> None:
        """Check the size and price before the update, if given, against the book."""
        if not self.check_sizes:
            return
        previous = update.size if isinstance(update, OrderDeleted) else update.previous_size
        if previous is not None and previous != order.size:
            raise_inconsistent(
                FaultCode.WRONG_PREVIOUS_SIZE,
                f"order {order.order_id} has size {order.size} in the book, but {previous} in the"
                " message",
            )
        price = update.price if isinstance(update, OrderDeleted) else None
        if price is not None and price != order.price:
            raise_inconsistent(
                FaultCode.WRONG_PRICE,
                f"order {order.order_id} has price {order.price} in the book, but {price} in the"
                " message",
            )


def order_of(update: OrderAdded | OrderChanged | SnapshotOrder, order_id: int | None) -> BookOrder:
    """Return the order that an update describes."""
    return BookOrder(
        order_id,
        update.side,
        update.price,
        update.size,
        update.firm,
        update.insert_time_ns,
        update.implied,
    )
