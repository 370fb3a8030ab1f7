"""Results of tasks: their manifests, and small tables merged into one file per table and day.

Some tables keep only their latest rows: they have one file per day, rewritten when ingests add
rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from pregao.capture.statistics import CaptureStatistics
from pregao.lake.execution.runner import Job, Runner
from pregao.lake.ingest.accounting import FeedCoverage, IngestCounts, RunStarts
from pregao.lake.ingest.registry import PROTOCOLS
from pregao.lake.ingest.writer import BY_INSTRUMENT, write_rows
from pregao.lake.storage.commit_unit import DATE
from pregao.lake.storage.delta import (
    LakeTable,
    add_action,
    arrow_schema,
    change_table,
    commit_changes,
    remove_action,
    visible_files,
)
from pregao.lake.storage.filesystem import Location
from pregao.lake.storage.lake_store import LakeStore
from pregao.lake.storage.parquet import WrittenFile, new_file
from pregao.units import day_number

Latest = Callable[[Any], Any]

_FEW_ROWS = 500_000
"""Number of staged rows below which merging runs in this process, whatever the runner."""
_MERGE_THREADS = 8
"""With remote storage, latency dominates."""


def latest_rules() -> dict[str, Latest]:
    """Return the function that selects the rows to keep, by table; other tables keep all rows."""
    return {table: rule for each in PROTOCOLS.values() for table, rule in each.latest.items()}


def settle_latest(lake: LakeStore) -> None:
    """Keep only the latest rows of each day to which several ingests have added rows."""
    for table, rule in latest_rules().items():
        _settle(lake, table, rule)


def _settle(lake: LakeStore, name: str, rule: Latest) -> None:
    def settle_a_day(table: LakeTable) -> bool:
        """Merge the files of the first day that has several; return False if none has."""
        actions = visible_files(table)
        if not actions.num_rows:
            return False
        days = actions[f"partition.{DATE}"].to_pylist()
        day = next((day for day, files in Counter(days).items() if files > 1), None)
        if day is None:
            return False
        files = actions.filter([own == day for own in days]).to_pylist()
        rows = table.to_pyarrow_table(filters=[(DATE, "=", day)]).drop_columns([DATE])
        written = write_rows(lake.location, name, rule(rows), day_number(day))
        removed = [remove_action(old["path"], old["size_bytes"], day) for old in files]
        commit_changes(table, [*removed, add_action(new_file(written, arrow_schema(table)))])
        return True

    while change_table(lake.table_location(name), settle_a_day):
        pass


@dataclass(frozen=True, slots=True)
class StagedTable:
    """A small table, staged until it is merged with those of other tasks."""

    table: str
    day: int
    path: str
    rows: int


def joined_rows(parts: list[Any]) -> Any:
    """Concatenate rows of a table; columns missing in a part are null."""
    if len(parts) == 1:
        return parts[0]
    return pa.concat_tables(parts, promote_options="default").unify_dictionaries()


def stage(lake: Location, folder: str, name: str, table: str, day: int, data: Any) -> StagedTable:
    """Write a small table to a staging folder of the lake."""
    filesystem = lake.filesystem
    own = f"{lake.path}/{folder}/{table}"
    path = f"{own}/{day}-{name}.arrow"
    filesystem.create_dir(own, recursive=True)
    with (
        filesystem.open_output_stream(path) as sink,
        pa.ipc.new_file(sink, data.schema) as writer,
    ):
        writer.write_table(data.unify_dictionaries().combine_chunks())
    return StagedTable(table, day, path, data.num_rows)


def read_staged(lake: Location, path: str) -> Any:
    """Return the rows of a staged table."""
    with lake.filesystem.open_input_file(path) as source, pa.ipc.open_file(source) as reader:
        return reader.read_all()


@dataclass(frozen=True, slots=True)
class StagedMerge:
    """Task that merges the staged tables of a day into one file."""

    lake: Location
    table: str
    day: int
    parts: tuple[StagedTable, ...]

    @property
    def rows(self) -> int:
        """Rows of all parts."""
        return sum(part.rows for part in self.parts)


def merge_staged(
    staged: Iterable[StagedTable], lake: Location, runner: Runner
) -> list[WrittenFile]:
    """Merge staged tables by table and day; a few rows in this process, which is faster."""
    groups: dict[tuple[str, int], list[StagedTable]] = {}
    for part in staged:
        groups.setdefault((part.table, part.day), []).append(part)
    tasks = [
        StagedMerge(lake, table, day, tuple(parts))
        for (table, day), parts in sorted(groups.items())
    ]
    if sum(map(_rows, tasks)) >= _FEW_ROWS:
        return runner.run(MERGE, tasks)
    with ThreadPoolExecutor(_MERGE_THREADS) as pool:
        return list(pool.map(_merge, tasks))


def _merge(task: StagedMerge) -> WrittenFile:
    data = joined_rows([read_staged(task.lake, part.path) for part in task.parts])
    if rule := latest_rules().get(task.table):
        return write_rows(task.lake, task.table, rule(data), task.day)
    if by := [name for name in BY_INSTRUMENT if name in data.column_names]:
        data = data.sort_by([(name, "ascending") for name in by])
    return write_rows(task.lake, task.table, data, task.day)


def _rows(task: StagedMerge) -> int:
    return task.rows


def _merged(task: StagedMerge, _file: WrittenFile) -> tuple[int, int]:
    return 1, task.rows


MERGE = Job("merge", _merge, _rows, _merged)
"""Merges staged tables; its progress is in tables."""


@dataclass(slots=True)
class TaskManifest:
    """Files, counts and findings of a task."""

    task: int
    protocol: str
    files: list[WrittenFile] = field(default_factory=list)
    staged: list[StagedTable] = field(default_factory=list)
    sums: IngestCounts = field(default_factory=IngestCounts)
    coverage: FeedCoverage = field(default_factory=dict)
    around: FeedCoverage = field(default_factory=dict)
    """Coverage of packets of other units, before and after the task's own."""
    starts: RunStarts = field(default_factory=dict)
    statistics: dict[int, CaptureStatistics] = field(default_factory=dict)
    spans: dict[int, tuple[int, int]] = field(default_factory=dict)
    """First and last capture time, by capture."""
    hashes: dict[int, dict[int, bytes]] = field(default_factory=dict)
    """Block hashes by capture and block number."""
    plain: dict[int, tuple[str, str]] = field(default_factory=dict)
    """Hash and fingerprint of the decompressed bytes, by compressed capture."""
    tails: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Position and length of an incomplete last record, by capture."""
    evidence: Counter[tuple[str, int]] = field(default_factory=Counter)
    """Messages by flow and kind."""
    damaged: dict[int, str] = field(default_factory=dict)
    """Errors by unreadable capture; if there are any, the rest of the manifest is invalid."""
    time_outliers: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    """Number of packets with outlier times, position and time of the first, by capture."""
    unread_flows: set[tuple[int, str]] = field(default_factory=set)
    """Captures and flows of protocols whose tasks do not read the capture."""
    memory: int = 0
    """Peak memory of the task's process, in bytes."""
