"""Build of books: plan each channel and day, run the tasks, commit the files they wrote.

A build is identified by its inputs. Running it again with the same files and settings does nothing;
with more inputs, the channel's day is replaced in one commit.
"""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import date
from itertools import islice
from typing import Any

from pregao.clock import MINUTE, SECOND
from pregao.errors import UsageError
from pregao.extras import require
from pregao.lake.books.book_at import security_number
from pregao.lake.books.catalog import FileCatalog, guard_prefix, latest_build
from pregao.lake.books.coverage import DayCoverage, day_coverage
from pregao.lake.books.legacy_messages import LEGACY_RULES
from pregao.lake.books.planner import largest_first, plan_day, plan_tasks
from pregao.lake.books.reader import INSTRUMENTS, LEGACY, InputFiles, SecurityRange, open_reader
from pregao.lake.books.schemas import DEFAULT_DEPTH, DERIVED, MAX_LEVELS, specs
from pregao.lake.books.task import BookManifest, BookTask, BuildSettings, run_book_task
from pregao.lake.execution.runner import Job, Runner, SerialRunner, TaskProgress
from pregao.lake.storage.commit_unit import CommitUnit, ReplacedRows
from pregao.lake.storage.filesystem import Location
from pregao.lake.storage.lake_store import LakeStore
from pregao.lake.storage.transaction import until_committed
from pregao.lake.views.symbols import meant
from pregao.name_matching import folded

FORMAT = 4
"""Increase it when the same inputs yield other tables: older builds are then rebuilt."""
DEFAULT_INTERVAL_NS = 10 * MINUTE

TASKS_TOGETHER = 16
"""Channel days are run together until there are this many tasks per parallel worker."""


@dataclass(frozen=True, slots=True)
class BookOptions:
    """Selection and settings of a build."""

    dates: tuple[date, ...] = ()
    """Dates to build; empty for all."""
    channels: tuple[int, ...] = ()
    symbols: tuple[str, ...] = ()
    """Symbols or security IDs; empty for all."""
    depth: int = DEFAULT_DEPTH
    interval_ns: int = DEFAULT_INTERVAL_NS
    parallelism: int = 0
    """Number of parallel tasks; 0 for as many as the runner runs."""

    def check(self) -> None:
        """Raise `UsageError` if a setting is out of range."""
        if not 1 <= self.depth <= MAX_LEVELS:
            raise UsageError(
                f"The number of levels must be from 1 to {MAX_LEVELS}, was {self.depth}."
            )
        if self.interval_ns < SECOND:
            raise UsageError("The checkpoint interval must be at least one second.")


@dataclass(slots=True)
class DayReport:
    """Report of a channel's day."""

    date: date
    channel: int
    unit_id: str
    built: bool = False
    """False if the build existed already."""
    tasks: int = 0
    bytes_written: int = 0
    seconds: float = 0.0
    counts: Counter[str] = field(default_factory=Counter)
    audit: Counter[str] = field(default_factory=Counter)
    origins: Counter[str] = field(default_factory=Counter)

    def json(self) -> dict[str, Any]:
        """Return the report as JSON-compatible values."""
        return {
            "date": self.date.isoformat(),
            "channel": self.channel,
            "unit_id": self.unit_id,
            "built": self.built,
            "tasks": self.tasks,
            "bytes_written": self.bytes_written,
            "seconds": round(self.seconds, 3),
            **{name: self.counts[name] for name in sorted(self.counts)},
            "audit": dict(sorted(self.audit.items())),
            "origins": dict(sorted(self.origins.items())),
        }


def _rows(task: BookTask) -> int:
    return task.rows


def _replayed(_task: BookTask, manifest: BookManifest) -> tuple[int, int]:
    return 1, manifest.counts["messages"]


BOOKS = Job("books", run_book_task, _rows, _replayed)
"""Replays instruments; its progress is in tasks."""


