"""The bulk twin of the follower: a channel's day as columns, brought through books in windows.

Snapshots are put among the messages, each behind the last packet that it holds, so nothing has to
be queued: what came while a book was stale is in the snapshot that heals it, or behind it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from pregao.book.replay import BookKind, FullBook, Replay, Ticks
from pregao.feed.audit import EQUAL, GAP, START, Audit, no_book
from pregao.feed.columns import Numbers
from pregao.feed.holes import Holes, no_holes
from pregao.feed.messages import Messages, Resets
from pregao.feed.misfits import Misfits, MisfitsFoundError, heal_misfits, misfits_of
from pregao.feed.origins import Origins
from pregao.feed.places import BEHIND_PACKET, INDEX_BITS
from pregao.feed.sequence import (
    CountingSnapshots,
    Rows,
    Sequence,
    counts_after,
    follow_sequence,
    in_sequence,
    loaded_snapshots,
    rows_of,
    without_statistics,
)
from pregao.feed.snapshots import Absences, Snapshots, WholeLoop
from pregao.feed.stale_spans import StaleSpans
from pregao.feed.statistics import (
    OtherMessages,
    PhaseChanges,
    Statistics,
    statistics_of,
    told_by_snapshots,
)
from pregao.feed.statistics_audit import StatisticAudit
from pregao.umdf.gap_columns import Counters, Followed
from pregao.umdf.gaps import MOST_IN_PACKET, Step

LAST_SERIAL = 1 << 40
"""Behind every packet of a day."""


@dataclass(frozen=True, slots=True)
class ChannelDay:
    """What holds for a channel's day as a whole."""

    base: int
    """The first sequence version: serials count from it."""
    from_the_start: bool
    """Does the day begin with the first packet of that version?"""
    by_position: bool
    """Does the feed name the places of orders, as it does below schema version 15?"""
    spans: tuple[tuple[int, int], ...]
    """Sequence versions, and when each was first sent."""
    holes: Holes = field(default_factory=no_holes)
    """The packets that are missing, those before the first one too."""
    loops: tuple[WholeLoop, ...] = ()
    """Whole loops of snapshots: behind each hole the first one."""
    most_in_packet: int = MOST_IN_PACKET
    """More messages than this no packet has."""
    marks_trades: bool = True
    """Do trades tell whether they set the last price? On the legacy feed they do not."""
    market_depth: int | None = None
    """Of books by price depth: how many levels the feed shows; None where it tells orders."""

    def counters(self, instruments: int) -> Counters:
        """The counters of instruments of which nothing has come."""
        return Counters.new(
            instruments, from_the_start=self.from_the_start, most_in_packet=self.most_in_packet
        )

    @property
    def kind(self) -> BookKind:
        """How its books are kept."""
        if self.of_levels:
            return BookKind.DEPTH
        return BookKind.POSITION if self.by_position else BookKind.PRIORITY

    @property
    def of_levels(self) -> bool:
        """Does the feed tell price levels, and no orders?"""
        return self.market_depth is not None

    def replay(self, depth: int, room: int = 1024) -> Replay:
        """What replays its books, and gives ticks of so many levels."""
        return Replay(self.kind, depth, market_depth=self.market_depth, room=room)

    def absences(self, snapshots: Snapshots | None, securities: Numbers) -> Absences:
        """Which of the instruments the whole loops behind its holes are without."""
        return Absences.of(self.loops, snapshots, securities).behind_holes(self.holes)


class DayOutput(Protocol):
    """What takes the ticks and full books of a day."""

    checkpoint_rows: Numbers
    """After which rows of the window the full book is wanted."""

    def begin_window(
        self,
        sequence: Sequence,
        rows: Rows,
        counts: Numbers,
        statistics: Statistics,
        loaded: Numbers,
        base_row: int,
        last: bool,
    ) -> None:
        """Make ready for the rows of a window; ``counts`` are the counters behind each item."""

    def add_ticks(self, ticks: Ticks) -> None:
        """Take some ticks; their columns are used again."""

    def end_window(self, books: dict[int, FullBook]) -> None:
        """The window is over; the books that were wanted are given by row."""

    def discard(self) -> None:
        """Give up what was taken."""


OpenOutput = Callable[[Numbers], tuple[PhaseChanges, DayOutput]]
"""Told which instruments there are, gives their changes of phase, and what takes the results."""


