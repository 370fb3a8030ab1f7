"""Looping streams of the legacy feed: paced, with a SequenceReset after each loop.

`LegacyMessageWriter` encodes and numbers the messages, and splits them into datagrams.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pregao.clock import SECOND
from pregao.exchange.publisher.legacy.entries import Values
from pregao.exchange.publisher.loops import LoopPace
from pregao.fast.codec import Encoder
from pregao.legacy.reassembly import write_chunks
from pregao.legacy.recovery import MessageStore
from pregao.legacy.streams import HEARTBEAT_NS, PUMA
from pregao.legacy.times import timestamp_digits
from pregao.schemas.fast_templates import bundled_templates

INCREMENTAL = "IncrementalRefresh_152"
SNAPSHOT = "SnapshotFullRefresh_153"
SECURITY_LIST = "SecurityList_149"
SECURITY_STATUS = "SecurityStatus_142"
NEWS = "News_143"
HEARTBEAT = "Heartbeat_144"
SEQUENCE_RESET = "SequenceReset_122"

_LOOK_AGAIN_NS = SECOND // 2
"""Interval at which a stream without messages tries to start a loop."""

LoopMessages = Iterator[tuple[str, Values]]
"""Templates and values of a loop's messages, in order."""


class LegacyMessageWriter:
    """Numbers the messages of one stream and returns their datagrams."""

    def __init__(
        self, first_number: int = 1, *, store: MessageStore | None = None, channel: str = ""
    ) -> None:
        """Create a writer; the ``store`` receives the channel's messages for TCP recovery."""
        self._store = store
        self._channel = channel
        self._encoder = Encoder(bundled_templates(), reset_each_message=True)
        self.next_number = first_number

    @property
    def last_number(self) -> int:
        """Number of the last message."""
        return self.next_number - 1

    def write(self, template: str, values: Mapping[str, Any], now_ns: int) -> list[bytes]:
        """Return the datagrams of the next message."""
        number = self.next_number
        sending_time: int | str = timestamp_digits(now_ns)
        if template == SECURITY_LIST:
            sending_time = str(sending_time)  # a string in this template
        message = self._encoder.encode(
            template, {**values, "MsgSeqNum": number, "SendingTime": sending_time}
        )
        self.next_number = number + 1
        if self._store is not None:
            self._store.add(self._channel, number, message)
        return write_chunks(number, message, PUMA.max_bytes)

    def heartbeat(self, now_ns: int) -> list[bytes]:
        """Return a heartbeat, which is numbered like any other message."""
        return self.write(HEARTBEAT, {}, now_ns)

    def reset(self, now_ns: int) -> list[bytes]:
        """Return a SequenceReset; the next message has number 1."""
        datagrams = self.write(SEQUENCE_RESET, {"NewSeqNo": 1}, now_ns)
        if self._store is not None:
            self._store.reset(self._channel)
        self.next_number = 1
        return datagrams


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
