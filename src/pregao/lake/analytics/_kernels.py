"""Kernel of the measures of order flow: new orders that improve the best price.

Its plain twin is in the tests.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Any

import numpy as np

from pregao._njit import njit

NEW, DELETE, CLEAR, TAKE = 1, 2, 3, 4
"""An order is added, an order is deleted, a side is cleared, the first orders of a side are
removed.
"""


@njit
def improving(side: Any, act: Any, key: Any, entry: Any) -> Any:
    """Return for each act whether it is a new order better than all that rest on its side.

    Acts are sorted by side, then by time. ``key`` is greater for better prices; for TAKE it is the
    number of orders removed. ``entry`` is the row of the order that a DELETE removes, or -1.
    """
    found = np.zeros(len(side), np.bool_)
    alive = np.zeros(len(side), np.bool_)
    heap = [(np.int64(0), np.int64(0))]
    heap.clear()
    for row in range(len(side)):
        if row and side[row] != side[row - 1]:
            heap.clear()
        what = act[row]
        if what == NEW:
            while len(heap) and not alive[heap[0][1]]:
                heappop(heap)
            found[row] = len(heap) == 0 or -heap[0][0] < key[row]
            alive[row] = True
            heappush(heap, (-np.int64(key[row]), np.int64(row)))
        elif what == DELETE:
            if entry[row] >= 0:
                alive[entry[row]] = False
        elif what == CLEAR:
            while len(heap):
                alive[heap[0][1]] = False
                heappop(heap)
        else:
            left = key[row]
            while left > 0 and len(heap):
                left -= alive[heap[0][1]]
                alive[heap[0][1]] = False
                heappop(heap)
    return found
