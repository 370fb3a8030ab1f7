"""One instrument's sequence after the other: messages, resets and snapshots to rows of updates."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pregao.book.rows import UpdateKind, UpdateRows
from pregao.feed.columns import Codes, Flags, Numbers
from pregao.feed.messages import BookColumns, Messages, Resets
from pregao.feed.places import in_order, ranked
from pregao.feed.snapshots import Absences, Snapshots
from pregao.umdf.gap_columns import HEALED, Counters, Followed, follow
from pregao.umdf.gaps import Item, Step

_STEP = HEALED - 1


@dataclass(slots=True)
class Sequence:
    """The items of some instruments in order: messages, resets, snapshots, absences."""

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


def in_sequence(
    messages: Messages,
    resets: Resets,
    snapshots: Snapshots | None,
    usable: Numbers,
    absent: Absences,
    also: Numbers,
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

    unknown = np.full(len(usable) + len(absent_rank), -1, np.int64)

    def of_snapshot(values: Numbers | None) -> Numbers:
        return none if values is None else values[usable]

    parts = {
        "rank": (rank, reset_rank, snapshot_rank, absent_rank),
        "place": (
            keys.place,
            tiled(resets.place),
            of_snapshot(None if snapshots is None else snapshots.place),
            absent.place[known],
        ),
        "event": (keys.event, tiled(resets.event), unknown),
        "sending": (
            keys.sending,
            tiled(resets.sending),
            of_snapshot(None if snapshots is None else snapshots.loop.sending),
            np.zeros(len(absent_rank), np.int64),
        ),
        "capture": (
            keys.capture,
            tiled(resets.capture),
            of_snapshot(None if snapshots is None else snapshots.capture),
            np.zeros(len(absent_rank), np.int64),
        ),
        "count": (
            keys.count,
            np.zeros(len(reset_rank), np.int64),
            of_snapshot(None if snapshots is None else snapshots.count),
            np.zeros(len(absent_rank), np.int64),
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
            np.full(len(absent_rank), -1, np.int64),
        ),
    }
    whole = {name: np.concatenate(values) for name, values in parts.items()}
    item = np.concatenate(
        [
            messages.item,
            np.full(len(reset_rank), Item.RESET, np.uint8),
            np.full(len(usable), Item.SNAPSHOT, np.uint8),
            np.full(len(absent_rank), Item.ABSENT, np.uint8),
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
    told = (sequence.snapshot < 0) & (sequence.item != Item.ABSENT)
    found, messages = np.flatnonzero(~told), np.flatnonzero(told)
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


def follow_sequence(sequence: Sequence, counters: Counters) -> Followed:
    """What each item is to its instrument."""
    return follow(sequence.starts, sequence.item, sequence.count, counters)


def rows_of(sequence: Sequence, followed: Followed, snapshots: Snapshots | None) -> Rows:
    """The rows that bring the books from item to item."""
    step = followed.steps & _STEP
    is_book = sequence.book_row >= 0
    applied = is_book & (step <= Step.RESTART)
    width = applied.astype(np.int64)
    special = np.flatnonzero(
        (step == Step.GAP)
        | (step == Step.RESTART)
        | (step == Step.LOADS)
        | (step == Step.DISAGREES)
    )
    extra: list[BookColumns] = []
    for at in special.tolist():
        if step[at] == Step.GAP:
            extra.append(BookColumns.empty(1, UpdateKind.INTERRUPT))
        elif step[at] == Step.RESTART:
            extra.append(BookColumns.empty(1, UpdateKind.EMPTY))
        else:
            assert snapshots is not None
            extra.append(snapshots.rows(int(sequence.snapshot[at])))
        width[at] += len(extra[-1])
    begins = np.concatenate([[0], np.cumsum(width)])
    columns = sequence.columns
    source = np.empty(int(begins[-1]), np.int64)
    # The row of an item itself is its last one: what was put in comes before it.
    source[begins[1:][applied] - 1] = sequence.book_row[applied]
    if extra:
        next_row = len(columns)
        columns = BookColumns.joined([columns, *extra])
        for at, rows in zip(special.tolist(), extra, strict=True):
            first = int(begins[at])
            source[first : first + len(rows)] = np.arange(next_row, next_row + len(rows))
            next_row += len(rows)
    item = np.repeat(np.arange(len(sequence)), width)
    updates = UpdateRows(
        instrument=sequence.securities[sequence.rank[item]],
        event=sequence.event[item],
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
    loaded = special[(step[special] == Step.LOADS) | (step[special] == Step.DISAGREES)]
    for at in loaded.tolist():
        # Snapshots are no events: each gets a number of its own.
        updates.event[begins[at] : begins[at + 1]] = -2 - at
    return Rows(updates, item, begins)


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

    A book is known again when it is emptied; statistics that were lost before are not
    sent again.
    ``whole`` says that no packet of the channel is missing.
    """
    step = steps_of(followed)
    lost = (step == Step.GAP) | (step == Step.RESTART)
    if not whole:
        lost |= sequence.item == Item.EMPTIED
    total = np.cumsum(lost)
    shown = np.flatnonzero(sequence.snapshot >= 0)
    rank = sequence.rank[shown]
    before = np.where(sequence.starts[rank] > 0, total[sequence.starts[rank] - 1], 0)
    before[1:] = np.where(rank[1:] == rank[:-1], total[shown[:-1]], before[1:])
    chosen: Flags = (total[shown] > before) & (step[shown] == Step.AGREES)
    return shown[chosen]


def loaded_snapshots(followed: Followed) -> Numbers:
    """The items with which a book begins, or is healed."""
    step = followed.steps & _STEP
    return np.flatnonzero((step == Step.LOADS) | (step == Step.DISAGREES))


def steps_of(followed: Followed) -> Codes:
    """The steps without the bit that says healed."""
    return followed.steps & np.uint8(_STEP)


def healed(followed: Followed) -> Flags:
    """Which items heal their instrument."""
    flags: Flags = (followed.steps & HEALED) != 0
    return flags
