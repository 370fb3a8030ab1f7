"""Histories of orders, from the columns of messages, snapshots and trades of some instruments.

The rules of `pregao.feed` decide which snapshots count and where messages are missing, as for
books; no books need to be built. An instrument with very many messages is processed in windows of
its sequence.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pregao.arrays import Int64Array, Uint8Array
from pregao.book.replay import BookState
from pregao.book.update_rows import IMPLIED, NULL, UpdateKind
from pregao.feed.messages import BookColumns
from pregao.feed.packet_gaps import no_gaps
from pregao.feed.packet_keys import message_serials
from pregao.feed.replay.day import LAST_SERIAL
from pregao.feed.replay.sequence import (
    EffectiveSnapshots,
    InstrumentSequence,
    follow_sequence,
    in_sequence,
    loaded_snapshots,
)
from pregao.feed.replay.snapshots import AbsentInstruments, Snapshots
from pregao.feed.replay.statistics import OtherMessages
from pregao.lake.analytics import _order_kernels as k
from pregao.lake.analytics.reading import LakeDay
from pregao.lake.books.day_loader import VERSION, ArrowColumns, DayReader
from pregao.lake.books.planner import plan_tasks
from pregao.lake.books.reader import BINARY, FlatColumns, Serials
from pregao.lake.books.task import BookTask, BuildSettings, DayInputs
from pregao.lake.storage.fast_parquet.columns import FlatRows
from pregao.umdf.gap_columns import GapCounters
from pregao.umdf.templates import EXECUTION_SUMMARY, FORWARD_TRADE, IMPLIED_SINCE, ORDER, TRADE

SIDES = ("BUY", "SELL")
NO_SIDE = 2
CAPACITY = 1 << 12
"""Number of orders, and of orders and levels of a book, for which there is space at first."""
_NOTHING_TO_WRITE = BuildSettings("", depth=1, interval_ns=0)
_TRADE_KEY = ("security_id", "sequence_version", "sequence_number", "index_in_packet")
_SIDE_CODES = {name: code for code, name in enumerate(SIDES)}

Table = npt.NDArray[np.int64]
"""Rows of numbers; `_order_kernels` names their columns."""


def matters(inputs: DayInputs) -> bool:
    """Whether messages of a channel's day are missing, so that its snapshots count."""
    return len(inputs.day.gaps) > 0


def order_tasks(day: LakeDay) -> list[BookTask]:
    """Return what to process one after the other, in the order of instruments."""
    tasks = [
        task
        for inputs in day.book_inputs()
        for task in plan_tasks(inputs, _NOTHING_TO_WRITE, 1, day.part)
        if not task.inputs.day.of_levels
    ]
    return sorted(tasks, key=lambda task: task.part.first)


class Histories(NamedTuple):
    """Histories of orders that a window completes, and the instruments' IDs by rank."""

    lives: Table
    securities: Int64Array
    base: int
    """First sequence version: serials count from it."""


def histories(day: LakeDay, task: BookTask) -> Iterator[Histories]:
    """Yield the histories of a task's orders, window by window."""
    run = _Run(day, task)
    for lives in run.windows():
        yield Histories(lives, run.securities, task.inputs.day.base)


class OrderAction(IntEnum):
    """Kind of an update of an order."""

    NEW = k.ADD
    CHANGE = k.CHANGE
    DELETE = k.DELETE
    SNAPSHOT = k.SNAPSHOT
    """A snapshot that starts or heals the book has the order."""


@dataclass(frozen=True, slots=True)
class OrderActs:
    """Updates of an instrument's orders as columns, in order; missing values are NULL."""

    base: int
    """First sequence version: serials count from it."""
    serial: Int64Array
    """Message serial."""
    event: Int64Array
    order_id: Int64Array
    side: Int64Array
    action: Int64Array
    """`OrderAction`."""
    price: Int64Array
    size: Int64Array
    filled: Int64Array
    """1 if a trade caused it."""
    recovery: Int64Array
    """1 if it was resent to restore a book."""
    position: Int64Array
    aggressor: Int64Array
    """Side of the aggressor of its event; `NO_SIDE` without one."""
    time: Int64Array
    cleared: Int64Array
    """Message serials where orders of a side left the book, or became unknown."""
    cleared_side: Int64Array
    cleared_time: Int64Array


