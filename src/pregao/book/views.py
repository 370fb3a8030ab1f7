"""Read access to any book: levels, best prices, depth, imbalance, crossed and locked."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from itertools import groupby, islice
from typing import NamedTuple

from pregao.book.queue_order import price_rank
from pregao.book.updates import Side


class BookLevel(NamedTuple):
    """Totals of the orders of one price; price None sorts before every price."""

    price: int | None
    size: int
    orders: int


class BookOrder(NamedTuple):
    """An order in a book."""

    order_id: int | None
    side: Side
    price: int | None
    size: int
    firm: int | None = None
    insert_time_ns: int | None = None
    implied: bool = False


def levels_of(orders: Iterable[BookOrder]) -> Iterator[BookLevel]:
    """Yield the levels of orders that are in queue order."""
    for price, same in groupby(orders, key=lambda order: order.price):
        sizes = [order.size for order in same]
        yield BookLevel(price, sum(sizes), len(sizes))


class QueuePosition(NamedTuple):
    """Position of an order on its side and in its level, from 1, and the size ahead of it."""

    in_side: int
    in_level: int
    size_ahead_in_side: int
    size_ahead_in_level: int


class LevelView(ABC):
    """Price levels of a book, and values derived from them."""

    __slots__ = ()

    @abstractmethod
    def walk_levels(self, side: Side) -> Iterator[BookLevel]:
        """Return the levels of a side, best first."""

    def levels(self, side: Side, depth: int | None = None) -> list[BookLevel]:
        """Return the best levels of a side, best first; all of them if ``depth`` is None."""
        return list(islice(self.walk_levels(side), depth))

    def best(self, side: Side) -> BookLevel | None:
        """Return the best level of a side; orders without a price precede every price."""
        return next(self.walk_levels(side), None)

    @property
    def best_bid(self) -> BookLevel | None:
        """The best level of the bid side."""
        return self.best(Side.BID)

    @property
    def best_ask(self) -> BookLevel | None:
        """The best level of the ask side."""
        return self.best(Side.ASK)

    def best_price(self, side: Side) -> int | None:
        """Return the best price of a side, ignoring orders without a price."""
        return next((lv.price for lv in self.walk_levels(side) if lv.price is not None), None)

    def depth(self, side: Side, levels: int | None = None) -> list[tuple[int | None, int, int]]:
        """Return the cumulative totals of a side from the best level: price, size, orders."""
        size = orders = 0
        totals = []
        for level in self.levels(side, levels):
            size += level.size
            orders += level.orders
            totals.append((level.price, size, orders))
        return totals

    def size_to(self, side: Side, price: int) -> int:
        """Return the total size of a side at that price or better."""
        limit = price_rank(side, price)
        total = 0
        for level in self.walk_levels(side):
            if price_rank(side, level.price) > limit:
                break
            total += level.size
        return total

    def imbalance(self, levels: int | None = None) -> float | None:
        """Return the size imbalance of the best levels, -1 (only asks) to 1 (only bids).

        None if the book is empty.
        """
        bids = sum(level.size for level in self.levels(Side.BID, levels))
        asks = sum(level.size for level in self.levels(Side.ASK, levels))
        if bids + asks == 0:
            return None
        return (bids - asks) / (bids + asks)

    @property
    def spread(self) -> int | None:
        """Best ask minus best bid; negative in a crossed book."""
        bid, ask = self.best_price(Side.BID), self.best_price(Side.ASK)
        return None if bid is None or ask is None else ask - bid

    @property
    def crossed(self) -> bool:
        """Whether the best bid is above the best ask, as in auctions."""
        spread = self.spread
        return spread is not None and spread < 0

    @property
    def locked(self) -> bool:
        """Whether the best bid and the best ask are at the same price."""
        return self.spread == 0
