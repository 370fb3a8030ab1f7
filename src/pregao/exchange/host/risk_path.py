"""Delay of orders in the risk engine, which cancels bypass (003 §7.2).

Orders, modifications and crosses reach the matching engine some time after the gateway accepted
them; cancels and mass actions reach it immediately, possibly before the order they refer to.
Orders of a session keep their order. Each delay is derived from the seed of the journal, so that
in a replay every request arrives at the same time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b
from heapq import heappop, heappush
from itertools import count
from typing import Final, NamedTuple

Arrive = Callable[[int], None]
"""Passes a request to the matching engine at a time."""
Key = tuple[int, int, int]
"""Identifies a request: its session, its number, and the time when the gateway accepted it."""
OVERTAKEN: Final = frozenset({"NewOrderCross"})
"""Rare requests that pass the risk engine."""


@dataclass(frozen=True, slots=True)
class RiskDelay:
    """Delay of the risk engine: a minimum, plus up to the jitter."""

    delay_ns: int = 0
    jitter_ns: int = 0

    @property
    def takes_time(self) -> bool:
        """Whether requests are delayed."""
        return bool(self.delay_ns or self.jitter_ns)


class OnItsWay(NamedTuple):
    """A delayed request: arrival time, tie-breaker, key, message and callback."""

    due_ns: int
    order: int
    key: Key
    name: str
    data: bytes
    arrive: Arrive


class RiskQueue:
    """Queue of the delayed requests."""

    def __init__(self) -> None:
        self.delay = RiskDelay()
        self.seed = 0
        self.on_their_way: list[OnItsWay] = []
        """Heap of the delayed requests."""
        self._count = count()
        self._last: dict[int, int] = {}

    def send(self, key: Key, name: str, data: bytes, arrive: Arrive) -> None:
        """Queue a request of a session until its delay is over."""
        session, number, now_ns = key
        due = max(now_ns + self._drawn(session, number, now_ns), self._last.get(session, 0))
        self._last[session] = due
        heappush(self.on_their_way, OnItsWay(due, next(self._count), key, name, data, arrive))

    def _drawn(self, session: int, number: int, now_ns: int) -> int:
        """Return the delay of a request: at least 1 ns, so that it arrives after its cause."""
        delay = self.delay
        if not delay.jitter_ns:
            return max(delay.delay_ns, 1)
        drawn = blake2b(f"{self.seed} {session} {number} {now_ns}".encode(), digest_size=8)
        part = int.from_bytes(drawn.digest(), "little") % (delay.jitter_ns + 1)
        return max(delay.delay_ns + part, 1)

    @property
    def next_due_ns(self) -> int | None:
        """Arrival time of the next request."""
        return self.on_their_way[0][0] if self.on_their_way else None

    def arriving(self, now_ns: int) -> OnItsWay | None:
        """Remove and return the next request that has arrived by now, or None."""
        if not self.on_their_way or self.on_their_way[0].due_ns > now_ns:
            return None
        return heappop(self.on_their_way)