class DayFollower:
    """Brings the books of some instruments through a day, window by window."""

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
        """``alone`` is the one instrument whose sequence is cut into windows, if it is.

        Only a careful follower heals books that do not fit their messages, which takes longer;
        another one raises MisfitsFoundError.
        """
        self.day = day
        self.others = others
        self.snapshots = snapshots
        self.alone = alone
        self.careful = careful
        self.spans = StaleSpans()
        self.audit = None if snapshots is None else Audit.of(snapshots)
        self.origins: Origins | None = None
        """None until the first window."""
        self._open_output = open_output
        self._replay = day.replay(depth, room=1 << 14)
        self._counting = CountingSnapshots(snapshots)
        self._loaded = _none()
        """Snapshots that tell what was not known before."""
        self._told = Statistics.joined(())
        """Their statistics."""
        self._statistic_audit: StatisticAudit | None = None

    def window(
        self, messages: Messages, resets: Resets, serials: tuple[int, int], *, last: bool
    ) -> None:
        """Bring the books through the messages of a window, from one serial to another."""
        # Who asks gives the messages away: they are freed as soon as they are in sequence.
        with self._discarding():
            day = self.day
            also = _none() if self.snapshots is None else np.unique(self.snapshots.security)
            if self.alone is not None:
                also = np.array([self.alone], np.int64)
            absent = Absences.none()
            if self.origins is None:
                there = np.concatenate([messages.keys.security, also])
                absent = day.absences(self.snapshots, there)
            usable = self._counting.within(messages, last=last)
            packet = day.holes.place >> INDEX_BITS
            inside = (packet >= serials[0]) & (packet <= serials[1])
            holes = day.holes.taken(np.flatnonzero(inside))
            sequence = in_sequence(messages, resets, self.snapshots, usable, absent, also, holes)
            del messages
            origins = self.origins or self._begin(sequence)
            followed = follow_sequence(sequence, self._counters, day.holes)
            misfits = Misfits()
            if self.careful:
                misfits = heal_misfits(self._replay, sequence, followed, self.snapshots, day.base)
            rows = rows_of(sequence, followed, self.snapshots)
            self.spans.find(sequence, followed, misfits.found, day.from_the_start)
            doubtful = without_statistics(sequence, followed, not len(day.holes))
            telling = np.concatenate([loaded_snapshots(followed), doubtful])
            statistics = self._statistics_in(serials, sequence, telling)
            books = self._play(sequence, followed, rows, statistics, last)
            begun = origins.add(sequence, followed, rows)
            self._compare(sequence, followed, rows, books, doubtful, misfits, begun)
            self._replay.books.clear()

    @contextmanager
    def _discarding(self) -> Iterator[None]:
        """Give up what was put out if the window fails."""
        try:
            yield
        except BaseException:
            if self.origins is not None:
                self._output.discard()
            raise

    def _begin(self, sequence: Sequence) -> Origins:
        """Make ready for the instruments that there are."""
        day, securities = self.day, sequence.securities
        self._counters = day.counters(len(securities))
        self._changes, self._output = self._open_output(securities)
        statistics = statistics_of(self.others.incremental, securities, day.base)
        self._statistics = Statistics.joined([*statistics, self._changes.statistics()])
        self.origins = Origins(securities)
        return self.origins

    def _statistics_in(
        self, serials: tuple[int, int], sequence: Sequence, telling: Numbers
    ) -> Statistics:
        """The statistics of a window, with those of snapshots that tell what was not known."""
        chosen = sequence.snapshot[telling]
        self._loaded = np.concatenate([self._loaded, chosen])
        parts = told_by_snapshots(
            self.others, self.snapshots, chosen, sequence.securities, self.day.base
        )
        self._told = Statistics.joined([self._told, *parts])
        first, last = (end << INDEX_BITS for end in serials)
        return Statistics.joined([self._statistics.within(first, last | BEHIND_PACKET), *parts])

    def _play(
        self,
        sequence: Sequence,
        followed: Followed,
        rows: Rows,
        statistics: Statistics,
        last: bool,
    ) -> dict[int, FullBook]:
        """Replay the rows, giving out what comes of them; the full books that were asked for."""
        replay, output = self._replay, self._output
        base_row = replay.done
        audited = _compared(followed)
        behind = rows.begins[audited] - 1
        behind = behind[self._with_rows(sequence, rows, audited)]
        after = counts_after(sequence, followed, self._counters)
        output.begin_window(sequence, rows, after, statistics, self._loaded, base_row, last)
        wanted = np.union1d(output.checkpoint_rows, behind) + base_row
        replay.faults.clear()
        replay.books.clear()
        for ticks in replay.stream(rows.updates, finish=last, dump_at=wanted):
            output.add_ticks(ticks)
        if not self.careful and misfits_of(
            replay, sequence, followed, rows, base_row, self.day.base
        ):
            raise MisfitsFoundError
        books = {book.row - base_row: book for book in replay.books}
        output.end_window(books)
        return books

    def _with_rows(self, sequence: Sequence, rows: Rows, items: Numbers) -> Numbers:
        """Of items, those before which their instrument has rows, here or in a window before."""
        if self.alone is not None and self._replay.done:
            return np.arange(len(items))
        first_row = rows.begins[sequence.starts[sequence.rank[items]]]
        return np.flatnonzero(rows.begins[items] > first_row)

    def _compare(
        self,
        sequence: Sequence,
        followed: Followed,
        rows: Rows,
        books: dict[int, FullBook],
        doubtful: Numbers,
        misfits: Misfits,
        begun: set[int],
    ) -> None:
        """Compare the window's snapshots with the books at their places."""
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
            audited, self._loaded, Statistics.joined([self._statistics, self._told])
        )
        behind = rows.begins[agrees] - 1
        with_rows = np.zeros(len(agrees), np.bool_)
        with_rows[self._with_rows(sequence, rows, agrees)] = True
        for at, row, known in zip(
            agrees.tolist(), behind.tolist(), with_rows.tolist(), strict=True
        ):
            snapshot = int(sequence.snapshot[at])
            rebuilt = books[row] if known else no_book()
            found = differences.get(snapshot, [])
            self.audit.compare(snapshot, rebuilt, self.snapshots.book(snapshot), found)
            if step[at] == Step.CONFIRMS and self.audit.result[snapshot] != EQUAL:
                self.audit.put(snapshot, GAP, "packets before it were missing")
        for at in loaded_snapshots(followed).tolist():
            snapshot = int(sequence.snapshot[at])
            if step[at] == Step.CONFIRMS and at not in begun:
                continue
            if at in misfits.healing:
                self.audit.differ(snapshot, [f"the book was stale: {misfits.healing[at]}"])
            elif at in begun:
                self.audit.put(snapshot, START, "the book begins with this snapshot")
            else:
                self.audit.put(snapshot, GAP, "messages before it were missing")


def _compared(followed: Followed) -> Numbers:
    """The snapshots that are held against the books at their places."""
    step = followed.step
    return np.flatnonzero((step == Step.AGREES) | (step == Step.CONFIRMS))


def _none() -> Numbers:
    return np.empty(0, np.int64)
