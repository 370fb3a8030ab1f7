"""Kernels of analytics: new orders that improve the best price, and orders of updates by position.

Their plain twins are in the tests; that of the second is the book by position.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Any

import numpy as np

from pregao._njit import njit
from pregao.book import update_rows

NULL = update_rows.NULL
_ADD, _CHANGE, _DELETE = (int(update_rows.UpdateKind[name]) for name in ("ADD", "CHANGE", "DELETE"))
_CLEAR_SIDE, _REMOVE_TOP = (
    int(update_rows.UpdateKind.CLEAR_SIDE),
    int(update_rows.UpdateKind.REMOVE_TOP),
)
_EMPTY, _RESET = int(update_rows.UpdateKind.EMPTY), int(update_rows.UpdateKind.RESET)
_SNAPSHOT_BEGIN = int(update_rows.UpdateKind.SNAPSHOT_BEGIN)
_SNAPSHOT_ORDER = int(update_rows.UpdateKind.SNAPSHOT_ORDER)
_INTERRUPT = int(update_rows.UpdateKind.INTERRUPT)

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


@njit
def orders_at_positions(
    instrument: Any, kind: Any, side: Any, order_id: Any, size: Any, position: Any,
    found_id: Any, found_size: Any, taken_row: Any, taken_id: Any, taken_size: Any,
) -> Any:  # fmt: skip
    """Find the order of each update of books by position, and its size before the update.

    Takes the rows of a replay and follows its rules: a book that is interrupted, or that a position
    contradicts, is unknown until it is emptied or a snapshot begins. Unknown values are NULL.
    Orders removed by deletions from the top go to the ``taken_`` columns. Returns their number.
    """
    ids = np.empty((2, len(taken_row) + 1), np.int64)
    sizes = np.empty((2, len(taken_row) + 1), np.int64)
    count = np.zeros(2, np.int64)
    known = True
    taken = 0
    for row in range(len(kind)):
        found_id[row] = found_size[row] = NULL
        what = kind[row]
        new_book = row == 0 or instrument[row] != instrument[row - 1]
        if new_book or what in (_EMPTY, _RESET, _SNAPSHOT_BEGIN):
            count[:] = 0
            known = True
        if what == _INTERRUPT:
            known = False
        if not known or (what > _REMOVE_TOP and what != _SNAPSHOT_ORDER):
            continue
        own = side[row]
        if what == _CLEAR_SIDE:
            count[own] = 0
            continue
        adds = what in (_ADD, _SNAPSHOT_ORDER)
        queue_position = position[row]
        if what == _SNAPSHOT_ORDER and queue_position == NULL:
            queue_position = count[own] + 1
        if queue_position == NULL or queue_position < 1 or queue_position > count[own] + adds:
            known = False
            continue
        # The first order is at the end, so that updates near the top move few of them.
        at = count[own] + adds - queue_position
        if what == _REMOVE_TOP:
            for each in range(count[own] - 1, at - 1, -1):
                taken_row[taken] = row
                taken_id[taken] = ids[own, each]
                taken_size[taken] = sizes[own, each]
                taken += 1
            count[own] = at
        elif adds:
            for each in range(count[own], at, -1):
                ids[own, each] = ids[own, each - 1]
                sizes[own, each] = sizes[own, each - 1]
            ids[own, at] = found_id[row] = order_id[row]
            sizes[own, at] = size[row]
            count[own] += 1
        else:
            found_id[row] = ids[own, at]
            found_size[row] = sizes[own, at]
            if what == _CHANGE:
                if order_id[row] != NULL:
                    ids[own, at] = found_id[row] = order_id[row]
                sizes[own, at] = size[row]
            else:
                for each in range(at, count[own] - 1):
                    ids[own, each] = ids[own, each + 1]
                    sizes[own, each] = sizes[own, each + 1]
                count[own] -= 1
    return taken
