"""The tasks of an ingest on Spark: ranges go out, manifests come back, no rows cross over."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from pregao.errors import PregaoError
from pregao.lake.faults import sentence
from pregao.lake.ingest import Merger, Progress, Runner, bytes_of
from pregao.lake.location import Location
from pregao.lake.parquet import Written
from pregao.lake.tasks import Manifest, Task, merge_staged, run_task

_POLL_SECONDS = 0.2
_SCHEMA = "number bigint, result binary, error string"


def on_spark(spark: Any) -> Runner:
    """Do tasks with a Spark session, each in a task of its own."""

    def run(tasks: list[Task], progress: Progress) -> list[Manifest]:
        sizes = {task.number: _size(task) for task in tasks}
        done_bytes = spark.sparkContext.accumulator(0)
        done_messages = spark.sparkContext.accumulator(0)

        def work(blob: bytes) -> Manifest:
            task: Task = pickle.loads(blob)  # noqa: S301 - our own task, sent by our own driver
            manifest = run_task(task)
            done_bytes.add(sizes[task.number])
            done_messages.add(manifest.sums.messages.total())
            return manifest

        def watch() -> None:
            progress.advanced(done_bytes.value, done_messages.value)

        results = _map(spark, [pickle.dumps(task) for task in tasks], work, watch)
        return sorted(results, key=lambda manifest: manifest.task)

    return run


def merge_on_spark(spark: Any) -> Merger:
    """Merge small tables with a Spark session."""

    def merge(lake: Location, groups: dict[tuple[str, int], list[str]]) -> list[Written]:
        items = [pickle.dumps((lake, table, day, paths)) for (table, day), paths in groups.items()]

        def work(blob: bytes) -> Written:
            return merge_staged(*pickle.loads(blob))  # noqa: S301 - sent by our own driver

        return _map(spark, items, work, lambda: None)

    return merge


def _size(task: Task) -> int:
    return sum(bytes_of(task, number) for number in range(len(task.pieces)))


def _map(spark: Any, blobs: list[bytes], work: Any, watch: Any) -> list[Any]:
    """Apply a function to every blob, one Spark task each; errors come back as one sentence."""
    shared = spark.sparkContext.broadcast(blobs)

    def each(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                result, error = b"", None
                try:
                    result = pickle.dumps(work(shared.value[number]))
                except PregaoError as caught:
                    error = str(caught)
                yield pa.RecordBatch.from_arrays(
                    [
                        pa.array([number], pa.int64()),
                        pa.array([result], pa.binary()),
                        pa.array([error], pa.string()),
                    ],
                    names=["number", "result", "error"],
                )

    frame = spark.range(0, len(blobs), 1, len(blobs)).mapInArrow(each, _SCHEMA)
    rows: list[Any] = []
    failed: list[BaseException] = []

    def collect() -> None:
        try:
            rows.extend(frame.collect())
        except BaseException as caught:
            failed.append(caught)

    thread = threading.Thread(target=collect, daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(_POLL_SECONDS)
        watch()
    shared.unpersist()
    if failed:
        raise PregaoError(f"A Spark task failed: {sentence(failed[0])}") from failed[0]
    for row in rows:
        if row["error"] is not None:
            raise PregaoError(row["error"])
    return [pickle.loads(row["result"]) for row in rows]  # noqa: S301 - from our own tasks
