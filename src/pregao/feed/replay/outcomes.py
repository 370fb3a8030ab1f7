"""Outcomes of a replay per instrument: inconsistent updates, origins of books, stale spans.

The feed's counters do not show inconsistent updates: they are caused by damaged data, or by a bug.
The book does not change after one, until a later snapshot makes it valid again.

The origin of a book has its numbers of messages and updates. A stale span has its reason and what
healed it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from pregao.arrays import Int64Array
from pregao.book.replay import BookKind, Replay
from pregao.book.state import FaultCode, State
from pregao.book.update_rows import UpdateRows
from pregao.feed.messages import BookColumns
from pregao.feed.packet_keys import serial_text
from pregao.feed.recovery import messages_missing
from pregao.feed.replay.sequence import InstrumentSequence, SequenceRows, rows_of
from pregao.feed.replay.snapshots import Snapshots
from pregao.umdf.gap_columns import HEALED, GapSteps
from pregao.umdf.gaps import GapItem, GapStep

START = "start of the sequence"
_ORIGINS = {
    int(GapItem.MESSAGE): START,
    int(GapItem.EMPTIED): "EmptyBook",
    int(GapItem.RESET): "ChannelReset",
    int(GapItem.SNAPSHOT): "snapshot",
    int(GapItem.ABSENT): "no snapshot: empty",
}

_HEALERS = {
    int(GapItem.MESSAGE): "restart of the counter",
    int(GapItem.EMPTIED): "EmptyBook",
    int(GapItem.RESET): "ChannelReset",
    int(GapItem.SNAPSHOT): "snapshot",
    int(GapItem.ABSENT): "absence from a loop of snapshots",
}
_DEFINITE_ITEMS = (
    int(GapItem.EMPTIED),
    int(GapItem.RESET),
    int(GapItem.SNAPSHOT),
    int(GapItem.ABSENT),
)
NO_PAST = "the captures begin in the middle of the instrument's messages, and no snapshot follows"


# --- Inconsistent updates ---


class InconsistentUpdatesError(Exception):
    """A book had an inconsistent update in a run that does not heal books."""


@dataclass(slots=True)
class InconsistentUpdates:
    """Reasons by inconsistent item, and by snapshot item that had to heal the book."""

    found: dict[int, str] = field(default_factory=dict)
    healing: dict[int, str] = field(default_factory=dict)


def find_inconsistent_updates(
    replay: Replay,
    sequence: InstrumentSequence,
    followed: GapSteps,
    rows: SequenceRows,
    base_row: int,
    base: int,
) -> dict[int, str]:
    """Return the inconsistent updates of a replay that no gap explains, by item."""
    step = followed.step
    reasons: dict[int, str] = {}
    for row, code in replay.faults:
        at = int(rows.item[row - base_row])
        if code is FaultCode.INTERRUPTED and step[at] == GapStep.GAP:
            continue
        reasons.setdefault(at, describe_inconsistency(replay.kind, sequence, at, code, base))
    return reasons


def describe_inconsistency(
    kind: BookKind, sequence: InstrumentSequence, at: int, code: FaultCode, base: int
) -> str:
    """Describe an inconsistent update."""
    fault = code.name.lower().replace("_", " ")
    row = -1 if kind is BookKind.DEPTH else int(sequence.book_row[at])
    number = int(sequence.columns.order_id[row]) if row >= 0 else -1
    order = f" {number}" if number > 0 else ""
    return f"{fault}{order} ({serial_text(int(sequence.message_serial[at]), base)})"


def heal_inconsistent_updates(
    replay: Replay,
    sequence: InstrumentSequence,
    followed: GapSteps,
    snapshots: Snapshots | None,
    base: int,
) -> InconsistentUpdates:
    """Find the inconsistent updates of a window before it is replayed, and heal the books.

    If the book before a snapshot is stale, the snapshot's step is changed: it is loaded instead of
    compared.
    """
    result = InconsistentUpdates()
    rows = rows_of(sequence, followed, snapshots)
    trial = _trial(replay)
    base_row = trial.done
    trial.run(rows.updates, finish=False)
    broken = find_inconsistent_updates(trial, sequence, followed, rows, base_row, base)
    for rank in sorted({int(sequence.rank[at]) for at in broken}):
        own = _trial(replay)
        begin, end = int(sequence.starts[rank]), int(sequence.starts[rank + 1])
        step = followed.step[begin:end]
        stale = False
        reason = ""
        at = begin
        for stop in [*(begin + np.flatnonzero(step == GapStep.AGREES)).tolist(), end]:
            piece = rows.updates[int(rows.begins[at]) : int(rows.begins[stop])]
            if len(piece):
                before = own.done
                last = before + len(piece) - 1
                played = own.run(piece, finish=False, dump_at=[last])
                for row, code in played.faults:
                    item = int(rows.item[int(rows.begins[at]) + row - before])
                    if code is FaultCode.INTERRUPTED and followed.step[item] == GapStep.GAP:
                        continue
                    reason = describe_inconsistency(replay.kind, sequence, item, code, base)
                    result.found.setdefault(item, reason)
                stale = played.books[-1].state is State.STALE
            if stale and stop < end:
                assert snapshots is not None
                followed.steps[stop] = GapStep.LOADS | HEALED
                result.healing[stop] = reason
                loaded = snapshots.rows(int(sequence.snapshot[stop]))
                own.run(_updates(loaded, int(sequence.securities[rank])), finish=False)
                stale = False
            at = stop
    return result


def _trial(replay: Replay) -> Replay:
    """Return a replay with the state of another one, without ticks."""
    trial = Replay(replay.kind, 0, market_depth=replay.market_depth)
    if replay.done:
        trial.state = replay.state.copy()
        trial.done = replay.done
    return trial


def _updates(columns: BookColumns, security: int) -> UpdateRows:
    count = len(columns)
    return columns.of_instruments(np.full(count, security, np.int64), np.full(count, -2, np.int64))


# --- Origins of books ---


class BookOrigins:
    """Counts and origins of instruments, by their index among the securities of a day."""

    def __init__(self, securities: Int64Array) -> None:
        self.securities = securities
        count = len(securities)
        self.messages = np.zeros(count, np.int64)
        self.updates = np.zeros(count, np.int64)
        self.origin: list[str | None] = [None] * count
        """Origin of each book; None while unknown."""
        self.message_serial = np.zeros(count, np.int64)
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
                self.message_serial[rank] = sequence.message_serial[at]
                beginning.add(at)
        return beginning


# --- Stale spans ---


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

        ``inconsistent`` are the inconsistent items and their reasons.
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
    return not (counted.any() or np.isin(sequence.item[own], _DEFINITE_ITEMS).any())
