"""Merges messages, resets and snapshots of instruments into sequences and rows of updates."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pregao.arrays import BoolArray, Int64Array, Uint8Array
from pregao.book.update_rows import RECOVERY, UpdateKind, UpdateRows
from pregao.feed.messages import BookColumns, IncrementalColumns, ResetColumns
from pregao.feed.packet_gaps import PacketGapColumns
from pregao.feed.packet_keys import in_order, ranked
from pregao.feed.replay.snapshots import AbsentInstruments, Snapshots
from pregao.umdf.gap_columns import CONFIRMED, DOUBTED, GapCounters, GapSteps, follow
from pregao.umdf.gaps import GapItem, GapStep

_LOADING = (GapStep.LOADS, GapStep.DISAGREES, GapStep.CONFIRMS)
"""Steps of snapshots that are loaded."""


@dataclass(slots=True)
class InstrumentSequence:
    """Items of some instruments in order: messages, resets, snapshots, absences, gaps."""

    securities: Int64Array
    starts: Int64Array
    """Index at which each instrument's items begin, and the end of the last one's."""
    rank: Int64Array
    """Index of each item's instrument in ``securities``."""
    message_serial: Int64Array
    event: Int64Array
    sending: Int64Array
    capture: Int64Array
    time: Int64Array
    item: Uint8Array
    count: Int64Array
    book_row: Int64Array
    """Index of the item in the book columns; -1 for items that change no book."""
    snapshot: Int64Array
    """Index of the item's snapshot; -1 for other items."""
    columns: BookColumns

    def __len__(self) -> int:
        return len(self.rank)


class EffectiveSnapshots:
    """Selects the snapshots that take effect in each window of a sequence, window by window."""

    def __init__(self, snapshots: Snapshots | None) -> None:
        self._snapshots = snapshots
        self._seen = 0
        """Highest message serial of the previous windows."""

    def within(self, messages: IncrementalColumns, *, last: bool) -> Int64Array:
        """Return the snapshots that take effect among these messages.

        Those after the window's last message are left to the next window, if there is one: the
        message after a snapshot determines from when on it takes effect.
        """
        snapshots = self._snapshots
        if snapshots is None:
            return np.empty(0, np.int64)
        usable = snapshots.usable() & (snapshots.message_serial >= self._seen)
        if not last:
            newest = int(messages.keys.message_serial.max(initial=-1))
            usable &= snapshots.message_serial < newest
            self._seen = max(self._seen, newest)
        return np.flatnonzero(usable)


def in_sequence(
    messages: IncrementalColumns,
    resets: ResetColumns,
    snapshots: Snapshots | None,
    usable: Int64Array,
    absent: AbsentInstruments,
    also: Int64Array,
    gaps: PacketGapColumns,
) -> InstrumentSequence:
    """Sort all items of the instruments.

    ``usable`` are the indices of the snapshots that take effect; the instruments in ``also`` are
    included even without items.
    """
    none = np.empty(0, np.int64)
    keys = messages.keys
    of_snapshots = none if snapshots is None else snapshots.security[usable]
    securities, (rank, snapshot_rank, _) = ranked(keys.security, of_snapshots, also)
    instruments, count, books = len(securities), len(messages), len(messages.books)
    reset_rank = np.repeat(np.arange(instruments), len(resets))
    absent = absent.take(np.flatnonzero(np.isin(absent.security, securities)))
    absent_rank = np.searchsorted(securities, absent.security)

    def tiled(values: Int64Array) -> Int64Array:
        return np.tile(values, instruments)

    gap_rank, gap_index = np.empty(0, np.int64), np.empty(0, np.int64)
    if len(gaps):
        ranks = np.concatenate([rank, snapshot_rank, reset_rank, absent_rank])
        serials = [
            keys.message_serial,
            none if snapshots is None else snapshots.message_serial[usable],
        ]
        serials += [tiled(resets.message_serial), absent.message_serial]
        gap_rank, gap_index = gaps.between(ranks, np.concatenate(serials), instruments)
    unknown = np.full(len(usable) + len(absent_rank) + len(gap_rank), -1, np.int64)

    def of_snapshot(values: Int64Array | None) -> Int64Array:
        return none if values is None else values[usable]

    parts = {
        "rank": (rank, reset_rank, snapshot_rank, absent_rank, gap_rank),
        "message_serial": (
            keys.message_serial,
            tiled(resets.message_serial),
            of_snapshot(None if snapshots is None else snapshots.message_serial),
            absent.message_serial,
            gaps.serials[gap_index],
        ),
        "event": (keys.event, tiled(resets.event), unknown),
        "sending": (
            keys.sending,
            tiled(resets.sending),
            of_snapshot(None if snapshots is None else snapshots.loop.sending),
            absent.sending,
            gaps.sending[gap_index],
        ),
        "capture": (
            keys.capture,
            tiled(resets.capture),
            of_snapshot(None if snapshots is None else snapshots.capture),
            absent.capture,
            gaps.capture[gap_index],
        ),
        "count": (
            keys.count,
            np.zeros(len(reset_rank), np.int64),
            of_snapshot(None if snapshots is None else snapshots.count),
            np.zeros(len(absent_rank) + len(gap_rank), np.int64),
        ),
        "book_row": (
            np.arange(books),
            np.full(count - books, -1, np.int64),
            np.arange(books, books + len(reset_rank)),
            unknown,
        ),
        "snapshot": (
            np.full(count + len(reset_rank), -1, np.int64),
            usable,
            np.full(len(absent_rank) + len(gap_rank), -1, np.int64),
        ),
    }
    joined = {name: np.concatenate(values) for name, values in parts.items()}
    item = np.concatenate(
        [
            messages.item,
            np.full(len(reset_rank), GapItem.RESET, np.uint8),
            np.full(len(usable), GapItem.SNAPSHOT, np.uint8),
            np.full(len(absent_rank), GapItem.ABSENT, np.uint8),
            np.full(len(gap_rank), GapItem.GAP, np.uint8),
        ]
    )
    order = in_order(joined["rank"], joined["message_serial"])
    sorted_rank = joined["rank"][order]
    columns = messages.books
    time = messages.time
    if len(reset_rank):
        columns = BookColumns.concat(
            [columns, BookColumns.empty(len(reset_rank), UpdateKind.RESET)]
        )
        time = np.concatenate([time, tiled(resets.time)])
    sequence = InstrumentSequence(
        securities,
        np.searchsorted(sorted_rank, np.arange(instruments + 1)),
        sorted_rank,
        joined["message_serial"][order],
        joined["event"][order],
        joined["sending"][order],
        joined["capture"][order],
        time,
        item[order],
        joined["count"][order],
        joined["book_row"][order],
        joined["snapshot"][order],
        columns,
    )
    _date_snapshots(sequence)
    return sequence


