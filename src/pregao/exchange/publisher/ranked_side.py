"""Positions of the orders of a book side, for schema versions below 15."""

from __future__ import annotations

from bisect import bisect_left

from pregao.errors import UsageError
from pregao.exchange.engine.book.order_book import key_of
from pregao.exchange.engine.model.events import DeleteOrderMbo
from pregao.exchange.publisher.encoding.orders import OrderItem

_Rank = tuple[int, int, int]
"""Price key, arrival count on the side (negated), and secondaryOrderID."""
_IMPLIED = 1 << 62
"""Added to the arrival count of implied orders: they rank after all others of their price."""


def rank(order: OrderItem | DeleteOrderMbo) -> tuple[int, int]:
    """Return the sort key of an order from version 15 on: the greater, the closer to the top.

    A better price is greater, and at one price a smaller number. Orders without a price rank first.
    """
    return key_of(order.side, order.price), -order.secondary_order_id


class RankedSide:
    """Ranks of a side's orders, best at the end, so that changes near the top are cheap.

    At one price orders rank in arrival order: below version 15 the number of an order does not
    always determine its position (000 §12.1).
    """

    __slots__ = ("_came", "_rank_of", "_ranks")

    def __init__(self) -> None:
        self._came = 0
        self._ranks: list[_Rank] = []
        self._rank_of: dict[int, _Rank] = {}

    def __len__(self) -> int:
        return len(self._ranks)

    def numbers(self) -> list[int]:
        """Return the secondaryOrderIDs from best to worst."""
        return [number for _, _, number in reversed(self._ranks)]

    def add(self, order: OrderItem) -> int:
        """Add an order and return its 1-based position."""
        self._came += 1
        number = order.secondary_order_id
        arrival = self._came + (_IMPLIED if order.implied else 0)
        order_rank = self._rank_of[number] = (key_of(order.side, order.price), -arrival, number)
        ranks = self._ranks
        if not ranks or order_rank > ranks[-1]:
            ranks.append(order_rank)
            return 1
        index = bisect_left(ranks, order_rank)
        ranks.insert(index, order_rank)
        return len(ranks) - index

    def position(self, order: OrderItem | DeleteOrderMbo) -> int:
        """Return the 1-based position of an order."""
        return len(self._ranks) - self._index(order)

    def remove(self, order: DeleteOrderMbo) -> int:
        """Remove an order and return the position it had."""
        index = self._index(order)
        position = len(self._ranks) - index
        del self._ranks[index], self._rank_of[order.secondary_order_id]
        return position

    def stands_at(self, order: DeleteOrderMbo, position: int) -> bool:
        """Whether the order is at this 1-based position."""
        ranks = self._ranks
        return position <= len(ranks) and ranks[-position][2] == order.secondary_order_id

    def remove_top(self, count: int) -> list[int]:
        """Remove the first `count` orders and return their numbers, from worst to best."""
        start = len(self._ranks) - count
        numbers = [number for _, _, number in self._ranks[start:]]
        del self._ranks[start:]
        for number in numbers:
            del self._rank_of[number]
        return numbers

    def clear(self) -> None:
        """Remove all orders."""
        self._ranks.clear()
        self._rank_of.clear()

    def _index(self, order: OrderItem | DeleteOrderMbo) -> int:
        order_rank = self._rank_of.get(order.secondary_order_id)
        if order_rank is None:
            raise UsageError(
                f"order {order.secondary_order_id} of instrument {order.security_id} cannot be "
                "changed or deleted: it is not in the published book"
            )
        return bisect_left(self._ranks, order_rank)
