"""Detect B3 protocols that the ingest does not decode, by the form of their datagrams."""

from __future__ import annotations

import struct

from pregao.capture.blocks import PacketBlock

_TECHNICAL_HEADER = struct.Struct(">IHHH")
"""UMDF FIX/FAST: sequence number, number of chunks, current chunk, length of the payload."""
_MAX_SHOWN = 1000


def count_like_fast(block: PacketBlock) -> int:
    """Count the datagrams that look like UMDF FIX/FAST among the first `_MOST` of a block."""
    return sum(_like_fast(block.payload(row)) for row in range(min(len(block), _MAX_SHOWN)))


def _like_fast(payload: bytes) -> bool:
    if len(payload) <= _TECHNICAL_HEADER.size:
        return False
    number, chunks, chunk, length = _TECHNICAL_HEADER.unpack_from(payload)
    fits = length == len(payload) - _TECHNICAL_HEADER.size
    return bool(number and 1 <= chunk <= chunks and fits)
