"""One side of a book by position, as versions of the feed below 15 number its orders."""

from __future__ import annotations

from bisect import bisect_left

from pregao.errors import UsageError
from pregao.exchange.engine.events import OrderDeleted
from pregao.exchange.engine.orders import key_of
from pregao.exchange.publisher.encoding.orders import OrderItem

_Rank = tuple[int, int, int]
"""The key of a price, when an order came to it (negated), and its public number."""
_IMPLIED = 1 << 62
"""Implied orders come behind all others of their price."""


def rank(order: OrderItem | OrderDeleted) -> tuple[int, int]:
    """What orders of a side are sorted by from version 15 on: the greater, the nearer to the top.

    The better price is greater; at one price, the smaller number. Orders without a price come
    ahead of all.
    """
    return key_of(order.side, order.price), -order.secondary_order_id


class RankedSide:
    """The ranks of a side's orders, the best at the end: work near the top is cheap.

    At one price orders are ranked as they came: below version 15 the number of an order does not
    always tell its place (000 §12.1).
    """

    __slots__ = ("_came", "_rank_of", "_ranks")

    def __init__(self) -> None:
        self._came = 0
        self._ranks: list[_Rank] = []
        self._rank_of: dict[int, _Rank] = {}

    def __len__(self) -> int:
        return len(self._ranks)

    def numbers(self) -> list[int]:
        """The public numbers of the orders, from the best to the worst."""
        return [number for _, _, number in reversed(self._ranks)]

    def add(self, order: OrderItem) -> int:
        """Queue an order and tell its 1-based place."""
        self._came += 1
        number = order.secondary_order_id
        came = self._came + (_IMPLIED if order.implied else 0)
        place = self._rank_of[number] = (key_of(order.side, order.price), -came, number)
        ranks = self._ranks
        if not ranks or place > ranks[-1]:
            ranks.append(place)
            return 1
        index = bisect_left(ranks, place)
        ranks.insert(index, place)
        return len(ranks) - index

    def position(self, order: OrderItem | OrderDeleted) -> int:
        """The 1-based place of an order."""
        return len(self._ranks) - self._index(order)

    def remove(self, order: OrderDeleted) -> int:
        """Take an order out and tell the place it had."""
        index = self._index(order)
        position = len(self._ranks) - index
        del self._ranks[index], self._rank_of[order.secondary_order_id]
        return position

    def stands_at(self, order: OrderDeleted, position: int) -> bool:
        """Is this the order at a place?"""
        ranks = self._ranks
        return position <= len(ranks) and ranks[-position][2] == order.secondary_order_id

    def remove_top(self, count: int) -> list[int]:
        """Take the first orders out and tell their numbers."""
        start = len(self._ranks) - count
        numbers = [number for _, _, number in self._ranks[start:]]
        del self._ranks[start:]
        for number in numbers:
            del self._rank_of[number]
        return numbers

    def clear(self) -> None:
        """Take all orders out."""
        self._ranks.clear()
        self._rank_of.clear()

    def _index(self, order: OrderItem | OrderDeleted) -> int:
        place = self._rank_of.get(order.secondary_order_id)
        if place is None:
            raise UsageError(
                f"order {order.secondary_order_id} of instrument {order.security_id} is changed "
                "or deleted, but is not in the published book"
            )
        return bisect_left(self._ranks, place)
