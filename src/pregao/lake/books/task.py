"""Task of a build of books: reads a range of instruments, writes files of the books' tables.

It is one pure function, testable without Spark. An instrument with very many messages is processed
in windows of its sequence: the book and all counters carry over to the next one.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field, replace

import numpy as np

from pregao.arrays import Int64Array
from pregao.feed.replay.audit import DIFFERENT, RESULTS, Audit
from pregao.feed.replay.day import LAST_SERIAL, ChannelDay, DayFollower, DayOutput
from pregao.feed.replay.outcomes import InconsistentUpdatesError
from pregao.feed.replay.snapshots import Snapshots
from pregao.feed.replay.statistics import PhaseChanges
from pregao.lake.books.day_loader import DayReader
from pregao.lake.books.reader import InputFiles, SecurityRange, open_reader
from pregao.lake.books.schemas import AUDIT, BOOKS, GAPS_SPEC
from pregao.lake.books.ticks import as_table, audit_columns, book_rows, gap_rows
from pregao.lake.books.writers import BookWriter, DayFile
from pregao.lake.storage.filesystem import Location
from pregao.lake.storage.parquet import WrittenFile


@dataclass(frozen=True, slots=True)
class DayInputs:
    """Inputs and facts of a channel's day in a lake."""

    lake: Location
    inputs: InputFiles
    day: ChannelDay
    schema_version: int | None
    """Schema version of rows that do not state theirs; None if unknown."""

    def kinds(self) -> tuple[DayInputs, ...]:
        """Return the day for each kind of book, with the instruments that have it."""
        return tuple(
            replace(self, inputs=own, day=replace(self.day, market_depth=own.market_depth or None))
            for own in self.inputs.kinds()
        )

    def for_security(self, security: int) -> DayInputs:
        """Return the day for the kind of book of an instrument."""
        depth = self.inputs.depth_of(security)
        return next(own for own in self.kinds() if own.inputs.market_depth == depth)

    def source(self, part: SecurityRange, securities: tuple[int, ...] | None = None) -> DayReader:
        """Return the source of some of its instruments."""
        reader = open_reader(self.lake, self.inputs)
        return DayReader(reader, part, self.day, self.schema_version, securities)


@dataclass(frozen=True, slots=True)
class BuildSettings:
    """Settings of a build."""

    unit_id: str
    depth: int
    interval_ns: int
    securities: tuple[int, ...] | None = None
    """Only instruments to build; None for all."""


@dataclass(frozen=True, slots=True)
class BookTask:
    """Input of one task."""

    number: int
    inputs: DayInputs
    settings: BuildSettings
    part: SecurityRange
    windows: tuple[tuple[int, int], ...] = ()
    """Serials of each window of a single instrument's sequence; none for one window."""
    rows: int = 0
    """Estimated number of rows to process."""


@dataclass(slots=True)
class BookManifest:
    """Files and counts of a task."""

    task: int
    files: list[WrittenFile] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    """Instruments, messages, updates, ticks, checkpoints, gaps, stale books."""
    audit: Counter[str] = field(default_factory=Counter)
    origins: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0


def run_book_task(task: BookTask) -> BookManifest:
    """Run a task."""
    began = time.perf_counter()
    try:
        manifest = _BookRun(task, careful=False).run()
    except InconsistentUpdatesError:
        # A message contradicted its book, which is rare: run again and find the snapshots that heal
        # it.
        manifest = _BookRun(task, careful=True).run()
    manifest.seconds = time.perf_counter() - began
    return manifest


class _BookRun:
    """State of a running task."""

    def __init__(self, task: BookTask, careful: bool) -> None:
        settings = task.settings
        self.task = task
        self.single = len(task.windows) > 1
        """Whether the task has one instrument, whose sequence is split into windows."""
        self.source = task.inputs.source(task.part, settings.securities)
        self.others = self.source.others()
        """Messages other than updates of books: phases, statistics, trades."""
        self.follower = DayFollower(
            task.inputs.day,
            self.others,
            self.source.snapshots(self.others),
            settings.depth,
            self.open_output,
            alone=task.part.first if self.single else None,
            careful=careful,
        )

    def run(self) -> BookManifest:
        windows = self.task.windows or ((0, LAST_SERIAL),)
        base = self.task.inputs.day.base
        for number, window in enumerate(windows):
            serials = (base, *window) if self.single else None
            self.follower.window(
                self.source.messages(self.others, serials),
                self.source.resets(serials),
                window,
                last=number == len(windows) - 1,
            )
        return self.finish()

    def open_output(self, securities: Int64Array) -> tuple[PhaseChanges, DayOutput]:
        """Prepare the output for the instruments found."""
        task, inputs = self.task, self.task.inputs.inputs
        names = self.source.instruments(securities)
        changes = self.source.changes(self.others, securities, names.groups)
        self.output = BookWriter(
            task.inputs.lake, inputs.day, inputs.channel, task.inputs.day.base,
            task.settings.depth, task.settings.interval_ns, securities, names.symbols, changes,
            self.others, self.follower.snapshots,
        )  # fmt: skip
        return changes, self.output

    def finish(self) -> BookManifest:
        """Write the audit, the gaps and the status of the books."""
        follower, manifest = self.follower, BookManifest(self.task.number)
        origins = follower.origins
        if origins is None:
            return manifest
        lake, inputs = self.task.inputs.lake, self.task.inputs.inputs
        base, output = self.task.inputs.day.base, self.output
        files = output.close()
        snapshots: Counter[int] = Counter()
        different: Counter[int] = Counter()
        if follower.snapshots is not None and follower.audit is not None:
            found, audit = follower.snapshots, follower.audit
            file, audited = self._write_audit(found, audit, origins.securities)
            files.append(file)
            for at in audited:
                security = int(found.security[at])
                snapshots[security] += 1
                different[security] += audit.result[at] == DIFFERENT
                manifest.audit[str(RESULTS[audit.result[at]])] += 1
        spans, unit_id = follower.spans, self.task.settings.unit_id
        gaps = Counter(span.security_id for span in spans.spans)
        books = DayFile(lake, BOOKS, inputs.day)
        books.write(
            book_rows(
                origins, output.counts, inputs.channel, output.symbols,
                self.task.inputs.day, unit_id, snapshots, different, gaps, spans.reasons,
            )
        )  # fmt: skip
        gap_file = DayFile(lake, GAPS_SPEC, inputs.day)
        gap_file.write(gap_rows(spans.spans, inputs.channel, base, unit_id))
        files += [gap_file.close(), books.close()]
        manifest.files = [file for file in files if file is not None]
        manifest.counts = output.counts.total(origins)
        manifest.counts["gaps"] = len(spans.spans)
        manifest.origins = Counter(str(origin or "never known") for origin in origins.origin)
        return manifest

    def _write_audit(
        self, found: Snapshots, audit: Audit, securities: Int64Array
    ) -> tuple[WrittenFile | None, list[int]]:
        """Write the audit of the snapshots of known instruments; return its file and their rows."""
        inputs = self.task.inputs.inputs
        rank = np.searchsorted(securities, found.security)
        known = np.append(securities, -1)[rank] == found.security
        chosen = np.flatnonzero(known)
        columns = audit_columns(
            found, audit, chosen, inputs.channel, rank[chosen], self.output.symbols
        )
        audits = DayFile(self.task.inputs.lake, AUDIT, inputs.day)
        audits.write(as_table(audits.schema, columns, len(chosen)))
        return audits.close(), chosen.tolist()
