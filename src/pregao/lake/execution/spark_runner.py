"""Tasks on Spark: sends pickled arguments, receives pickled results, never rows."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import pickle
import threading
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple

import pyarrow as pa

from pregao.errors import PregaoError
from pregao.lake.execution.spark_session import is_remote, sentence

_POLL_SECONDS = 0.05
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3


def _nothing() -> None:
    """Release nothing."""


class JobKind(NamedTuple):
    """Kind of job: its tasks need memory of the same sizes, which a worker keeps between them."""

    name: str
    release: Callable[[], None] = _nothing
    """Releases what the tasks of this kind keep in the worker."""


_last_kind: JobKind | None = None


class NullCounter:
    """Counter without effect: Spark Connect has no accumulators, so it shows no progress."""

    value = 0

    def add(self, _term: int) -> None:
        """Ignore the term."""


def counter(spark: Any) -> Any:
    """Return a counter that tasks add to and the driver reads."""
    return NullCounter() if is_remote(spark) else spark.sparkContext.accumulator(0)


def map_on_spark(spark: Any, blobs: list[bytes], work: Any, watch: Any, kind: JobKind) -> list[Any]:
    """Apply a function to every blob, one Spark task each; errors are one-line messages.

    Workers keep memory between consecutive jobs of the same kind.
    """

    def each(blob: bytes) -> tuple[bytes, str | None]:
        keep_freed_memory()
        begin_job(kind)
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


def begin_job(kind: JobKind) -> None:
    """Release the memory kept for the previous kind of job if this is another one."""
    global _last_kind
    previous, _last_kind = _last_kind, kind
    if previous is None or previous.name == kind.name:
        return
    previous.release()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


@cache
def freeze_gc() -> None:
    """Exclude from garbage collection all that a worker has loaded by the end of its first task.

    Spark's worker collects garbage after every task, and would scan all modules each time.
    """
    gc.collect()
    gc.freeze()
