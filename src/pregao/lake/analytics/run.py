"""Build of analytics: finds the tables of each day that are due, runs their tasks, commits them.

The tasks of channels run first: they build the tables that span instruments, and find the facts
that the tasks of instruments need. Each day of a table is replaced in one commit.
"""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from pregao._version import __version__
from pregao.errors import UsageError
from pregao.extras import require
from pregao.lake.analytics.auctions import AUCTIONS
from pregao.lake.analytics.bars import BARS, kept_intervals, known_intervals
from pregao.lake.analytics.latency import event_ranges, minute_ranges
from pregao.lake.analytics.orders import ORDERS
from pregao.lake.analytics.reading import ChannelFacts, LakeFiles
from pregao.lake.analytics.registry import ANALYTICS, in_order
from pregao.lake.analytics.session_stats import SESSION_STATS
from pregao.lake.analytics.tables import AnalyticsOptions, AnalyticsTable, Scope
from pregao.lake.analytics.task import JOB, AnalyticsManifest, AnalyticsTask
from pregao.lake.analytics.writing import (
    MergeResults,
    day_mark,
    is_built_from,
    merge,
    replace_outdated,
)
from pregao.lake.books.catalog import FileCatalog
from pregao.lake.books.legacy_messages import LEGACY_RULES
from pregao.lake.books.planner import instrument_ranges, plan_day
from pregao.lake.books.reader import FIRST_SECURITY, LAST_SECURITY, SecurityRange, open_reader
from pregao.lake.books.task import DayInputs
from pregao.lake.execution.runner import Job, Runner, SerialRunner, TaskProgress
from pregao.lake.storage.delta import replace_partition
from pregao.lake.storage.lake_store import STAGING, LakeStore
from pregao.lake.storage.parquet import WrittenFile, new_file
from pregao.units import day_number

TASKS_TOGETHER = 16
"""Days are run together until there are this many tasks per parallel worker."""
_RANGES = {Scope.EVENTS: event_ranges, Scope.MINUTES: minute_ranges}
"""Functions that cut the rows of a channel's day for tasks."""
_WITH_FACTS = (AUCTIONS.name, SESSION_STATS.name)
"""Tables of instruments that need facts of their whole channel."""


@dataclass(frozen=True, slots=True)
class TableBuild:
    """Result of building one day of a table."""

    table: str
    date: datetime.date
    rows: int | None
    """Number of rows written; None if the day was up to date."""


def analyse(
    lake: LakeStore,
    runner: Runner | None = None,
    *,
    dates: Iterable[datetime.date] | None = None,
    tables: Iterable[str] | None = None,
    wanted: AnalyticsOptions | None = None,
    force: bool = False,
    progress: TaskProgress | None = None,
) -> list[TableBuild]:
    """Build the analytics tables of a lake for some days, or for all that have data.

    Tables that the named ones depend on are updated first. A day whose data has not changed since
    its last build is skipped, unless ``force`` is set; otherwise all its rows are replaced. Tables
    that an earlier version built with other columns are rebuilt as a whole.
    """
    require("numba")
    chosen = in_order(ANALYTICS if tables is None else tables)
    wanted = wanted or AnalyticsOptions()
    wanted = replace(wanted, intervals=known_intervals(wanted.intervals))
    lake.require()
    lake.roll_forward()
    files = LakeFiles(lake)
    days = _days(files, dates)
    replace_outdated(lake, chosen, None if dates is None else days)
    lake.ensure_tables([table.spec for table in chosen])
    build = _Build(
        LakeFiles(lake), chosen, runner or SerialRunner(), progress or TaskProgress(), wanted, force
    )
    for day in days:
        build.add(day)
    build.do()
    return build.reports


def _days(files: LakeFiles, requested: Iterable[datetime.date] | None) -> list[datetime.date]:
    """Return the days to build; raise `UsageError` for those without data, before any build."""
    available = files.days()
    if requested is None:
        return available
    days = sorted(set(requested))
    for day in days:
        if day not in available:
            span = f"it has {available[0]} to {available[-1]}" if available else "it has no data"
            raise UsageError(f"{files.lake.location} has no data of {day}; {span}.")
    return days


