"""Parts of the book kernels: the book by price depth, whose plain twin is PriceDepthBook.

Every row of a side is a level of its ladder, in position order. The number of rows of a side is
also stored as its number of orders, because a snapshot's totals count rows.
"""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, check-untyped-defs=False

from __future__ import annotations

import numpy as np

from pregao._njit import part
from pregao.book import _words as w
from pregao.book._ladder_kernels import bottom, close_level, open_level, rank_of, u


@part
def apply_by_depth(
    meta, slots, ranks, ladder, market_depth, kind, side, price, size, orders, position
):
    """Apply one level row: 0 or a fault code. The caller has checked that slots are left."""
    count = meta[u(w.LEVELS + side)]
    if kind == w.OVERLAY and market_depth != 1:
        return w.OVERLAY_BELOW_TOP
    whole = kind == w.CLEAR_SIDE or kind == w.OVERLAY
    adds = kind == w.ADD or kind == w.SNAPSHOT_ORDER
    if whole:
        position = count
    else:
        if position == w.NULL:
            if kind != w.SNAPSHOT_ORDER:
                return w.POSITION_MISSING
            position = count + 1
        if position < 1 or position > (min(count + 1, market_depth) if adds else count):
            return w.POSITION_BEYOND_END
    meta[u(w.DIRTY + side)] = 1
    if kind == w.CHANGE:
        at = bottom(ladder, side) + count - position
        if price != w.NULL and rank_of(side, price) != ranks[u(at)]:
            return w.WRONG_PRICE
        level = np.int64(ladder[u(at)])
        slots[u(level + w.SIZE)] = size
        slots[u(level + w.COUNT)] = orders
        return 0
    if kind == w.DELETE:
        close_level(meta, slots, ranks, ladder, side, count - position)
    elif not adds:
        for _ in range(position):
            close_level(meta, slots, ranks, ladder, side, meta[u(w.LEVELS + side)] - 1)
    if adds or kind == w.OVERLAY:
        at = count + 1 - position if adds else np.int64(0)
        level = open_level(meta, slots, ranks, ladder, side, at, rank_of(side, price))
        slots[u(level + w.SIZE)] = size
        slots[u(level + w.COUNT)] = orders
        if meta[u(w.LEVELS + side)] > market_depth:
            # The bottom row drops out without a message (002 §9.2.1).
            close_level(meta, slots, ranks, ladder, side, 0)
    meta[u(w.ORDERS + side)] = meta[u(w.LEVELS + side)]
    return 0