def _date_snapshots(sequence: InstrumentSequence) -> None:
    """Date each snapshot by its sending time, or by the next message's or gap's if earlier."""
    shown = (sequence.snapshot >= 0) | (sequence.item == GapItem.ABSENT)
    snapshots = np.flatnonzero(shown)
    messages = np.flatnonzero(~shown)
    following = np.searchsorted(messages, snapshots)
    exists = following < len(messages)
    snapshots, following = snapshots[exists], messages[following[exists]]
    same = sequence.rank[snapshots] == sequence.rank[following]
    snapshots, following = snapshots[same], following[same]
    for column in (sequence.sending, sequence.capture):
        column[snapshots] = np.minimum(column[snapshots], column[following])


@dataclass(slots=True)
class SequenceRows:
    """Rows of updates, and the item of each row."""

    updates: UpdateRows
    item: Int64Array
    begins: Int64Array
    """Number of rows before each item, and the total at the end."""


def follow_sequence(
    sequence: InstrumentSequence, counters: GapCounters, gaps: PacketGapColumns
) -> GapSteps:
    """Determine the step of each item for its instrument."""
    missing = covered = sound = None
    if len(gaps):
        missing, covered = (
            gaps.missing(sequence.message_serial),
            gaps.covered(sequence.message_serial),
        )
        sound = gaps.sound(sequence.message_serial)
    return follow(sequence.starts, sequence.item, sequence.count, counters, missing, covered, sound)


_FIXED = (
    UpdateKind.DOUBT,
    UpdateKind.INTERRUPT,
    UpdateKind.EMPTY,
    UpdateKind.CONFIRM,
    UpdateKind.SETTLE,
)
_DOUBT, _INTERRUPT, _EMPTY, _CONFIRM, _SETTLE = range(len(_FIXED))
"""Rows defined by their kind alone; each exists once, after the other rows."""


