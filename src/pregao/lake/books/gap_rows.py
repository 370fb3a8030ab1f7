"""Gaps of instruments as rows: stale from where, why, and what healed them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from pregao.lake.books.messages import packet_of
from pregao.lake.books.sequence import Sequence, healed, steps_of
from pregao.lake.books.tables import GAPS_SPEC
from pregao.lake.store import stored_schema
from pregao.umdf.gap_columns import Followed, Item, Step

_HEALERS = {
    int(Item.MESSAGE): "restart of the counter",
    int(Item.EMPTIED): "EmptyBook",
    int(Item.RESET): "ChannelReset",
    int(Item.SNAPSHOT): "snapshot",
}
_KNOWN = (int(Item.EMPTIED), int(Item.RESET), int(Item.SNAPSHOT))
NO_PAST = (
    "the captures begin in the middle of the instrument's messages, and no snapshot tells more"
)


@dataclass(slots=True)
class GapBook:
    """The gaps found so far, and which instruments are in one now."""

    channel: int
    base: int
    unit_id: str
    rows: list[dict[str, Any]] = field(default_factory=list)
    open: dict[int, dict[str, Any] | None] = field(default_factory=dict)
    """By instrument: its row, or None if its past is not at hand."""
    reasons: dict[int, str] = field(default_factory=dict)

    def find(
        self,
        sequence: Sequence,
        followed: Followed,
        faults: Mapping[int, str],
        from_the_start: bool,
    ) -> None:
        """Go through the items that break or heal instruments, which are few.

        ``faults`` are items that did not fit their book, and why.
        """
        step, heals = steps_of(followed), healed(followed)
        telling = (step == Step.GAP) | (step == Step.DISAGREES) | heals
        if faults or self.open:  # books that did not fit are healed without the counters' help
            telling |= (step == Step.LOADS) | (step == Step.RESTART)
            telling |= (sequence.item == Item.EMPTIED) | (sequence.item == Item.RESET)
        for at in sorted({*np.flatnonzero(telling).tolist(), *faults}):
            security = int(sequence.securities[sequence.rank[at]])
            if at in faults:
                if security not in self.open:
                    self._open(sequence, at, security, faults[at], None, None)
            elif step[at] == Step.GAP:
                if not from_the_start and _is_first(sequence, at):
                    self.open[security] = None
                    self.reasons[security] = NO_PAST
                else:
                    self._gap(sequence, followed, at, security)
            elif step[at] == Step.DISAGREES:
                self._gap(sequence, followed, at, security)
                self.heal(sequence, at, security)
            else:
                self.heal(sequence, at, security)

    def _gap(self, sequence: Sequence, followed: Followed, at: int, security: int) -> None:
        before, count = int(followed.before[at]), int(sequence.count[at])
        if sequence.item[at] == Item.SNAPSHOT:
            last, told = count, "up to the snapshot that shows it"
        else:
            last, told = count - 1, "before this one"
        first = before + 1
        if count > before:
            reason = f"{last - before} messages of the instrument are missing {told}"
            self._open(sequence, at, security, reason, first, last)
        else:
            reason = f"the counter of the instrument went from {before} back to {count}"
            self._open(sequence, at, security, reason, None, None)

    def _open(
        self,
        sequence: Sequence,
        at: int,
        security: int,
        reason: str,
        first: int | None,
        last: int | None,
    ) -> None:
        version, number = packet_of(sequence.place[at : at + 1], self.base)
        row = {
            "channel": self.channel,
            "security_id": security,
            "sequence_version": int(version[0]),
            "feed": None,
            "first_missing": first,
            "last_missing": last,
            "closed_by": None,
            "capture_time_ns": int(sequence.capture[at]),
            "unit_id": self.unit_id,
            "sequence_number": int(number[0]),
            "reason": reason,
        }
        self.rows.append(row)
        self.open[security] = row
        self.reasons[security] = reason

    def heal(self, sequence: Sequence, at: int, security: int) -> None:
        """Something made the instrument known again."""
        row = self.open.pop(security, None)
        self.reasons.pop(security, None)
        if row is not None:
            version, number = packet_of(sequence.place[at : at + 1], self.base)
            row["closed_by"] = _HEALERS[int(sequence.item[at])]
            row["closed_sequence_version"] = int(version[0])
            row["closed_sequence_number"] = int(number[0])

    def table(self) -> Any:
        """The rows as a table."""
        return pa.Table.from_pylist(self.rows, schema=stored_schema(GAPS_SPEC.schema))


def _is_first(sequence: Sequence, at: int) -> bool:
    """Did nothing come before that told how the instrument stands?"""
    own = slice(int(sequence.starts[sequence.rank[at]]), at)
    counted = sequence.count[own] > 0
    return not (counted.any() or np.isin(sequence.item[own], _KNOWN).any())
