"""Worker process: runs one task after another, and keeps the memory that the next one needs."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import pickle
import traceback
from functools import cache
from multiprocessing.connection import Connection
from typing import Any

import pyarrow as pa

from pregao.errors import PregaoError
from pregao.lake.execution.runner import Job, Result, Task

RECEIVED = b""
"""Answer of a worker when it has received a task; that of the task follows."""
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3

_last_job: Job[Any, Any] | None = None


def run_task(job: Job[Task, Result], task: Task) -> Result:
    """Run a task in this process, which runs nothing but tasks."""
    keep_freed_memory()
    _begin(job)
    try:
        return job.work(task)
    finally:
        freeze_gc()


def serve(connection: Connection) -> None:
    """Run the tasks that a connection delivers, until it is closed."""
    while True:
        try:
            pickled = connection.recv_bytes()
            connection.send_bytes(RECEIVED)
        except (EOFError, OSError):
            return
        connection.send_bytes(_outcome(pickled))


def _outcome(pickled: bytes) -> bytes:
    """Run a task and return its result and None, or None and its error."""
    try:
        job, task = pickle.loads(pickled)  # noqa: S301 - sent by our own runner
        return pickle.dumps((run_task(job, task), None))
    except Exception as error:
        if not isinstance(error, PregaoError):
            error.add_note(f"In a worker process:\n{traceback.format_exc()}")
        try:
            return pickle.dumps((None, error))
        except Exception:  # an error of a library may hold anything
            return pickle.dumps((None, PregaoError(f"{type(error).__name__}: {error}")))


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


def _begin(job: Job[Any, Any]) -> None:
    """Release the memory kept for the previous job if this one has another name."""
    global _last_job
    previous, _last_job = _last_job, job
    if previous is None or previous.name == job.name:
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