def build_books(
    lake_location: str | Location,
    options: BookOptions | None = None,
    *,
    runner: Runner | None = None,
    progress: TaskProgress | None = None,
) -> list[DayReport]:
    """Build the books of a lake, and skip days that are already built.

    Tasks run in this process unless a runner is given.
    """
    require("numba")
    options = options or BookOptions()
    options.check()
    progress = progress or TaskProgress()
    lake = LakeStore(lake_location)
    lake.require()
    lake.roll_forward()
    lake.ensure_tables(specs(options.depth))
    build = _Build(FileCatalog(lake), options, runner or SerialRunner(), progress)
    for day, channel, securities in _chosen(build.catalog, options):
        build.add(day, channel, securities)
    build.do()
    if not build.reports:
        raise UsageError(f"{lake.location} {_nothing(build.catalog, options)}")
    return build.reports


def _chosen(
    catalog: FileCatalog, options: BookOptions
) -> Iterator[tuple[date, int, tuple[int, ...] | None]]:
    for day in catalog.dates():
        if options.dates and day not in options.dates:
            continue
        for channel in catalog.channels(day):
            if options.channels and channel not in options.channels:
                continue
            if not options.symbols:
                yield day, channel, None
                continue
            inputs = catalog.inputs(day, channel)
            found = securities_of(catalog.lake.location, inputs, options.symbols)
            if found:
                yield day, channel, found


def _nothing(catalog: FileCatalog, options: BookOptions) -> str:
    """Return the error message for an empty selection."""
    days = catalog.dates()
    if not days:
        return "has no orders and no snapshots: there are no books to build."
    known = ", ".join(day.isoformat() for day in days)
    channels = sorted({channel for day in days for channel in catalog.channels(day)})
    what = f" of {', '.join(options.symbols)}" if options.symbols else ""
    hints = "".join(meant(catalog.lake, name) for name in options.symbols)
    return f"has no such books{what}: it has the days {known} and the channels {channels}.{hints}"


def securities_of(lake: Location, inputs: InputFiles, symbols: tuple[str, ...]) -> tuple[int, ...]:
    """Return the IDs of instruments named by symbol or by security ID."""
    numbers = {symbol: security_number(symbol) for symbol in symbols}
    wanted = {folded(symbol) for symbol, number in numbers.items() if number is None}
    found = {number for number in numbers.values() if number is not None}
    if wanted:
        reader = open_reader(lake, inputs)
        for rows in reader.read(INSTRUMENTS, ["security_id", "symbol"], SecurityRange()):
            pairs = zip(
                rows.column("security_id").to_pylist(),
                rows.column("symbol").to_pylist(),
                strict=True,
            )
            found |= {security for security, symbol in pairs if symbol and folded(symbol) in wanted}
    return tuple(sorted(found))


def fingerprint(
    known: DayCoverage, depth: int, interval_ns: int, securities: tuple[int, ...] | None
) -> str:
    """Return a text that identifies the inputs and settings of a build."""
    legacy = (LEGACY_RULES,) if known.protocol.name == LEGACY else ()
    settings = hashlib.sha256(repr((FORMAT, depth, interval_ns, securities, *legacy)).encode())
    return f"{known.identity()}-{settings.hexdigest()[:8]}"


@dataclass(frozen=True, slots=True)
class _Planned:
    """Channel's day to build."""

    report: DayReport
    number: int
    """Number of the build of that day."""
    securities: tuple[int, ...] | None
    tasks: list[BookTask]


