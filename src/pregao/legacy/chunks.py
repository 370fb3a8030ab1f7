"""The technical header (002 §5.3.3): big-endian, before every chunk of a FAST message."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pregao.errors import DecodeError, EncodeError

_HEADER = struct.Struct(">IHHH")
HEADER_SIZE = _HEADER.size
"""Bytes of the header: sequence number, chunk count, chunk index, bytes that follow."""
MAX_MESSAGE_BYTES = 1400
"""Maximum size of a datagram, header included (1420 on PUMA)."""

_MAX_CHUNKS = 0xFFFF


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
