"""A feed's thread before all others: what its system may grant to those who ask."""

from __future__ import annotations

import os
import sys

from pregao.errors import UsageError

_PRIORITY = 10
"""Of those from 1 to 99; the kernel's own threads that matter are above it."""


def check_manner(*, spin: bool, realtime: bool) -> None:
    """Refuse a thread that never sleeps and goes before all others."""
    if spin and realtime:
        raise UsageError("Either spin or realtime: both would leave a core to nobody else.")


def go_first() -> str | None:
    """Let this thread run before all ordinary ones from here on; why not, if it is refused.

    Other work then no longer takes the processor away from a packet that has come. Threads and
    processes that it starts are ordinary ones.
    """
    if sys.platform != "linux":
        return "Only Linux lets the feed's thread go before others."
    try:
        policy = os.SCHED_FIFO | os.SCHED_RESET_ON_FORK
        os.sched_setscheduler(0, policy, os.sched_param(_PRIORITY))
    except PermissionError:
        return (
            "The feed's thread may not go before others: allow it with "
            f"`@GROUP - rtprio {_PRIORITY}` in /etc/security/limits.conf, or run it with "
            "the capability CAP_SYS_NICE."
        )
    except OSError as error:
        return f"The feed's thread cannot go before others: {error.strerror}."
    return None
