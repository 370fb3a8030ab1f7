"""The kernel of the ingest's messages: a field of many of them, before they are decoded."""

from __future__ import annotations

import numpy as np

from pregao._njit import load_i64, njit


@njit
def gather_field(buffer, rows, bodies, blocks, at, values):
    """The 64-bit numbers at an offset of the messages' blocks; False if one does not reach it."""
    for r in range(np.uint64(len(rows))):
        m = np.uint64(rows[r])
        if blocks[m] < at + 8:
            return False
        values[r] = load_i64(buffer, bodies[m] + at)
    return True
