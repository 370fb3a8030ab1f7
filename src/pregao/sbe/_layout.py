"""``struct`` formats of blocks of fixed fields, and of numbers of headers."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from pregao.sbe.model import LengthField
from pregao.sbe.values import ValueKind, ValueSpec


def layout_format(readings: Sequence[ValueSpec], block_length: int = 0) -> str:
    """Return the ``struct`` format of the leaves of readings, padded to a block's length.

    It has numbers in order, and padding for gaps. The caller prepends the byte order and anything
    before the block.
    """
    parts: list[str] = []
    position = 0
    for reading in readings:
        for leaf in reading.leaves:
            if leaf.offset > position:
                parts.append(f"{leaf.offset - position}x")
            if leaf.kind in (ValueKind.TEXT, ValueKind.BYTES):
                parts.append(f"{leaf.size}s")
            elif leaf.kind is ValueKind.NUMBERS:
                parts.append(f"{leaf.length}{leaf.primitive.code}")
            else:
                parts.append(leaf.primitive.code)
            position = leaf.end
    if block_length > position:
        parts.append(f"{block_length - position}x")
    return "".join(parts)


def length_struct(field: LengthField, byte_order: str) -> struct.Struct:
    """Return the ``struct`` of a number of a header."""
    return struct.Struct(byte_order + field.primitive.code)
