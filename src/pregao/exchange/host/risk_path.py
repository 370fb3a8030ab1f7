"""The way of orders through the risk engine, which cancellations do not take (003 §7.2).

Orders, changes and crosses arrive at the matching engine some time after the gateway took them;
cancels and mass actions arrive at once, so that they may come before the order that they mean.
Orders of a session arrive in their order. How long each is on its way follows from the seed of
the journal, so that a replay lets everything arrive at the same time again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b
from heapq import heappop, heappush
from itertools import count
from typing import Final, NamedTuple

Arrive = Callable[[int], None]
"""Brings a request to the matching engine, at a time."""
Key = tuple[int, int, int]
"""A request: its session, its number, and when the gateway took it."""
OVERTAKEN: Final = frozenset({"NewOrderCross"})
"""The rare requests that go through the risk engine."""


@dataclass(frozen=True, slots=True)
class RiskDelay:
    """How long the risk engine takes: at least this, and up to the jitter more."""

    delay_ns: int = 0
    jitter_ns: int = 0

    @property
    def takes_time(self) -> bool:
        """Is there a risk engine at all?"""
        return bool(self.delay_ns or self.jitter_ns)


class OnItsWay(NamedTuple):
    """A request under way: when it arrives, in which order, which one it is, and how."""

    due_ns: int
    order: int
    key: Key
    name: str
    data: bytes
    arrive: Arrive


class RiskPath:
    """The requests that are on their way."""

    def __init__(self) -> None:
        self.delay = RiskDelay()
        self.seed = 0
        self.on_their_way: list[OnItsWay] = []
        """A heap of them."""
        self._count = count()
        self._last: dict[int, int] = {}

    def send(self, key: Key, name: str, data: bytes, arrive: Arrive) -> None:
        """Let a request of a session go through the risk engine."""
        session, number, now_ns = key
        due = max(now_ns + self._drawn(session, number, now_ns), self._last.get(session, 0))
        self._last[session] = due
        heappush(self.on_their_way, OnItsWay(due, next(self._count), key, name, data, arrive))

    def _drawn(self, session: int, number: int, now_ns: int) -> int:
        """How long a request takes: a nanosecond at least, so that it comes after its cause."""
        delay = self.delay
        if not delay.jitter_ns:
            return max(delay.delay_ns, 1)
        drawn = blake2b(f"{self.seed} {session} {number} {now_ns}".encode(), digest_size=8)
        part = int.from_bytes(drawn.digest(), "little") % (delay.jitter_ns + 1)
        return max(delay.delay_ns + part, 1)

    @property
    def next_due_ns(self) -> int | None:
        """When the next one arrives."""
        return self.on_their_way[0][0] if self.on_their_way else None

    def arriving(self, now_ns: int) -> OnItsWay | None:
        """The next one that has arrived by now."""
        if not self.on_their_way or self.on_their_way[0].due_ns > now_ns:
            return None
        return heappop(self.on_their_way)
