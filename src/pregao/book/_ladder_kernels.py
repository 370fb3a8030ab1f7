"""Parts of the book kernels: the map of order numbers, slots, and the ladders of levels.

A ladder is two arrays with the best level at the end: ranks, to search, and slots. Each side's
half begins with a few entries of the lowest rank, so that a search may look below the first.
"""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, check-untyped-defs=False

from __future__ import annotations

import numpy as np

from pregao._njit import part
from pregao.book import _words as w

u = np.uint64
"""Wraps every computed index: numba gives signed ones a detour for those below 0."""


@part
def rank_of(side, price):
    """A price as a number that is higher when it is better, on both sides."""
    if price == w.NULL:
        return w.NO_PRICE_RANK
    return price if side == 0 else -price


@part
def price_of(side, rank):
    """The price that a rank stands for."""
    if rank == w.NO_PRICE_RANK:
        return w.NULL
    return rank if side == 0 else -rank


@part
def home(table, order_id):
    """Where an order's number belongs in the map."""
    return np.int64((np.uint64(order_id) * w.GOLDEN) >> np.uint64(32)) & ((len(table) >> 1) - 1)


@part
def find(table, order_id):
    """Where an order's number stands in the map, or -1."""
    mask = (len(table) >> 1) - 1
    at = home(table, order_id)
    while table[u(2 * at + 1)] != 0:
        if table[u(2 * at)] == order_id:
            return at
        at = (at + 1) & mask
    return -1


@part
def enter(table, order_id, slot):
    """Put an order's number, which is not there yet, into the map."""
    mask = (len(table) >> 1) - 1
    at = home(table, order_id)
    while table[u(2 * at + 1)] != 0:
        at = (at + 1) & mask
    table[u(2 * at)] = order_id
    table[u(2 * at + 1)] = slot + 1


@part
def remove(table, at):
    """Free a place of the map and pull later entries back, so that no tombstone is needed."""
    mask = (len(table) >> 1) - 1
    hole = at
    while True:
        at = (at + 1) & mask
        if table[u(2 * at + 1)] == 0:
            break
        if ((at - home(table, table[u(2 * at)])) & mask) >= ((at - hole) & mask):
            table[u(2 * hole)] = table[u(2 * at)]
            table[u(2 * hole + 1)] = table[u(2 * at + 1)]
            hole = at
    table[u(2 * hole + 1)] = 0


@part
def take(meta, slots):
    """The first word of a slot that is free."""
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
    """Describe an order."""
    slots[u(first + w.KEY)] = key
    slots[u(first + w.RANK)] = rank
    slots[u(first + w.SIZE)] = size
    slots[u(first + w.INSERTED)] = inserted
    slots[u(first + w.FIRM)] = firm


@part
def bottom(ladder, side):
    """Where the ladder of a side begins."""
    return side * (len(ladder) >> 1) + w.SCAN


@part
def open_level(meta, slots, ranks, ladder, side, at, rank):
    """Make a level at a place of the ladder; those better than it move up."""
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
    """Remove the level at a place of the ladder; those better than it move down."""
    base = bottom(ladder, side)
    give(meta, slots, ladder[u(base + at)])
    meta[u(w.LEVELS + side)] -= 1
    for j in range(base + at, base + meta[u(w.LEVELS + side)]):
        ranks[u(j)] = ranks[u(j + 1)]
        ladder[u(j)] = ladder[u(j + 1)]


@part
def ladder_place(meta, ranks, ladder, side, rank):
    """How many levels are no better than this rank."""
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
    """Note whether a change at this rank can show in the ticks."""
    count = meta[u(w.LEVELS + side)]
    if count <= depth or (depth > 0 and rank >= ranks[u(bottom(ladder, side) + count - depth)]):
        meta[u(w.DIRTY + side)] = 1
