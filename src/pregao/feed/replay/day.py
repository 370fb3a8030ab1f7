"""Bulk twin of the follower: replays a channel's day, as columns, through books in windows.

Each snapshot is sorted after the last packet that it includes, so that nothing must be queued:
messages received while a book was stale are in the snapshot that heals it, or after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from pregao.arrays import Int64Array
from pregao.book.replay import BookKind, FullBook, Replay, TickColumns
from pregao.feed.messages import IncrementalColumns, ResetColumns
from pregao.feed.packet_gaps import PacketGapColumns, no_gaps
from pregao.feed.packet_keys import AFTER_PACKET, INDEX_BITS
from pregao.feed.replay.audit import EQUAL, GAP, START, Audit, StatisticAudit, no_book
from pregao.feed.replay.outcomes import (
    BookOrigins,
    InconsistentUpdates,
    InconsistentUpdatesError,
    StaleSpans,
    find_inconsistent_updates,
    heal_inconsistent_updates,
)
from pregao.feed.replay.sequence import (
    EffectiveSnapshots,
    InstrumentSequence,
    SequenceRows,
    counts_after,
    follow_sequence,
    in_sequence,
    loaded_snapshots,
    rows_of,
    snapshots_after_lost_statistics,
)
from pregao.feed.replay.snapshots import AbsentInstruments, CompleteLoop, Snapshots
from pregao.feed.replay.statistics import (
    OtherMessages,
    PhaseChanges,
    StatisticColumns,
    snapshot_statistics,
    statistics_of,
)
from pregao.umdf.gap_columns import GapCounters, GapSteps
from pregao.umdf.gaps import MAX_MESSAGES_PER_PACKET, GapStep

LAST_SERIAL = 1 << 40
"""A serial after every packet of a day."""


@dataclass(frozen=True, slots=True)
class ChannelDay:
    """Properties of a channel's day."""

    base: int
    """First sequence version: serials count from it."""
    from_the_start: bool
    """Whether the day begins with the first packet of that version."""
    by_position: bool
    """Whether the feed sends positions of orders, as it does below schema version 15."""
    spans: tuple[tuple[int, int], ...]
    """Sequence versions, and the first sending time of each."""
    gaps: PacketGapColumns = field(default_factory=no_gaps)
    """Missing packets, including those before the first one."""
    loops: tuple[CompleteLoop, ...] = ()
    """Complete snapshot loops: the first one after each gap."""
    max_messages_per_packet: int = MAX_MESSAGES_PER_PACKET
    """Maximum number of messages in a packet."""
    marks_trades: bool = True
    """Whether trades state if they set the last price; those of the legacy feed do not."""
    market_depth: int | None = None
    """Number of levels of books by price depth; None if the feed sends orders."""

    def counters(self, instruments: int) -> GapCounters:
        """Return new counters for instruments without messages."""
        return GapCounters.new(
            instruments,
            from_the_start=self.from_the_start,
            max_messages_per_packet=self.max_messages_per_packet,
        )

    @property
    def kind(self) -> BookKind:
        """Kind of the channel's books."""
        if self.of_levels:
            return BookKind.DEPTH
        return BookKind.POSITION if self.by_position else BookKind.PRIORITY

    @property
    def of_levels(self) -> bool:
        """Whether the feed sends price levels instead of orders."""
        return self.market_depth is not None

    def replay(self, depth: int, capacity: int = 1024) -> Replay:
        """Return a replay of its books, with ticks of ``depth`` levels."""
        return Replay(self.kind, depth, market_depth=self.market_depth, capacity=capacity)

    def absences(self, snapshots: Snapshots | None, securities: Int64Array) -> AbsentInstruments:
        """Return which of the instruments the complete loops after its gaps do not contain."""
        return AbsentInstruments.from_loops(self.loops, snapshots, securities).after_gaps(self.gaps)


class DayOutput(Protocol):
    """Receiver of the ticks and full books of a day."""

    checkpoint_rows: Int64Array
    """Rows of the window after which the full book is needed."""

    def begin_window(
        self, sequence: InstrumentSequence, rows: SequenceRows, counts: Int64Array,
        statistics: StatisticColumns, loaded: Int64Array, base_row: int, last: bool,
    ) -> None:  # fmt: skip
        """Prepare for the rows of a window; ``counts`` are the counters after each item."""

    def add_ticks(self, ticks: TickColumns) -> None:
        """Process some ticks; their columns are reused afterwards."""

    def end_window(self, books: dict[int, FullBook]) -> None:
        """End the window; ``books`` has the requested books by row."""

    def discard(self) -> None:
        """Discard the output so far."""


