"""The rule of `pregao.umdf.arbitration` for whole columns of packets of one stream.

Nothing has to wait then: all copies are at hand. The first of each place counts, in the order of
the sequence; what no feed brought is simply not there.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pregao.umdf import _arbitration_kernels as k

Numbers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

NO_OTHER = -1
"""The difference where no other feed brought the packet."""


@dataclass(frozen=True, slots=True)
class Arbitrated:
    """Which packets count; columns have a row for each packet, as they were given."""

    order: Numbers
    """The packets that were the first of their place, in the order of the sequence."""
    first: Flags
    """Was it the first of its place?"""
    leader: Numbers
    """The packet that was."""
    difference_ns: Numbers
    """Of a first one: how much later another feed brought it; else, and without one, NO_OTHER."""

    @property
    def nothing_twice(self) -> bool:
        """Is each packet the only one of its place?"""
        return len(self.order) == len(self.first)


def arbitrate(
    serials: Numbers,
    time_ns: Numbers,
    feeds: npt.NDArray[np.integer],
    outside: Flags | None = None,
) -> Arbitrated:
    """Find the first of all copies of each packet.

    Packets are given as they came, each with the serial of its place (`sequencing.serial_of`) and
    the number of its feed. One that is ``outside`` counts only where no other has its place.
    """
    count = len(serials)
    if outside is None and bool((np.diff(serials) > 0).all()):  # one feed, nothing twice
        every = np.arange(count)
        return Arbitrated(every, np.ones(count, np.bool_), every, np.full(count, NO_OTHER))
    if outside is None:
        order = np.argsort(serials, kind="stable")
    else:
        order = np.lexsort((outside, serials))
    first = np.empty(count, np.bool_)
    leader, difference = np.empty((2, count), np.int64)
    k.mark_first(serials, time_ns, feeds, order, first, leader, difference)
    return Arbitrated(order[first[order]], first, leader, difference)
