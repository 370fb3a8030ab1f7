"""The throttle of a session (§4.9): at most so many messages within a sliding window."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from pregao.clock import MILLISECOND


@dataclass(frozen=True, slots=True)
class ThrottleLimit:
    """How many messages a session may send within how many milliseconds."""

    messages: int
    window_ms: int


class Throttle:
    """Counts the messages of the last milliseconds; those that it refused do not count."""

    def __init__(self, limit: ThrottleLimit | None) -> None:
        self._limit = limit
        self._times: deque[int] = deque()

    def admits(self, now_ns: int) -> bool:
        """May a message be taken now? If so it is counted."""
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
