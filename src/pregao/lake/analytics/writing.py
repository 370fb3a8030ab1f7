"""A day of a table, written by Spark's tasks and put in place of what was there as one change."""

from __future__ import annotations

import datetime
import time
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import RemoveAction
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody knows

from pregao.errors import PregaoError
from pregao.lake.analytics.tables import AnalyticsTable
from pregao.lake.ingest.schemas import DATE
from pregao.lake.spark.spark_errors import sentence
from pregao.lake.store import Lake
from pregao.lake.store.delta_tables import add_action
from pregao.lake.store.file_statistics import stats_json
from pregao.lake.store.location import Location
from pregao.lake.store.parquet import write_table
from pregao.lake.store.unit import NewFile

ROWS_PER_FILE = 1 << 20
_ATTEMPTS = 20
_WRITTEN = "path string, size bigint, rows bigint, stats string"
_EPOCH = datetime.date(1970, 1, 1)


def replace_day(
    lake: Lake, table: AnalyticsTable, frame: DataFrame, date: datetime.date, made_of: int
) -> int:
    """Write a day's rows and let them take the place of the day's rows so far; gives their number.

    ``made_of`` tells what they were made of, see `is_made_of`. Rows become visible, and those
    before them invisible, in one transaction of the table.
    """
    files = _written(lake.location, table, frame, date)
    for _ in range(_ATTEMPTS):
        delta = lake.delta(table.name)
        actions = pa.table(delta.get_add_actions(flatten=True)).to_pylist()
        now = time.time_ns() // 1_000_000
        partition: dict[str, str | None] = {DATE: date.isoformat()}
        gone = [
            RemoveAction(action["path"], True, now, action["size_bytes"], partition)
            for action in actions
            if action[f"partition.{DATE}"] == date
        ]
        mark = Transaction(_mark(date), made_of)
        try:
            delta.create_write_transaction(
                [*gone, *map(add_action, files)],
                "append",
                delta.schema(),
                [DATE],
                commit_properties=CommitProperties(app_transactions=[mark]),
            )
        except (CommitFailedError, DeltaError):
            time.sleep(0.05)  # somebody else changed the table: look again
        else:
            return sum(file.rows for file in files)
    raise PregaoError(
        f"{lake.location}: other processes keep changing the table {table.name}; "
        "try again when they are done."
    )


def is_made_of(lake: Lake, table: AnalyticsTable, date: datetime.date, made_of: int) -> bool:
    """Were the day's rows that are there made of exactly this?"""
    return bool(lake.delta(table.name).transaction_version(_mark(date)) == made_of)


def _mark(date: datetime.date) -> str:
    return f"day {date.isoformat()}"


def _written(
    lake: Location, table: AnalyticsTable, frame: DataFrame, date: datetime.date
) -> list[NewFile]:
    """Write the rows as files, not yet visible."""
    name, day = table.name, (date - _EPOCH).days
    declared = table.spec.schema
    stored = pa.schema([pa.field(field.name, _stored(field.type)) for field in table.columns])

    def write(batches: Iterator[Any]) -> Iterator[Any]:
        for rows in _chunks(batches):
            data = pa.Table.from_batches(rows).cast(stored)
            written = write_table(lake.filesystem, lake.path, name, data, day)
            yield pa.RecordBatch.from_pylist(
                [
                    {
                        "path": written.path,
                        "size": written.size,
                        "rows": written.rows,
                        "stats": stats_json(written.metadata, declared),
                    }
                ]
            )

    spread = frame.repartition(*[F.expr(alike) for alike in table.spread_by])
    ordered = spread.sortWithinPartitions(*table.sort_by)
    try:
        found = ordered.mapInArrow(write, _WRITTEN).collect()
    except Exception as error:
        # Whatever Java, Spark or a task raises: the user gets its gist.
        raise PregaoError(f"{name} of {date} could not be made: {sentence(error)}") from error
    partition = ((DATE, date.isoformat()),)
    return [
        NewFile(name, row["path"], row["size"], row["rows"], partition, row["stats"])
        for row in found
    ]


def _chunks(batches: Iterator[Any]) -> Iterator[list[Any]]:
    """The batches in portions that fit a file, and into memory."""
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


def _stored(kind: Any) -> Any:
    """What files hold: decimals that fit as 64-bit integers."""
    if pa.types.is_decimal(kind) and kind.precision <= 18:
        return pa.decimal64(kind.precision, kind.scale)
    return kind
