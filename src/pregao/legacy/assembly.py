"""Assembles messages from chunks, which may arrive in any order or be lost, within limits."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from pregao.legacy.chunks import Chunk

MAX_PENDING = 64
MAX_BYTES = 16 * 1024 * 1024
MAX_WAIT_NS = 1_000_000_000


class AssembledMessage(NamedTuple):
    """A complete message: its sequence number and its FAST bytes."""

    number: int
    payload: bytes


@dataclass(slots=True)
class _Waiting:
    """A message with missing chunks."""

    count: int
    since_ns: int
    pieces: dict[int, bytes] = field(default_factory=dict)

    @property
    def size(self) -> int:
        return sum(map(len, self.pieces.values()))


class Assembler:
    """Assembles the messages of one stream of one feed.

    Sequence numbers repeat in every loop of a snapshot stream and after every reset. Therefore an
    incomplete message is abandoned after one second, or when a chunk contradicts it.
    """

    def __init__(
        self,
        *,
        max_pending: int = MAX_PENDING,
        max_bytes: int = MAX_BYTES,
        longest_wait_ns: int = MAX_WAIT_NS,
    ) -> None:
        self._max_pending = max_pending
        self._max_bytes = max_bytes
        self._longest_wait_ns = longest_wait_ns
        self._waiting: dict[int, _Waiting] = {}
        self._bytes = 0
        self.abandoned = 0
        """Messages abandoned because a chunk was lost or contradicted the others."""
        self.contradicting = 0
        """Chunks whose chunk count or bytes differ from those received before."""
        self.repeated = 0
        """Chunks received again."""

    @property
    def waiting(self) -> int:
        """Number of incomplete messages."""
        return len(self._waiting)

    def add(self, chunk: Chunk, time_ns: int) -> AssembledMessage | None:
        """Add a chunk received at a time; return the message if this completes it."""
        self._give_up_old(time_ns)
        partial = self._waiting.get(chunk.number)
        if partial is not None:
            piece = partial.pieces.get(chunk.index)
            if partial.count == chunk.count and piece == chunk.payload:
                self.repeated += 1
                return None
            if partial.count != chunk.count or piece is not None:
                self.contradicting += 1
                self._give_up(chunk.number)
                partial = None
        if chunk.count == 1:
            return AssembledMessage(chunk.number, chunk.payload)
        if partial is None:
            partial = self._waiting[chunk.number] = _Waiting(chunk.count, time_ns)
        partial.pieces[chunk.index] = chunk.payload
        self._bytes += len(chunk.payload)
        if len(partial.pieces) == partial.count:
            self._forget(chunk.number)
            pieces = partial.pieces
            payload = b"".join(pieces[index] for index in range(1, partial.count + 1))
            return AssembledMessage(chunk.number, payload)
        while len(self._waiting) > self._max_pending or self._bytes > self._max_bytes:
            self._give_up(next(iter(self._waiting)))
        return None

    def reset(self) -> None:
        """Abandon all incomplete messages, because the stream restarts."""
        for number in list(self._waiting):
            self._give_up(number)

    def _give_up_old(self, time_ns: int) -> None:
        # The oldest is first: the dict is in the order of the messages' first chunks.
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
