"""Backlog of messages about the market state, processed later and in order.

Without listeners, statistics and phases are not needed before a caller reads them: books have
priority when packets arrive faster than Python can decode their other messages.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

MAX_PENDING = 262_144
"""Maximum number of queued messages."""

Work = Callable[[int], int]
"""Processes at most the given number of its messages. Returns how many are left."""


class MessageBacklog:
    """Queue of messages, added singly or in batches."""

    def __init__(self) -> None:
        self._work: deque[tuple[Work, int]] = deque()
        self._count = 0

    def __len__(self) -> int:
        """Number of queued messages."""
        return self._count

    def add(self, work: Work, count: int) -> None:
        """Queue ``count`` messages; if they exceed the capacity, process the earlier ones first."""
        if self._count + count > MAX_PENDING:
            self.process(self._count)
        self._work.append((work, count))
        self._count += count

    def process(self, limit: int) -> None:
        """Process at most ``limit`` messages, oldest first."""
        while self._work and limit > 0:
            work, count = self._work.popleft()
            left = work(limit)
            self._count -= count - left
            limit -= count - left
            if left:
                self._work.appendleft((work, left))
