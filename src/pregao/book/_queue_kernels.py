"""The kernel of queue_order: are the orders of books as they would trade?"""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, check-untyped-defs=False
# mypy: disallow-untyped-decorators=False

from __future__ import annotations

from pregao._njit import njit
from pregao.book.rows import NULL


@njit
def in_queue_order(owners, sides, positions, prices, flags, orders):
    """Are the orders of each owner as a book keeps them: by position, or by priority?

    Without positions: bids first, each side from the best price on, those without a price before
    all others, implied ones behind the others of their price, and then by number.
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
