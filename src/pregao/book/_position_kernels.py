"""Parts of the book kernels: the book by position.

Each side has a queue of its orders' slots, with the first order at the end of the array. Levels
are runs of adjacent orders with one price; they are updated together with the queue.
"""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, check-untyped-defs=False

from __future__ import annotations

import numpy as np

from pregao._njit import part
from pregao.book import _words as w
from pregao.book._ladder_kernels import (
    bottom,
    close_level,
    fill,
    give,
    open_level,
    rank_of,
    take,
    u,
)


@part
def join_levels(meta, slots, ranks, ladder, queue, side, ahead, rank, size, depth):
    """Add an order, which has ``ahead`` others before it on its side, to the run of its price.

    An order of another price in the middle of a run splits it. The order is in the queue already.
    """
    base = bottom(ladder, side)
    at = meta[u(w.LEVELS + side)] - 1
    passed = np.int64(0)
    while at >= 0 and ahead - passed > slots[u(ladder[u(base + at)] + w.COUNT)]:
        passed += slots[u(ladder[u(base + at)] + w.COUNT)]
        at -= 1
    if meta[u(w.LEVELS + side)] - 1 - at <= depth:
        meta[u(w.DIRTY + side)] = 1
    if at >= 0 and ranks[u(base + at)] == rank:
        level = np.int64(ladder[u(base + at)])
    else:
        inside = ahead - passed
        if at < 0 or inside == 0:
            at += 1
        elif inside < slots[u(ladder[u(base + at)] + w.COUNT)]:
            split_level(meta, slots, ranks, ladder, queue, side, at, passed, inside)
            at += 1
        if at > 0 and ranks[u(base + at - 1)] == rank:
            level = np.int64(ladder[u(base + at - 1)])
        else:
            level = open_level(meta, slots, ranks, ladder, side, at, rank)
    slots[u(level + w.SIZE)] += size
    slots[u(level + w.COUNT)] += 1


@part
def split_level(meta, slots, ranks, ladder, queue, side, at, passed, inside):
    """Split a level: it keeps its first ``inside`` orders, a new one below it gets the rest."""
    base = bottom(ladder, side)
    worse = open_level(meta, slots, ranks, ladder, side, at, ranks[u(base + at)])
    better = np.int64(ladder[u(base + at + 1)])
    top = side * (len(queue) >> 1) + meta[u(w.ORDERS + side)] - 1
    size = np.int64(0)
    for place in range(passed, passed + inside):
        size += slots[u(queue[u(top - place)] + w.SIZE)]
    slots[u(worse + w.SIZE)] = slots[u(better + w.SIZE)] - size
    slots[u(worse + w.COUNT)] = slots[u(better + w.COUNT)] - inside
    slots[u(better + w.SIZE)] = size
    slots[u(better + w.COUNT)] = inside


@part
def leave_levels(meta, slots, ranks, ladder, side, ahead, size, depth):
    """Remove the order with ``ahead`` others before it from its run; merge runs of one price."""
    base = bottom(ladder, side)
    at = meta[u(w.LEVELS + side)] - 1
    while ahead >= slots[u(ladder[u(base + at)] + w.COUNT)]:
        ahead -= slots[u(ladder[u(base + at)] + w.COUNT)]
        at -= 1
    if meta[u(w.LEVELS + side)] - 1 - at <= depth:
        meta[u(w.DIRTY + side)] = 1
    level = np.int64(ladder[u(base + at)])
    slots[u(level + w.SIZE)] -= size
    slots[u(level + w.COUNT)] -= 1
    if slots[u(level + w.COUNT)] == 0:
        close_level(meta, slots, ranks, ladder, side, at)
        if 0 < at < meta[u(w.LEVELS + side)] and ranks[u(base + at)] == ranks[u(base + at - 1)]:
            better = np.int64(ladder[u(base + at)])
            worse = np.int64(ladder[u(base + at - 1)])
            slots[u(better + w.SIZE)] += slots[u(worse + w.SIZE)]
            slots[u(better + w.COUNT)] += slots[u(worse + w.COUNT)]
            close_level(meta, slots, ranks, ladder, side, at - 1)


@part
def clear_queue(meta, slots, ranks, ladder, queue, side):
    """Remove all orders of a side."""
    base = side * (len(queue) >> 1)
    for j in range(meta[u(w.ORDERS + side)]):
        give(meta, slots, np.int64(queue[u(base + j)]))
    while meta[u(w.LEVELS + side)] > 0:
        close_level(meta, slots, ranks, ladder, side, meta[u(w.LEVELS + side)] - 1)
    meta[u(w.ORDERS + side)] = 0
    meta[u(w.DIRTY + side)] = 1


@part
def apply_by_position(
    meta, queue, slots, ranks, ladder, depth, check,
    kind, side, flags, order_id, price, size, previous, position, firm, inserted,
):  # fmt: skip
    """Apply one order row: 0 or a fault code. The caller has checked that slots are left."""
    base = side * (len(queue) >> 1)
    count = meta[u(w.ORDERS + side)]
    if kind == w.CLEAR_SIDE:
        clear_queue(meta, slots, ranks, ladder, queue, side)
        return 0
    if position == w.NULL:
        if kind != w.SNAPSHOT_ORDER:
            return w.POSITION_MISSING
        position = count + 1
    last = count + (kind == w.ADD or kind == w.SNAPSHOT_ORDER)
    if position < 1 or position > last:
        return w.POSITION_BEYOND_END
    if kind == w.REMOVE_TOP:
        for j in range(count - 1, count - 1 - position, -1):
            first = np.int64(queue[u(base + j)])
            leave_levels(meta, slots, ranks, ladder, side, 0, slots[u(first + w.SIZE)], depth)
            give(meta, slots, first)
        meta[u(w.ORDERS + side)] = count - position
        return 0
    at = last - position
    if kind == w.CHANGE or kind == w.DELETE:
        first = np.int64(queue[u(base + at)])
        known = slots[u(first + w.KEY)]
        if order_id != w.NULL and known != w.NULL and order_id != known:
            return w.OTHER_ORDER
        if check and previous != w.NULL and previous != slots[u(first + w.SIZE)]:
            return w.WRONG_PREVIOUS_SIZE
        gone = kind == w.DELETE
        if gone and check and price != w.NULL and rank_of(side, price) != slots[u(first + w.RANK)]:
            return w.WRONG_PRICE
        leave_levels(
            meta, slots, ranks, ladder, side, position - 1, slots[u(first + w.SIZE)], depth
        )
        if gone:
            for j in range(base + at, base + count - 1):
                queue[u(j)] = queue[u(j + 1)]
            meta[u(w.ORDERS + side)] = count - 1
            give(meta, slots, first)
            return 0
        if order_id == w.NULL:
            order_id = known
    else:
        first = take(meta, slots)
        for j in range(base + count, base + at, -1):
            queue[u(j)] = queue[u(j - 1)]
        queue[u(base + at)] = first
        meta[u(w.ORDERS + side)] = count + 1
    rank = rank_of(side, price)
    fill(slots, first, order_id, rank, size, inserted, firm)
    slots[u(first + w.TAG)] = ((flags & w.IMPLIED) << w.IMPLIED_BIT) | side
    join_levels(meta, slots, ranks, ladder, queue, side, position - 1, rank, size, depth)
    return 0
