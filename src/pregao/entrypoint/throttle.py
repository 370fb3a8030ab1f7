"""Throttle of a session (§4.9): a maximum number of messages within a sliding window."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from pregao.clock import MILLISECOND


@dataclass(frozen=True, slots=True)
class ThrottleLimit:
    """Maximum number of messages of a session within a window of milliseconds."""

    messages: int
    window_ms: int


class Throttle:
    """Counts the messages within the window; refused messages do not count."""

    def __init__(self, limit: ThrottleLimit | None) -> None:
        self._limit = limit
        self._times: deque[int] = deque()

    def admits(self, now_ns: int) -> bool:
        """Whether a message may be accepted now; if so, counts it."""
        if self._limit is None:
            return True
        times = self._times
        start = now_ns - self._limit.window_ms * MILLISECOND
        while times and times[0] <= start:
            times.popleft()
        if len(times) >= self._limit.messages:
            return False
        times.append(now_ns)
        return True
