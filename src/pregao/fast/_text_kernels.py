"""Kernels that read texts and byte vectors from the stream."""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, check-untyped-defs=False
# mypy: disallow-untyped-decorators=False

from __future__ import annotations

import numpy as np

from pregao._njit import load_u8, part
from pregao.fast import _table as k
from pregao.fast._wire_kernels import ascii_text, long_number


@part
def _remove_tail(buffer, position, end, nullable):
    """Read the subtraction length of a delta; return presence, length, end and fault."""
    if position >= end:
        return True, np.int64(0), position, np.int64(k.ENDED)
    byte = load_u8(buffer, position)
    if byte > 127:
        position += 1
        taken = np.int64(byte & 127)
        if taken & 64:
            taken -= 128
    else:
        low, high, position, fault = long_number(buffer, position, end, True)
        taken = np.int64(low)
        if fault != k.SOUND:
            return True, taken, position, fault
        if high != taken >> 63:
            return True, taken, position, np.int64(k.OUT_OF_RANGE)
    if nullable:
        if taken == 0:
            return False, taken, position, np.int64(k.SOUND)
        if taken > 0:
            taken -= 1
    if taken < -(1 << 31) or taken >= 1 << 31:
        return True, taken, position, np.int64(k.OUT_OF_RANGE)
    return True, taken, position, np.int64(k.SOUND)


@part
def piece_of_text(buffer, position, end, kind, op, flags, arena, text_used):
    """Copy a text, or the piece of a delta or tail, to the end of the arena.

    Return presence, offset and size as one value, the subtraction length of a delta, the end
    position, the used size of the arena, and the fault.
    """
    nullable = flags & k.NULLABLE
    present = True
    value = taken = np.int64(0)
    fault = np.int64(k.SOUND)
    if op == k.DELTA:
        present, taken, position, fault = _remove_tail(buffer, position, end, nullable)
        if fault != k.SOUND or not present:
            return present, value, taken, position, text_used, fault
        nullable = 0
    if position >= end:
        return present, value, taken, position, text_used, np.int64(k.ENDED)
    byte = load_u8(buffer, position)
    if kind == k.ASCII:
        if byte > 127:
            position += 1
            if byte > 128:
                value = (np.int64(byte & 127) << 32) | 1
            else:
                present = nullable == 0
        else:
            size, position, fault = ascii_text(buffer, position, end, nullable, arena, text_used)
            value = (text_used << 32) | size
            text_used += size
        return present, value, taken, position, text_used, fault
    size = np.int64(byte & 127)
    if byte > 127:
        position += 1
        if nullable:
            present = size != 0
            size -= 1
    else:
        low, high, position, fault = long_number(buffer, position, end, False)
        size = np.int64(low) - nullable
        if fault == k.SOUND and (high != 0 or size < 0 or size > 0xFFFFFFFF):
            fault = np.int64(k.OUT_OF_RANGE)
    if present and fault == k.SOUND:
        if size > end - position:
            return present, value, taken, position, text_used, np.int64(k.PAST_END)
        for b in range(size):
            arena[text_used + b] = load_u8(buffer, position + b)
        position += size
        value = (text_used << 32) | size
        text_used += size
    return present, value, taken, position, text_used, fault
