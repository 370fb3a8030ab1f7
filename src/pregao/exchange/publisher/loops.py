"""Looping streams: paced, with a new sequence version for each loop."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from pregao.clock import SECOND
from pregao.errors import UsageError
from pregao.exchange.publisher.encoding.encoder import FeedEncoder
from pregao.exchange.publisher.packetiser import HEARTBEAT_NS, PacketWriter

FIRST_NUMBER = 1
"""Next packet number that heartbeats between two loops announce: each loop starts at 1."""


@dataclass(frozen=True, slots=True)
class LoopPace:
    """Pace of a loop: packets per second, and the pause before the next loop."""

    packets_per_second: int = 100
    pause_ns: int = SECOND

    def __post_init__(self) -> None:
        if not 0 < self.packets_per_second <= SECOND:
            raise UsageError(
                f"packets per second of a loop must be from 1 to {SECOND}, "
                f"was {self.packets_per_second}"
            )
        if self.pause_ns < 0:
            raise UsageError(f"pause between loops must be at least 0 ns, was {self.pause_ns}")


class LoopStream:
    """Sends the messages of a loop packet by packet, at its pace.

    ``begin`` returns the messages of a new loop, or None while there is nothing to publish; each
    message is generated when its packet is due, so that it has the state of that time. The loop
    ends with a SequenceReset alone in its packet.
    """

    def __init__(
        self,
        encoder: FeedEncoder,
        packets: PacketWriter,
        begin: Callable[[int], Iterator[bytes] | None],
        pace: LoopPace,
        start_ns: int,
    ) -> None:
        self._encoder = encoder
        self._packets = packets
        self._begin = begin
        self._step_ns = SECOND // pace.packets_per_second
        self._pause_ns = pace.pause_ns
        self._loop: Iterator[bytes] | None = None
        self._held: bytes | None = None
        self._next_ns = start_ns
        self._last_sent_ns = start_ns
        self.loops = 0
        """Number of completed loops."""

    @property
    def next_due_ns(self) -> int:
        """Time at which the next packet may be due."""
        if self._loop is not None:
            return self._next_ns
        return min(self._next_ns, self._last_sent_ns + HEARTBEAT_NS)

    def advance(self, until_ns: int) -> list[tuple[int, bytes]]:
        """Return the packets due up to a time, with their times."""
        sent: list[tuple[int, bytes]] = []
        while (due := self.next_due_ns) <= until_ns:
            if due < self._next_ns:
                sent.append((due, self._heartbeat(due)))
                continue
            if self._loop is None:
                self._loop = self._begin(due)
            if self._loop is not None:
                sent.append((due, self._next_packet(due)))
                continue
            # Nothing to publish yet: try again when the next heartbeat is due.
            if due >= self._last_sent_ns + HEARTBEAT_NS:
                sent.append((due, self._heartbeat(due)))
            self._next_ns = self._last_sent_ns + HEARTBEAT_NS
        return sent

    def _heartbeat(self, now_ns: int) -> bytes:
        self._last_sent_ns = now_ns
        return self._packets.heartbeat(self._encoder.sequence(FIRST_NUMBER), now_ns)

    def _next_packet(self, now_ns: int) -> bytes:
        """Return a packet filled with the next messages of the loop."""
        packets = self._packets
        assert self._loop is not None
        empty = True
        while True:
            message = self._held if self._held is not None else next(self._loop, None)
            self._held = None
            if message is None:
                break
            if not empty and not packets.fits(message):
                self._held = message
                break
            packets.add(message)
            empty = False
        if empty:
            packets.add_alone(self._encoder.sequence_reset)
        (packet,) = packets.flush(now_ns)
        self._last_sent_ns = now_ns
        self._next_ns = now_ns + self._step_ns
        if empty:
            packets.restart()
            self._loop = None
            self._next_ns = now_ns + max(self._step_ns, self._pause_ns)
            self.loops += 1
        return packet
