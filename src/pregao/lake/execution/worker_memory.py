"""Memory habits of a process that runs one task after another."""

from __future__ import annotations

import contextlib
import ctypes
import gc
from functools import cache
from typing import Any

import pyarrow as pa

from pregao.lake.execution.runner import Job

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3

_last_job: Job[Any, Any] | None = None


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


def begin_job(job: Job[Any, Any]) -> None:
    """Release the memory kept for the previous job of this process if this one is another."""
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
