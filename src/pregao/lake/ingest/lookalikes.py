"""Protocols of B3 that captures may hold and the ingest does not decode, told by their form."""

from __future__ import annotations

import struct

from pregao.capture import PacketBlock

_TECHNICAL_HEADER = struct.Struct(">IHHH")
"""Of UMDF FIX/FAST: sequence number, number of chunks, which chunk, length of what follows."""
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
