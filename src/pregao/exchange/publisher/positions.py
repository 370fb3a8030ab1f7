"""One side of a book by position, as versions of the feed below 15 number its orders."""

from __future__ import annotations

from bisect import bisect_left, insort

from pregao.errors import UsageError
from pregao.exchange.engine.events import OrderDeleted
from pregao.exchange.engine.orders import key_of
from pregao.exchange.publisher.encoding.orders import OrderItem

_Rank = tuple[int, int]


def rank(order: OrderItem | OrderDeleted) -> _Rank:
    """What orders of a side are sorted by: the greater, the nearer to the top.

    The better price is greater; at one price, the smaller number. Orders without a price come
    ahead of all.
    """
    return key_of(order.side, order.price), -order.secondary_order_id


class RankedSide:
    """The ranks of a side's orders, the best at the end: work near the top is cheap."""

    __slots__ = ("_ranks",)

    def __init__(self) -> None:
        self._ranks: list[_Rank] = []

    def __len__(self) -> int:
        return len(self._ranks)

    def add(self, order: OrderItem) -> int:
        """Queue an order and tell its 1-based place."""
        place = rank(order)
        ranks = self._ranks
        if not ranks or place > ranks[-1]:
            ranks.append(place)
            return 1
        insort(ranks, place)
        return len(ranks) - bisect_left(ranks, place)

    def position(self, order: OrderItem | OrderDeleted) -> int:
        """The 1-based place of an order."""
        return len(self._ranks) - self._index(order)

    def remove(self, order: OrderDeleted) -> int:
        """Take an order out and tell the place it had."""
        index = self._index(order)
        position = len(self._ranks) - index
        del self._ranks[index]
        return position

    def stands_at(self, order: OrderDeleted, position: int) -> bool:
        """Is this the order at a place?"""
        ranks = self._ranks
        return position <= len(ranks) and ranks[-position] == rank(order)

    def remove_top(self, count: int) -> list[int]:
        """Take the first orders out and tell their numbers."""
        start = len(self._ranks) - count
        numbers = [-negated for _, negated in self._ranks[start:]]
        del self._ranks[start:]
        return numbers

    def clear(self) -> None:
        """Take all orders out."""
        self._ranks.clear()

    def _index(self, order: OrderItem | OrderDeleted) -> int:
        place = rank(order)
        index = bisect_left(self._ranks, place)
        if index == len(self._ranks) or self._ranks[index] != place:
            raise UsageError(
                f"order {order.secondary_order_id} of instrument {order.security_id} is changed "
                "or deleted, but is not in the published book"
            )
        return index
