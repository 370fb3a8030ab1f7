"""Origin of the book of each instrument, and its numbers of messages and updates."""

from __future__ import annotations

import numpy as np

from pregao.feed.columns import Numbers
from pregao.feed.sequence import Rows, Sequence
from pregao.umdf.gap_columns import Followed
from pregao.umdf.gaps import Item, Step

START = "start of the sequence"
_ORIGINS = {
    int(Item.MESSAGE): START,
    int(Item.EMPTIED): "EmptyBook",
    int(Item.RESET): "ChannelReset",
    int(Item.SNAPSHOT): "snapshot",
    int(Item.ABSENT): "no snapshot: empty",
}


class Origins:
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

    def add(self, sequence: Sequence, followed: Followed, rows: Rows) -> set[int]:
        """Add a window; return the items with which books begin."""
        count = len(self.securities)
        own = (sequence.item == Item.MESSAGE) | (sequence.item == Item.EMPTIED)
        self.messages += np.bincount(sequence.rank[own], minlength=count)
        self.updates += np.bincount(sequence.rank[rows.item], minlength=count)
        step = followed.step
        uncounted = (sequence.item == Item.MESSAGE) & (sequence.count == 0)
        informative = (step != Step.GAP) & (step != Step.QUEUED) & (sequence.item != Item.HOLE)
        known = np.flatnonzero(informative & ~uncounted)
        ranks, first = np.unique(sequence.rank[known], return_index=True)
        beginning = set()
        for rank, at in zip(ranks.tolist(), known[first].tolist(), strict=True):
            if self.origin[rank] is None:
                origin = _ORIGINS[int(sequence.item[at])]
                if step[at] == Step.RESTART:
                    origin = "EmptyBook"
                elif step[at] == Step.AGREES:
                    origin = START
                self.origin[rank] = origin
                self.place[rank] = sequence.place[at]
                beginning.add(at)
        return beginning
