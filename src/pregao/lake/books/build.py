"""A build of books: for each channel and day plan, do the tasks, commit what they wrote.

A build is known by what it was made of. Running it again with the same files and settings does
nothing; with more, what is there of the channel's day is replaced as one.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import date
from itertools import islice
from typing import Any

from pregao.clock import MINUTE, SECOND
from pregao.errors import UsageError
from pregao.extras import require
from pregao.lake.books.brought import Brought, brought
from pregao.lake.books.catalogue import Catalogue, guard_prefix, latest_build
from pregao.lake.books.inputs import INSTRUMENTS, Inputs, Part
from pregao.lake.books.legacy_reader import open_reader
from pregao.lake.books.names import security_number
from pregao.lake.books.plan import largest_first, plan_day, plan_tasks
from pregao.lake.books.tables import DEFAULT_DEPTH, DERIVED, MOST_LEVELS, specs
from pregao.lake.books.tasks import BookManifest, BookTask, BuildSettings, run_book_task
from pregao.lake.ingest import TaskProgress
from pregao.lake.store import Lake, Location, Replaced, Unit, until_committed
from pregao.lake.views import meant
from pregao.names import folded

FORMAT = 3
"""Rises when the same inputs give other tables: what was built before is then built again."""
DEFAULT_INTERVAL_NS = 10 * MINUTE

TASKS_TOGETHER = 16
"""Days of channels are done together until there are so many tasks for each that runs at once."""

BookRunner = Callable[[list[BookTask], TaskProgress], list[BookManifest]]
"""What does the tasks: in this process, or on Spark."""


@dataclass(frozen=True, slots=True)
class BookOptions:
    """What is to be built, and how."""

    dates: tuple[date, ...] = ()
    """None for all days."""
    channels: tuple[int, ...] = ()
    symbols: tuple[str, ...] = ()
    """Symbols, or numbers of instruments; none for all."""
    depth: int = DEFAULT_DEPTH
    interval_ns: int = DEFAULT_INTERVAL_NS
    parallelism: int = 0
    """How many tasks run at once; 0 for as many as there are processors."""

    def check(self) -> None:
        """Refuse what makes no sense."""
        if not 1 <= self.depth <= MOST_LEVELS:
            raise UsageError(f"Ticks have from 1 to {MOST_LEVELS} levels, not {self.depth}.")
        if self.interval_ns < SECOND:
            raise UsageError("Checkpoints are at least one second apart.")


@dataclass(slots=True)
class DayReport:
    """What came of a channel's day."""

    date: date
    channel: int
    unit_id: str
    built: bool = False
    """False if it was there already."""
    tasks: int = 0
    bytes_written: int = 0
    seconds: float = 0.0
    counts: Counter[str] = field(default_factory=Counter)
    audit: Counter[str] = field(default_factory=Counter)
    origins: Counter[str] = field(default_factory=Counter)

    def json(self) -> dict[str, Any]:
        """The report in a form that JSON can hold."""
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


def run_books_here(tasks: list[BookTask], progress: TaskProgress) -> list[BookManifest]:
    """Do the tasks in this process, as many at once as there are processors."""
    manifests: list[BookManifest] = []
    messages = 0
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        for manifest in pool.map(run_book_task, tasks):
            manifests.append(manifest)
            messages += manifest.counts["messages"]
            progress.advanced(len(manifests), messages)
    return manifests


def build_books(
    lake_location: str | Location,
    options: BookOptions | None = None,
    *,
    run: BookRunner = run_books_here,
    progress: TaskProgress | None = None,
) -> list[DayReport]:
    """Build the books of a lake; days that are built already are left alone."""
    require("numba")
    options = options or BookOptions()
    options.check()
    progress = progress or TaskProgress()
    lake = Lake(lake_location)
    lake.require()
    lake.roll_forward()
    lake.ensure_tables(specs(options.depth))
    build = _Build(Catalogue(lake), options, run, progress)
    for day, channel, securities in _chosen(build.catalogue, options):
        build.add(day, channel, securities)
    build.do()
    if not build.reports:
        raise UsageError(f"{lake.location} {_nothing(build.catalogue, options)}")
    return build.reports


def _chosen(
    catalogue: Catalogue, options: BookOptions
) -> Iterator[tuple[date, int, tuple[int, ...] | None]]:
    for day in catalogue.dates():
        if options.dates and day not in options.dates:
            continue
        for channel in catalogue.channels(day):
            if options.channels and channel not in options.channels:
                continue
            if not options.symbols:
                yield day, channel, None
                continue
            inputs = catalogue.inputs(day, channel)
            found = securities_of(catalogue.lake.location, inputs, options.symbols)
            if found:
                yield day, channel, found


def _nothing(catalogue: Catalogue, options: BookOptions) -> str:
    """Why there is nothing to build."""
    days = catalogue.dates()
    if not days:
        return "has no orders and no snapshots: there are no books to build."
    known = ", ".join(day.isoformat() for day in days)
    channels = sorted({channel for day in days for channel in catalogue.channels(day)})
    what = f" of {', '.join(options.symbols)}" if options.symbols else ""
    hints = "".join(meant(catalogue.lake, name) for name in options.symbols)
    return f"has no such books{what}: it has the days {known} and the channels {channels}.{hints}"


