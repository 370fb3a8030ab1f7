"""Numbers as text without numba: a digit of all numbers at a time."""

from __future__ import annotations

from typing import Any

import numpy as np

_ZERO, _DOT, _MINUS = b"0.-"
_TEN = np.uint64(10)
_POWERS = _TEN ** np.arange(1, 20, dtype=np.uint64)


def _unsigned(values: Any) -> Any:
    """How far numbers are from zero."""
    wide = values.astype(np.int64)
    return np.where(wide < 0, -wide, wide).view(np.uint64)


def number_sizes(values: Any, scale: int, sizes: Any) -> None:
    """What the kernel of this name does."""
    digits = 1 + np.searchsorted(_POWERS, _unsigned(values), side="right")
    if scale > 0:
        digits = np.maximum(digits, scale + 1) + 1
    sizes[:] = digits + (values < 0)


def write_numbers(values: Any, scale: int, offsets: Any, out: Any) -> None:
    """What the kernel of this name does."""
    left, negative = _unsigned(values), values < 0
    out[offsets[:-1][negative]] = _MINUS
    starts, place = offsets[:-1] + negative, offsets[1:] - 1
    behind = scale
    while len(place):
        if scale > 0 and behind == 0:
            out[place] = _DOT
        else:
            rest = left // _TEN
            out[place] = (left - rest * _TEN).astype(np.uint8) + _ZERO
            left = rest
        behind -= 1
        more = place > starts
        starts, place, left = starts[more], place[more] - 1, left[more]
