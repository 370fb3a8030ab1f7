"""Kernels for books in the lake: spread the levels of ticks into columns."""

from __future__ import annotations

from pregao._njit import njit

BLOCK = 256


@njit
def spread_levels(levels, first, count, out, at):
    """Transpose levels stored tick by tick into columns, one for each side and level.

    Works in blocks, so that the input stays in the cache until all its columns are written.
    """
    for side in range(2):
        for begin in range(0, count, BLOCK):
            end = min(begin + BLOCK, count)
            for level in range(levels.shape[2]):
                for i in range(begin, end):
                    out[side, level, at + i] = levels[side, first + i, level]
