"""Kernels that write numbers as text."""

from __future__ import annotations

import numpy as np

from pregao._njit import njit_or

_FALLBACK = "pregao.cli._numpy_fallback"
_ZERO = 48
_DOT = 46
_MINUS = 45
_TEN = np.uint64(10)


@njit_or(_FALLBACK)
def number_sizes(values, scale, sizes):
    """Compute the characters of each number, written with `scale` digits after the point."""
    for n in range(np.uint64(len(values))):
        value = values[n]
        left = np.uint64(value)
        size = 0
        if value < 0:
            left = np.uint64(0) - left
            size = 1
        digits = 1
        while left >= _TEN:
            left //= _TEN
            digits += 1
        if scale > 0:
            digits = max(digits, scale + 1) + 1
        sizes[n] = size + digits


@njit_or(_FALLBACK)
def write_numbers(values, scale, offsets, out):
    """Write each number so that it ends at the next number's offset."""
    for n in range(np.uint64(len(values))):
        value = values[n]
        left = np.uint64(value)
        start = offsets[n]
        if value < 0:
            left = np.uint64(0) - left
            out[start] = _MINUS
            start += 1
        position = offsets[n + 1] - 1
        decimals = scale
        while position >= start:
            if scale > 0 and decimals == 0:
                out[position] = _DOT
            else:
                rest = left // _TEN
                out[position] = np.uint8(left - rest * _TEN) + _ZERO
                left = rest
            decimals -= 1
            position -= 1
