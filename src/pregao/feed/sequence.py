"""One instrument's sequence after the other: messages, resets and snapshots to rows of updates."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pregao.book.rows import RECOVERY, UpdateKind, UpdateRows
from pregao.feed.columns import Codes, Flags, Numbers
from pregao.feed.holes import Holes
from pregao.feed.messages import BookColumns, Messages, Resets
from pregao.feed.places import in_order, ranked
from pregao.feed.snapshots import Absences, Snapshots
from pregao.umdf.gap_columns import CONFIRMED, DOUBTED, Counters, Followed, follow
from pregao.umdf.gaps import Item, Step

_LOADING = (Step.LOADS, Step.DISAGREES, Step.CONFIRMS)
"""The steps of a snapshot that is loaded."""


@dataclass(slots=True)
class Sequence:
    """The items of some instruments in order: messages, resets, snapshots, absences, holes."""

    securities: Numbers
    starts: Numbers
    """Where each instrument's items begin, and where the last one's end."""
    rank: Numbers
    """Of each item: the place of its instrument among the securities."""
    place: Numbers
    event: Numbers
    sending: Numbers
    capture: Numbers
    time: Numbers
    item: Codes
    count: Numbers
    book_row: Numbers
    """Which of the book columns it is; -1 for items that change no book."""
    snapshot: Numbers
    """Which snapshot it is; -1 for others."""
    columns: BookColumns

    def __len__(self) -> int:
        return len(self.rank)


class CountingSnapshots:
    """Which snapshots count in each window of a sequence, asked window after window."""

    def __init__(self, snapshots: Snapshots | None) -> None:
        self._snapshots = snapshots
        self._seen = 0
        """The newest place of the windows before."""

    def within(self, messages: Messages, *, last: bool) -> Numbers:
        """The snapshots that count among these messages.

        Those behind the window's newest message are left for the next window, if there is one:
        what comes behind them tells from when on they count.
        """
        snapshots = self._snapshots
        if snapshots is None:
            return np.empty(0, np.int64)
        usable = snapshots.usable() & (snapshots.place >= self._seen)
        if not last:
            newest = int(messages.keys.place.max(initial=-1))
            usable &= snapshots.place < newest
            self._seen = max(self._seen, newest)
        return np.flatnonzero(usable)


def in_sequence(
    messages: Messages,
    resets: Resets,
    snapshots: Snapshots | None,
    usable: Numbers,
    absent: Absences,
    also: Numbers,
    holes: Holes,
) -> Sequence:
    """Put everything about the instruments in order.

    ``usable`` names the snapshots that count; ``also`` are instruments that are there in any
    case.
    """
    none = np.empty(0, np.int64)
    keys = messages.keys
    of_snapshots = none if snapshots is None else snapshots.security[usable]
    securities, (rank, snapshot_rank, _) = ranked(keys.security, of_snapshots, also)
    instruments, count, books = len(securities), len(messages), len(messages.books)
    reset_rank = np.repeat(np.arange(instruments), len(resets))
    known = np.isin(absent.security, securities)
    absent_rank = np.searchsorted(securities, absent.security[known])

    def tiled(values: Numbers) -> Numbers:
        return np.tile(values, instruments)

    hole_rank, hole = np.empty(0, np.int64), np.empty(0, np.int64)
    if len(holes):
        of_messages = np.concatenate([rank, snapshot_rank, reset_rank, absent_rank])
        at = [keys.place, none if snapshots is None else snapshots.place[usable]]
        at += [tiled(resets.place), absent.place[known]]
        hole_rank, hole = holes.between(of_messages, np.concatenate(at), instruments)
    unknown = np.full(len(usable) + len(absent_rank) + len(hole_rank), -1, np.int64)
    zero = np.zeros(len(absent_rank), np.int64)

    def of_snapshot(values: Numbers | None) -> Numbers:
        return none if values is None else values[usable]

    parts = {
        "rank": (rank, reset_rank, snapshot_rank, absent_rank, hole_rank),
        "place": (
            keys.place,
            tiled(resets.place),
            of_snapshot(None if snapshots is None else snapshots.place),
            absent.place[known],
            holes.place[hole],
        ),
        "event": (keys.event, tiled(resets.event), unknown),
        "sending": (
            keys.sending,
            tiled(resets.sending),
            of_snapshot(None if snapshots is None else snapshots.loop.sending),
            zero,
            holes.sending[hole],
        ),
        "capture": (
            keys.capture,
            tiled(resets.capture),
            of_snapshot(None if snapshots is None else snapshots.capture),
            zero,
            holes.capture[hole],
        ),
        "count": (
            keys.count,
            np.zeros(len(reset_rank), np.int64),
            of_snapshot(None if snapshots is None else snapshots.count),
            np.zeros(len(absent_rank) + len(hole_rank), np.int64),
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
            np.full(len(absent_rank) + len(hole_rank), -1, np.int64),
        ),
    }
    whole = {name: np.concatenate(values) for name, values in parts.items()}
    item = np.concatenate(
        [
            messages.item,
            np.full(len(reset_rank), Item.RESET, np.uint8),
            np.full(len(usable), Item.SNAPSHOT, np.uint8),
            np.full(len(absent_rank), Item.ABSENT, np.uint8),
            np.full(len(hole_rank), Item.HOLE, np.uint8),
        ]
    )
    order = in_order(whole["rank"], whole["place"])
    sorted_rank = whole["rank"][order]
    columns = messages.books
    time = messages.time
    if len(reset_rank):
        columns = BookColumns.joined(
            [columns, BookColumns.empty(len(reset_rank), UpdateKind.RESET)]
        )
        time = np.concatenate([time, tiled(resets.time)])
    sequence = Sequence(
        securities,
        np.searchsorted(sorted_rank, np.arange(instruments + 1)),
        sorted_rank,
        whole["place"][order],
        whole["event"][order],
        whole["sending"][order],
        whole["capture"][order],
        time,
        item[order],
        whole["count"][order],
        whole["book_row"][order],
        whole["snapshot"][order],
        columns,
    )
    _date_snapshots(sequence)
    return sequence


def _date_snapshots(sequence: Sequence) -> None:
    """Let a snapshot count from when it was sent, or from the next message, if that is earlier."""
    shown = (sequence.snapshot >= 0) | (sequence.item == Item.ABSENT)
    found = np.flatnonzero(shown)
    messages = np.flatnonzero(~shown & (sequence.item != Item.HOLE))
    behind = np.searchsorted(messages, found)
    there = behind < len(messages)
    found, behind = found[there], messages[behind[there]]
    same = sequence.rank[found] == sequence.rank[behind]
    found, behind = found[same], behind[same]
    for column in (sequence.sending, sequence.capture):
        column[found] = np.minimum(column[found], column[behind])


@dataclass(slots=True)
class Rows:
    """Rows of updates, and which item each one came from."""

    updates: UpdateRows
    item: Numbers
    begins: Numbers
    """How many rows come before each item; one number more than there are items."""


def follow_sequence(sequence: Sequence, counters: Counters, holes: Holes) -> Followed:
    """What each item is to its instrument."""
    missing = covered = sound = None
    if len(holes):
        missing, covered = holes.missing(sequence.place), holes.covered(sequence.place)
        sound = holes.sound(sequence.place)
    return follow(sequence.starts, sequence.item, sequence.count, counters, missing, covered, sound)


_FIXED = (
    UpdateKind.DOUBT,
    UpdateKind.INTERRUPT,
    UpdateKind.EMPTY,
    UpdateKind.CONFIRM,
    UpdateKind.SETTLE,
)
_DOUBT, _INTERRUPT, _EMPTY, _CONFIRM, _SETTLE = range(len(_FIXED))
"""Rows that say all by their kind; each stands once behind the others."""


def rows_of(sequence: Sequence, followed: Followed, snapshots: Snapshots | None) -> Rows:
    """The rows that bring the books from item to item.

    Of an item they are, in this order: that the book is in doubt; that it is interrupted or
    emptied, or a snapshot that is loaded; what the item itself does, or that a snapshot ends what
    fills the book again; that the book is confirmed.
    """
    step = followed.step
    doubted, confirmed = followed.has(DOUBTED), followed.has(CONFIRMED)
    interrupted = step == Step.GAP
    emptied = (step == Step.RESTART) | (step == Step.EMPTIES)
    applied = (sequence.book_row >= 0) & (step <= Step.RESTART)
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
    columns = BookColumns.joined([*parts, *extra])
    item = np.repeat(np.arange(len(sequence)), width)
    # What is no event of the market gets a number of its own.
    event = np.where(sequence.event < 0, -2 - np.arange(len(sequence)), sequence.event)
    updates = UpdateRows(
        instrument=sequence.securities[sequence.rank[item]],
        event=event[item],
        kind=columns.kind[source],
        side=columns.side[source],
        flags=columns.flags[source],
        order_id=columns.order_id[source],
        price=columns.price[source],
        size=columns.size[source],
        previous=columns.previous[source],
        position=columns.position[source],
        firm=columns.firm[source],
        inserted=columns.inserted[source],
    )
    return Rows(updates, item, begins)


def _settled(sequence: Sequence, step: Codes, applied: Flags) -> Flags:
    """The snapshots that equal a book which is being filled again."""
    columns = sequence.columns
    fills_one = (columns.kind <= UpdateKind.CHANGE) | (columns.kind == UpdateKind.OVERLAY)
    builds = fills_one & ((columns.flags & RECOVERY) != 0)
    settled = np.zeros(len(sequence), np.bool_)
    if not builds.any():
        return settled
    # The last item that says whether a book is being filled, before each one or itself.
    tells = applied | np.isin(step, (Step.AGREES, Step.EMPTIES, *_LOADING))
    last = np.maximum.accumulate(np.where(tells, np.arange(len(sequence)), -1))
    fills = np.zeros(len(sequence), np.bool_)
    fills[applied] = builds[sequence.book_row[applied]]
    shown = np.flatnonzero(step == Step.AGREES)
    before = last[np.maximum(shown - 1, 0)]
    same = (shown > 0) & (before >= 0) & (sequence.rank[before] == sequence.rank[shown])
    settled[shown] = same & fills[before]
    return settled


def counts_after(sequence: Sequence, followed: Followed, counters: Counters) -> Numbers:
    """The last count of the instrument behind each item; ``counters`` are those behind all."""
    after = np.empty(len(sequence), np.int64)
    after[:-1] = followed.before[1:]
    ends = sequence.starts[1:] - 1
    own = np.diff(sequence.starts) > 0
    after[ends[own]] = np.maximum(counters.last[own], 0)
    return after


def without_statistics(sequence: Sequence, followed: Followed, whole: bool) -> Numbers:
    """The snapshots with which books agree, but before which statistics may have been lost.

    A book is known again when it is emptied; statistics that were lost before are not sent again.
    ``whole`` says that no packet of the channel is missing.
    """
    step = followed.step
    lost = (step == Step.GAP) | (step == Step.RESTART)
    if not whole:
        lost |= sequence.item == Item.EMPTIED
    total = np.cumsum(lost)
    shown = np.flatnonzero(sequence.snapshot >= 0)
    rank = sequence.rank[shown]
    before = np.where(sequence.starts[rank] > 0, total[sequence.starts[rank] - 1], 0)
    before[1:] = np.where(rank[1:] == rank[:-1], total[shown[:-1]], before[1:])
    agrees = (step[shown] == Step.AGREES) | (step[shown] == Step.CONFIRMS)
    chosen: Flags = (total[shown] > before) & agrees
    return shown[chosen]


def loaded_snapshots(followed: Followed) -> Numbers:
    """The items with which a book begins, is healed or confirmed."""
    return np.flatnonzero(np.isin(followed.step, _LOADING))
