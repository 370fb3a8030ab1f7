"""A task of a build of books: a range of instruments in, files of the books' tables out.

It is one pure function that tests call without Spark. An instrument with very many messages is
taken in windows of its sequence: the book and all counters go on from one to the next.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from pregao.book.replay import BookKind, FullBook, Replay
from pregao.lake.books.auditing import (
    DIFFERENT,
    GAP,
    RESULTS,
    START,
    Audit,
    audit_columns,
    no_book,
)
from pregao.lake.books.columns import Numbers
from pregao.lake.books.faults import BrokenError, Faults, faults_of, heal_faults
from pregao.lake.books.figures import (
    Figures,
    figures_of,
    read_changes,
    read_instruments,
    read_others,
    told_by_snapshots,
)
from pregao.lake.books.files import TableFile
from pregao.lake.books.gap_rows import GapBook
from pregao.lake.books.inputs import Inputs, Part, Reader
from pregao.lake.books.messages import (
    BEHIND_PACKET,
    INDEX_BITS,
    place_of,
    read_messages,
    read_resets,
)
from pregao.lake.books.output import Output
from pregao.lake.books.sequence import (
    Rows,
    Sequence,
    counts_after,
    follow_sequence,
    in_sequence,
    loaded_snapshots,
    rows_of,
    steps_of,
    without_figures,
)
from pregao.lake.books.snapshots import Snapshots, read_snapshots
from pregao.lake.books.statistics import FigureAudit
from pregao.lake.books.summary import Summary
from pregao.lake.books.tables import AUDIT, BOOKS, GAPS_SPEC
from pregao.lake.books.ticks import as_table
from pregao.lake.store import Location, Written
from pregao.umdf.gap_columns import Counters, Followed, Step

LAST_SERIAL = 1 << 40


@dataclass(frozen=True, slots=True)
class BookDay:
    """What holds for all tasks of a channel's day."""

    lake: Location
    inputs: Inputs
    base: int
    """The first sequence version: serials count from it."""
    from_the_start: bool
    """Does the day begin with the first packet of that version?"""
    whole: bool
    """Is no packet missing between the first and the last?"""
    implied: bool
    """Does a bit of the flags mark implied orders?"""
    by_position: bool
    spans: tuple[tuple[int, int], ...]
    """Sequence versions, and when each was first sent."""
    loop: tuple[int, int, int, int] | None
    """The first whole loop of snapshots: version, first and last sending time, first serial."""
    unit_id: str
    depth: int
    interval_ns: int
    securities: tuple[int, ...] | None = None
    """The only instruments that are wanted."""


@dataclass(frozen=True, slots=True)
class BookTask:
    """What one task does."""

    number: int
    day: BookDay
    part: Part
    windows: tuple[tuple[int, int], ...] = ()
    """The serials of each window of a single instrument's sequence; none for all at once."""


@dataclass(slots=True)
class BookManifest:
    """What a task wrote and counted."""

    task: int
    files: list[Written] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    """Instruments, messages, updates, ticks, checkpoints, gaps, stale books."""
    audit: Counter[str] = field(default_factory=Counter)
    origins: Counter[str] = field(default_factory=Counter)


def run_book_task(task: BookTask) -> BookManifest:
    """Do a task."""
    try:
        return _Run(task, careful=False).run()
    except BrokenError:
        # A book did not fit its messages. That is rare: only now look where snapshots heal it.
        return _Run(task, careful=True).run()


