"""What can be read from any book: levels, best prices, depth, imbalance, crossed and locked."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from itertools import groupby, islice
from typing import NamedTuple

from pregao.book.queue_order import price_rank
from pregao.book.updates import Side


class Level(NamedTuple):
    """All orders of one price, added up; price None stands ahead of every price."""

    price: int | None
    size: int
    orders: int


class Order(NamedTuple):
    """An order as the book holds it."""

    order_id: int | None
    side: Side
    price: int | None
    size: int
    firm: int | None = None
    insert_time_ns: int | None = None
    implied: bool = False


def levels_of(orders: Iterable[Order]) -> Iterator[Level]:
    """The levels of orders that come in the order in which they would trade."""
    for price, same in groupby(orders, key=lambda order: order.price):
        sizes = [order.size for order in same]
        yield Level(price, sum(sizes), len(sizes))


class QueuePosition(NamedTuple):
    """Where an order stands: first means place 1."""

    in_side: int
    in_level: int
    size_ahead_in_side: int
    size_ahead_in_level: int


class LevelView(ABC):
    """Questions that the price levels of a book answer."""

    __slots__ = ()

    @abstractmethod
    def walk_levels(self, side: Side) -> Iterator[Level]:
        """The levels of a side, best first."""

    def levels(self, side: Side, depth: int | None = None) -> list[Level]:
        """The best levels of a side, best first; all of them unless a depth is given."""
        return list(islice(self.walk_levels(side), depth))

    def best(self, side: Side) -> Level | None:
        """The best level of a side; orders without a price come before every price."""
        return next(self.walk_levels(side), None)

    @property
    def best_bid(self) -> Level | None:
        """The best level to sell to."""
        return self.best(Side.BID)

    @property
    def best_ask(self) -> Level | None:
        """The best level to buy from."""
        return self.best(Side.ASK)

    def best_price(self, side: Side) -> int | None:
        """The best price that an order of the side names."""
        return next((lv.price for lv in self.walk_levels(side) if lv.price is not None), None)

    def depth(self, side: Side, levels: int | None = None) -> list[tuple[int | None, int, int]]:
        """The running totals of a side from the best level on: price, size, orders."""
        size = orders = 0
        totals = []
        for level in self.levels(side, levels):
            size += level.size
            orders += level.orders
            totals.append((level.price, size, orders))
        return totals

    def size_to(self, side: Side, price: int) -> int:
        """How much of a side can be had at that price or better."""
        limit = price_rank(side, price)
        total = 0
        for level in self.walk_levels(side):
            if price_rank(side, level.price) > limit:
                break
            total += level.size
        return total

    def imbalance(self, levels: int | None = None) -> float | None:
        """From -1 (only asks) to 1 (only bids) by size over the best levels; None if empty."""
        bids = sum(level.size for level in self.levels(Side.BID, levels))
        asks = sum(level.size for level in self.levels(Side.ASK, levels))
        if bids + asks == 0:
            return None
        return (bids - asks) / (bids + asks)

    @property
    def spread(self) -> int | None:
        """Best asked price less best bid price; negative in a crossed book."""
        bid, ask = self.best_price(Side.BID), self.best_price(Side.ASK)
        return None if bid is None or ask is None else ask - bid

    @property
    def crossed(self) -> bool:
        """Does a bid name a higher price than an ask, as in auctions?"""
        spread = self.spread
        return spread is not None and spread < 0

    @property
    def locked(self) -> bool:
        """Are the best bid and the best ask at the same price?"""
        return self.spread == 0
