"""A stream that tells the same things over and over: paced, a new sequence version each time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from pregao.clock import SECOND
from pregao.errors import UsageError
from pregao.exchange.publisher.encoding.encoder import FeedEncoder
from pregao.exchange.publisher.packetiser import HEARTBEAT_NS, PacketWriter

FIRST_NUMBER = 1
"""What a heartbeat between two loops announces: each begins with packet 1."""


@dataclass(frozen=True, slots=True)
class LoopPace:
    """How fast a loop runs: packets a second, and the pause before it begins again."""

    packets_per_second: int = 100
    pause_ns: int = SECOND

    def __post_init__(self) -> None:
        if not 0 < self.packets_per_second <= SECOND:
            raise UsageError(
                f"a loop cannot send {self.packets_per_second} packets a second: "
                "choose from 1 to a thousand million"
            )
        if self.pause_ns < 0:
            raise UsageError(f"the pause between two loops cannot be {self.pause_ns} ns")


class LoopStream:
    """Sends the messages of a loop packet by packet as time goes by.

    ``begin`` is asked for the messages of a loop when it begins, and gives None while there is
    nothing to tell; each message is asked for when its packet is due, so that it can tell what
    holds then. The loop ends with a SequenceReset alone in its packet.
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
        """How many loops have ended."""

    @property
    def next_due_ns(self) -> int:
        """When the next packet may go out."""
        if self._loop is not None:
            return self._next_ns
        return min(self._next_ns, self._last_sent_ns + HEARTBEAT_NS)

    def advance(self, until_ns: int) -> list[tuple[int, bytes]]:
        """The packets that go out up to a time, with their times."""
        found: list[tuple[int, bytes]] = []
        while (due := self.next_due_ns) <= until_ns:
            if due < self._next_ns:
                found.append((due, self._heartbeat(due)))
                continue
            if self._loop is None:
                self._loop = self._begin(due)
            if self._loop is not None:
                found.append((due, self._next_packet(due)))
                continue
            # Nothing to tell yet: look again when the next heartbeat is due.
            if due >= self._last_sent_ns + HEARTBEAT_NS:
                found.append((due, self._heartbeat(due)))
            self._next_ns = self._last_sent_ns + HEARTBEAT_NS
        return found

    def _heartbeat(self, now_ns: int) -> bytes:
        self._last_sent_ns = now_ns
        return self._packets.heartbeat(self._encoder.sequence(FIRST_NUMBER), now_ns)

    def _next_packet(self, now_ns: int) -> bytes:
        """Fill a packet with what comes next in the loop."""
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
