"""Tuning of the feed's process: garbage collection, and real-time scheduling of its thread."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from pregao.errors import UsageError

_SELDOM = (100_000, 50, 100)
"""Collector thresholds. Reference counting frees events without the collector, so that the number
of new objects rarely reaches the first threshold."""

_PRIORITY = 10
"""Real-time priority (1 to 99), below that of the kernel's own important threads."""


@contextmanager
def rare_collection() -> Iterator[None]:
    """Collect garbage rarely, and only objects created from now on.

    A collection of everything that a process has loaded takes 0.1 s, and one of the newest objects
    0.25 ms, each time some hundred events have been created.
    """
    before = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_SELDOM)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


def check_manner(*, spin: bool, realtime: bool) -> None:
    """Reject busy polling together with real-time scheduling."""
    if spin and realtime:
        raise UsageError("Choose spin or realtime: both would leave a core to no other thread.")


def raise_priority() -> str | None:
    """Raise this thread to real-time priority; return why not if the system refuses.

    Ordinary threads then no longer preempt the processing of a packet. Threads and processes that
    this one starts have ordinary priority.
    """
    if sys.platform != "linux":
        return "Real-time scheduling of the feed's thread requires Linux."
    try:
        policy = os.SCHED_FIFO | os.SCHED_RESET_ON_FORK
        os.sched_setscheduler(0, policy, os.sched_param(_PRIORITY))
    except PermissionError:
        return (
            "Real-time scheduling of the feed's thread was refused: allow it with "
            f"`@GROUP - rtprio {_PRIORITY}` in /etc/security/limits.conf, or run it with "
            "the capability CAP_SYS_NICE."
        )
    except OSError as error:
        return f"Real-time scheduling of the feed's thread failed: {error.strerror}."
    return None
