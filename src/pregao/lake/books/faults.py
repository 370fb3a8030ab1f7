"""Books that did not fit one of their messages: where, why, and which snapshot heals them.

The feed's counters say nothing about such faults: they come from damaged data, or from an error
of ours. The book stands still from there on, and a later snapshot makes it sound again.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from pregao.book.faults import FaultCode, State
from pregao.book.replay import Replay
from pregao.book.rows import UpdateRows
from pregao.lake.books.messages import BookColumns
from pregao.lake.books.sequence import Rows, Sequence, place_text, rows_of, steps_of
from pregao.lake.books.snapshots import Snapshots
from pregao.umdf.gap_columns import HEALED, Followed, Step


class BrokenError(Exception):
    """A book did not fit its messages, in a run that is not made for it."""


@dataclass(slots=True)
class Faults:
    """What did not fit: by item the reason; and by snapshot item, why it had to heal the book."""

    found: dict[int, str] = field(default_factory=dict)
    healing: dict[int, str] = field(default_factory=dict)


def faults_of(
    replay: Replay, sequence: Sequence, followed: Followed, rows: Rows, base_row: int, base: int
) -> dict[int, str]:
    """The faults of a replay that no gap explains, by item."""
    step = steps_of(followed)
    found: dict[int, str] = {}
    for row, code in replay.faults:
        at = int(rows.item[row - base_row])
        if code is FaultCode.INTERRUPTED and step[at] == Step.GAP:
            continue
        found.setdefault(at, fault_text(sequence, at, code, base))
    return found


def fault_text(sequence: Sequence, at: int, code: FaultCode, base: int) -> str:
    """A sentence about a fault."""
    what = code.name.lower().replace("_", " ")
    row = int(sequence.book_row[at])
    number = int(sequence.columns.order_id[row]) if row >= 0 else -1
    whose = f" {number}" if number > 0 else ""
    return f"{what}{whose} ({place_text(int(sequence.place[at]), base)})"


def heal_faults(
    replay: Replay,
    sequence: Sequence,
    followed: Followed,
    snapshots: Snapshots | None,
    base: int,
) -> Faults:
    """Find the faults of a window before it is replayed, and let snapshots heal them.

    A snapshot that would be compared is loaded instead, if the book before it is broken: its step
    is changed.
    """
    faults = Faults()
    rows = rows_of(sequence, followed, snapshots)
    trial = _trial(replay)
    base_row = trial.done
    trial.run(rows.updates, finish=False)
    broken = faults_of(trial, sequence, followed, rows, base_row, base)
    for rank in sorted({int(sequence.rank[at]) for at in broken}):
        own = _trial(replay)
        begin, end = int(sequence.starts[rank]), int(sequence.starts[rank + 1])
        step = steps_of(followed)[begin:end]
        stale = False
        why = ""
        at = begin
        for stop in [*(begin + np.flatnonzero(step == Step.AGREES)).tolist(), end]:
            piece = rows.updates[int(rows.begins[at]) : int(rows.begins[stop])]
            if len(piece):
                before = own.done
                last = before + len(piece) - 1
                played = own.run(piece, finish=False, dump_at=[last])
                for row, code in played.faults:
                    item = int(rows.item[int(rows.begins[at]) + row - before])
                    if code is FaultCode.INTERRUPTED and steps_of(followed)[item] == Step.GAP:
                        continue
                    why = fault_text(sequence, item, code, base)
                    faults.found.setdefault(item, why)
                stale = played.books[-1].state is State.STALE
            if stale and stop < end:
                assert snapshots is not None
                followed.steps[stop] = Step.LOADS | HEALED
                faults.healing[stop] = why
                loaded = snapshots.rows(int(sequence.snapshot[stop]))
                own.run(_updates(loaded, int(sequence.securities[rank])), finish=False)
                stale = False
            at = stop
    return faults


def _trial(replay: Replay) -> Replay:
    """A replay that stands where another one does, and gives no ticks."""
    trial = Replay(replay.kind, 0)
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
