"""The tasks of an ingest on Spark: ranges go out, manifests come back, no rows cross over."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import pickle
import threading
from functools import cache
from typing import Any

import pyarrow as pa

from pregao.errors import PregaoError
from pregao.lake.ingest import (
    Manifest,
    Merger,
    Runner,
    Task,
    TaskProgress,
    bytes_of,
    merge_staged,
    run_task,
)
from pregao.lake.spark.spark_errors import sentence
from pregao.lake.store import Location, Written

_POLL_SECONDS = 0.05
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3


def on_spark(spark: Any) -> Runner:
    """Do tasks with a Spark session, each in a task of its own."""

    def run(tasks: list[Task], progress: TaskProgress) -> list[Manifest]:
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

        results = map_on_spark(spark, [pickle.dumps(task) for task in tasks], work, watch)
        return sorted(results, key=lambda manifest: manifest.task)

    return run


def merge_on_spark(spark: Any) -> Merger:
    """Merge small tables with a Spark session."""

    def merge(lake: Location, groups: dict[tuple[str, int], list[str]]) -> list[Written]:
        items = [pickle.dumps((lake, table, day, paths)) for (table, day), paths in groups.items()]

        def work(blob: bytes) -> Written:
            return merge_staged(*pickle.loads(blob))  # noqa: S301 - sent by our own driver

        return map_on_spark(spark, items, work, lambda: None)

    return merge


def _size(task: Task) -> int:
    return sum(bytes_of(task, number) for number in range(len(task.pieces)))


def map_on_spark(spark: Any, blobs: list[bytes], work: Any, watch: Any) -> list[Any]:
    """Apply a function to every blob, one Spark task each; errors come back as one sentence."""

    def each(blob: bytes) -> tuple[bytes, str | None]:
        take_memory()
        try:
            return pickle.dumps(work(blob)), None
        except PregaoError as caught:
            return b"", str(caught)
        finally:
            spare_the_collector()

    done = spark.sparkContext.parallelize(blobs, max(1, len(blobs))).map(each)
    rows: list[tuple[bytes, str | None]] = []
    failed: list[BaseException] = []

    def collect() -> None:
        try:
            rows.extend(done.collect())
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


# Spark's Python workers do one task after another, and are set up for that.


@cache
def take_memory() -> None:
    """Let a worker keep the memory that a task frees for the next one, which needs as much.

    Memory that is given back to the system is taken again page by page, which in large tasks
    would take longer than to fill it.
    """
    pa.set_memory_pool(pa.system_memory_pool())
    with contextlib.suppress(OSError, AttributeError):  # only where the C library is GNU's
        library = ctypes.CDLL(None)
        library.mallopt(_M_MMAP_THRESHOLD, 1 << 25)
        library.mallopt(_M_TRIM_THRESHOLD, (1 << 31) - 1)


@cache
def spare_the_collector() -> None:
    """Set aside what a worker has loaded by the end of its first task.

    Spark's worker collects garbage behind every task, and would each time look at all modules.
    """
    gc.collect()
    gc.freeze()
