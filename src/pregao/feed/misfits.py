"""Inconsistent updates of books: where, why, and which snapshots heal the books.

The feed's counters do not show inconsistent updates: they are caused by damaged data, or by a bug.
The book does not change after one, until a later snapshot makes it valid again.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from pregao.book.state import FaultCode, State
from pregao.book.replay import BookKind, Replay
from pregao.book.update_rows import UpdateRows
from pregao.feed.messages import BookColumns
from pregao.feed.places import serial_text
from pregao.feed.sequence import InstrumentSequence, SequenceRows, rows_of
from pregao.feed.snapshots import Snapshots
from pregao.umdf.gap_columns import HEALED, GapSteps
from pregao.umdf.gaps import GapStep


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
    return UpdateRows(
        np.full(count, security, np.int64),
        np.full(count, -2, np.int64),
        columns.kind,
        columns.side,
        columns.flags,
        columns.order_id,
        columns.price,
        columns.size,
        columns.previous,
        columns.position,
        columns.firm,
        columns.inserted,
    )
