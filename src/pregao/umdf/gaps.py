"""Gaps of single instruments, by ``rptSeq``: what each item is to its instrument.

``rptSeq`` counts the messages of an instrument over all templates. A gap makes that instrument
stale and no other. The counter begins anew with 1 after an EmptyBook, which itself carries none:
one case stays unseen, an EmptyBook lost together with exactly as many messages as were counted
before.

The items of an instrument are its messages, in order, and among them snapshots, each behind the
last packet that it holds. `InstrumentCount` follows one item after the other; `follow` follows
whole columns of them.
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
    """What an item of an instrument is."""

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
"""A bit beside the step in columns: the instrument was stale before the item and is not behind."""
NOTHING = k.NOTHING
UNTOUCHED = k.UNTOUCHED
UNSEEN = k.UNSEEN


@dataclass(slots=True)
class InstrumentCount:
    """The counter of one instrument."""

    last: int
    """The last count; below 0 what is said of an instrument without one."""
    stale: bool = False

    def follow(self, item: Item, count: int) -> Step:
        """What the next item is; where it was stale and is not any more, the item healed it."""
        match item:
            case Item.MESSAGE:
                return self._message(count)
            case Item.EMPTIED:
                self.last = 0
                self.stale = False
            case Item.RESET:
                self.stale = False
                if self.last == UNSEEN:
                    self.last = NOTHING
            case Item.SNAPSHOT:
                return self._snapshot(count)
            case Item.ABSENT:
                if self.last == UNSEEN:
                    self.last = NOTHING
                return Step.NOTED
        return Step.APPLIES

    def _message(self, count: int) -> Step:
        if count == 0:
            return Step.QUEUED if self.stale else Step.APPLIES
        last, self.last = self.last, count
        if self.stale:
            self.stale = count != 1
            return Step.QUEUED if self.stale else Step.RESTART
        if last == NOTHING or count == max(last, 0) + 1:
            return Step.APPLIES
        self.stale = count != 1
        return Step.GAP if self.stale else Step.RESTART

    def _snapshot(self, count: int) -> Step:
        last, self.last = self.last, count
        was_stale, self.stale = self.stale, False
        if was_stale or (last == UNSEEN and count > 0):
            return Step.LOADS
        return Step.AGREES if last == NOTHING or max(last, 0) == count else Step.DISAGREES


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


def first_count(*, from_the_start: bool) -> int:
    """The last count of an instrument of which nothing has come.

    From the start of a sequence on, an instrument's first count is 1. Who joins later finds other
    counts; their past is missing, unless a snapshot or a reset makes up for it.
    """
    return UNTOUCHED if from_the_start else UNSEEN


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
