"""Gaps of single instruments, by ``rptSeq``: what each item is to its instrument.

``rptSeq`` counts the messages of an instrument over all templates. A gap makes that instrument
stale and no other. The counter begins anew with 1 after an EmptyBook, which itself carries none:
one case stays unseen, an EmptyBook lost together with exactly as many messages as were counted
before.

The items of an instrument are its messages, in order, and among them snapshots, each behind the
last packet that it holds. `InstrumentCount` follows one item after the other, `gap_columns` whole
columns of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class Item(IntEnum):
    """What an item of an instrument is."""

    MESSAGE = 0
    """A message; its count is its ``rptSeq``, 0 where it carries none."""
    EMPTIED = 1
    """An EmptyBook."""
    RESET = 2
    """A ChannelReset."""
    SNAPSHOT = 3
    """A whole snapshot of the instrument; its count is its ``lastRptSeq``, 0 if it has none."""
    ABSENT = 4
    """A whole loop of snapshots in which the instrument is not: it has an empty book."""


class Step(IntEnum):
    """What an item is to its instrument."""

    APPLIES = 0
    RESTART = 1
    """It applies to a book that is empty before it: the EmptyBook was lost."""
    GAP = 2
    """Messages before it are missing: the instrument is stale from here on."""
    QUEUED = 3
    """The instrument is stale."""
    AGREES = 4
    """The snapshot counts as many messages as have come: the book must be equal to it."""
    LOADS = 5
    """The snapshot begins the book, or heals it."""
    DISAGREES = 6
    """The snapshot shows that messages are missing, and makes up for them at once."""
    NOTED = 7
    """It changes no book."""


NOTHING = -1
"""The last count where none is known."""
UNTOUCHED = -2
"""The last count of an instrument that is seen from its beginning: the first one is 1."""
UNSEEN = -3
"""The last count of an instrument whose past is not at hand, unless its first one is 1."""


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


def first_count(*, from_the_start: bool) -> int:
    """The last count of an instrument of which nothing has come.

    From the start of a sequence on, an instrument's first count is 1. Who joins later finds other
    counts; their past is missing, unless a snapshot or a reset makes up for it.
    """
    return UNTOUCHED if from_the_start else UNSEEN
