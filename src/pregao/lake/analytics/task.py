"""Task of a build of analytics: reads a channel's day, or some of its instruments, and writes the
files of several tables.

It is one pure function, testable without Spark. Tables that others need are built first, and read
from memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from pregao.lake.analytics.local.session import LocalSession
from pregao.lake.analytics.reading import ChannelFacts, DayTables, LakeDay, version_starts
from pregao.lake.analytics.registry import ANALYTICS
from pregao.lake.analytics.row_groups import ALL, ValueRange
from pregao.lake.analytics.status import lines
from pregao.lake.analytics.tables import AnalyticsOptions
from pregao.lake.analytics.writing import describe_failure, write_frame
from pregao.lake.books.reader import SecurityRange
from pregao.lake.books.task import DayInputs
from pregao.lake.execution.runner import Job
from pregao.lake.ingest.merging import StagedTable
from pregao.lake.storage.filesystem import Location
from pregao.lake.storage.parquet import WrittenFile


@dataclass(frozen=True, slots=True)
class AnalyticsTask:
    """Input of one task."""

    number: int
    tables: DayTables
    channel: int
    build: tuple[str, ...]
    """Tables to build, each after its inputs."""
    options: AnalyticsOptions
    staging: str
    """Folder of the lake for small results."""
    part: SecurityRange | None = None
    """Instruments; None for the whole channel."""
    span: ValueRange = ALL
    """Events, or times of events, by the scope of the tables."""
    facts: ChannelFacts | None = None
    wants_facts: bool = False
    """Whether the tasks of the channel's instruments need its facts."""
    books: tuple[DayInputs, ...] = ()
    rows: int = 0
    """Estimated number of messages to read."""


@dataclass(slots=True)
class AnalyticsManifest:
    """Files of a task, and the facts of its channel."""

    task: int
    files: list[WrittenFile] = field(default_factory=list)
    staged: list[StagedTable] = field(default_factory=list)
    rows: Counter[str] = field(default_factory=Counter)
    facts: ChannelFacts | None = None


def run_analytics_task(task: AnalyticsTask) -> AnalyticsManifest:
    """Run a task."""
    manifest = AnalyticsManifest(task.number)
    session = _session(task.tables.lake)
    day = LakeDay(session, task.tables, task.channel, task.part, task.facts, task.books)
    day.span = task.span
    building: Sequence[str] = task.build
    try:
        with describe_failure(building, task.tables.date):
            if task.wants_facts:
                manifest.facts = _facts(day)
        for name in task.build:
            building = (name,)
            table = ANALYTICS[name]
            with describe_failure(building, task.tables.date):
                frame = table.build(day, task.options)
                if any(name in ANALYTICS[other].needs for other in task.build):
                    frame = day.made(name, frame)
                files, staged = write_frame(
                    task.tables.lake, table, frame, day.date, task.staging, str(task.number)
                )
            manifest.files += files
            manifest.staged += staged
            manifest.rows[name] = sum(file.rows for file in files)
            manifest.rows[name] += sum(each.rows for each in staged)
    finally:
        session.release()
    return manifest


def _facts(day: LakeDay) -> ChannelFacts:
    """Return the facts of a channel that the tasks of its instruments need."""
    rows = version_starts(day).collect()
    versions = sorted((row["first_ns"], row["version"]) for row in rows)
    return ChannelFacts(tuple(versions), lines(day).table())


_open: LocalSession | None = None


def _session(lake: Location) -> LocalSession:
    """Return the session of this process, which caches the footers of files between tasks."""
    global _open
    if _open is None or _open.lake != lake:
        release_session()
        _open = LocalSession(lake)
    return _open


def release_session() -> None:
    """Close the session of this process."""
    global _open
    if _open is not None:
        _open.stop()
    _open = None


def _messages(task: AnalyticsTask) -> int:
    return task.rows


def _amounts(task: AnalyticsTask, _manifest: AnalyticsManifest) -> tuple[int, int]:
    return 1, task.rows


JOB = Job("analytics", run_analytics_task, _messages, _amounts, release_session)
