"""What is known of each instrument's book of a day, added up over windows."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa

from pregao.book.faults import State
from pregao.lake.books.columns import Numbers
from pregao.lake.books.messages import packet_of
from pregao.lake.books.sequence import Rows, Sequence, steps_of
from pregao.lake.books.tables import BOOKS
from pregao.lake.store import stored_schema
from pregao.umdf.gap_columns import Followed, Item, Step

START = "start of the sequence"
_ORIGINS = {
    int(Item.MESSAGE): START,
    int(Item.EMPTIED): "EmptyBook",
    int(Item.RESET): "ChannelReset",
    int(Item.SNAPSHOT): "snapshot",
    int(Item.ABSENT): "no snapshot: empty",
}


class Summary:
    """Counts and states of the instruments of a task, by their place among its securities."""

    def __init__(self, securities: Numbers) -> None:
        self.securities = securities
        count = len(securities)
        self.messages = np.zeros(count, np.int64)
        self.updates = np.zeros(count, np.int64)
        self.ticks = np.zeros(count, np.int64)
        self.checkpoints = np.zeros(count, np.int64)
        self.state = np.full(count, int(State.EMPTY), np.int64)
        self.origin: list[str | None] = [None] * count
        self.origin_place = np.zeros(count, np.int64)

    def add(self, sequence: Sequence, followed: Followed, rows: Rows) -> set[int]:
        """Count a window in; gives the items with which books begin."""
        count = len(self.securities)
        own = (sequence.item == Item.MESSAGE) | (sequence.item == Item.EMPTIED)
        self.messages += np.bincount(sequence.rank[own], minlength=count)
        self.updates += np.bincount(sequence.rank[rows.item], minlength=count)
        step = steps_of(followed)
        uncounted = (sequence.item == Item.MESSAGE) & (sequence.count == 0)
        known = np.flatnonzero((step != Step.GAP) & (step != Step.QUEUED) & ~uncounted)
        ranks, first = np.unique(sequence.rank[known], return_index=True)
        begun = set()
        for rank, at in zip(ranks.tolist(), known[first].tolist(), strict=True):
            if self.origin[rank] is None:
                origin = _ORIGINS[int(sequence.item[at])]
                if step[at] == Step.RESTART:
                    origin = "EmptyBook"
                elif step[at] == Step.AGREES:
                    origin = START
                self.origin[rank] = origin
                self.origin_place[rank] = sequence.place[at]
                begun.add(at)
        return begun

    def counts(self) -> Counter[str]:
        """The sums over all instruments."""
        return Counter(
            instruments=len(self.securities),
            messages=int(self.messages.sum()),
            updates=int(self.updates.sum()),
            ticks=int(self.ticks.sum()),
            checkpoints=int(self.checkpoints.sum()),
            stale=int((self.state == State.STALE).sum()),
        )

    def table(
        self,
        channel: int,
        symbols: list[str | None],
        by_position: bool,
        base: int,
        unit_id: str,
        snapshots: Counter[int],
        different: Counter[int],
        gaps: Counter[int],
        reasons: dict[int, str],
    ) -> Any:
        """The rows of the table; the counters are by instrument."""
        version, number = packet_of(self.origin_place, base)
        rows = []
        for rank, security in enumerate(self.securities.tolist()):
            state = State(int(self.state[rank]))
            known = self.origin[rank] is not None
            rows.append(
                {
                    "channel": channel,
                    "security_id": security,
                    "symbol": symbols[rank],
                    "kind": "position" if by_position else "priority",
                    "origin": self.origin[rank],
                    "origin_version": int(version[rank]) if known else None,
                    "origin_number": int(number[rank]) if known else None,
                    "messages": int(self.messages[rank]),
                    "updates": int(self.updates[rank]),
                    "ticks": int(self.ticks[rank]),
                    "checkpoints": int(self.checkpoints[rank]),
                    "snapshots": snapshots[security],
                    "differences": different[security],
                    "gaps": gaps[security],
                    "state": state.name.lower(),
                    "reason": reasons.get(security) if state is State.STALE else None,
                    "unit_id": unit_id,
                }
            )
        return pa.Table.from_pylist(rows, schema=stored_schema(BOOKS.schema))
