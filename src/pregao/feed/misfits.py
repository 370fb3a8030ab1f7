"""Books that did not fit one of their messages: where, why, and which snapshot heals them.

The feed's counters say nothing about such misfits: they come from damaged data, or from an error
of ours. The book does not change from there on, and a later snapshot makes it sound again.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from pregao.book.faults import FaultCode, State
from pregao.book.replay import BookKind, Replay
from pregao.book.rows import UpdateRows
from pregao.feed.messages import BookColumns
from pregao.feed.places import place_text
from pregao.feed.sequence import Rows, Sequence, rows_of
from pregao.feed.snapshots import Snapshots
from pregao.umdf.gap_columns import HEALED, Followed
from pregao.umdf.gaps import Step


class MisfitsFoundError(Exception):
    """A book did not fit its messages, in a run that is not made for it."""


@dataclass(slots=True)
class Misfits:
    """What did not fit: by item the reason; and by snapshot item, why it had to heal the book."""

    found: dict[int, str] = field(default_factory=dict)
    healing: dict[int, str] = field(default_factory=dict)


def misfits_of(
    replay: Replay, sequence: Sequence, followed: Followed, rows: Rows, base_row: int, base: int
) -> dict[int, str]:
    """The misfits of a replay that no gap explains, by item."""
    step = followed.step
    found: dict[int, str] = {}
    for row, code in replay.faults:
        at = int(rows.item[row - base_row])
        if code is FaultCode.INTERRUPTED and step[at] == Step.GAP:
            continue
        found.setdefault(at, misfit_text(replay.kind, sequence, at, code, base))
    return found


def misfit_text(kind: BookKind, sequence: Sequence, at: int, code: FaultCode, base: int) -> str:
    """A sentence about a misfit."""
    what = code.name.lower().replace("_", " ")
    row = -1 if kind is BookKind.DEPTH else int(sequence.book_row[at])
    number = int(sequence.columns.order_id[row]) if row >= 0 else -1
    whose = f" {number}" if number > 0 else ""
    return f"{what}{whose} ({place_text(int(sequence.place[at]), base)})"


def heal_misfits(
    replay: Replay,
    sequence: Sequence,
    followed: Followed,
    snapshots: Snapshots | None,
    base: int,
) -> Misfits:
    """Find the misfits of a window before it is replayed, and let snapshots heal them.

    A snapshot that would be compared is loaded instead, if the book before it is broken: its step
    is changed.
    """
    misfits = Misfits()
    rows = rows_of(sequence, followed, snapshots)
    trial = _trial(replay)
    base_row = trial.done
    trial.run(rows.updates, finish=False)
    broken = misfits_of(trial, sequence, followed, rows, base_row, base)
    for rank in sorted({int(sequence.rank[at]) for at in broken}):
        own = _trial(replay)
        begin, end = int(sequence.starts[rank]), int(sequence.starts[rank + 1])
        step = followed.step[begin:end]
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
                    if code is FaultCode.INTERRUPTED and followed.step[item] == Step.GAP:
                        continue
                    why = misfit_text(replay.kind, sequence, item, code, base)
                    misfits.found.setdefault(item, why)
                stale = played.books[-1].state is State.STALE
            if stale and stop < end:
                assert snapshots is not None
                followed.steps[stop] = Step.LOADS | HEALED
                misfits.healing[stop] = why
                loaded = snapshots.rows(int(sequence.snapshot[stop]))
                own.run(_updates(loaded, int(sequence.securities[rank])), finish=False)
                stale = False
            at = stop
    return misfits


def _trial(replay: Replay) -> Replay:
    """A replay that stands where another one does, and gives no ticks."""
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
