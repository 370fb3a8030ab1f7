"""The rules of `pregao.umdf.gaps` for whole columns of messages, when all of a day is at hand.

Snapshots stand among the messages, each behind the last packet that it holds. Nothing has to be
queued then: what came while an instrument was stale is either in the snapshot that heals it, or
behind it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from pregao.umdf import _gap_kernels as k

Numbers = npt.NDArray[np.int64]
Codes = npt.NDArray[np.uint8]


class Item(IntEnum):
    """What stands in a column of items."""

    MESSAGE = k.MESSAGE
    """A message; its count is its ``rptSeq``, 0 where it carries none."""
    EMPTIED = k.EMPTIED
    """An EmptyBook."""
    RESET = k.RESET
    """A ChannelReset."""
    SNAPSHOT = k.SNAPSHOT
    """A whole snapshot of the instrument; its count is its ``lastRptSeq``, 0 if it has none."""
    ABSENT = k.ABSENT
    """A whole loop of snapshots in which the instrument is not: it has an empty book."""


class Step(IntEnum):
    """What an item is to its instrument."""

    APPLIES = k.APPLIES
    RESTART = k.RESTART
    """It applies to a book that is empty before it: the EmptyBook was lost."""
    GAP = k.GAP
    """Messages before it are missing: the instrument is stale from here on."""
    QUEUED = k.QUEUED
    """The instrument is stale."""
    AGREES = k.AGREES
    """The snapshot counts as many messages as have come: the book must be equal to it."""
    LOADS = k.LOADS
    """The snapshot begins the book, or heals it."""
    DISAGREES = k.DISAGREES
    """The snapshot shows that messages are missing, and makes up for them at once."""
    NOTED = k.NOTED
    """It changes no book."""


HEALED = k.HEALED
"""A bit beside the step: the instrument was stale before the item and is not behind it."""
NOTHING = k.NOTHING
UNTOUCHED = k.UNTOUCHED
UNSEEN = k.UNSEEN


@dataclass(slots=True)
class Counters:
    """Where the counters of some instruments stand; they go on from call to call."""

    last: Numbers
    """The last count; below 0 what is said of instruments without one."""
    stale: Codes

    @staticmethod
    def new(instruments: int, *, from_the_start: bool) -> Counters:
        """Counters of instruments of which nothing has come.

        From the start of a sequence on, an instrument's first count is 1. Who joins later finds
        other counts; their past is missing, unless a snapshot or a reset makes up for it.
        """
        begin = UNTOUCHED if from_the_start else UNSEEN
        return Counters(np.full(instruments, begin, np.int64), np.zeros(instruments, np.uint8))


@dataclass(slots=True)
class Followed:
    """What came of the items: steps (with the HEALED bit), and the last count before each."""

    steps: Codes
    before: Numbers


def follow(starts: Numbers, kinds: Codes, counts: Numbers, counters: Counters) -> Followed:
    """Follow the items of instruments, which stand from each start to the next, in order."""
    steps = np.empty(len(kinds), np.uint8)
    before = np.empty(len(kinds), np.int64)
    k.follow_counts(starts, kinds, counts, counters.last, counters.stale, steps, before)
    return Followed(steps, before)
