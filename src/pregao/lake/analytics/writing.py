"""Writer of a table's rows, and the commit that replaces a day.

Small results of tasks are staged, and merged into one file. A table that an earlier version built
with other columns is replaced, so that it is rebuilt.
"""

from __future__ import annotations

import datetime
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from pregao.errors import PregaoError, UsageError
from pregao.lake.analytics.local.frames import DataFrame
from pregao.lake.analytics.tables import AnalyticsTable
from pregao.lake.execution.spark_session import sentence
from pregao.lake.ingest.merging import StagedTable, joined_rows, read_staged, stage
from pregao.lake.ingest.writer import write_rows
from pregao.lake.storage.commit_unit import DATE
from pregao.lake.storage.delta import arrow_schema, replace_columns, visible_files
from pregao.lake.storage.filesystem import Location
from pregao.lake.storage.lake_store import LakeStore
from pregao.lake.storage.parquet import WrittenFile, stored_schema
from pregao.units import day_number

ROWS_PER_FILE = 1 << 20
MAX_STAGED_ROWS = 1 << 14
"""Maximum number of rows of a task's result that is merged with those of others."""
UNBUILT = 0
"""Inputs of a day whose rows were removed."""


def write_frame(
    lake: Location,
    table: AnalyticsTable,
    rows: DataFrame | pa.Table | Iterable[pa.Table],
    date: datetime.date,
    staging: str,
    name: str,
) -> tuple[list[WrittenFile], list[StagedTable]]:
    """Write rows in order as files that are not yet visible, or stage them if they are few."""
    day = day_number(date)
    stored = stored_schema(table.spec.schema)
    files: list[WrittenFile] = []
    portions = _sorted(rows, table, stored) if isinstance(rows, DataFrame) else _portions(rows)
    for data in portions:
        # Only the last portion is small.
        if not files and data.num_rows <= MAX_STAGED_ROWS:
            return [], [stage(lake, staging, name, table.name, day, data)]
        files.append(write_rows(lake, table.name, data, day))
    return files, []


def _portions(rows: pa.Table | Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Yield rows in portions that fit a file; small tables are joined."""
    held: list[pa.Table] = []
    count = 0
    for part in (rows,) if isinstance(rows, pa.Table) else rows:
        held.append(part)
        count += part.num_rows
        if count > MAX_STAGED_ROWS:
            yield from _cut(joined_rows(held))
            held, count = [], 0
    if count:
        yield joined_rows(held)


def _cut(rows: pa.Table) -> Iterator[pa.Table]:
    for first in range(0, rows.num_rows, ROWS_PER_FILE):
        yield rows.slice(first, ROWS_PER_FILE)


def _sorted(frame: DataFrame, table: AnalyticsTable, stored: Any) -> Iterator[pa.Table]:
    """Yield the rows of a frame in order, in portions that fit a file, and memory."""
    for rows in _chunks(frame.sortWithinPartitions(*table.sort_by).batches()):
        yield pa.Table.from_batches(rows).cast(stored)


def _chunks(batches: Iterator[Any]) -> Iterator[list[Any]]:
    """Yield the batches in portions that fit a file, and memory."""
    held: list[Any] = []
    count = 0
    for batch in batches:
        if batch.num_rows:
            held.append(batch)
            count += batch.num_rows
        if count >= ROWS_PER_FILE:
            yield held
            held, count = [], 0
    if held:
        yield held


class MergeResults(NamedTuple):
    """Staged results of one day of a table, to merge into a file."""

    lake: Location
    table: str
    day: int
    sort_by: tuple[str, ...]
    paths: tuple[str, ...]
    rows: int


def merge(task: MergeResults) -> WrittenFile:
    """Merge staged results into one file, in the table's order."""
    rows = joined_rows([read_staged(task.lake, path) for path in task.paths])
    keys = [(name, "ascending", "at_start") for name in task.sort_by]
    order = pc.sort_indices(rows, sort_keys=keys)
    return write_rows(task.lake, task.table, rows.take(order), task.day)


@contextmanager
def describe_failure(tables: Sequence[str], date: datetime.date) -> Iterator[None]:
    """Convert any error of DuckDB or a task to a `PregaoError` with table and date."""
    try:
        yield
    except Exception as error:
        names = ", ".join(tables)
        raise PregaoError(f"{names} of {date} could not be built: {sentence(error)}") from error


def is_built_from(
    lake: LakeStore, table: AnalyticsTable, date: datetime.date, fingerprint: int
) -> bool:
    """Whether the day's existing rows were built from exactly these inputs."""
    return bool(lake.delta(table.name).transaction_version(day_mark(date)) == fingerprint)


def day_mark(date: datetime.date) -> str:
    """Return the name of the mark that holds the inputs of a day's rows."""
    return f"day {date.isoformat()}"


def replace_outdated(
    lake: LakeStore, tables: Iterable[AnalyticsTable], days: Collection[datetime.date] | None
) -> None:
    """Remove the rows of tables with columns that no longer exist, and give them the current ones.

    ``days`` are the ones that will be built, None for all. A table that has rows of other days is
    an error: they would be lost.
    """
    outdated, there = [], set(lake.table_names())
    for table in tables:
        if table.name not in there:
            continue
        current = lake.delta(table.name)
        names = [field.name for field in arrow_schema(current)]
        old = [name for name in names if name not in table.spec.schema.names]
        if not old:
            continue
        built = set(visible_files(current)[f"partition.{DATE}"].to_pylist())
        if days is not None and not built <= set(days):
            columns = f"column{'s' if len(old) > 1 else ''} {', '.join(old)}"
            raise UsageError(
                f"{lake.location}: the table {table.name} was built by an earlier version of "
                f"Pregão (it has the {columns}); rebuild all its days first: pregao analytics "
                "without --date."
            )
        outdated.append((table.spec, {day_mark(day): UNBUILT for day in built}))
    for spec, marks in outdated:
        replace_columns(lake.table_location(spec.name), spec, marks)