@dataclass(slots=True)
class _Day:
    """Day to build."""

    date: datetime.date
    due: list[AnalyticsTable]
    options: AnalyticsOptions
    channels: list[int]
    facts: dict[int, ChannelFacts] = field(default_factory=dict)

    def of(self, scope: Scope) -> tuple[AnalyticsTable, ...]:
        """Return the tables that are built for channels, or for instruments."""
        return tuple(table for table in self.due if table.scope is scope)


@dataclass(slots=True)
class _Results:
    """Files of a table's day."""

    files: list[WrittenFile] = field(default_factory=list)
    staged: list[str] = field(default_factory=list)
    staged_rows: int = 0


class _Build:
    """Running build."""

    def __init__(
        self,
        files: LakeFiles,
        chosen: Sequence[AnalyticsTable],
        runner: Runner,
        progress: TaskProgress,
        wanted: AnalyticsOptions,
        force: bool,
    ) -> None:
        self.reports: list[TableBuild] = []
        self._files = files
        self._chosen = chosen
        self._runner = runner
        self._progress = progress
        self._wanted = wanted
        self._force = force
        self._catalog: FileCatalog | None = None
        self._held: list[_Day] = []
        self._staging = f"{STAGING}/analytics-{uuid.uuid4().hex[:16]}"

    def add(self, date: datetime.date) -> None:
        """Find what is due on a day; `do` may build it later with others."""
        due: list[AnalyticsTable] = []
        names: set[str] = set()
        options = self._options(date)
        for table in self._chosen:
            if self._force or names.intersection(table.needs) or not self._is_built(table, date):
                due.append(table)
                names.add(table.name)
            else:
                self.reports.append(TableBuild(table.name, date, None))
        if not due:
            return
        inputs = {name for table in due for name in table.inputs}
        channels = self._files.channels(date, inputs)
        self._held.append(_Day(date, due, options, channels))
        if (
            sum(len(day.channels) for day in self._held)
            >= TASKS_TOGETHER * self._runner.parallelism
        ):
            self.do()

    def do(self) -> None:
        """Build and commit the days that are due."""
        held, self._held = self._held, []
        try:
            for scope in Scope:
                self._run(held, scope)
        finally:
            self._remove_staging()
        order = [table.name for table in self._chosen]
        self.reports.sort(key=lambda one: (one.date, order.index(one.table)))

    def _run(self, days: Sequence[_Day], scope: Scope) -> None:
        """Run the tasks of some days for channels, or for instruments, and commit their files."""
        tasks: list[AnalyticsTask] = []
        owners: list[_Day] = []
        for day in days:
            planned = list(self._tasks(day, scope))
            tasks += planned
            owners += [day] * len(planned)
        tasks = [replace(task, number=number) for number, task in enumerate(tasks)]
        if tasks:
            self._progress.step(f"building the tables of {scope.value}")
            self._progress.started(len(tasks), len(tasks))
        largest = sorted(tasks, key=lambda task: -task.rows)
        manifests = self._runner.run(JOB, largest, self._progress.advanced)
        results: dict[tuple[datetime.date, str], _Results] = {}
        for manifest in manifests:
            day, task = owners[manifest.task], tasks[manifest.task]
            if manifest.facts is not None:
                day.facts[task.channel] = manifest.facts
            _collect(results, day.date, manifest)
        self._merge(results)
        self._progress.step("committing")
        for day in days:
            for table in day.of(scope):
                self._commit(day, table, results.get((day.date, table.name), _Results()))

    def _tasks(self, day: _Day, scope: Scope) -> Iterator[AnalyticsTask]:
        """Yield the tasks of a day."""
        build = tuple(table.name for table in day.of(scope))
        needs_facts = any(table.name in _WITH_FACTS for table in day.due)
        facts = scope is Scope.CHANNEL and needs_facts
        if not build and not facts:
            return
        names = {name for table in day.of(scope) for name in table.inputs}
        if facts:
            names.update(name for own in _WITH_FACTS for name in ANALYTICS[own].inputs)
        tables = self._files.day(day.date, names)
        for channel in day.channels:
            task = AnalyticsTask(
                0, tables, channel, build, day.options, self._staging, wants_facts=facts
            )
            if scope is Scope.CHANNEL:
                yield replace(task, facts=None)
                continue
            if scope in _RANGES:
                for span, rows in _RANGES[scope](tables, channel, self._runner.parallelism):
                    yield replace(task, span=span, rows=rows)
                continue
            inputs = self._inputs(day.date, channel)
            books = tuple(inputs) if ORDERS in day.due else ()
            task = replace(task, facts=day.facts.get(channel), books=books)
            for part, rows in self._parts(inputs):
                yield replace(task, part=part, rows=rows)

    def _inputs(self, date: datetime.date, channel: int) -> list[DayInputs]:
        """Return the inputs of a channel's books; none if it has neither orders nor snapshots."""
        if self._catalog is None:
            self._catalog = FileCatalog(self._files.lake)
        if date not in self._catalog.dates() or channel not in self._catalog.channels(date):
            return []
        return [plan_day(self._catalog, date, channel)]

    def _parts(self, inputs: Iterable[DayInputs]) -> list[tuple[SecurityRange, int]]:
        """Return ranges that have every instrument of a channel, with their rows."""
        cuts = [
            cut
            for own in inputs
            for cut in instrument_ranges(
                open_reader(own.lake, own.inputs), self._runner.parallelism
            )
        ]
        if not cuts:
            return [(SecurityRange(), 0)]
        firsts = [FIRST_SECURITY, *(cut.part.first for cut in islice(cuts, 1, None))]
        lasts = [*(first - 1 for first in firsts[1:]), LAST_SECURITY]
        parts = map(SecurityRange, firsts, lasts)
        return [(part, cut.rows) for part, cut in zip(parts, cuts, strict=True)]

    def _merge(self, results: dict[tuple[datetime.date, str], _Results]) -> None:
        """Merge the small results of each table's day into one file."""
        lake = self._files.lake.location
        keys = [key for key, found in results.items() if found.staged]
        tasks = [
            MergeResults(
                lake,
                name,
                day_number(date),
                ANALYTICS[name].sort_by,
                tuple(results[date, name].staged),
                results[date, name].staged_rows,
            )
            for date, name in keys
        ]
        for key, written in zip(keys, self._runner.run(MERGE_JOB, tasks), strict=True):
            results[key].files.append(written)

    def _commit(self, day: _Day, table: AnalyticsTable, found: _Results) -> None:
        """Replace the rows of a table's day; they become visible in one transaction."""
        lake, date = self._files.lake, day.date
        declared = table.spec.schema
        files = [new_file(file, declared) for file in found.files]
        made_of = self._fingerprint(table, date)
        replace_partition(lake.table_location(table.name), date, files, {day_mark(date): made_of})
        self._files.replaced(table.name, date, [file.path for file in found.files])
        rows = sum(file.rows for file in found.files)
        self.reports.append(TableBuild(table.name, date, rows))

    def _options(self, date: datetime.date) -> AnalyticsOptions:
        """Return the settings of a day: the bars that it has are updated too."""
        if BARS not in self._chosen:
            return self._wanted
        kept = kept_intervals(self._files, date)
        return replace(self._wanted, intervals=known_intervals([*self._wanted.intervals, *kept]))

    def _is_built(self, table: AnalyticsTable, date: datetime.date) -> bool:
        return is_built_from(self._files.lake, table, date, self._fingerprint(table, date))

    def _fingerprint(self, table: AnalyticsTable, date: datetime.date) -> int:
        """Return a number that identifies the inputs and settings of a table's day."""
        columns = [field.name for field in table.columns]
        settings = self._options(date) if table is BARS else None
        legacy = any(date in self._files.paths(name) for name in table.legacy_inputs)
        rules = (LEGACY_RULES,) if legacy else ()
        return self._files.fingerprint(
            date, table.inputs, FORMAT, __version__, columns, settings, *rules
        )

    def _remove_staging(self) -> None:
        folder = self._files.lake.location.join(self._staging)
        if folder.exists():
            folder.delete_folder()


def _collect(
    results: dict[tuple[datetime.date, str], _Results],
    date: datetime.date,
    manifest: AnalyticsManifest,
) -> None:
    for file in manifest.files:
        results.setdefault((date, file.table), _Results()).files.append(file)
    for staged in manifest.staged:
        if staged.rows:
            found = results.setdefault((date, staged.table), _Results())
            found.staged.append(staged.path)
            found.staged_rows += staged.rows


FORMAT = 2
"""Increase it when the same inputs yield other rows: older builds are then rebuilt."""


def _merged_rows(task: MergeResults) -> int:
    return task.rows


def _merge_amounts(task: MergeResults, _written: WrittenFile) -> tuple[int, int]:
    return 1, task.rows


MERGE_JOB = Job("merging analytics", merge, _merged_rows, _merge_amounts)
