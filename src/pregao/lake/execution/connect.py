"""Tasks on Spark Connect, which has no RDDs: pickled tasks as rows, each in its own partition."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

_SCHEMA = "number int, outcome binary, failed boolean"
_MANY = 1 << 20


def parallelism(spark: Any) -> int:
    """Return the number of tasks that the server runs at the same time."""
    # The server cuts a range into as many partitions as it has cores.
    parts = spark.range(_MANY).selectExpr("spark_partition_id() AS part")
    return 1 + int(parts.selectExpr("max(part)").first()[0])


def collect(
    spark: Any, tasks: list[bytes], attempt: Callable[[bytes], tuple[bytes, bool]]
) -> list[tuple[bytes, bool]]:
    """Apply a function to every pickled task, each in a task of Spark, and return the outcomes."""

    def work(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            outcomes = [attempt(task) for task in batch.column("task").to_pylist()]
            columns = [
                batch.column("number"),
                pa.array([blob for blob, _ in outcomes], pa.binary()),
                pa.array([failed for _, failed in outcomes], pa.bool_()),
            ]
            yield pa.RecordBatch.from_arrays(columns, ["number", "outcome", "failed"])

    numbers = pa.array(range(len(tasks)), pa.int32())
    table = pa.table({"number": numbers, "task": pa.array(tasks, pa.binary())})
    spread = spark.createDataFrame(table).repartitionById(len(tasks), "number")
    rows = spread.mapInArrow(work, _SCHEMA).collect()
    return [
        (bytes(row["outcome"]), row["failed"])
        for row in sorted(rows, key=lambda row: row["number"])
    ]