class _Run:
    """The state of one task at work."""

    def __init__(self, task: BookTask, careful: bool) -> None:
        day = self.day = task.day
        self.task = task
        self.careful = careful
        self.alone = len(task.windows) > 1
        self.reader = Reader(day.lake, day.inputs)
        kind = BookKind.POSITION if day.by_position else BookKind.PRIORITY
        self.replay = Replay(kind, day.depth, room=1 << 14)
        self.gaps = GapBook(day.inputs.channel, day.base, day.unit_id)
        self.others = read_others(self.reader, task.part, day.securities)
        self.snapshots = read_snapshots(
            self.reader, task.part, day.base, list(day.spans), self.others.loop_rows(),
            day.by_position, day.securities,
        )  # fmt: skip
        self.audit = None if self.snapshots is None else Audit.of(self.snapshots)
        self.seen = 0
        """The newest place of the windows before."""
        self.loaded = _none()
        """Snapshots that tell what was not known before."""
        self.told = Figures.joined(())
        """Their figures."""
        self.summary: Summary | None = None

    def run(self) -> BookManifest:
        windows = self.task.windows or ((0, LAST_SERIAL),)
        try:
            for number, window in enumerate(windows):
                self.window(window, first=number == 0, last=number == len(windows) - 1)
        except BaseException:
            if self.summary is not None:
                self.output.discard()
            raise
        return self.finish()

    def window(self, window: tuple[int, int], first: bool, last: bool) -> None:
        """Bring the books through a window of the sequence."""
        day = self.day
        serials = (day.base, *window) if self.alone else None
        messages = read_messages(
            self.reader, self.task.part, day.base, day.implied, self.others.incremental, serials
        )
        if day.securities is not None:
            messages = messages.of(day.securities)
        resets = read_resets(self.reader, day.base, serials)
        absent = _none(), _none()
        if first:
            absent = absent_from_loop(day, self.snapshots, messages.security)
        also = _none() if self.snapshots is None else np.unique(self.snapshots.security)
        if self.alone:
            also = np.array([self.task.part.first], np.int64)
        usable = self.usable(int(messages.place.max(initial=-1)), last)
        sequence = in_sequence(messages, resets, self.snapshots, usable, absent, also)
        del messages
        if self.summary is None:
            self.begin(sequence)
        followed = follow_sequence(sequence, self.counters)
        faults = Faults()
        if self.careful:
            faults = heal_faults(self.replay, sequence, followed, self.snapshots, day.base)
        rows = rows_of(sequence, followed, self.snapshots)
        self.gaps.find(sequence, followed, faults.found, day.from_the_start)
        doubtful = without_figures(sequence, followed, day.whole)
        telling = np.concatenate([loaded_snapshots(followed), doubtful])
        figures = self.figures_in(window, sequence, telling)
        books = self.play(sequence, followed, rows, figures, last)
        assert self.summary is not None
        begun = self.summary.add(sequence, followed, rows)
        self.compare(sequence, followed, rows, books, doubtful, faults, begun)

    def usable(self, newest: int, last: bool) -> Numbers:
        """The snapshots that count in a window: whole ones, not of an older version.

        Those behind the window's newest message are left for the next window, if there is one:
        what comes behind them tells from when on they count.
        """
        snapshots = self.snapshots
        if snapshots is None:
            return _none()
        usable = snapshots.complete & ~snapshots.void() & (snapshots.place >= self.seen)
        if not last:
            usable &= snapshots.place < newest
            self.seen = max(self.seen, newest)
        return np.flatnonzero(usable)

    def begin(self, sequence: Sequence) -> None:
        """Make ready for the instruments that there are."""
        day = self.day
        securities = sequence.securities
        self.counters = Counters.new(len(securities), from_the_start=day.from_the_start)
        known = read_instruments(self.reader, self.task.part, securities)
        self.changes = read_changes(self.reader, self.others, securities, known.groups, day.base)
        figures = figures_of(self.others.incremental, securities, day.base)
        self.figures = Figures.joined([*figures, self.changes.figures()])
        self.summary = Summary(securities)
        self.output = Output(
            day.lake, day.inputs.day, day.inputs.channel, day.base, day.depth, day.interval_ns,
            known.symbols, self.changes, self.others, self.snapshots, self.summary,
        )  # fmt: skip

    def figures_in(self, window: tuple[int, int], sequence: Sequence, telling: Numbers) -> Figures:
        """The figures of a window, with those of snapshots that tell what was not known."""
        chosen = sequence.snapshot[telling]
        self.loaded = np.concatenate([self.loaded, chosen])
        parts = told_by_snapshots(
            self.others, self.snapshots, chosen, sequence.securities, self.day.base
        )
        self.told = Figures.joined([self.told, *parts])
        first, last = (end << INDEX_BITS for end in window)
        return Figures.joined([self.figures.within(first, last | BEHIND_PACKET), *parts])

    def play(
        self,
        sequence: Sequence,
        followed: Followed,
        rows: Rows,
        figures: Figures,
        last: bool,
    ) -> dict[int, FullBook]:
        """Replay the rows, writing what comes of them; the full books that were asked for."""
        base_row = self.replay.done
        audited = np.flatnonzero(steps_of(followed) == Step.AGREES)
        behind = rows.begins[audited] - 1
        behind = behind[self.has_rows(sequence, rows, audited)]
        after = counts_after(sequence, followed, self.counters)
        self.output.begin_window(sequence, rows, after, figures, self.loaded, base_row, last)
        wanted = np.union1d(self.output.checkpoint_rows, behind) + base_row
        self.replay.faults.clear()
        self.replay.books.clear()
        for ticks in self.replay.stream(rows.updates, finish=last, dump_at=wanted):
            self.output.add_ticks(ticks)
        self.output.write_ticks()
        if not self.careful and faults_of(
            self.replay, sequence, followed, rows, base_row, self.day.base
        ):
            raise BrokenError
        books = {book.row - base_row: book for book in self.replay.books}
        self.output.write_checkpoints(books)
        return books

    def has_rows(self, sequence: Sequence, rows: Rows, items: Numbers) -> Numbers:
        """Of items, those before which their instrument has rows, here or in a window before."""
        if self.alone and self.replay.done:
            return np.arange(len(items))
        first_row = rows.begins[sequence.starts[sequence.rank[items]]]
        return np.flatnonzero(rows.begins[items] > first_row)

    def compare(
        self,
        sequence: Sequence,
        followed: Followed,
        rows: Rows,
        books: dict[int, FullBook],
        doubtful: Numbers,
        faults: Faults,
        begun: set[int],
    ) -> None:
        """Compare the window's snapshots with the books at their places."""
        if self.snapshots is None or self.audit is None:
            return
        step = steps_of(followed)
        agrees = np.flatnonzero(step == Step.AGREES)
        audited = np.setdiff1d(sequence.snapshot[agrees], sequence.snapshot[doubtful])
        figures = Figures.joined([self.figures, self.told])
        differences = FigureAudit(
            self.others, self.snapshots, self.changes, sequence.securities, self.day.base,
            self.day.from_the_start,
        ).differences(audited, self.loaded, figures)  # fmt: skip
        behind = rows.begins[agrees] - 1
        with_rows = np.zeros(len(agrees), np.bool_)
        with_rows[self.has_rows(sequence, rows, agrees)] = True
        for at, row, known in zip(
            agrees.tolist(), behind.tolist(), with_rows.tolist(), strict=True
        ):
            snapshot = int(sequence.snapshot[at])
            rebuilt = books[row] if known else no_book()
            found = differences.get(snapshot, [])
            self.audit.compare(snapshot, rebuilt, self.snapshots.book(snapshot), found)
        for at in loaded_snapshots(followed).tolist():
            snapshot = int(sequence.snapshot[at])
            if at in faults.healing:
                self.audit.differ(snapshot, [f"the book was stale: {faults.healing[at]}"])
            elif at in begun:
                self.audit.put(snapshot, START, "the book begins with this snapshot")
            else:
                self.audit.put(snapshot, GAP, "messages before it were missing")

    def finish(self) -> BookManifest:
        """Write what is known at the end."""
        day, manifest = self.day, BookManifest(self.task.number)
        summary = self.summary
        if summary is None:
            return manifest
        files = self.output.close()
        symbols, securities = self.output.symbols, summary.securities
        snapshots: Counter[int] = Counter()
        different: Counter[int] = Counter()
        if self.snapshots is not None and self.audit is not None:
            rank = np.searchsorted(securities, self.snapshots.security)
            there = np.append(securities, -1)[rank] == self.snapshots.security
            chosen = np.flatnonzero(there)
            columns = audit_columns(
                self.snapshots, self.audit, chosen, day.inputs.channel, rank[chosen], symbols
            )
            audits = TableFile(day.lake, AUDIT, day.inputs.day)
            audits.write(as_table(audits.schema, columns, len(chosen)))
            files.append(audits.close())
            for at in chosen.tolist():
                security = int(self.snapshots.security[at])
                snapshots[security] += 1
                different[security] += self.audit.result[at] == DIFFERENT
                manifest.audit[str(RESULTS[self.audit.result[at]])] += 1
        gaps = Counter(row["security_id"] for row in self.gaps.rows)
        books = TableFile(day.lake, BOOKS, day.inputs.day)
        known = summary.table(
            day.inputs.channel, symbols, day.by_position, day.base, day.unit_id, snapshots,
            different, gaps, self.gaps.reasons,
        )  # fmt: skip
        books.write(known)
        gap_file = TableFile(day.lake, GAPS_SPEC, day.inputs.day)
        gap_file.write(self.gaps.table())
        files += [gap_file.close(), books.close()]
        manifest.files = [file for file in files if file is not None]
        manifest.counts = summary.counts()
        manifest.counts["gaps"] = len(self.gaps.rows)
        manifest.origins = Counter(str(origin or "never known") for origin in summary.origin)
        return manifest


def absent_from_loop(
    day: BookDay, snapshots: Snapshots | None, securities: Numbers
) -> tuple[Numbers, Numbers]:
    """The instruments that were not in the first whole loop, and its place.

    Their books were empty then, whatever their counters.
    """
    if day.loop is None:
        return _none(), _none()
    version, since, until, serial = day.loop
    there = _none()
    if snapshots is not None:
        loop = snapshots.loop
        own = (loop.version == version) & (loop.sending >= since) & (loop.sending <= until)
        there = loop.security[own]
    missing = np.setdiff1d(securities, there)
    place = place_of(np.array([serial]), BEHIND_PACKET)
    return missing, np.repeat(place, len(missing))


def _none() -> Numbers:
    return np.empty(0, np.int64)
