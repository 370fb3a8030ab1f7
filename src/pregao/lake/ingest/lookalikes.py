"""Protocols of B3 that captures may hold and the ingest does not decode, told by their form."""

from __future__ import annotations

import struct

from pregao.capture import PacketBlock, Source, read_packets, segments
from pregao.umdf.layout import ENCODING_TYPE

_TECHNICAL_HEADER = struct.Struct(">IHHH")
"""Of UMDF FIX/FAST: sequence number, number of chunks, which chunk, length of what follows."""
_FRAMING = struct.Struct("<HH")
"""Of EntryPoint: length of the message, type of its encoding."""
_MOST = 1000


def count_like_fast(block: PacketBlock) -> int:
    """How many datagrams of a block, of its first ones, look like UMDF FIX/FAST."""
    return sum(_like_fast(block.payload(row)) for row in range(min(len(block), _MOST)))


def _like_fast(payload: bytes) -> bool:
    if len(payload) <= _TECHNICAL_HEADER.size:
        return False
    number, chunks, chunk, length = _TECHNICAL_HEADER.unpack_from(payload)
    whole = length == len(payload) - _TECHNICAL_HEADER.size
    return bool(number and 1 <= chunk <= chunks and whole)


def like_entrypoint(source: Source) -> bool:
    """Does the first TCP payload of a capture look like EntryPoint?"""
    with read_packets(source) as reader:
        for count, segment in enumerate(segments(reader)):
            if len(segment.payload) >= _FRAMING.size:
                length, encoding = _FRAMING.unpack_from(segment.payload)
                if encoding == ENCODING_TYPE and length <= len(segment.payload):
                    return True
            if count > _MOST:
                break
    return False
