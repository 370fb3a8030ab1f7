"""What messages say of the market's state, waiting to be looked at, in order.

Where nobody hears events, statistics and phases need not be known before somebody asks for them:
books go first when packets come faster than Python can read what else is in them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

MOST_WAITING = 262_144
"""So many messages wait at the most."""

Work = Callable[[int], int]
"""Looks at so many of its messages at the most; tells how many it has left."""


class Backlog:
    """Messages that wait, some of them many at a time."""

    def __init__(self) -> None:
        self._work: deque[tuple[Work, int]] = deque()
        self._count = 0

    def __len__(self) -> int:
        """How many wait."""
        return self._count

    def add(self, work: Work, count: int) -> None:
        """Let so many more wait; with too many, those before them do not any longer."""
        if self._count + count > MOST_WAITING:
            self.look(self._count)
        self._work.append((work, count))
        self._count += count

    def look(self, most: int) -> None:
        """Look at so many at the most, the first ones first."""
        while self._work and most > 0:
            work, count = self._work.popleft()
            left = work(most)
            self._count -= count - left
            most -= count - left
            if left:
                self._work.appendleft((work, left))
