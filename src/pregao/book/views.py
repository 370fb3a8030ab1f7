"""Read access to any book: queue order, levels, best prices, depth, imbalance, crossed and locked.

The queue order is that in which orders would trade: better price first, orders without a price
before all others; at one price real orders before implied ones, then the smaller ID. A book by
position uses the positions sent by the feed. The kernels of the replay keep the same order by
inserting each order in sequence.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, islice
from typing import NamedTuple

import numpy as np

from pregao.arrays import Int64Array, Uint8Array
from pregao.book import _book_kernels
from pregao.book.update_rows import NULL
from pregao.units import Side

PriceRank = tuple[bool, int]


def price_rank(side: Side, price: int | None) -> PriceRank:
    """Return a sort key with the better price first: no price, then the most aggressive."""
    if price is None:
        return (False, 0)
    return (True, -price if side is Side.BID else price)


def ranked_price(side: Side, rank: PriceRank) -> int | None:
    """Return the price of a rank."""
    priced, value = rank
    return None if not priced else -value if side is Side.BID else value


def priority(order_id: int, implied: bool) -> tuple[bool, int]:
    """Return a sort key for the orders of one price, the first to trade first."""
    return (implied, order_id)


def queue_order(
    owner: Int64Array,
    side: Uint8Array,
    price: Int64Array,
    implied: Uint8Array,
    order_id: Int64Array,
    position: Int64Array | None = None,
) -> Int64Array | None:
    """Return the indices that sort the orders of several books in queue order, bids first.

    ``owner`` identifies the book of each order; with ``position`` the books are by position.
    Returns None if the orders are sorted already, as they usually are.
    """
    ranks = np.empty(0, np.int64) if position is None else position
    if _book_kernels.in_queue_order(owner, side, ranks, price, implied, order_id):
        return None
    if position is not None:
        return np.lexsort((position, side, owner))
    sign = np.where(side == Side.BID, -1, 1)
    # NULL, which marks orders without a price, is the lowest value on both sides.
    rank = np.where(price == NULL, NULL, price * sign)
    return np.lexsort((order_id, implied, rank, side, owner))


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


class AuctionLevels(NamedTuple):
    """Levels of a crossed book near the price at which its sides balance, the nearest first."""

    bids: list[BookLevel]
    asks: list[BookLevel]
    balance: int
    """Price at which the bids at or above it and the asks at or below it differ least.

    A place to look at, not the theoretical price, which the exchange computes and publishes.
    """


def auction_levels(
    bids: Sequence[BookLevel], asks: Sequence[BookLevel], count: int | None = None
) -> AuctionLevels | None:
    """Return the levels of a book near its balance, as in auctions; None if it is not crossed.

    The best levels of such a book are those farthest from the price at which it will trade.

    Args:
        bids: All bid levels, best first.
        asks: All ask levels, best first.
        count: Maximum number of levels per side; None for all.
    """
    by_price = [
        {level.price: level for level in side if level.price is not None} for side in (bids, asks)
    ]
    if not all(by_price) or max(by_price[0]) < min(by_price[1]):
        return None
    # Orders without a price trade at every price.
    demand = sum(level.size for level in bids)
    supply = sum(level.size for level in asks if level.price is None)
    balance, least = 0, None
    for price in sorted({*by_price[0], *by_price[1]}):
        ask, bid = by_price[1].get(price), by_price[0].get(price)
        supply += 0 if ask is None else ask.size
        if least is None or abs(demand - supply) < least:
            balance, least = price, abs(demand - supply)
        demand -= 0 if bid is None else bid.size
    near = [
        sorted(side.values(), key=lambda level: abs((level.price or 0) - balance))[:count]
        for side in by_price
    ]
    return AuctionLevels(near[0], near[1], balance)


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
