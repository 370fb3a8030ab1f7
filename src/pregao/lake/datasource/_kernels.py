"""Kernels of the data source."""

from __future__ import annotations

import numpy as np

from pregao._njit import load_i64, njit


@njit
def gather_i64(buffer, positions, values):
    """Read the 64-bit integers at the positions."""
    for m in range(np.uint64(len(positions))):
        values[m] = load_i64(buffer, positions[m])
