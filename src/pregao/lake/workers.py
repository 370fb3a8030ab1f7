"""How Spark's Python workers, which do one task after another, are set up for that."""

from __future__ import annotations

import contextlib
import ctypes
import gc
from functools import cache

import pyarrow as pa

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3


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
