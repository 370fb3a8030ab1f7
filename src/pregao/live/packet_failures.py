"""Log of packets whose processing failed: with their bytes, at a bounded rate."""

from __future__ import annotations

import logging
from pathlib import Path

from pregao.clock import SECOND

MAX_LOGGED_BYTES = 256
"""Maximum number of bytes of a packet that are logged."""
LOG_INTERVAL_NS = 10 * SECOND
"""Minimum time between two logged failures; those in between are counted."""

_log = logging.getLogger(__name__)


class FailureLog:
    """Logs failures of one channel at a bounded rate."""

    def __init__(self, channel: int) -> None:
        self._channel = channel
        self._last_ns: int | None = None
        self._unlogged = 0

    def add(self, error: Exception, payload: bytes | None, now_ns: int) -> None:
        """Log a failure, or count it if another one was logged within `LOG_INTERVAL_NS`."""
        if self._last_ns is not None and 0 <= now_ns - self._last_ns < LOG_INTERVAL_NS:
            self._unlogged += 1
            return
        before = f" {self._unlogged} earlier failures were not logged." if self._unlogged else ""
        self._last_ns, self._unlogged = now_ns, 0
        _log.error(
            "Channel %d: processing failed (%s); it counts as packet loss, and the books are "
            "rebuilt from snapshots. %s%s",
            self._channel, _described(error), _shown(payload), before,
        )  # fmt: skip


def _described(error: Exception) -> str:
    """Return an error and where it was raised, in one line."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = ""
    if trace is not None:
        where = f" in {Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}"
    return f"{type(error).__name__}: {str(error)[:200]!r}{where}"


def _shown(payload: bytes | None) -> str:
    if payload is None:
        return "It concerns no single packet."
    end = "" if len(payload) <= MAX_LOGGED_BYTES else " …"
    return f"Packet of {len(payload)} bytes: {payload[:MAX_LOGGED_BYTES].hex()}{end}"
