"""Spans in which books were stale, why, and what healed them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from pregao.feed.healing import messages_missing
from pregao.feed.sequence import InstrumentSequence
from pregao.umdf.gap_columns import HEALED, GapSteps
from pregao.umdf.gaps import GapItem, GapStep

_HEALERS = {
    int(GapItem.MESSAGE): "restart of the counter",
    int(GapItem.EMPTIED): "EmptyBook",
    int(GapItem.RESET): "ChannelReset",
    int(GapItem.SNAPSHOT): "snapshot",
    int(GapItem.ABSENT): "absence from a loop of snapshots",
}
_KNOWN = (int(GapItem.EMPTIED), int(GapItem.RESET), int(GapItem.SNAPSHOT), int(GapItem.ABSENT))
NO_PAST = "the captures begin in the middle of the instrument's messages, and no snapshot follows"


@dataclass(slots=True)
class StaleSpan:
    """A span in which a book was stale."""

    security_id: int
    message_serial: int
    """Message serial of the message that revealed it."""
    capture_time_ns: int
    """Capture time of that message's packet."""
    reason: str
    first_missing: int | None
    """First missing ``rptSeq`` of the instrument; None if unknown."""
    last_missing: int | None
    healed_by: str | None = None
    healed_at: int | None = None
    """Message serial as of which it was healed; None while it is not."""


@dataclass(slots=True)
class StaleSpans:
    """The spans found so far, and the instruments that are in one now."""

    spans: list[StaleSpan] = field(default_factory=list)
    open: dict[int, StaleSpan | None] = field(default_factory=dict)
    """Span by instrument; None if the captures do not have its earlier messages."""
    reasons: dict[int, str] = field(default_factory=dict)

    def find(
        self,
        sequence: InstrumentSequence,
        followed: GapSteps,
        inconsistent: Mapping[int, str],
        from_the_start: bool,
    ) -> None:
        """Process the items that break or heal instruments, which are few.

        ``misfits`` are the inconsistent items and their reasons.
        """
        step, heals = followed.step, followed.has(HEALED)
        relevant = (step == GapStep.GAP) | (step == GapStep.DISAGREES) | heals
        if inconsistent or self.open:  # inconsistent books are healed without the counters' help
            relevant |= (
                (step == GapStep.LOADS) | (step == GapStep.RESTART) | (step == GapStep.CONFIRMS)
            )
            relevant |= (sequence.item == GapItem.EMPTIED) | (sequence.item == GapItem.RESET)
        for at in sorted({*np.flatnonzero(relevant).tolist(), *inconsistent}):
            security = int(sequence.securities[sequence.rank[at]])
            if at in inconsistent:
                if security not in self.open:
                    self._begin(sequence, at, security, inconsistent[at], None, None)
            elif step[at] == GapStep.GAP:
                if not from_the_start and _is_first(sequence, at):
                    self.open[security] = None
                    self.reasons[security] = NO_PAST
                else:
                    self._gap(sequence, followed, at, security)
            elif step[at] == GapStep.DISAGREES:
                self._gap(sequence, followed, at, security)
                self._heal(sequence, at, security)
            else:
                self._heal(sequence, at, security)

    def _gap(
        self, sequence: InstrumentSequence, followed: GapSteps, at: int, security: int
    ) -> None:
        before, count = int(followed.before[at]), int(sequence.count[at])
        if sequence.item[at] == GapItem.SNAPSHOT:
            last, extent = count, "up to the snapshot that shows it"
        else:
            last, extent = count - 1, "before this one"
        if count > before:
            reason = f"{messages_missing(last - before)} {extent}"
            self._begin(sequence, at, security, reason, before + 1, last)
        else:
            reason = f"the counter of the instrument went from {before} back to {count}"
            self._begin(sequence, at, security, reason, None, None)

    def _begin(
        self,
        sequence: InstrumentSequence,
        at: int,
        security: int,
        reason: str,
        first: int | None,
        last: int | None,
    ) -> None:
        serial, capture = int(sequence.message_serial[at]), int(sequence.capture[at])
        span = StaleSpan(security, serial, capture, reason, first, last)
        self.spans.append(span)
        self.open[security] = span
        self.reasons[security] = reason

    def _heal(self, sequence: InstrumentSequence, at: int, security: int) -> None:
        """End the span of an instrument whose book is valid again."""
        span = self.open.pop(security, None)
        self.reasons.pop(security, None)
        if span is not None:
            span.healed_by = _HEALERS[int(sequence.item[at])]
            span.healed_at = int(sequence.message_serial[at])


def _is_first(sequence: InstrumentSequence, at: int) -> bool:
    """Whether no earlier item determined the state of the instrument."""
    own = slice(int(sequence.starts[sequence.rank[at]]), at)
    counted = sequence.count[own] > 0
    return not (counted.any() or np.isin(sequence.item[own], _KNOWN).any())