def rows_of(
    sequence: InstrumentSequence, followed: GapSteps, snapshots: Snapshots | None
) -> SequenceRows:
    """Return the rows that update the books from item to item.

    The rows of an item are, in this order: DOUBT; INTERRUPT, EMPTY or a loaded snapshot; the
    item's own update, or SETTLE for a snapshot that ends a refill; CONFIRM.
    """
    step = followed.step
    doubted, confirmed = followed.has(DOUBTED), followed.has(CONFIRMED)
    interrupted = step == GapStep.GAP
    emptied = (step == GapStep.RESTART) | (step == GapStep.EMPTIES)
    applied = (sequence.book_row >= 0) & (step <= GapStep.RESTART)
    settled = _settled(sequence, step, applied)
    flags = (doubted, interrupted, emptied, applied, settled, confirmed)
    width = np.zeros(len(sequence), np.int64)
    for flag in flags:
        width += flag
    loaded = loaded_snapshots(followed)
    extra: list[BookColumns] = []
    for at in loaded.tolist():
        assert snapshots is not None
        extra.append(snapshots.rows(int(sequence.snapshot[at])))
        width[at] += len(extra[-1])
    begins = np.concatenate([[0], np.cumsum(width)])
    columns = sequence.columns
    fixed = len(columns)
    parts = [columns]
    if any(flag.any() for flag in (doubted, interrupted, emptied, settled, confirmed)):
        parts += [BookColumns.empty(1, kind) for kind in _FIXED]
    next_row = fixed + len(parts) - 1
    source = np.empty(int(begins[-1]), np.int64)
    source[begins[:-1][doubted]] = fixed + _DOUBT
    first = begins[:-1] + doubted
    source[first[interrupted]] = fixed + _INTERRUPT
    source[first[emptied]] = fixed + _EMPTY
    last = begins[1:] - 1
    source[last[confirmed]] = fixed + _CONFIRM
    source[(last - confirmed)[applied]] = sequence.book_row[applied]
    source[(last - confirmed)[settled]] = fixed + _SETTLE
    for at, rows in zip(loaded.tolist(), extra, strict=True):
        begin = int(first[at])
        source[begin : begin + len(rows)] = np.arange(next_row, next_row + len(rows))
        next_row += len(rows)
    columns = BookColumns.concat([*parts, *extra])
    item = np.repeat(np.arange(len(sequence)), width)
    # Items that are not an event of the market get unique negative numbers.
    event = np.where(sequence.event < 0, -2 - np.arange(len(sequence)), sequence.event)
    instrument = sequence.securities[sequence.rank[item]]
    updates = columns.take(source).of_instruments(instrument, event[item])
    return SequenceRows(updates, item, begins)


def _settled(sequence: InstrumentSequence, step: Uint8Array, applied: BoolArray) -> BoolArray:
    """Return which snapshots equal a book that is being refilled."""
    columns = sequence.columns
    fills_one = (columns.kind <= UpdateKind.CHANGE) | (columns.kind == UpdateKind.OVERLAY)
    builds = fills_one & ((columns.flags & RECOVERY) != 0)
    settled = np.zeros(len(sequence), np.bool_)
    if not builds.any():
        return settled
    # The last item, up to each one, that determines whether a book is being refilled.
    decides = applied | np.isin(step, (GapStep.AGREES, GapStep.EMPTIES, *_LOADING))
    last = np.maximum.accumulate(np.where(decides, np.arange(len(sequence)), -1))
    fills = np.zeros(len(sequence), np.bool_)
    fills[applied] = builds[sequence.book_row[applied]]
    shown = np.flatnonzero(step == GapStep.AGREES)
    before = last[np.maximum(shown - 1, 0)]
    same = (shown > 0) & (before >= 0) & (sequence.rank[before] == sequence.rank[shown])
    settled[shown] = same & fills[before]
    return settled


def counts_after(
    sequence: InstrumentSequence, followed: GapSteps, counters: GapCounters
) -> Int64Array:
    """Return the instrument's count after each item; ``counters`` are those after all items."""
    after = np.empty(len(sequence), np.int64)
    after[:-1] = followed.before[1:]
    ends = sequence.starts[1:] - 1
    own = np.diff(sequence.starts) > 0
    after[ends[own]] = np.maximum(counters.last[own], 0)
    return after


def snapshots_after_lost_statistics(
    sequence: InstrumentSequence, followed: GapSteps, complete: bool
) -> Int64Array:
    """Return the snapshots that agree with their books, but whose statistics must be loaded.

    Statistics may have been lost since the instrument's previous snapshot.

    Emptying a book makes it valid again, but statistics lost before are not sent again.
    ``complete`` states that no packet of the channel is missing.
    """
    step = followed.step
    lost = (step == GapStep.GAP) | (step == GapStep.RESTART)
    if not complete:
        lost |= sequence.item == GapItem.EMPTIED
    total = np.cumsum(lost)
    shown = np.flatnonzero(sequence.snapshot >= 0)
    rank = sequence.rank[shown]
    before = np.where(sequence.starts[rank] > 0, total[sequence.starts[rank] - 1], 0)
    before[1:] = np.where(rank[1:] == rank[:-1], total[shown[:-1]], before[1:])
    agrees = (step[shown] == GapStep.AGREES) | (step[shown] == GapStep.CONFIRMS)
    chosen: BoolArray = (total[shown] > before) & agrees
    return shown[chosen]


def loaded_snapshots(followed: GapSteps) -> Int64Array:
    """Return the items with which a book begins, is healed or confirmed."""
    return np.flatnonzero(np.isin(followed.step, _LOADING))
