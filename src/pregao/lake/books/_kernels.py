"""Kernels of the books in the lake: levels of ticks as columns."""

from __future__ import annotations

from pregao._njit import njit

BLOCK = 256


@njit
def spread_levels(levels, first, count, out, at):
    """Turn levels that lie tick by tick into columns, one for each side and level.

    Block by block, so that what is read stays in the cache until all its columns are written.
    """
    for side in range(2):
        for begin in range(0, count, BLOCK):
            end = min(begin + BLOCK, count)
            for level in range(levels.shape[2]):
                for i in range(begin, end):
                    out[side, level, at + i] = levels[side, first + i, level]
