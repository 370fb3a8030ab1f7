"""The rule of `pregao.umdf.gaps` for whole columns of items, when all of a day is at hand."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pregao.umdf import _gap_kernels as k
from pregao.umdf.gaps import first_count

Numbers = npt.NDArray[np.int64]
Codes = npt.NDArray[np.uint8]

HEALED = k.HEALED
"""A bit beside the step: the instrument was stale before the item and is not behind it."""


@dataclass(slots=True)
class Counters:
    """The counters of some instruments as columns; they go on from call to call."""

    last: Numbers
    """The last count; below 0 what is said of instruments without one."""
    stale: Codes

    @staticmethod
    def new(instruments: int, *, from_the_start: bool) -> Counters:
        """Counters of instruments of which nothing has come."""
        begin = first_count(from_the_start=from_the_start)
        return Counters(np.full(instruments, begin, np.int64), np.zeros(instruments, np.uint8))


@dataclass(slots=True)
class Followed:
    """What came of the items: steps (with the HEALED bit), and the last count before each."""

    steps: Codes
    before: Numbers


def follow(starts: Numbers, kinds: Codes, counts: Numbers, counters: Counters) -> Followed:
    """Follow the items of instruments, which are from each start to the next, in order."""
    steps = np.empty(len(kinds), np.uint8)
    before = np.empty(len(kinds), np.int64)
    k.follow_counts(starts, kinds, counts, counters.last, counters.stale, steps, before)
    return Followed(steps, before)
