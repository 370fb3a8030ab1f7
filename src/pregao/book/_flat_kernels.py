"""Kernels of a flat book: apply one update, and write its levels and orders to arrays.

They take the addresses of the book's arrays, because passing the arrays themselves would take
longer than applying a single update.
"""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, check-untyped-defs=False
# mypy: disallow-untyped-decorators=False

from __future__ import annotations

from pregao._njit import halves_at, njit, part, words_at
from pregao.book import _state_layout as w
from pregao.book._book_kernels import apply_by_priority
from pregao.book._kernels import dump, wipe
from pregao.book._ladder_kernels import bottom, find, price_of, u

_TABLE = 4
"""Words of the order map per order or level of capacity."""
LEVEL_WORDS = 3
"""Price, size, and number of orders."""
ORDER_WORDS = 7
"""Order ID, side, price, size, firm, insert time, and whether it is implied."""


@part
def apply_at(
    meta_at, table_at, slots_at, ranks_at, ladder_at, capacity, check,
    kind, side, flags, order_id, price, size, previous, position, firm, inserted,
):  # fmt: skip
    """Apply one order row to the book at these addresses: 0 or a fault code.

    The caller has checked that slots are left.
    """
    return apply_by_priority(
        words_at(meta_at, w.STATE_WORDS), words_at(table_at, _TABLE * capacity),
        words_at(slots_at, w.SLOT_WORDS * capacity), words_at(ranks_at, 2 * (w.SCAN + capacity)),
        halves_at(ladder_at, 2 * (w.SCAN + capacity)), 0, check,
        kind, side, flags, order_id, price, size, previous, position, firm, inserted,
    )  # fmt: skip


@njit
def apply_one(
    meta_at, table_at, slots_at, ranks_at, ladder_at, capacity, check,
    kind, side, flags, order_id, price, size, previous, position, firm, inserted,
):  # fmt: skip
    """Apply one order row: 0, a fault code, or NO_ROOM."""
    if words_at(meta_at, w.STATE_WORDS)[w.SLOTS_LEFT] < w.SLOTS_PER_ROW:
        return w.FULL
    return apply_at(
        meta_at, table_at, slots_at, ranks_at, ladder_at, capacity, check,
        kind, side, flags, order_id, price, size, previous, position, firm, inserted,
    )  # fmt: skip


@njit
def empty(meta_at, table_at, slots_at, ranks_at, ladder_at, capacity):
    """Remove all orders and levels from a book."""
    wipe(
        words_at(meta_at, w.STATE_WORDS), words_at(table_at, _TABLE * capacity),
        words_at(slots_at, w.SLOT_WORDS * capacity), words_at(ranks_at, 2 * (w.SCAN + capacity)),
        halves_at(ladder_at, 2 * (w.SCAN + capacity)), False,
    )  # fmt: skip


@njit
def write_levels(meta_at, _table_at, slots_at, ranks_at, ladder_at, capacity, side, out):
    """Write the best levels of a side to ``out``, best first, as many as it has rows."""
    meta, slots = words_at(meta_at, w.STATE_WORDS), words_at(slots_at, w.SLOT_WORDS * capacity)
    ranks, ladder = (
        words_at(ranks_at, 2 * (w.SCAN + capacity)),
        halves_at(ladder_at, 2 * (w.SCAN + capacity)),
    )
    at = bottom(ladder, side) + meta[u(w.LEVELS + side)]
    for k in range(len(out)):
        at -= 1
        level = ladder[u(at)]
        out[k, 0] = price_of(side, ranks[u(at)])
        out[k, 1] = slots[u(level + w.SIZE)]
        out[k, 2] = slots[u(level + w.COUNT)]


@njit
def write_orders(
    meta_at, _table_at, slots_at, _ranks_at, ladder_at, capacity, end, state, sides, ids, prices,
    sizes, firms, inserteds, implieds,
):  # fmt: skip
    """Write all orders to the columns, bids first, each side in queue order."""
    meta, ladder = words_at(meta_at, w.STATE_WORDS), halves_at(ladder_at, 2 * (w.SCAN + capacity))
    meta[w.DUMPS] = 0
    meta[w.DUMPED_ORDERS] = 0
    dump(
        meta, ladder, words_at(slots_at, w.SLOT_WORDS * capacity), ladder, False, False,
        end, state, sides, ids, prices, sizes, firms, inserteds, implieds,
    )  # fmt: skip


@njit
def write_order(_meta_at, table_at, slots_at, _ranks_at, _ladder_at, capacity, order_id, out):
    """Write one order to ``out``; False if it is not in the book."""
    table, slots = (
        words_at(table_at, _TABLE * capacity),
        words_at(slots_at, w.SLOT_WORDS * capacity),
    )
    at = find(table, order_id)
    if at < 0:
        return False
    first = table[u(2 * at + 1)] - 1
    side = slots[u(first + w.TAG)] & 1
    out[0] = order_id
    out[1] = side
    out[2] = price_of(side, slots[u(first + w.RANK)])
    out[3] = slots[u(first + w.SIZE)]
    out[4] = slots[u(first + w.FIRM)]
    out[5] = slots[u(first + w.INSERTED)]
    out[6] = slots[u(first + w.KEY)] >= 0
    return True