def securities_of(lake: Location, inputs: Inputs, symbols: tuple[str, ...]) -> tuple[int, ...]:
    """The numbers of instruments that are named by symbol or number."""
    numbers = {symbol: security_number(symbol) for symbol in symbols}
    wanted = {folded(symbol) for symbol, number in numbers.items() if number is None}
    found = {number for number in numbers.values() if number is not None}
    if wanted:
        reader = open_reader(lake, inputs)
        for rows in reader.read(INSTRUMENTS, ["security_id", "symbol"], Part()):
            pairs = zip(
                rows.column("security_id").to_pylist(),
                rows.column("symbol").to_pylist(),
                strict=True,
            )
            found |= {security for security, symbol in pairs if symbol and folded(symbol) in wanted}
    return tuple(sorted(found))


def fingerprint(
    known: Brought, depth: int, interval_ns: int, securities: tuple[int, ...] | None
) -> str:
    """What a build is made of."""
    settings = hashlib.sha256(repr((FORMAT, depth, interval_ns, securities)).encode())
    return f"{known.identity()}-{settings.hexdigest()[:8]}"


@dataclass(frozen=True, slots=True)
class _Planned:
    """A channel's day that is to be built."""

    report: DayReport
    number: int
    """Which build of that day it is."""
    securities: tuple[int, ...] | None
    tasks: list[BookTask]


class _Build:
    """A build at work: channels' days are planned, the tasks of several small ones done together,
    and each is committed by itself."""

    def __init__(
        self, catalogue: Catalogue, options: BookOptions, run: BookRunner, progress: TaskProgress
    ) -> None:
        self.catalogue = catalogue
        self.reports: list[DayReport] = []
        self._options = options
        self._run = run
        self._progress = progress
        self._parallelism = options.parallelism or os.cpu_count() or 1
        self._held: list[_Planned] = []

    def add(self, day: date, channel: int, securities: tuple[int, ...] | None) -> None:
        """Build a channel's day, unless it is there; it may wait for others until `do`."""
        planned = self._plan(day, channel, securities)
        if planned is not None:
            self._held.append(planned)
            if sum(len(each.tasks) for each in self._held) >= TASKS_TOGETHER * self._parallelism:
                self.do()

    def do(self) -> None:
        """Build what was planned."""
        held, self._held = self._held, []
        began = time.perf_counter()
        found = self._done(held)
        for planned, manifests in found:
            if not self._committed(planned, manifests):
                self._again(planned.report, planned.securities)
        # The time is shared by the work that each of them was.
        seconds = time.perf_counter() - began
        whole = sum(each.seconds for _, manifests in found for each in manifests) or 1.0
        for planned, manifests in found:
            share = sum(each.seconds for each in manifests) / whole
            planned.report.seconds += seconds * (share if len(found) > 1 else 1.0)

    def _plan(self, day: date, channel: int, securities: tuple[int, ...] | None) -> _Planned | None:
        """Plan a channel's day, and report what is there if that is so."""
        began = time.perf_counter()
        catalogue, options = self.catalogue, self._options
        lake = catalogue.lake
        known = brought(lake, day, channel, catalogue.protocol(day, channel))
        made_of = fingerprint(known, options.depth, options.interval_ns, securities)
        number, last = latest_build(lake, day, channel)
        if last is not None and last.endswith(made_of):
            self.reports.append(DayReport(day, channel, last))
            return None
        unit_id = f"books-{day.isoformat()}-{channel}-{number}-{made_of}"
        self._progress.step(f"planning {day.isoformat()}, channel {channel}")
        settings = BuildSettings(unit_id, options.depth, options.interval_ns, securities)
        tasks = plan_tasks(plan_day(catalogue, day, channel), settings, self._parallelism)
        report = DayReport(day, channel, unit_id, tasks=len(tasks))
        report.seconds = time.perf_counter() - began
        self.reports.append(report)
        return _Planned(report, number, securities, tasks)

    def _done(self, held: list[_Planned]) -> list[tuple[_Planned, list[BookManifest]]]:
        """Do the tasks of some days, all at once."""
        tasks = [task for planned in held for task in planned.tasks]
        tasks = [replace(task, number=number) for number, task in enumerate(tasks)]
        self._progress.started(len(tasks), len(tasks))
        manifests = self._run(largest_first(tasks), self._progress) if tasks else []
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
        lake = self.catalogue.lake
        report.built = _commit(lake, report, planned.number, manifests, planned.securities)
        return report.built

    def _again(self, report: DayReport, securities: tuple[int, ...] | None) -> None:
        """Another build of the same day was faster: finish it, and see whether it is the same."""
        lake = self.catalogue.lake
        where = self.reports.index(report)

        def attempt() -> bool | None:
            lake.roll_forward()
            planned = self._plan(report.date, report.channel, securities)
            self.reports[where] = self.reports.pop()
            if planned is None:
                return True
            ((_, manifests),) = self._done([planned])
            return self._committed(planned, manifests) or None

        until_committed(lake.location, f"other builds of {report.date} keep being faster", attempt)


def _commit(
    lake: Lake,
    report: DayReport,
    number: int,
    manifests: list[BookManifest],
    securities: tuple[int, ...] | None,
) -> bool:
    day = report.date.isoformat()
    files = lake.new_files(file for manifest in manifests for file in manifest.files)
    where = (("channel", (report.channel,)), ("security_id", securities or ()))
    replaces = tuple(Replaced(name, day, where) for name in DERIVED)
    guard = f"{guard_prefix(report.date, report.channel)}{number}"
    unit = Unit(report.unit_id, (guard,), files, replaces=replaces)
    committed = lake.commit(unit).committed
    if not committed:
        for file in files:
            lake.table_location(file.table).join(file.path).delete()
    return committed