def order_acts(day: LakeDay) -> OrderActs | None:
    """Return the updates of orders of an instrument of the binary feed; None without any."""
    for task in order_tasks(day):
        if task.inputs.inputs.protocol != BINARY:
            continue
        run = _Run(day, task, keeps_acts=True)
        for _ in run.windows():
            pass
        acts, sides = np.concatenate(run.book.kept_acts), run.book.cleared()
        if not len(acts):
            return None
        clearings = np.concatenate(sides)
        cleared = [
            clearings[:, k.CLEAR_SERIAL],
            np.repeat([0, 1], [len(own) for own in sides]),
            clearings[:, k.CLEAR_TIME],
        ]
        columns = [acts[:, at] for at in range(k.ACT_WORDS)]
        return OrderActs(task.inputs.day.base, *columns, *cleared)
    return None


# --- Trades ---


@dataclass(frozen=True, slots=True)
class TradedMoments:
    """Events with trades, or times on a feed without events, by instrument and in order."""

    security: Int64Array
    moment: Int64Array
    volume: Int64Array
    """Traded quantity; NULL if no trade states it."""
    first: Int64Array
    """Message serial of the first trade."""
    aggressor: Int64Array
    """Side of the aggressor; `NO_SIDE` if unknown."""

    @staticmethod
    def from_tables(trades: Table, summaries: Table) -> TradedMoments:
        """Group trades (security, moment, serial, size) and summaries (with a side)."""
        order = np.lexsort((trades[2], trades[1], trades[0]))
        security, moment, serial, size = trades[:, order]
        begins = _changes(security, moment)
        stated = np.where(size == NULL, 0, size)
        volume = np.add.reduceat(stated, begins) if len(begins) else stated
        known = np.logical_or.reduceat(size != NULL, begins) if len(begins) else size != NULL
        security, moment, serial = security[begins], moment[begins], serial[begins]
        aggressor = np.full(len(begins), NO_SIDE, np.int64)
        order = np.lexsort((summaries[2], summaries[1], summaries[0]))
        summaries = summaries[:, order]
        summaries = summaries[:, _changes(summaries[0], summaries[1])]
        # Both are sorted by instrument and moment.
        keys = np.concatenate([np.stack([security, moment]), summaries[:2]], axis=1)
        order = np.lexsort((keys[1], keys[0]))
        same = np.flatnonzero((keys[:, order[1:]] == keys[:, order[:-1]]).all(axis=0))
        aggressor[order[same]] = summaries[3][order[same + 1] - len(begins)]
        return TradedMoments(security, moment, np.where(known, volume, NULL), serial, aggressor)

    def about(self, securities: Int64Array) -> TradedMoments:
        """Return those of some instruments."""
        own = np.flatnonzero(np.isin(self.security, securities))
        return TradedMoments(*(getattr(self, name)[own] for name in self.__slots__))


def _changes(*columns: Int64Array) -> Int64Array:
    """Return the rows that differ from the one before."""
    new = np.zeros(max(len(columns[0]) - 1, 0), np.bool_)
    for column in columns:
        new |= column[1:] != column[:-1]
    return np.flatnonzero(np.append(True, new)[: len(columns[0])])


def _moments(day: LakeDay, source: DayReader) -> TradedMoments:
    if source.reader.inputs.protocol != BINARY:
        return _legacy_moments(day, source)
    none = [np.empty((4, 0), np.int64)]
    trades = [
        _trade_columns(source, template, ("event", "md_entry_size"))
        for template in (TRADE, FORWARD_TRADE)
    ]
    summaries = _trade_columns(source, EXECUTION_SUMMARY, ("event", "aggressor_side"))
    return TradedMoments.from_tables(
        np.concatenate([*none, *trades[0], *trades[1]], axis=1),
        np.concatenate([*none, *summaries], axis=1),
    )


