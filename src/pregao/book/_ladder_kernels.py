"""Parts of the book kernels: the order map, slots, and the ladders of levels.

A ladder is two arrays with the best level at the end: ranks, which are searched, and slots. Each
side's half begins with a few entries of the lowest rank, so that a search may read below the
first level.
"""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, check-untyped-defs=False

from __future__ import annotations

import numpy as np

from pregao._njit import part
from pregao.book import _state_layout as w

u = np.uint64
"""Wraps every computed index: for signed ones numba adds a check for negative values."""


@part
def rank_of(side, price):
    """Return a price as a rank, which is higher when the price is better, on both sides."""
    if price == w.NULL:
        return w.NO_PRICE_RANK
    return price if side == 0 else -price


@part
def price_of(side, rank):
    """Return the price of a rank."""
    if rank == w.NO_PRICE_RANK:
        return w.NULL
    return rank if side == 0 else -rank


@part
def home(table, order_id):
    """Return the home bucket of an order ID in the order map."""
    return np.int64((np.uint64(order_id) * w.GOLDEN) >> np.uint64(32)) & ((len(table) >> 1) - 1)


@part
def find(table, order_id):
    """Return the bucket that contains an order ID, or -1."""
    mask = (len(table) >> 1) - 1
    at = home(table, order_id)
    while table[u(2 * at + 1)] != 0:
        if table[u(2 * at)] == order_id:
            return at
        at = (at + 1) & mask
    return -1


@part
def enter(table, order_id, slot):
    """Insert an order ID, which must not be present, into the order map."""
    mask = (len(table) >> 1) - 1
    at = home(table, order_id)
    while table[u(2 * at + 1)] != 0:
        at = (at + 1) & mask
    table[u(2 * at)] = order_id
    table[u(2 * at + 1)] = slot + 1


@part
def remove(table, at):
    """Free a bucket and move later entries back, which makes tombstones unnecessary."""
    mask = (len(table) >> 1) - 1
    free = at
    while True:
        at = (at + 1) & mask
        if table[u(2 * at + 1)] == 0:
            break
        if ((at - home(table, table[u(2 * at)])) & mask) >= ((at - free) & mask):
            table[u(2 * free)] = table[u(2 * at)]
            table[u(2 * free + 1)] = table[u(2 * at + 1)]
            free = at
    table[u(2 * free + 1)] = 0


@part
def take(meta, slots):
    """Allocate a slot; return the index of its first word."""
    first = meta[w.FREE_SLOT]
    meta[w.SLOTS_LEFT] -= 1
    if first >= 0:
        meta[w.FREE_SLOT] = slots[u(first + w.NEXT)]
    else:
        first = meta[w.USED_SLOTS]
        meta[w.USED_SLOTS] = first + w.SLOT_WORDS
    return first


@part
def give(meta, slots, first):
    """Free a slot."""
    slots[u(first + w.NEXT)] = meta[w.FREE_SLOT]
    meta[w.FREE_SLOT] = first
    meta[w.SLOTS_LEFT] += 1


@part
def fill(slots, first, key, rank, size, inserted, firm):
    """Store the fields of an order in its slot."""
    slots[u(first + w.KEY)] = key
    slots[u(first + w.RANK)] = rank
    slots[u(first + w.SIZE)] = size
    slots[u(first + w.INSERTED)] = inserted
    slots[u(first + w.FIRM)] = firm


@part
def bottom(ladder, side):
    """Return the index at which the ladder of a side begins."""
    return side * (len(ladder) >> 1) + w.SCAN


@part
def open_level(meta, slots, ranks, ladder, side, at, rank):
    """Insert a level at an index of the ladder; better ones move up. Return its slot."""
    level = take(meta, slots)
    base = bottom(ladder, side)
    j = base + meta[u(w.LEVELS + side)]
    meta[u(w.LEVELS + side)] += 1
    while j > base + at:
        ranks[u(j)] = ranks[u(j - 1)]
        ladder[u(j)] = ladder[u(j - 1)]
        j -= 1
    ranks[u(j)] = rank
    ladder[u(j)] = level
    slots[u(level + w.KEY)] = w.LOWEST
    slots[u(level + w.RANK)] = rank
    slots[u(level + w.SIZE)] = 0
    slots[u(level + w.COUNT)] = 0
    slots[u(level + w.PREV)] = level
    slots[u(level + w.NEXT)] = level
    return level


@part
def close_level(meta, slots, ranks, ladder, side, at):
    """Remove the level at an index of the ladder; better ones move down."""
    base = bottom(ladder, side)
    give(meta, slots, ladder[u(base + at)])
    meta[u(w.LEVELS + side)] -= 1
    for j in range(base + at, base + meta[u(w.LEVELS + side)]):
        ranks[u(j)] = ranks[u(j + 1)]
        ladder[u(j)] = ladder[u(j + 1)]


@part
def ladder_index(meta, ranks, ladder, side, rank):
    """Return the number of levels that are no better than this rank."""
    count = meta[u(w.LEVELS + side)]
    top = bottom(ladder, side) + count - 1
    better = 0
    for k in range(w.SCAN):
        better += ranks[u(top - k)] > rank
    if better < w.SCAN:
        return count - better
    low = top - count + 1
    high = top - w.SCAN + 1
    while low < high:
        middle = (low + high) >> 1
        if ranks[u(middle)] <= rank:
            low = middle + 1
        else:
            high = middle
    return low - bottom(ladder, side)


@part
def touch(meta, ranks, ladder, side, rank, depth):
    """Mark the side as dirty if a change at this rank can show in the ticks."""
    count = meta[u(w.LEVELS + side)]
    if count <= depth or (depth > 0 and rank >= ranks[u(bottom(ladder, side) + count - depth)]):
        meta[u(w.DIRTY + side)] = 1
