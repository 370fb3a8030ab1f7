"""Queue order of a book: the order in which its orders would trade.

Better price first, orders without a price before all others; at one price real orders before
implied ones, then the smaller ID. A book by position uses the positions sent by the feed. This
module has the sort keys for one order and the form for columns; the kernels of the replay keep the
same order by inserting each order in sequence.
"""

from __future__ import annotations

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
