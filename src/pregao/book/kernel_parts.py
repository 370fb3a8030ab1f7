"""Parts of the book kernels that kernels of other packages inline to apply updates."""

from __future__ import annotations

from pregao.book._book_kernels import first_orders, order_at, place_at_price
from pregao.book._flat_kernels import apply_at
from pregao.book._kernels import apply_row, begin_book, builds, wipe
from pregao.book._ladder_kernels import enter, find
from pregao.book._state_layout import (
    BUILDING,
    HIGHEST,
    KEY,
    ORDERS,
    SIZE,
    SLOT_WORDS,
    SLOTS_LEFT,
    SLOTS_PER_ROW,
    STALE,
    STATE_WORDS,
)

__all__ = [
    "BUILDING",
    "HIGHEST",
    "KEY",
    "ORDERS",
    "SIZE",
    "SLOTS_LEFT",
    "SLOTS_PER_ROW",
    "SLOT_WORDS",
    "STALE",
    "STATE_WORDS",
    "apply_at",
    "apply_row",
    "begin_book",
    "builds",
    "enter",
    "find",
    "first_orders",
    "order_at",
    "place_at_price",
    "wipe",
]
