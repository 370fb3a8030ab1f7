"""FAST wire format of numbers, texts and presence maps, for the interpreting kernel."""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, check-untyped-defs=False
# mypy: disallow-untyped-decorators=False

from __future__ import annotations

import numpy as np

from pregao._njit import load_u8, load_u64, njit, part, store_u64, swapped, trailing_zeros
from pregao.fast._table import (
    ENDED,
    MAX_ARENA,
    NO_ID,
    OUT_OF_RANGE,
    OVERLONG,
    OVERLONG_TEXT,
    SOUND,
)

MANY = np.int64(1) << 40
"""Number of bits left in a completely read map: all further bits are zero."""
NULLS = np.uint64(0x8080808080808080)
U1, U2, U3, U63 = np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(63)
SEVEN = np.uint64(0x7F)
_U4, _U7, _U64 = np.uint64(4), np.uint64(7), np.uint64(64)
_SEVENS = np.uint64(0x7F7F7F7F7F7F7F7F)
_EVEN7, _ODD7 = np.uint64(0x7F007F007F007F00), np.uint64(0x007F007F007F007F)
_EVEN14, _ODD14 = np.uint64(0x3FFF00003FFF0000), np.uint64(0x00003FFF00003FFF)
_EVEN28, _ODD28 = np.uint64(0x0FFFFFFF00000000), np.uint64(0x000000000FFFFFFF)


@njit
def map_bits(buffer, position, end):
    """Read up to 63 bits of a presence map, the first one highest.

    Return the bits, their number (`MANY` if the rest is zero), and the position of the rest.
    """
    word = np.uint64(0)
    for count in range(9):
        byte = np.uint64(load_u8(buffer, position))
        position += 1
        word = (word << _U7) | (byte & SEVEN)
        if byte > SEVEN:
            return word << np.uint64(57 - 7 * count), MANY, position
        if position >= end:
            break
    return word << U1, np.int64(63), position


@njit
def whole_map(buffer, position, end):
    """Return the result of `map_bits`, and the end of the complete map; -1 if it has none."""
    if position >= end:
        return np.uint64(0), np.int64(0), position, np.int64(-1)
    word, count, rest = map_bits(buffer, position, end)
    if count == MANY:
        return word, count, rest, rest
    for after in range(rest, end):
        if load_u8(buffer, after) > 127:
            return word, count, rest, np.int64(after + 1)
    return word, count, rest, np.int64(-1)


@njit
def short_number(eight):
    """Decode the number at the start of eight bytes; return it and its size, 0 if longer."""
    stops = eight & NULLS
    bits = (trailing_zeros(stops) & ~_U7) + np.uint64(8)
    number = (swapped(eight) >> (_U64 - bits & U63)) & _SEVENS
    number = ((number & _EVEN7) >> U1) | (number & _ODD7)
    number = ((number & _EVEN14) >> U2) | (number & _ODD14)
    number = ((number & _EVEN28) >> _U4) | (number & _ODD28)
    return number, np.int64(bits >> U3) if stops else np.int64(0)


@njit
def long_number(buffer, position, end, signed):
    """Read a number of several bytes; return its low and high words, its end and a fault."""
    first = load_u8(buffer, position)
    position += 1
    high = np.int64(0)
    low = np.uint64(first)
    if position >= end:
        return low, high, position, ENDED
    second = load_u8(buffer, position)
    if signed:
        if (first == 0 and second & 64 == 0) or (first == 127 and second & 64 != 0):
            return low, high, position, OVERLONG
        if first & 64:
            high = np.int64(-1)
            low = ~np.uint64(0x7F) | low
    elif first == 0:
        return low, high, position, OVERLONG
    for _ in range(9):
        if position >= end:
            return low, high, position, ENDED
        byte = np.uint64(load_u8(buffer, position))
        position += 1
        high = (high << 7) | np.int64(low >> np.uint64(57))
        low = (low << _U7) | (byte & SEVEN)
        if byte > SEVEN:
            return low, high, position, SOUND
    return low, high, position, OUT_OF_RANGE


@njit
def fits(low, high, signed, wide):
    """Whether a 128-bit number fits its kind."""
    number = np.int64(low)
    if signed:
        if high != number >> 63:
            return False
        return wide or (number >= -(1 << 31) and number < 1 << 31)
    if high != 0:
        return False
    return wide or (number >= 0 and number < 1 << 32)


