"""Writer of a table's day: the engine writes the files, one commit replaces the day's rows.

A table that an earlier version built with other columns is replaced, so that it is rebuilt.
"""

from __future__ import annotations

import datetime
import pickle
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from pregao.errors import PregaoError, UsageError
from pregao.lake.analytics.engine import DataFrame, F
from pregao.lake.analytics.tables import AnalyticsTable
from pregao.lake.execution.spark_session import sentence
from pregao.lake.ingest.writer import write_rows
from pregao.lake.storage.commit_unit import DATE, NewFile
from pregao.lake.storage.delta import (
    arrow_schema,
    replace_columns,
    replace_partition,
    visible_files,
)
from pregao.lake.storage.filesystem import Location
from pregao.lake.storage.lake_store import LakeStore
from pregao.lake.storage.parquet import new_file, number_of, stored_schema

ROWS_PER_FILE = 1 << 20
UNBUILT = 0
"""Inputs of a day whose rows were removed."""
_WRITTEN = "file binary"


def replace_day(
    lake: LakeStore,
    table: AnalyticsTable,
    frame: DataFrame,
    date: datetime.date,
    source_version: int,
) -> int:
    """Write a day's rows, and replace the day's existing rows. Returns their number.

    ``made_of`` identifies their inputs, see `is_built_from`. The new rows become visible, and the
    old ones invisible, in one transaction of the table.
    """
    with describe_failure(table, date):
        files = _written(lake.location, table, frame, date)
    replace_partition(
        lake.table_location(table.name), date, files, {day_mark(date): source_version}
    )
    return sum(file.rows for file in files)


@contextmanager
def describe_failure(table: AnalyticsTable, date: datetime.date) -> Iterator[None]:
    """Convert any error of Java, Spark, DuckDB or a task to a `PregaoError` with table and date."""
    try:
        yield
    except Exception as error:
        raise PregaoError(
            f"{table.name} of {date} could not be built: {sentence(error)}"
        ) from error


def is_built_from(
    lake: LakeStore, table: AnalyticsTable, date: datetime.date, made_of: int
) -> bool:
    """Whether the day's existing rows were built from exactly these inputs."""
    return bool(lake.delta(table.name).transaction_version(day_mark(date)) == made_of)


def day_mark(date: datetime.date) -> str:
    """Return the name of the mark that holds the inputs of a day's rows."""
    return f"day {date.isoformat()}"


def _written(
    lake: Location, table: AnalyticsTable, frame: DataFrame, date: datetime.date
) -> list[NewFile]:
    """Write the rows as files that are not yet visible."""
    name, day = table.name, number_of(date)
    declared = table.spec.schema
    stored = stored_schema(declared)

    def write(batches: Iterator[Any]) -> Iterator[Any]:
        for rows in _chunks(batches):
            data = pa.Table.from_batches(rows).cast(stored)
            file = new_file(write_rows(lake, name, data, day), declared)
            yield pa.RecordBatch.from_pylist([{"file": pickle.dumps(file)}])

    spread = frame.repartition(*[F.expr(alike) for alike in table.spread_by])
    ordered = spread.sortWithinPartitions(*table.sort_by)
    found = ordered.mapInArrow(write, _WRITTEN).collect()
    return [pickle.loads(row["file"]) for row in found]  # noqa: S301 - from our own tasks


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