class _Build:
    """Running build: plans channel days, runs the tasks of several small ones together, and commits
    each separately.
    """

    def __init__(
        self,
        catalog: FileCatalog,
        options: BookOptions,
        runner: Runner,
        progress: TaskProgress,
    ) -> None:
        self.catalog = catalog
        self.reports: list[DayReport] = []
        self._options = options
        self._runner = runner
        self._progress = progress
        self._held: list[_Planned] = []

    def add(self, day: date, channel: int, securities: tuple[int, ...] | None) -> None:
        """Plan a channel's day unless its build exists; `do` may run it later with others."""
        planned = self._plan(day, channel, securities)
        if planned is not None:
            self._held.append(planned)
            if sum(len(each.tasks) for each in self._held) >= TASKS_TOGETHER * self._parallelism():
                self.do()

    def do(self) -> None:
        """Run and commit the planned days."""
        held, self._held = self._held, []
        began = time.perf_counter()
        done = self._done(held)
        for planned, manifests in done:
            if not self._committed(planned, manifests):
                self._again(planned.report, planned.securities)
        # The elapsed time is divided in proportion to the work of each.
        seconds = time.perf_counter() - began
        total = sum(each.seconds for _, manifests in done for each in manifests) or 1.0
        for planned, manifests in done:
            share = sum(each.seconds for each in manifests) / total
            planned.report.seconds += seconds * (share if len(done) > 1 else 1.0)

    def _parallelism(self) -> int:
        return self._options.parallelism or self._runner.parallelism

    def _plan(self, day: date, channel: int, securities: tuple[int, ...] | None) -> _Planned | None:
        """Plan a channel's day; if its build exists, report it and return None."""
        began = time.perf_counter()
        catalog, options = self.catalog, self._options
        lake = catalog.lake
        coverage = day_coverage(lake, day, channel, catalog.protocol(day, channel))
        inputs = fingerprint(coverage, options.depth, options.interval_ns, securities)
        number, last = latest_build(lake, day, channel)
        if last is not None and last.endswith(inputs):
            self.reports.append(DayReport(day, channel, last))
            return None
        unit_id = f"books-{day.isoformat()}-{channel}-{number}-{inputs}"
        self._progress.step(f"planning {day.isoformat()}, channel {channel}")
        settings = BuildSettings(unit_id, options.depth, options.interval_ns, securities)
        tasks = plan_tasks(plan_day(catalog, day, channel), settings, self._parallelism())
        report = DayReport(day, channel, unit_id, tasks=len(tasks))
        report.seconds = time.perf_counter() - began
        self.reports.append(report)
        return _Planned(report, number, securities, tasks)

    def _done(self, held: list[_Planned]) -> list[tuple[_Planned, list[BookManifest]]]:
        """Run the tasks of some days together."""
        tasks = [task for planned in held for task in planned.tasks]
        tasks = [replace(task, number=number) for number, task in enumerate(tasks)]
        self._progress.started(len(tasks), len(tasks))
        manifests = self._runner.run(BOOKS, largest_first(tasks), self._progress.advanced)
        ordered = iter(sorted(manifests, key=lambda manifest: manifest.task))
        return [(planned, list(islice(ordered, len(planned.tasks)))) for planned in held]

    def _committed(self, planned: _Planned, manifests: list[BookManifest]) -> bool:
        report = planned.report
        for manifest in manifests:
            report.counts.update(manifest.counts)
            report.audit.update(manifest.audit)
            report.origins.update(manifest.origins)
            report.bytes_written += sum(file.size for file in manifest.files)
        self._progress.step("committing")
        lake = self.catalog.lake
        report.built = _commit(lake, report, planned.number, manifests, planned.securities)
        return report.built

    def _again(self, report: DayReport, securities: tuple[int, ...] | None) -> None:
        """Retry after another build of the day committed first, unless that one is identical."""
        lake = self.catalog.lake
        where = self.reports.index(report)

        def attempt() -> bool | None:
            lake.roll_forward()
            planned = self._plan(report.date, report.channel, securities)
            self.reports[where] = self.reports.pop()
            if planned is None:
                return True
            ((_, manifests),) = self._done([planned])
            return self._committed(planned, manifests) or None

        until_committed(
            lake.location, f"other builds of {report.date} keep committing first", attempt
        )


def _commit(
    lake: LakeStore,
    report: DayReport,
    number: int,
    manifests: list[BookManifest],
    securities: tuple[int, ...] | None,
) -> bool:
    day = report.date.isoformat()
    files = lake.new_files(file for manifest in manifests for file in manifest.files)
    where = (("channel", (report.channel,)), ("security_id", securities or ()))
    replaces = tuple(ReplacedRows(name, day, where) for name in DERIVED)
    guard = f"{guard_prefix(report.date, report.channel)}{number}"
    unit = CommitUnit(report.unit_id, (guard,), files, replaces=replaces)
    committed = lake.commit(unit).committed
    if not committed:
        for file in files:
            lake.table_location(file.table).join(file.path).delete()
    return committed