def _trade_columns(source: DayReader, template: int, names: tuple[str, str]) -> list[Table]:
    columns = [*_TRADE_KEY, *names]
    found = []
    for rows in _read(source, template, columns):
        last = (
            rows.codes(names[1], _SIDE_CODES, NO_SIDE).astype(np.int64)
            if template == EXECUTION_SUMMARY
            else rows.numbers(names[1])
        )
        serials = message_serials(rows, source.day.base)
        found.append(np.stack([rows.numbers("security_id"), rows.numbers(names[0]), serials, last]))
    return found


def _legacy_moments(day: LakeDay, source: DayReader) -> TradedMoments:
    parts = [np.empty((4, 0), np.int64)]
    names = [*_TRADE_KEY, "md_entry_timestamp_ns", "md_entry_size"]
    for template in (TRADE, FORWARD_TRADE):
        found = day.legacy_messages(template)
        if found is not None:
            rows = ArrowColumns(found.select(*names).table())
            serials = message_serials(rows, source.day.base)
            own = [rows.numbers(name) for name in ("security_id", *names[-2:])]
            parts.append(np.stack([own[0], own[1], serials, own[2]]))
    return TradedMoments.from_tables(np.concatenate(parts, axis=1), np.empty((4, 0), np.int64))


def _read(
    source: DayReader, template: int, columns: Sequence[str], serials: Serials | None = None
) -> Iterator[Any]:
    for found in source.reader.read_columns(template, columns, source.part, serials):
        flat = isinstance(found, FlatRows)
        yield FlatColumns(found, columns) if flat else ArrowColumns(found)


# --- State ---


