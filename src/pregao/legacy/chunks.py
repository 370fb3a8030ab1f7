"""The technical header (002 §5.3.3): big-endian, in front of every chunk of a FAST message."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pregao.errors import DecodeError, EncodeError

_HEADER = struct.Struct(">IHHH")
HEADER_SIZE = _HEADER.size
"""Bytes of the header: number, how many chunks, which one, how many bytes follow."""
MOST_BYTES = 1400
"""Bytes of a datagram, header included (1420 on PUMA)."""

_MOST_CHUNKS = 0xFFFF


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a message, mostly the only one."""

    number: int
    """The message's sequence number, that of tag 34 too."""
    count: int
    index: int
    """Which of its chunks it is, from 1 on."""
    payload: bytes


def read_chunks(datagram: Any) -> Iterator[Chunk]:
    """The chunks of a datagram, in order. Those in front of a broken one are given all the same."""
    position, end = 0, len(datagram)
    if not end:
        raise DecodeError("an empty datagram", 0)
    while position < end:
        if end - position < HEADER_SIZE:
            raise DecodeError("too short for a technical header", position)
        number, count, index, length = _HEADER.unpack_from(datagram, position)
        start = position + HEADER_SIZE
        if not 1 <= index <= count:
            raise DecodeError("a chunk that is not among those of its message", position)
        if not length:
            raise DecodeError("a chunk without bytes", position)
        if length > end - start:
            raise DecodeError("a chunk runs past the end of its datagram", position)
        yield Chunk(number, count, index, bytes(datagram[start : start + length]))
        position = start + length


def write_chunks(number: int, message: bytes, most_bytes: int = MOST_BYTES) -> list[bytes]:
    """The datagrams of a message, one chunk in each."""
    size = min(most_bytes - HEADER_SIZE, 0xFFFF)
    if size < 1:
        raise EncodeError(f"a datagram of {most_bytes} bytes has no room for a message")
    if not message:
        raise EncodeError("a message has at least a byte")
    if not 0 <= number <= 0xFFFFFFFF:
        raise EncodeError(f"the sequence number {number} does not fit 32 bits")
    pieces = [message[start : start + size] for start in range(0, len(message), size)]
    if len(pieces) > _MOST_CHUNKS:
        raise EncodeError(f"a message of {len(pieces)} chunks, {_MOST_CHUNKS} at most")
    return [
        _HEADER.pack(number, len(pieces), index, len(piece)) + piece
        for index, piece in enumerate(pieces, 1)
    ]
