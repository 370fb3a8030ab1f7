"""Format numbers as text without numba: one digit of all numbers per step."""

from __future__ import annotations

from typing import Any

import numpy as np

_ZERO, _DOT, _MINUS = b"0.-"
_TEN = np.uint64(10)
_POWERS = _TEN ** np.arange(1, 20, dtype=np.uint64)


def _unsigned(values: Any) -> Any:
    """Return absolute values as unsigned 64-bit integers."""
    wide = values.astype(np.int64)
    return np.where(wide < 0, -wide, wide).view(np.uint64)


def number_sizes(values: Any, scale: int, sizes: Any) -> None:
    """Do the same as the kernel `_kernels.number_sizes`."""
    digits = 1 + np.searchsorted(_POWERS, _unsigned(values), side="right")
    if scale > 0:
        digits = np.maximum(digits, scale + 1) + 1
    sizes[:] = digits + (values < 0)


def write_numbers(values: Any, scale: int, offsets: Any, out: Any) -> None:
    """Do the same as the kernel `_kernels.write_numbers`."""
    left, negative = _unsigned(values), values < 0
    out[offsets[:-1][negative]] = _MINUS
    starts, position = offsets[:-1] + negative, offsets[1:] - 1
    decimals = scale
    while len(position):
        if scale > 0 and decimals == 0:
            out[position] = _DOT
        else:
            rest = left // _TEN
            out[position] = (left - rest * _TEN).astype(np.uint8) + _ZERO
            left = rest
        decimals -= 1
        more = position > starts
        starts, position, left = starts[more], position[more] - 1, left[more]
