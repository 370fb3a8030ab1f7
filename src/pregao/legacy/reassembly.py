"""Reassembly of FAST messages from chunks with technical headers (002 §5.3.3), within limits.

The header is big-endian and before every chunk. Chunks may arrive in any order or be lost.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pregao.errors import DecodeError, EncodeError

_HEADER = struct.Struct(">IHHH")
HEADER_SIZE = _HEADER.size
"""Bytes of the header: sequence number, chunk count, chunk index, bytes that follow."""
MAX_MESSAGE_BYTES = 1400
"""Maximum size of a datagram, header included (1420 on PUMA)."""

_MAX_CHUNKS = 0xFFFF

MAX_PENDING = 64
MAX_BYTES = 16 * 1024 * 1024
MAX_WAIT_NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Chunk:
    """A part of a message; most messages have one."""

    number: int
    """Sequence number of the message, also in tag 34."""
    count: int
    index: int
    """Index of the chunk in its message, from 1."""
    payload: bytes


def read_chunks(datagram: Any) -> Iterator[Chunk]:
    """Yield the chunks of a datagram in order; those before an invalid one are still yielded."""
    position, end = 0, len(datagram)
    if not end:
        raise DecodeError("empty datagram", 0)
    while position < end:
        if end - position < HEADER_SIZE:
            raise DecodeError("too short for a technical header", position)
        number, count, index, length = _HEADER.unpack_from(datagram, position)
        start = position + HEADER_SIZE
        if not 1 <= index <= count:
            raise DecodeError("chunk index out of range", position)
        if not length:
            raise DecodeError("chunk without bytes", position)
        if length > end - start:
            raise DecodeError("a chunk extends past the end of its datagram", position)
        yield Chunk(number, count, index, bytes(datagram[start : start + length]))
        position = start + length


def write_chunks(number: int, message: bytes, max_bytes: int = MAX_MESSAGE_BYTES) -> list[bytes]:
    """Return the datagrams of a message, with one chunk each."""
    size = min(max_bytes - HEADER_SIZE, 0xFFFF)
    if size < 1:
        raise EncodeError(
            f"a datagram of {max_bytes} bytes is too small: it needs more than {HEADER_SIZE}"
        )
    if not message:
        raise EncodeError("a message must have at least one byte")
    if not 0 <= number <= 0xFFFFFFFF:
        raise EncodeError(f"sequence number {number} does not fit in 32 bits")
    pieces = [message[start : start + size] for start in range(0, len(message), size)]
    if len(pieces) > _MAX_CHUNKS:
        raise EncodeError(f"the message needs {len(pieces)} chunks; the limit is {_MAX_CHUNKS}")
    return [
        _HEADER.pack(number, len(pieces), index, len(piece)) + piece
        for index, piece in enumerate(pieces, 1)
    ]


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
            self._drop(chunk.number)
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
        self._drop(number)

    def _drop(self, number: int) -> None:
        self._bytes -= self._waiting.pop(number).size
