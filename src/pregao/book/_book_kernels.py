"""Parts of the book kernels: the books by price depth, by position, and by price and priority.

By price depth, every row of a side is a level of its ladder, in position order. The number of rows
of a side is also stored as its number of orders, because a snapshot's totals count rows. The plain
twin is `PriceDepthBook`.

By position, each side has a queue of its orders' slots, with the first order at the end of the
array. Levels are runs of adjacent orders with one price; they are updated together with the queue.

`in_queue_order`, the kernel of `queue_order`, checks whether orders are in queue order already.
"""

from __future__ import annotations

import numpy as np

from pregao._njit import njit, part
from pregao.book import _state_layout as w
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
from pregao.book.update_rows import NULL

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, check-untyped-defs=False
# mypy: disallow-untyped-decorators=False


# --- Book by price depth ---


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


# --- Book by position ---


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
    for index in range(passed, passed + inside):
        size += slots[u(queue[u(top - index)] + w.SIZE)]
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
    rank = rank_of(side, price)
    if kind == w.CHANGE or kind == w.DELETE:
        first = np.int64(queue[u(base + at)])
        known = slots[u(first + w.KEY)]
        if order_id != w.NULL and known != w.NULL and order_id != known:
            return w.OTHER_ORDER
        if check and previous != w.NULL and previous != slots[u(first + w.SIZE)]:
            return w.WRONG_PREVIOUS_SIZE
        gone = kind == w.DELETE
        if gone and check and price != w.NULL and rank != slots[u(first + w.RANK)]:
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
            # Named by its position alone: it keeps what the update does not state (002 §9.1.1).
            order_id = known
            if price == w.NULL:
                rank = slots[u(first + w.RANK)]
    else:
        first = take(meta, slots)
        for j in range(base + count, base + at, -1):
            queue[u(j)] = queue[u(j - 1)]
        queue[u(base + at)] = first
        meta[u(w.ORDERS + side)] = count + 1
    fill(slots, first, order_id, rank, size, inserted, firm)
    slots[u(first + w.TAG)] = ((flags & w.IMPLIED) << w.IMPLIED_BIT) | side
    join_levels(meta, slots, ranks, ladder, queue, side, position - 1, rank, size, depth)
    return 0


# --- Book by price and priority ---


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


# --- Orders of a book ---


@part
def order_at(meta, queue, side, position):
    """Return the slot of the order at a position of a book by position; -1 without one."""
    count = meta[u(w.ORDERS + side)]
    if position < 1 or position > count:
        return np.int64(-1)
    return np.int64(queue[u(side * (len(queue) >> 1) + count - position)])


@part
def first_orders(meta, queue, slots, ladder, by_position, side, count, found):
    """Write the slots of the first orders of a side, which has at least ``count``."""
    at = bottom(ladder, side) + meta[u(w.LEVELS + side)]
    level = first = np.int64(-1)
    for index in range(count):
        if by_position:
            found[u(index)] = order_at(meta, queue, side, index + 1)
            continue
        if first == level:
            at -= 1
            level = np.int64(ladder[u(at)])
            first = slots[u(level + w.NEXT)]
        found[u(index)] = first
        first = slots[u(first + w.NEXT)]


@part
def place_at_price(meta, table, queue, slots, ladder, by_position, side, order_id, near):
    """Return the position of an order among those of its price, from 1; 0 without the order.

    In a book by position it is searched for from the position ``near`` outwards.
    """
    if not by_position:
        bucket = find(table, order_id)
        if bucket < 0:
            return np.int64(0)
        first = table[u(2 * bucket + 1)] - 1
        level = slots[u(first + w.TAG)] >> w.LEVEL_SHIFT
        place = slots[u(level + w.COUNT)]
        after = slots[u(first + w.NEXT)]
        while after != level:  # new orders are last, or before implied ones
            place -= 1
            after = slots[u(after + w.NEXT)]
        return place
    count = meta[u(w.ORDERS + side)]
    position = np.int64(0)
    for distance in range(count + near):
        for candidate in (near - distance, near + distance):
            first = order_at(meta, queue, side, candidate)
            if first >= 0 and slots[u(first + w.KEY)] == order_id:
                position = candidate
                break
        if position > 0:
            break
    if position == 0:
        return np.int64(0)
    at = bottom(ladder, side) + meta[u(w.LEVELS + side)] - 1
    while position > slots[u(np.int64(ladder[u(at)]) + w.COUNT)]:
        position -= slots[u(np.int64(ladder[u(at)]) + w.COUNT)]
        at -= 1
    return position


@njit
def in_queue_order(owners, sides, positions, prices, flags, orders):
    """Whether the orders of each owner are in queue order, by position or by priority.

    Without positions: bids first, each side from its best price, orders without a price before
    all others, implied orders after the others of their price, and then by order ID.
    """
    for i in range(1, len(owners)):
        if owners[i] != owners[i - 1]:
            if owners[i] < owners[i - 1]:
                return False
            continue
        if sides[i] != sides[i - 1]:
            if sides[i] < sides[i - 1]:
                return False
            continue
        if len(positions):
            if positions[i] <= positions[i - 1]:
                return False
            continue
        price, before = prices[i], prices[i - 1]
        if price != before:
            if price == NULL:
                return False
            if before != NULL and (price > before) == (sides[i] == 0):
                return False
            continue
        if flags[i] != flags[i - 1]:
            if flags[i] < flags[i - 1]:
                return False
            continue
        if orders[i] <= orders[i - 1]:
            return False
    return True
