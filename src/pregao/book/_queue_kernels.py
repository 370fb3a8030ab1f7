"""Kernel of `queue_order`: checks whether orders are in queue order already."""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, check-untyped-defs=False
# mypy: disallow-untyped-decorators=False

from __future__ import annotations

from pregao._njit import njit
from pregao.book.rows import NULL


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