class BookOfLives:
    """Book of one instrument after the other, and the histories of the orders."""

    def __init__(self, *, by_position: bool, named: bool, keeps_acts: bool = False) -> None:
        self.by_position = by_position
        self.named = named
        self.keeps_acts = keeps_acts
        self.kept_acts: list[Table] = []
        self.state = np.zeros(k.STATE_WORDS, np.int64)
        self.state[[k.INSTRUMENT, k.GROUP]] = -1
        self.clearings = np.empty((2, 0, k.CLEAR_WORDS), np.int64)
        self._used: Table | None = None
        """Quantity by which the orders of each side were reduced after the trades of a moment."""
        self._book = BookState.new(CAPACITY, 0)
        self._removed = np.empty((3, CAPACITY), np.int64)
        self._acts = np.empty((0, k.ACT_WORDS), np.int64)
        self.lives = np.empty((0, k.LIFE_WORDS), np.int64)
        self._ended_now, self._pending = (np.empty(0, np.int64) for _ in range(2))
        self._reserve(self.lives, CAPACITY)

    def follow(self, items: OrderItems, moments: TradedMoments, *, last: bool) -> None:
        """Process the items of a window; ``moments`` are the same in all windows."""
        columns, times, state = items.columns, items.times, self.state
        if self._used is None:
            self._used = np.zeros((len(moments.moment), 2), np.int64)
        state[k.NEXT] = 0
        begun = int(state[k.LIVES]) + items.orders
        if begun > len(self.lives):
            self._reserve(self.lives[: state[k.LIVES]], begun)
        more = items.clearings
        held = int(state[k.CLEARED : k.CLEARED + 2].max())
        grown = np.empty((2, held + more, k.CLEAR_WORDS), np.int64)
        grown[:, :held] = self.clearings[:, :held]
        self.clearings = grown
        capacity = len(columns) if self.keeps_acts else 0
        self._acts = np.empty((capacity, k.ACT_WORDS), np.int64)
        starts = np.searchsorted(moments.security, items.securities)
        starts = np.append(starts, len(moments.security))
        while True:
            book = self._book
            status = k.follow_orders(
                len(items.rank), last, self.by_position, self.named,
                items.rank, items.serial, items.event, items.step, items.book_row,
                items.snapshot_first, items.snapshot_end,
                columns.kind, columns.side, columns.flags, columns.order_id, columns.price,
                columns.size, columns.previous, columns.position, columns.firm, columns.inserted,
                items.implied, times,
                starts, moments.moment, moments.volume, moments.first, moments.aggressor,
                self._used,
                book.meta, book.table, book.queue, book.slots, book.ranks, book.ladder, book.top,
                state, self.lives, self._map, self._ended_now, self._pending, self.clearings,
                self._removed, self._acts,
            )  # fmt: skip
            if status == k.DONE:
                break
            if status == k.BOOK_FULL:
                self._book = book.grown()
                if not self.by_position:
                    self._book.enter_all()
                self._removed = np.empty((3, len(self._book.queue) // 2), np.int64)
            elif status == k.LIVES_FULL:
                self._reserve(self.lives[: state[k.LIVES]], 2 * len(self.lives))
            else:
                self._keep_acts()
                self._acts = np.empty((2 * len(self._acts), k.ACT_WORDS), np.int64)
        self._keep_acts()

    def take(self, *, last: bool) -> Table:
        """Remove and return the histories that are complete."""
        state = self.state
        lives: Table = self.lives[: state[k.LIVES]]
        if last:
            return lives
        stays = (lives[:, k.REASON] != k.FILLED) & (lives[:, k.REASON] != k.CANCELLED)
        ended = self._ended_now[: state[k.ENDED_NOW]]
        pending = self._pending[: state[k.PENDING]]
        stays[ended] = stays[pending] = True
        number = np.cumsum(stays) - 1
        ended, pending = number[ended], number[pending]
        complete: Table = lives[~stays]
        self._reserve(lives[stays], max(len(self.lives), 2 * int(stays.sum())))
        self._ended_now[: len(ended)] = ended
        self._pending[: len(pending)] = pending
        state[k.LIVES] = int(stays.sum())
        return complete

    def cleared(self) -> list[Table]:
        """Return the clearings of each side."""
        counts = self.state[k.CLEARED : k.CLEARED + 2].tolist()
        return [self.clearings[side, :count] for side, count in enumerate(counts)]

    def _reserve(self, lives: Table, capacity: int) -> None:
        """Allocate space for lives, with the given ones at its start."""
        self.lives = np.empty((capacity, k.LIFE_WORDS), np.int64)
        self.lives[: len(lives)] = lives
        ended, pending = self._ended_now, self._pending
        self._ended_now, self._pending = (np.empty(capacity, np.int64) for _ in range(2))
        self._ended_now[: len(ended)] = ended[:capacity]
        self._pending[: len(pending)] = pending[:capacity]
        self._map = np.zeros(1 << (2 * capacity - 1).bit_length(), np.int32)
        k.enter_lives(self.lives, len(lives), self._map)

    def _keep_acts(self) -> None:
        if self.keeps_acts:
            self.kept_acts.append(self._acts[: self.state[k.ACTS]].copy())
            self.state[k.ACTS] = 0


# --- Reading ---


@dataclass(slots=True)
class OrderItems:
    """Items of a window in order, and the rows of the book's columns that they refer to."""

    securities: Int64Array
    rank: Int64Array
    serial: Int64Array
    event: Int64Array
    step: Uint8Array
    book_row: Int64Array
    snapshot_first: Int64Array
    snapshot_end: Int64Array
    columns: BookColumns
    """Rows of messages, then of snapshots, then one that interrupts a book and one that empties it.
    """
    implied: Int64Array
    """1 for an implied order, 0 for others, NULL where the schema version has no bit for it."""
    times: Int64Array

    @property
    def orders(self) -> int:
        """Number of orders that begin, if each of the others was known before."""
        kind = self.columns.kind
        return int(np.isin(kind, (UpdateKind.ADD, UpdateKind.SNAPSHOT_ORDER)).sum())

    @property
    def clearings(self) -> int:
        """Maximum number of clearings of a side."""
        kind = self.columns.kind
        whole = (UpdateKind.CLEAR_SIDE, UpdateKind.EMPTY, UpdateKind.RESET)
        return int(np.isin(kind, whole).sum() + (self.step != 0).sum()) + 1


class _Run:
    """Reads the windows of a task and processes them."""

    def __init__(self, day: LakeDay, task: BookTask, *, keeps_acts: bool = False) -> None:
        self._task = task
        self._source = task.inputs.source(task.part)
        inputs = task.inputs
        legacy = inputs.inputs.protocol != BINARY
        self._legacy = legacy
        self._counts = legacy or matters(inputs)
        """Whether messages are counted, and snapshots read."""
        self.book = BookOfLives(
            by_position=inputs.day.by_position, named=not legacy, keeps_acts=keeps_acts
        )
        self.securities = np.empty(0, np.int64)
        self._moments = _moments(day, self._source)

    def windows(self) -> Iterator[Table]:
        """Yield the completed lives of each window."""
        task, source, inputs = self._task, self._source, self._task.inputs
        counts = self._counts
        others = source.others(values=False) if counts else OtherMessages({}, {}, {})
        snapshots = source.snapshots(others) if counts else None
        alone = len(task.windows) > 1
        also = np.array([task.part.first] if alone else [], np.int64)
        counters: GapCounters | None = None
        effective = EffectiveSnapshots(snapshots)
        windows = task.windows or ((0, LAST_SERIAL),)
        for number, window in enumerate(windows):
            last = number == len(windows) - 1
            serials = (inputs.day.base, *window) if alone else None
            messages, resets = source.messages(others, serials), source.resets(serials)
            usable = effective.within(messages, last=last)
            absent = AbsentInstruments.none()
            if counters is None:
                securities = np.concatenate([messages.keys.security, also])
                absent = inputs.day.absences(snapshots, securities)
            sequence = in_sequence(messages, resets, snapshots, usable, absent, also, no_gaps())
            del messages
            if counters is None:
                counters = inputs.day.counters(len(sequence.securities))
                self.securities = sequence.securities
                self._moments = self._moments.about(sequence.securities)
            items = self._items(sequence, counters, snapshots, self._versions(serials))
            self.book.follow(items, self._moments, last=last)
            del items, sequence
            yield self.book.take(last=last)

    def _versions(self, serials: Serials | None) -> Int64Array:
        """Return the schema versions of messages with orders, the first ones that are read."""
        none = [np.empty(0, np.int64)]
        if self._legacy:
            return none[0]
        found = _read(self._source, ORDER, [VERSION], serials)
        return np.concatenate([*none, *(rows.numbers(VERSION) for rows in found)])

    def _items(
        self,
        sequence: InstrumentSequence,
        counters: GapCounters,
        snapshots: Snapshots | None,
        versions: Int64Array,
    ) -> OrderItems:
        """Return the items of a sequence with the rows that they refer to.

        ``versions`` are the schema versions of the first rows of the columns, where stated.
        """
        step, loaded = np.zeros(len(sequence), np.uint8), np.empty(0, np.int64)
        if self._counts:
            followed = follow_sequence(sequence, counters, self._task.inputs.day.gaps)
            step, loaded = followed.step, loaded_snapshots(followed)
        columns = sequence.columns
        parts, row = [columns], len(columns)
        first, end = (np.zeros(len(sequence), np.int64) for _ in range(2))
        for at in loaded.tolist():
            assert snapshots is not None
            parts.append(snapshots.rows(int(sequence.snapshot[at])))
            first[at] = row
            row += len(parts[-1])
            end[at] = row
        parts += [BookColumns.empty(1, kind) for kind in (UpdateKind.INTERRUPT, UpdateKind.EMPTY)]
        times = np.full(row + 2, NULL, np.int64)
        times[: len(columns)] = sequence.time
        columns = BookColumns.concat(parts)
        del parts
        default = self._task.inputs.schema_version
        known = np.full(
            len(columns), self._legacy or (default is not None and default >= IMPLIED_SINCE)
        )
        stated = np.flatnonzero(versions != NULL)
        known[stated] = versions[stated] >= IMPLIED_SINCE
        implied = np.where(known, (columns.flags & IMPLIED).astype(np.int64), NULL)
        book_row = sequence.book_row
        if self._legacy:
            # Its orders are known by position only, while the book is.
            book_row = np.where(step <= k.LAST_APPLIED, book_row, -1)
        return OrderItems(
            sequence.securities, sequence.rank, sequence.message_serial, sequence.event,
            step, book_row, first, end, columns, implied, times,
        )  # fmt: skip
