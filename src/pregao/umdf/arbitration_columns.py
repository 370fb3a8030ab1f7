"""Columnar form of `pregao.umdf.arbitration`, for the packets of one stream.

All copies are available, so nothing waits. The first copy of each packet key is kept, in sequence;
packets that no feed delivered are absent.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pregao.arrays import BoolArray, Int64Array
from pregao.umdf import _sequencing_kernels as k

NO_OTHER = -1
"""Difference for packets that no other feed delivered."""


@dataclass(frozen=True, slots=True)
class ArbitrationResult:
    """Result of arbitration; columns have one row per packet, in the given order."""

    order: Int64Array
    """Indices of the first copies, in sequence."""
    first: BoolArray
    """Whether the packet is the first copy of its key."""
    leader: Int64Array
    """Index of the first copy of its key."""
    difference_ns: Int64Array
    """For a first copy, the delay of the next feed's copy; otherwise, or without one, NO_OTHER."""

    @property
    def no_duplicates(self) -> bool:
        """Whether there are no duplicates."""
        return len(self.order) == len(self.first)


def arbitrate(
    serials: Int64Array,
    time_ns: Int64Array,
    feeds: npt.NDArray[np.integer],
    outside: BoolArray | None = None,
) -> ArbitrationResult:
    """Find the first copy of each packet.

    Packets are in arrival order, each with the serial of its key (`sequencing.serial_of`) and the
    number of its feed. A packet that is ``outside`` is kept only if no other has its key.
    """
    count = len(serials)
    if outside is None and bool((np.diff(serials) > 0).all()):  # one feed, no duplicates
        indices = np.arange(count)
        return ArbitrationResult(
            indices, np.ones(count, np.bool_), indices, np.full(count, NO_OTHER)
        )
    if outside is None:
        order = np.argsort(serials, kind="stable")
    else:
        order = np.lexsort((outside, serials))
    first = np.empty(count, np.bool_)
    leader, difference = np.empty((2, count), np.int64)
    k.mark_first(serials, time_ns, feeds, order, first, leader, difference)
    return ArbitrationResult(order[first[order]], first, leader, difference)
