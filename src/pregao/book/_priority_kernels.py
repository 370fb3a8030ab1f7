"""Parts of the book kernels: the book by price and priority."""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, check-untyped-defs=False

from __future__ import annotations

import numpy as np

from pregao._njit import part
from pregao.book import _words as w
from pregao.book._ladder_kernels import (
    bottom,
    close_level,
    enter,
    fill,
    find,
    give,
    ladder_index,
    open_level,
    rank_of,
    remove,
    take,
    touch,
    u,
)


@part
def priority_of(order_id, implied):
    """Return a sort key, lower for orders that trade first: real orders, then smaller IDs."""
    return order_id if implied else order_id + w.LOWEST


@part
def enqueue(meta, slots, ranks, ladder, side, first, depth):
    """Insert an order into the queue of its level, searching from the end: new ones are last."""
    rank = slots[u(first + w.RANK)]
    at = ladder_index(meta, ranks, ladder, side, rank)
    entry = bottom(ladder, side) + at - 1
    if at > 0 and ranks[u(entry)] == rank:
        level = np.int64(ladder[u(entry)])
    else:
        level = open_level(meta, slots, ranks, ladder, side, at, rank)
    slots[u(level + w.SIZE)] += slots[u(first + w.SIZE)]
    slots[u(level + w.COUNT)] += 1
    slots[u(first + w.TAG)] = (level << w.LEVEL_SHIFT) | side
    key = slots[u(first + w.KEY)]
    before = slots[u(level + w.PREV)]
    while slots[u(before + w.KEY)] > key:
        before = slots[u(before + w.PREV)]
    after = slots[u(before + w.NEXT)]
    slots[u(first + w.PREV)] = before
    slots[u(first + w.NEXT)] = after
    slots[u(before + w.NEXT)] = first
    slots[u(after + w.PREV)] = first
    meta[u(w.ORDERS + side)] += 1
    touch(meta, ranks, ladder, side, rank, depth)


@part
def dequeue(meta, slots, ranks, ladder, first, depth):
    """Remove an order from the queue of its level."""
    side = slots[u(first + w.TAG)] & 1
    level = slots[u(first + w.TAG)] >> w.LEVEL_SHIFT
    rank = slots[u(first + w.RANK)]
    touch(meta, ranks, ladder, side, rank, depth)
    before = slots[u(first + w.PREV)]
    after = slots[u(first + w.NEXT)]
    slots[u(before + w.NEXT)] = after
    slots[u(after + w.PREV)] = before
    slots[u(level + w.SIZE)] -= slots[u(first + w.SIZE)]
    slots[u(level + w.COUNT)] -= 1
    if before == after:  # only the level itself is left in the ring
        at = ladder_index(meta, ranks, ladder, side, rank) - 1
        close_level(meta, slots, ranks, ladder, side, at)
    meta[u(w.ORDERS + side)] -= 1


@part
def clear_side(meta, table, slots, ranks, ladder, side):
    """Remove all orders of a side."""
    base = bottom(ladder, side)
    while meta[u(w.LEVELS + side)] > 0:
        at = meta[u(w.LEVELS + side)] - 1
        level = np.int64(ladder[u(base + at)])
        first = slots[u(level + w.NEXT)]
        while first != level:
            after = slots[u(first + w.NEXT)]
            remove(table, find(table, slots[u(first + w.KEY)] & w.HIGHEST))
            give(meta, slots, first)
            first = after
        close_level(meta, slots, ranks, ladder, side, at)
    meta[u(w.ORDERS + side)] = 0
    meta[u(w.DIRTY + side)] = 1


@part
def apply_by_priority(
    meta, table, slots, ranks, ladder, depth, check,
    kind, side, flags, order_id, price, size, previous, position, firm, inserted,
):  # fmt: skip
    """Apply one order row: 0 or a fault code. The caller has checked that slots are left."""
    if kind == w.CLEAR_SIDE:
        clear_side(meta, table, slots, ranks, ladder, side)
        return 0
    if kind == w.REMOVE_TOP:
        if position < 1 or position > meta[u(w.ORDERS + side)]:
            return w.POSITION_BEYOND_END
        for _ in range(position):
            best = ladder[u(bottom(ladder, side) + meta[u(w.LEVELS + side)] - 1)]
            first = slots[u(best + w.NEXT)]
            dequeue(meta, slots, ranks, ladder, first, depth)
            remove(table, find(table, slots[u(first + w.KEY)] & w.HIGHEST))
            give(meta, slots, first)
        return 0
    if order_id < 0:  # NULL, or an ID that no message can contain
        return w.NO_ORDER_ID
    at = find(table, order_id)
    if kind == w.CHANGE or kind == w.DELETE:
        if at < 0:
            return w.UNKNOWN_ORDER
        first = table[u(2 * at + 1)] - 1
        if slots[u(first + w.TAG)] & 1 != side:
            return w.WRONG_SIDE
        if check and previous != w.NULL and previous != slots[u(first + w.SIZE)]:
            return w.WRONG_PREVIOUS_SIZE
        if kind == w.DELETE:
            if check and price != w.NULL and rank_of(side, price) != slots[u(first + w.RANK)]:
                return w.WRONG_PRICE
            dequeue(meta, slots, ranks, ladder, first, depth)
            remove(table, at)
            give(meta, slots, first)
            return 0
        key = priority_of(order_id, flags & w.IMPLIED)
        rank = rank_of(side, price)
        if rank == slots[u(first + w.RANK)] and key == slots[u(first + w.KEY)]:
            level = slots[u(first + w.TAG)] >> w.LEVEL_SHIFT
            slots[u(level + w.SIZE)] += size - slots[u(first + w.SIZE)]
            fill(slots, first, key, rank, size, inserted, firm)
            touch(meta, ranks, ladder, side, rank, depth)
            return 0
        dequeue(meta, slots, ranks, ladder, first, depth)
    else:
        if at >= 0:
            return w.DUPLICATE_ORDER
        first = take(meta, slots)
        enter(table, order_id, first)
        key = priority_of(order_id, flags & w.IMPLIED)
        rank = rank_of(side, price)
    fill(slots, first, key, rank, size, inserted, firm)
    enqueue(meta, slots, ranks, ladder, side, first, depth)
    return 0
