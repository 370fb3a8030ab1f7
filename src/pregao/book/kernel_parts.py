"""Parts of the book kernels that kernels of other packages inline to apply updates."""

from __future__ import annotations

from pregao.book._flat_kernels import apply_at
from pregao.book._kernels import builds
from pregao.book._ladder_kernels import enter, find
from pregao.book._state_layout import BUILDING, SLOTS_LEFT, SLOTS_PER_ROW, STATE_WORDS

__all__ = [
    "BUILDING",
    "SLOTS_LEFT",
    "SLOTS_PER_ROW",
    "STATE_WORDS",
    "apply_at",
    "builds",
    "enter",
    "find",
]
