"""The queue order of a book: which order trades first.

Better price first, orders without a price ahead of all; at one price real orders before implied
ones, then the smaller number. A book by position goes by the place that the feed gives each order.
Plain keys for one order and forms for whole columns are side by side here; the kernels of the
replay keep the same order by inserting each order at its place.
"""

from __future__ import annotations

import numpy as np

from pregao.book import _queue_kernels
from pregao.book.rows import NULL, Codes, Numbers
from pregao.book.updates import Side

PriceRank = tuple[bool, int]


def price_rank(side: Side, price: int | None) -> PriceRank:
    """A sort key that puts the better price first: none at all, then the most aggressive."""
    if price is None:
        return (False, 0)
    return (True, -price if side is Side.BID else price)


def ranked_price(side: Side, rank: PriceRank) -> int | None:
    """The price of a rank."""
    priced, value = rank
    return None if not priced else -value if side is Side.BID else value


def priority(order_id: int, implied: bool) -> tuple[bool, int]:
    """A sort key for the orders of one price, the first to trade first."""
    return (implied, order_id)


def queue_order(
    owner: Numbers,
    side: Codes,
    price: Numbers,
    implied: Codes,
    order_id: Numbers,
    position: Numbers | None = None,
) -> Numbers | None:
    """The indexes that put the orders of several books in queue order, bids first.

    ``owner`` tells whose each order is; with ``position`` the books are by position. None says
    that they are in order already, as most of them come.
    """
    ranks = np.empty(0, np.int64) if position is None else position
    if _queue_kernels.in_queue_order(owner, side, ranks, price, implied, order_id):
        return None
    if position is not None:
        return np.lexsort((position, side, owner))
    sign = np.where(side == Side.BID, -1, 1)
    # NULL, which marks orders without a price, is the lowest number on both sides.
    rank = np.where(price == NULL, NULL, price * sign)
    return np.lexsort((order_id, implied, rank, side, owner))