OpenOutput = Callable[[Int64Array], tuple[PhaseChanges, DayOutput]]
"""Returns the phase changes of the given instruments, and the receiver of the results."""


class DayFollower:
    """Replays the books of some instruments through a day, window by window."""

    def __init__(
        self,
        day: ChannelDay,
        others: OtherMessages,
        snapshots: Snapshots | None,
        depth: int,
        open_output: OpenOutput,
        *,
        alone: int | None = None,
        careful: bool = False,
    ) -> None:
        """``alone`` is the only instrument, if its sequence is split into windows.

        Only a careful follower heals books after inconsistent updates, which takes longer; others
        raise MisfitsFoundError.
        """
        self.day = day
        self.others = others
        self.snapshots = snapshots
        self.alone = alone
        self.careful = careful
        self.spans = StaleSpans()
        self.audit = None if snapshots is None else Audit.from_snapshots(snapshots)
        self.origins: BookOrigins | None = None
        """None until the first window."""
        self._open_output = open_output
        self._replay = day.replay(depth, capacity=1 << 14)
        self._counting = EffectiveSnapshots(snapshots)
        self._loaded = _none()
        """Snapshots that provide statistics not published before."""
        self._published = StatisticColumns.concat(())
        """Statistics of these snapshots."""
        self._statistic_audit: StatisticAudit | None = None

    def window(
        self,
        messages: IncrementalColumns,
        resets: ResetColumns,
        serials: tuple[int, int],
        *,
        last: bool,
    ) -> None:
        """Replay the messages of a window, from one packet serial to another."""
        # The caller gives up the messages: they are freed as soon as they are in the sequence.
        with self._discarding():
            day = self.day
            also = _none() if self.snapshots is None else np.unique(self.snapshots.security)
            if self.alone is not None:
                also = np.array([self.alone], np.int64)
            absent = AbsentInstruments.none()
            if self.origins is None:
                securities = np.concatenate([messages.keys.security, also])
                absent = day.absences(self.snapshots, securities)
            usable = self._counting.within(messages, last=last)
            packet = day.gaps.serials >> INDEX_BITS
            inside = (packet >= serials[0]) & (packet <= serials[1])
            gaps = day.gaps.take(np.flatnonzero(inside))
            sequence = in_sequence(messages, resets, self.snapshots, usable, absent, also, gaps)
            del messages
            origins = self.origins or self._begin(sequence)
            followed = follow_sequence(sequence, self._counters, day.gaps)
            inconsistent = InconsistentUpdates()
            if self.careful:
                inconsistent = heal_inconsistent_updates(
                    self._replay, sequence, followed, self.snapshots, day.base
                )
            rows = rows_of(sequence, followed, self.snapshots)
            self.spans.find(sequence, followed, inconsistent.found, day.from_the_start)
            doubtful = snapshots_after_lost_statistics(sequence, followed, not len(day.gaps))
            providing = np.concatenate([loaded_snapshots(followed), doubtful])
            statistics = self._statistics_in(serials, sequence, providing)
            books = self._play(sequence, followed, rows, statistics, last)
            beginning = origins.add(sequence, followed, rows)
            self._compare(sequence, followed, rows, books, doubtful, inconsistent, beginning)
            self._replay.books.clear()

    @contextmanager
    def _discarding(self) -> Iterator[None]:
        """Discard the output if the window fails."""
        try:
            yield
        except BaseException:
            if self.origins is not None:
                self._output.discard()
            raise

    def _begin(self, sequence: InstrumentSequence) -> BookOrigins:
        """Prepare for the instruments of the sequence."""
        day, securities = self.day, sequence.securities
        self._counters = day.counters(len(securities))
        self._changes, self._output = self._open_output(securities)
        statistics = statistics_of(self.others.incremental, securities, day.base)
        self._statistics = StatisticColumns.concat([*statistics, self._changes.statistics()])
        self.origins = BookOrigins(securities)
        return self.origins

    def _statistics_in(
        self, serials: tuple[int, int], sequence: InstrumentSequence, rows: Int64Array
    ) -> StatisticColumns:
        """Return the statistics of a window, with those of the snapshots at the given items."""
        chosen = sequence.snapshot[rows]
        self._loaded = np.concatenate([self._loaded, chosen])
        parts = snapshot_statistics(
            self.others, self.snapshots, chosen, sequence.securities, self.day.base
        )
        self._published = StatisticColumns.concat([self._published, *parts])
        first, last = (end << INDEX_BITS for end in serials)
        return StatisticColumns.concat(
            [self._statistics.within(first, last | AFTER_PACKET), *parts]
        )

    def _play(
        self,
        sequence: InstrumentSequence,
        followed: GapSteps,
        rows: SequenceRows,
        statistics: StatisticColumns,
        last: bool,
    ) -> dict[int, FullBook]:
        """Replay the rows and output their results; return the requested full books by row."""
        replay, output = self._replay, self._output
        base_row = replay.done
        audited = _compared(followed)
        last_rows = rows.begins[audited] - 1
        last_rows = last_rows[self._with_rows(sequence, rows, audited)]
        after = counts_after(sequence, followed, self._counters)
        output.begin_window(sequence, rows, after, statistics, self._loaded, base_row, last)
        wanted = np.union1d(output.checkpoint_rows, last_rows) + base_row
        replay.faults.clear()
        replay.books.clear()
        for ticks in replay.stream(rows.updates, finish=last, dump_at=wanted):
            output.add_ticks(ticks)
        if not self.careful and find_inconsistent_updates(
            replay, sequence, followed, rows, base_row, self.day.base
        ):
            raise InconsistentUpdatesError
        books = {book.row - base_row: book for book in replay.books}
        output.end_window(books)
        return books

    def _with_rows(
        self, sequence: InstrumentSequence, rows: SequenceRows, items: Int64Array
    ) -> Int64Array:
        """Return which of the items have earlier rows of their instrument, in any window."""
        if self.alone is not None and self._replay.done:
            return np.arange(len(items))
        first_row = rows.begins[sequence.starts[sequence.rank[items]]]
        return np.flatnonzero(rows.begins[items] > first_row)

    def _compare(
        self,
        sequence: InstrumentSequence,
        followed: GapSteps,
        rows: SequenceRows,
        books: dict[int, FullBook],
        doubtful: Int64Array,
        inconsistent: InconsistentUpdates,
        begun: set[int],
    ) -> None:
        """Compare the window's snapshots with the books at their message serials."""
        if self.snapshots is None or self.audit is None:
            return
        agrees, step = _compared(followed), followed.step
        audited = np.setdiff1d(sequence.snapshot[agrees], sequence.snapshot[doubtful])
        if self._statistic_audit is None:
            self._statistic_audit = StatisticAudit(
                self.others, self.snapshots, self._changes, sequence.securities, self.day.base,
                self.day.from_the_start, self.day.marks_trades,
            )  # fmt: skip
        differences = self._statistic_audit.differences(
            audited, self._loaded, StatisticColumns.concat([self._statistics, self._published])
        )
        last_rows = rows.begins[agrees] - 1
        with_rows = np.zeros(len(agrees), np.bool_)
        with_rows[self._with_rows(sequence, rows, agrees)] = True
        for at, row, has_rows in zip(
            agrees.tolist(), last_rows.tolist(), with_rows.tolist(), strict=True
        ):
            snapshot = int(sequence.snapshot[at])
            rebuilt = books[row] if has_rows else no_book()
            statistics = differences.get(snapshot, [])
            self.audit.compare(snapshot, rebuilt, self.snapshots.book(snapshot), statistics)
            if step[at] == GapStep.CONFIRMS and self.audit.result[snapshot] != EQUAL:
                self.audit.put(snapshot, GAP, "packets before it were missing")
        for at in loaded_snapshots(followed).tolist():
            snapshot = int(sequence.snapshot[at])
            if step[at] == GapStep.CONFIRMS and at not in begun:
                continue
            if at in inconsistent.healing:
                self.audit.differ(snapshot, [f"the book was stale: {inconsistent.healing[at]}"])
            elif at in begun:
                self.audit.put(snapshot, START, "the book begins with this snapshot")
            else:
                self.audit.put(snapshot, GAP, "messages before it were missing")


def _compared(followed: GapSteps) -> Int64Array:
    """Return the snapshots that are compared with the books at their message serials."""
    step = followed.step
    return np.flatnonzero((step == GapStep.AGREES) | (step == GapStep.CONFIRMS))


def _none() -> Int64Array:
    return np.empty(0, np.int64)
