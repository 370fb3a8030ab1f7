"""Looping streams of the legacy feed: paced, with a SequenceReset after each loop."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

from pregao.clock import SECOND
from pregao.exchange.publisher.legacy.entries import Values
from pregao.exchange.publisher.legacy.writing import LegacyMessageWriter
from pregao.exchange.publisher.loops import LoopPace
from pregao.legacy.streams import HEARTBEAT_NS

_LOOK_AGAIN_NS = SECOND // 2
"""Interval at which a stream without messages tries to start a loop."""

LoopMessages = Iterator[tuple[str, Values]]
"""Templates and values of a loop's messages, in order."""


class LegacyLoop:
    """Sends the messages of a loop datagram by datagram, at its pace.

    ``begin`` returns the messages of a loop, or None while there is nothing to publish: heartbeats
    then indicate an empty loop (002 §15.2).
    """

    def __init__(
        self, begin: Callable[[], LoopMessages | None], pace: LoopPace, start_ns: int
    ) -> None:
        self._begin = begin
        self._step_ns = SECOND // pace.packets_per_second
        self._pause_ns = pace.pause_ns
        self._writer = LegacyMessageWriter()
        self._loop: LoopMessages | None = None
        self._chunks: deque[bytes] = deque()
        self._next_ns = start_ns
        self._last_sent_ns = start_ns
        self.loops = 0
        """Number of completed loops."""

    @property
    def next_due_ns(self) -> int:
        """Time at which the next datagram may be due."""
        return self._next_ns

    def advance(self, until_ns: int) -> list[tuple[int, bytes]]:
        """Return the datagrams due up to a time, with their times."""
        sent: list[tuple[int, bytes]] = []
        while (due := self._next_ns) <= until_ns:
            sent += [(due, datagram) for datagram in self._due(due)]
        return sent

    def _due(self, now_ns: int) -> list[bytes]:
        if self._chunks:
            return self._sent([self._chunks.popleft()], now_ns)
        if self._loop is None:
            self._loop = self._begin()
            if self._loop is None:
                return self._silent(now_ns)
        following = next(self._loop, None)
        if following is None:
            self._loop = None
            self.loops += 1
            self._last_sent_ns = now_ns
            self._next_ns = now_ns + max(self._step_ns, self._pause_ns)
            return self._writer.reset(now_ns)
        first, *rest = self._writer.write(*following, now_ns)
        self._chunks.extend(rest)
        return self._sent([first], now_ns)

    def _sent(self, datagrams: list[bytes], now_ns: int) -> list[bytes]:
        self._last_sent_ns = now_ns
        self._next_ns = now_ns + self._step_ns
        return datagrams

    def _silent(self, now_ns: int) -> list[bytes]:
        self._next_ns = now_ns + _LOOK_AGAIN_NS
        if now_ns < self._last_sent_ns + HEARTBEAT_NS:
            return []
        self._last_sent_ns = now_ns
        heartbeat = self._writer.heartbeat(now_ns)
        self._writer.next_number = 1  # the next loop starts at 1
        return heartbeat
