"""The repeating streams, market recovery and instrument definition.

Numbers begin with 1 in every loop. A SequenceReset marks the end of one loop and the start of the
next (002 §5.3.7, §15.2); on these streams it requires no other action. Each loop gets its own
version, which is not on the wire.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pregao.errors import DecodeError
from pregao.legacy.incremental_line import LineCounters
from pregao.legacy.messages import LegacyMessage, MessageReader, MsgType
from pregao.legacy.reassembly import AssembledMessage, Assembler, read_chunks
from pregao.legacy.streams import DEAD_AFTER_NS
from pregao.umdf.sequencing import next_version

FAR_BACK = 1000
"""A number this far below the highest one belongs to the next loop."""


@dataclass(frozen=True, slots=True)
class LoopMessage:
    """A message of a loop."""

    version: int
    message: LegacyMessage


@dataclass(frozen=True, slots=True)
class LoopEnded:
    """A loop has ended; it is empty if it had no messages."""

    version: int


class LoopLine:
    """A repeating stream. It follows one feed: the next loop repeats what is missing."""

    def __init__(
        self, feeds: Sequence[str] = ("A", "B"), *, reader: MessageReader | None = None
    ) -> None:
        self.counters = LineCounters()
        self._reader = MessageReader() if reader is None else reader
        self._feeds = tuple(feeds)
        self._followed: str | None = None
        self._received_ns = 0
        self._assembler = Assembler()
        self._version = 1
        self._highest = 0

    @property
    def followed(self) -> str | None:
        """The feed that is followed; None before the first datagram."""
        return self._followed

    @property
    def version(self) -> int:
        """The current loop."""
        return self._version

    def leave(self) -> None:
        """Stop following a feed: the next datagram decides which one is followed."""
        self._followed = None
        self._next_loop()

    def receive(self, feed: str, datagram: bytes, time_ns: int) -> list[LoopMessage | LoopEnded]:
        """Process a datagram; other feeds are ignored until the followed one falls silent."""
        self.counters.datagrams += 1
        if feed not in self._feeds:
            raise ValueError(f"unknown feed {feed!r}; allowed: {', '.join(self._feeds)}")
        events: list[LoopMessage | LoopEnded] = []
        if self._followed != feed:
            if self._followed is not None and time_ns - self._received_ns < DEAD_AFTER_NS:
                self.counters.ignored += 1
                return []
            events = self._next_loop() if self._followed is not None else []
            self._followed = feed
        self._received_ns = time_ns
        try:
            for chunk in read_chunks(datagram):
                message = self._assembler.add(chunk, time_ns)
                if message is not None:
                    self.counters.messages += 1
                    events += self._whole(message)
        except DecodeError:
            self.counters.rejected += 1
        return events

    def _whole(self, whole: AssembledMessage) -> list[LoopMessage | LoopEnded]:
        try:
            message = self._reader.read(whole)
        except DecodeError:
            self.counters.rejected += 1
            return []
        if message.type is MsgType.HEARTBEAT:
            self.counters.heartbeats += 1
            return []
        if message.type is MsgType.SEQUENCE_RESET:
            self.counters.resets += 1
            return self._next_loop()
        events: list[LoopMessage | LoopEnded] = []
        back = self._highest - message.number
        if back > FAR_BACK or (message.number == 1 and back > 0):
            events = self._next_loop()  # its SequenceReset was lost
        self._highest = max(self._highest, message.number)
        self.counters.delivered += 1
        return [*events, LoopMessage(self._version, message)]

    def _next_loop(self) -> list[LoopMessage | LoopEnded]:
        ended = LoopEnded(self._version)
        self._version = next_version(self._version)
        self._highest = 0
        self._assembler.reset()
        return [ended]
