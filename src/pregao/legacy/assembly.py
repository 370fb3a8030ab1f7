"""Messages from chunks, in whatever order these come, across loss, with limits."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from pregao.legacy.chunks import Chunk

MOST_WAITING = 64
MOST_BYTES = 16 * 1024 * 1024
LONGEST_WAIT_NS = 1_000_000_000


class Message(NamedTuple):
    """A whole message: its sequence number and its FAST bytes."""

    number: int
    payload: bytes


@dataclass(slots=True)
class _Waiting:
    """A message of which chunks are missing."""

    count: int
    since_ns: int
    pieces: dict[int, bytes] = field(default_factory=dict)

    @property
    def size(self) -> int:
        return sum(map(len, self.pieces.values()))


class Assembler:
    """Puts the messages of one stream of one feed together.

    Numbers come again: in every loop of a snapshot stream, after every reset. So what waits longer
    than a second, or gets a chunk that contradicts it, is given up.
    """

    def __init__(
        self,
        *,
        most_waiting: int = MOST_WAITING,
        most_bytes: int = MOST_BYTES,
        longest_wait_ns: int = LONGEST_WAIT_NS,
    ) -> None:
        self._most_waiting = most_waiting
        self._most_bytes = most_bytes
        self._longest_wait_ns = longest_wait_ns
        self._waiting: dict[int, _Waiting] = {}
        self._bytes = 0
        self.abandoned = 0
        """Messages given up: a chunk never came, or contradicted the others."""
        self.contradicting = 0
        """Chunks that say another number of chunks, or other bytes, than those before."""
        self.repeated = 0
        """Chunks that were there already."""

    @property
    def waiting(self) -> int:
        """How many messages lack chunks."""
        return len(self._waiting)

    def add(self, chunk: Chunk, time_ns: int) -> Message | None:
        """Take a chunk that came at a time; the message, if that was the last one missing."""
        self._give_up_old(time_ns)
        known = self._waiting.get(chunk.number)
        if known is not None:
            piece = known.pieces.get(chunk.index)
            if known.count == chunk.count and piece == chunk.payload:
                self.repeated += 1
                return None
            if known.count != chunk.count or piece is not None:
                self.contradicting += 1
                self._give_up(chunk.number)
                known = None
        if chunk.count == 1:
            return Message(chunk.number, chunk.payload)
        if known is None:
            known = self._waiting[chunk.number] = _Waiting(chunk.count, time_ns)
        known.pieces[chunk.index] = chunk.payload
        self._bytes += len(chunk.payload)
        if len(known.pieces) == known.count:
            self._forget(chunk.number)
            pieces = known.pieces
            payload = b"".join(pieces[index] for index in range(1, known.count + 1))
            return Message(chunk.number, payload)
        while len(self._waiting) > self._most_waiting or self._bytes > self._most_bytes:
            self._give_up(next(iter(self._waiting)))
        return None

    def reset(self) -> None:
        """Give up what waits: the stream begins anew."""
        for number in list(self._waiting):
            self._give_up(number)

    def _give_up_old(self, time_ns: int) -> None:
        # The oldest is first: messages are kept in the order of their first chunks.
        while self._waiting:
            number, oldest = next(iter(self._waiting.items()))
            if time_ns - oldest.since_ns <= self._longest_wait_ns:
                return
            self._give_up(number)

    def _give_up(self, number: int) -> None:
        self.abandoned += 1
        self._forget(number)

    def _forget(self, number: int) -> None:
        self._bytes -= self._waiting.pop(number).size