@njit
def added(base, low, high, signed):
    """Add a 128-bit delta to a previous number."""
    total = np.uint64(base) + low
    carry = np.int64(total < low)
    above = base >> 63 if signed else np.int64(0)
    return total, high + above + carry


@njit
def is_utf8(text, position, end):
    """Whether these bytes are valid UTF-8."""
    while position < end:
        byte = text[position]
        position += 1
        if byte < 0x80:
            continue
        if byte < 0xC2 or byte > 0xF4:
            return False
        more = 1 if byte < 0xE0 else 2 if byte < 0xF0 else 3
        if end - position < more:
            return False
        second = text[position]
        lowest, highest = 0x80, 0xBF
        if byte == 0xE0:
            lowest = 0xA0
        elif byte == 0xED:
            highest = 0x9F
        elif byte == 0xF0:
            lowest = 0x90
        elif byte == 0xF4:
            highest = 0x8F
        if second < lowest or second > highest:
            return False
        for i in range(1, more):
            if text[position + i] & 0xC0 != 0x80:
                return False
        position += more
    return True


@njit
def grown(arena, used, needed):
    """Return the arena, enlarged if it has less than ``needed`` free bytes."""
    if used + needed <= len(arena):
        return arena
    larger = np.empty(min(2 * len(arena) + needed, MAX_ARENA), np.uint8)
    larger[:used] = arena[:used]
    return larger


@njit
def ascii_text(buffer, position, end, nullable, arena, used):
    """Copy an ASCII string to the arena; return its size (-1 for null), its end and a fault.

    It copies eight bytes at a time; both buffers have eight bytes after their used part.
    """
    start = position
    while True:
        eight = load_u64(buffer, position)
        store_u64(arena, used + position - start, eight & _SEVENS)
        stops = eight & NULLS
        if stops:
            position += np.int64(trailing_zeros(stops) >> U3) + 1
            break
        position += 8
        if position >= end:
            break
    if position > end or not stops:
        return np.int64(0), end, ENDED
    size = position - start
    if arena[used] == 0:
        zeros = True
        for i in range(size):
            zeros &= arena[used + i] == 0
        size -= 1 + nullable
        if not zeros or size > 1:
            return np.int64(0), position, OVERLONG_TEXT
    return np.int64(size), position, SOUND


@njit
def combined(arena, used, base, subtracted, size, keeps_front):
    """Build a text from its base and a new piece of ``size`` bytes, which is at the arena's end.

    ``subtracted`` characters are removed from the base; its rest is placed before the new piece, or
    after it. Return the offset and size of the text.
    """
    text_start, length = base >> 32, base & 0xFFFFFFFF
    kept = length - subtracted
    start = used + size
    if keeps_front:
        for i in range(kept):
            arena[start + i] = arena[text_start + i]
        for i in range(size):
            arena[start + kept + i] = arena[used + i]
    else:
        for i in range(size):
            arena[start + i] = arena[used + i]
        for i in range(kept):
            arena[start + size + i] = arena[text_start + subtracted + i]
    return start, kept + size


@part
def message_head(buffer, position, end, last_id):
    """Read the presence map and the template id of a message.

    Return the map's first bits, their number, the start and end of its rest, the template id (the
    previous message's if none is given), the position of the first field, and the fault.
    """
    fault = np.int64(SOUND)
    if position < 0 or position >= end:
        return np.uint64(0), np.int64(0), position, position, last_id, position, np.int64(ENDED)
    word, left, rest, rest_end = whole_map(buffer, position, end)
    if rest_end < 0:
        return word, left, rest, rest_end, last_id, position, np.int64(ENDED)
    position = rest_end
    given = word >> U63
    word <<= U1
    left -= 1
    if not given:
        if last_id < 0:
            fault = np.int64(NO_ID)
    elif position >= end:
        fault = np.int64(ENDED)
    else:
        byte = load_u8(buffer, position)
        if byte > 127:
            last_id = np.int64(byte & 127)
            position += 1
        else:
            low, high, position, fault = long_number(buffer, position, end, False)
            last_id = np.int64(low)
            if fault == SOUND and not fits(low, high, False, False):
                fault = np.int64(OUT_OF_RANGE)
    return word, left, rest, rest_end, last_id, position, fault
