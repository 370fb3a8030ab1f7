"""Origin of the book of each instrument, and its numbers of messages and updates."""

from __future__ import annotations

import numpy as np

from pregao.feed.columns import Numbers
from pregao.feed.sequence import InstrumentSequence, SequenceRows
from pregao.umdf.gap_columns import GapSteps
from pregao.umdf.gaps import GapItem, GapStep

START = "start of the sequence"
_ORIGINS = {
    int(GapItem.MESSAGE): START,
    int(GapItem.EMPTIED): "EmptyBook",
    int(GapItem.RESET): "ChannelReset",
    int(GapItem.SNAPSHOT): "snapshot",
    int(GapItem.ABSENT): "no snapshot: empty",
}


class BookOrigins:
    """Counts and origins of instruments, by their index among the securities of a day."""

    def __init__(self, securities: Numbers) -> None:
        self.securities = securities
        count = len(securities)
        self.messages = np.zeros(count, np.int64)
        self.updates = np.zeros(count, np.int64)
        self.origin: list[str | None] = [None] * count
        """Origin of each book; None while unknown."""
        self.place = np.zeros(count, np.int64)
        """Message serial at which each book begins."""

    def add(self, sequence: InstrumentSequence, followed: GapSteps, rows: SequenceRows) -> set[int]:
        """Add a window; return the items with which books begin."""
        count = len(self.securities)
        own = (sequence.item == GapItem.MESSAGE) | (sequence.item == GapItem.EMPTIED)
        self.messages += np.bincount(sequence.rank[own], minlength=count)
        self.updates += np.bincount(sequence.rank[rows.item], minlength=count)
        step = followed.step
        uncounted = (sequence.item == GapItem.MESSAGE) & (sequence.count == 0)
        informative = (
            (step != GapStep.GAP) & (step != GapStep.QUEUED) & (sequence.item != GapItem.GAP)
        )
        known = np.flatnonzero(informative & ~uncounted)
        ranks, first = np.unique(sequence.rank[known], return_index=True)
        beginning = set()
        for rank, at in zip(ranks.tolist(), known[first].tolist(), strict=True):
            if self.origin[rank] is None:
                origin = _ORIGINS[int(sequence.item[at])]
                if step[at] == GapStep.RESTART:
                    origin = "EmptyBook"
                elif step[at] == GapStep.AGREES:
                    origin = START
                self.origin[rank] = origin
                self.place[rank] = sequence.message_serial[at]
                beginning.add(at)
        return beginning
