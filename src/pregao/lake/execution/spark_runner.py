"""Runner of an ingest's tasks on Spark: sends ranges, receives manifests, never rows."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import pickle
import threading
from collections.abc import Iterator
from functools import cache, lru_cache
from typing import Any

import pyarrow as pa

from pregao.errors import PregaoError
from pregao.lake.execution.spark_session import is_remote, sentence
from pregao.lake.ingest.merging import TaskManifest, merge_staged
from pregao.lake.ingest.runner import Merger, Runner, TaskProgress, bytes_of
from pregao.lake.ingest.task import IngestTask, run_task
from pregao.lake.ingest.window import forget_scratch
from pregao.lake.storage.filesystem import Location
from pregao.lake.storage.parquet import WrittenFile

_POLL_SECONDS = 0.05
INGEST = "ingest"
"""Kind of the jobs that ingest captures."""
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3


def on_spark(spark: Any) -> Runner:
    """Return a runner that runs each task as a Spark task."""

    def run(tasks: list[IngestTask], progress: TaskProgress) -> list[TaskManifest]:
        sizes = {task.number: _size(task) for task in tasks}
        done_bytes = counter(spark)
        done_messages = counter(spark)

        def work(blob: bytes) -> TaskManifest:
            task: IngestTask = pickle.loads(blob)  # noqa: S301 - our own task, sent by our own driver
            manifest = run_task(task)
            done_bytes.add(sizes[task.number])
            done_messages.add(manifest.sums.messages.total())
            return manifest

        def watch() -> None:
            progress.advanced(done_bytes.value, done_messages.value)

        results = map_on_spark(spark, [pickle.dumps(task) for task in tasks], work, watch, INGEST)
        return sorted(results, key=lambda manifest: manifest.task)

    return run


def merge_on_spark(spark: Any) -> Merger:
    """Return a merger of small tables on a Spark session."""

    def merge(lake: Location, groups: dict[tuple[str, int], list[str]]) -> list[WrittenFile]:
        items = [pickle.dumps((lake, table, day, paths)) for (table, day), paths in groups.items()]

        def work(blob: bytes) -> WrittenFile:
            return merge_staged(*pickle.loads(blob))  # noqa: S301 - sent by our own driver

        return map_on_spark(spark, items, work, lambda: None, INGEST)

    return merge


class NullCounter:
    """Counter without effect: Spark Connect has no accumulators, so it shows no progress."""

    value = 0

    def add(self, _term: int) -> None:
        """Ignore the term."""


def counter(spark: Any) -> Any:
    """Return a counter that tasks add to and the driver reads."""
    return NullCounter() if is_remote(spark) else spark.sparkContext.accumulator(0)


def _size(task: IngestTask) -> int:
    return sum(bytes_of(task, number) for number in range(len(task.pieces)))


def map_on_spark(spark: Any, blobs: list[bytes], work: Any, watch: Any, kind: str) -> list[Any]:
    """Apply a function to every blob, one Spark task each; errors are one-line messages.

    Workers keep memory between consecutive jobs of the same kind.
    """

    def each(blob: bytes) -> tuple[bytes, str | None]:
        keep_freed_memory()
        release_memory_of_other_jobs(kind)
        try:
            return pickle.dumps(work(blob)), None
        except PregaoError as caught:
            return b"", str(caught)
        finally:
            freeze_gc()

    if is_remote(spark):
        fetch = _remotely(spark, blobs, each)
    else:
        fetch = spark.sparkContext.parallelize(blobs, max(1, len(blobs))).map(each).collect
    rows: list[tuple[bytes, str | None]] = []
    failed: list[BaseException] = []

    def collect() -> None:
        try:
            rows.extend(fetch())
        except BaseException as caught:
            failed.append(caught)

    thread = threading.Thread(target=collect, daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(_POLL_SECONDS)
        watch()
    if failed:
        raise PregaoError(f"A Spark task failed: {sentence(failed[0])}") from failed[0]
    for _, error in rows:
        if error is not None:
            raise PregaoError(error)
    return [pickle.loads(result) for result, _ in rows]  # noqa: S301 - from our own tasks


def _remotely(spark: Any, blobs: list[bytes], each: Any) -> Any:
    """Return the fetch function without RDDs: blobs as rows, each in its own partition."""

    def work(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            results, errors = [], []
            for blob in batch.column("blob").to_pylist():
                result, error = each(blob)
                results.append(result)
                errors.append(error)
            columns = [pa.array(results, pa.binary()), pa.array(errors, pa.string())]
            yield pa.RecordBatch.from_arrays(columns, ["result", "error"])

    def fetch() -> list[tuple[bytes, str | None]]:
        if not blobs:
            return []
        numbers = pa.array(range(len(blobs)), pa.int32())
        table = pa.table({"number": numbers, "blob": pa.array(blobs, pa.binary())})
        spread = spark.createDataFrame(table).repartitionById(len(blobs), "number")
        done = spread.mapInArrow(work, "result binary, error string").collect()
        return [(bytes(row["result"]), row["error"]) for row in done]

    return fetch


# Spark's Python workers run one task after another, and are configured for that.


@cache
def keep_freed_memory() -> None:
    """Keep the memory that a task frees in the worker for the next task, which needs as much.

    Memory returned to the system is allocated again page by page, which in large tasks would take
    longer than filling it.
    """
    pa.set_memory_pool(pa.system_memory_pool())
    with contextlib.suppress(OSError, AttributeError):  # only where the C library is GNU's
        library = ctypes.CDLL(None)
        library.mallopt(_M_MMAP_THRESHOLD, 1 << 25)
        library.mallopt(_M_TRIM_THRESHOLD, (1 << 31) - 1)


@lru_cache(1)
def release_memory_of_other_jobs(kind: str) -> None:  # noqa: ARG001 - differs from the last one's
    """Release the memory kept for another kind of job, which needs other sizes."""
    forget_scratch()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


@cache
def freeze_gc() -> None:
    """Exclude from garbage collection all that a worker has loaded by the end of its first task.

    Spark's worker collects garbage after every task, and would scan all modules each time.
    """
    gc.collect()
    gc.freeze()
