"""Kernels that turn many messages of one template into columns.

A column kernel reads one field of a run of messages: it stores the values, packs the validity
bitmap eight at a time, counts nulls and says whether a value was out of its range. The fields
of a run are read one after another while its bytes are still in cache.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pregao._njit import load_i32, load_i64, load_u8, load_u16, load_u32, njit

# Operations: what is loaded and what is stored.
U8_I16 = 0
U16_I32 = 1
U32_I64 = 2
I32_I32 = 3
W64_I64 = 4
ENUM8_I16 = 5

# Columns of the operation table.
OPERATION, OFFSET, PLACE, VALIDITY, NULL, LOW, SPAN, NAMES = range(8)
TABLE_WIDTH = 8

RUN = 512
"""How many messages are read field by field before the next ones; a multiple of 8."""

_ZEROS = np.array([8 - byte.bit_count() for byte in range(256)])
"""How many of a byte's bits are not set."""

UNKNOWN = np.int16(-2)
NULL_NAME = np.int16(-1)
_FIRST = np.int16(0)


def _column(load: Any, has_null: bool) -> Any:
    """A kernel for one kind of load, with or without a null value.

    Indexes are unsigned, which spares the test for a negative one at every access; a value is
    in range when its distance from the lowest, as an unsigned number, is not above the span.
    """

    if not has_null:

        @njit
        def plain(buffer, positions, offset, low, span, out):
            bad = False
            for i in range(np.uint64(len(positions))):
                value = load(buffer, positions[i] + offset)
                out[i] = value
                bad |= np.uint64(value - low) > span
            return bad

        return plain

    @njit
    def nullable(buffer, positions, offset, null, low, span, out, validity):
        bad = False
        nulls = 0
        count = np.uint64(len(positions))
        for group in range(count >> np.uint64(3)):
            byte = np.uint64(0)
            for j in range(np.uint64(8)):
                i = (group << np.uint64(3)) + j
                value = load(buffer, positions[i] + offset)
                out[i] = value
                valid = value != null
                byte |= np.uint64(valid) << j
                bad |= valid & (np.uint64(value - low) > span)
            validity[group] = byte
            nulls += _ZEROS[byte]
        if count & np.uint64(7):
            byte = np.uint64(0)
            for i in range(count & ~np.uint64(7), count):
                value = load(buffer, positions[i] + offset)
                out[i] = value
                valid = value != null
                byte |= np.uint64(valid) << (i & np.uint64(7))
                bad |= valid & (np.uint64(value - low) > span)
                nulls += not valid
            validity[count >> np.uint64(3)] = byte
        return bad, nulls

    return nullable


@njit
def _u8(buffer, position):
    return np.int64(load_u8(buffer, position))


@njit
def _u16(buffer, position):
    return np.int64(load_u16(buffer, position))


@njit
def _u32(buffer, position):
    return np.int64(load_u32(buffer, position))


@njit
def _i32(buffer, position):
    return np.int64(load_i32(buffer, position))


@njit
def _w64(buffer, position):
    return load_i64(buffer, position)


_u8_plain, _u8_null = _column(_u8, False), _column(_u8, True)
_u16_plain, _u16_null = _column(_u16, False), _column(_u16, True)
_u32_plain, _u32_null = _column(_u32, False), _column(_u32, True)
_i32_plain, _i32_null = _column(_i32, False), _column(_i32, True)
_w64_plain, _w64_null = _column(_w64, False), _column(_w64, True)


@njit
def _enum8(buffer, positions, offset, names, out, validity):
    """Numbers of an enumeration to indexes of names, through a table that knows every byte."""
    bad = False
    nulls = 0
    count = np.uint64(len(positions))
    for group in range(count >> np.uint64(3)):
        byte = np.uint64(0)
        for j in range(np.uint64(8)):
            i = (group << np.uint64(3)) + j
            index = names[load_u8(buffer, positions[i] + offset)]
            byte |= np.uint64(index >= 0) << j
            bad |= index == UNKNOWN
            out[i] = max(index, _FIRST)
        validity[group] = byte
        nulls += _ZEROS[byte]
    if count & np.uint64(7):
        byte = np.uint64(0)
        for i in range(count & ~np.uint64(7), count):
            index = names[load_u8(buffer, positions[i] + offset)]
            byte |= np.uint64(index >= 0) << (i & np.uint64(7))
            bad |= index == UNKNOWN
            out[i] = max(index, _FIRST)
            nulls += index < 0
        validity[count >> np.uint64(3)] = byte
    return bad, nulls


@njit
def check_blocks(positions, block_lengths, ends):
    """The shortest block, and whether any block runs past the end of its message."""
    shortest = np.int64(1 << 62)
    bad = False
    for i in range(np.uint64(len(positions))):
        length = block_lengths[i]
        shortest = min(shortest, length)
        bad |= length > ends[i] - positions[i]
    return shortest, bad


@njit
def fill_columns(buffer, positions, table, names, out16, out32, out64, validity, null_counts, bad):
    """Fill every column of a table of operations; all blocks must reach all of its fields."""
    count = len(positions)
    for first in range(0, count, RUN):
        run = positions[first : first + RUN]
        for c in range(len(table)):
            operation = table[c, OPERATION]
            offset = table[c, OFFSET]
            null = table[c, NULL]
            low = table[c, LOW]
            span = np.uint64(table[c, SPAN])
            start = table[c, PLACE] + first
            stop = start + len(run)
            bits = table[c, VALIDITY]
            nullable = bits >= 0
            bitmap = validity[bits + (first >> 3) :] if nullable else validity[:0]
            wrong = False
            nulls = 0
            if operation == W64_I64:
                out = out64[start:stop]
                if nullable:
                    wrong, nulls = _w64_null(buffer, run, offset, null, low, span, out, bitmap)
                else:
                    wrong = _w64_plain(buffer, run, offset, low, span, out)
            elif operation == U32_I64:
                out = out64[start:stop]
                if nullable:
                    wrong, nulls = _u32_null(buffer, run, offset, null, low, span, out, bitmap)
                else:
                    wrong = _u32_plain(buffer, run, offset, low, span, out)
            elif operation == ENUM8_I16:
                short = out16[start:stop]
                wrong, nulls = _enum8(buffer, run, offset, names[table[c, NAMES]], short, bitmap)
            elif operation == U8_I16:
                short = out16[start:stop]
                if nullable:
                    wrong, nulls = _u8_null(buffer, run, offset, null, low, span, short, bitmap)
                else:
                    wrong = _u8_plain(buffer, run, offset, low, span, short)
            elif operation == U16_I32:
                middle = out32[start:stop]
                if nullable:
                    wrong, nulls = _u16_null(buffer, run, offset, null, low, span, middle, bitmap)
                else:
                    wrong = _u16_plain(buffer, run, offset, low, span, middle)
            else:
                middle = out32[start:stop]
                if nullable:
                    wrong, nulls = _i32_null(buffer, run, offset, null, low, span, middle, bitmap)
                else:
                    wrong = _i32_plain(buffer, run, offset, low, span, middle)
            null_counts[c] += nulls
            bad[c] |= wrong


# The walk over groups and data

GROUP, END, DATA = 1, 2, 3
KIND, NODE, HEADER, LENGTH_AT, LENGTH_WIDTH, COUNT_AT, COUNT_WIDTH, JUMP = range(8)
CODE_WIDTH = 8
MAX_NESTING = 64
MAX_NUMBER = np.uint64(1 << 62)


@njit
def _number(buffer, position, width, big_endian):
    """An unsigned number of a header; above 63 bits it is as good as infinite."""
    value = np.uint64(0)
    for k in range(width):
        at = position + (k if big_endian else width - 1 - k)
        value = (value << np.uint64(8)) | np.uint64(load_u8(buffer, at))
    return np.int64(min(value, MAX_NUMBER))


@njit
def walk_parts(
    buffer, starts, ends, code, parents, big_endian, bases, offset_bases,
    totals, bad, entry_positions, entry_lengths, list_offsets, fill,
):  # fmt: skip
    """Walk the groups and data of many messages, which begin where their blocks end.

    Without ``fill`` it counts the entries of each group (and pieces of data) and marks the
    messages that cannot be walked. With it, for messages known to be sound, it writes where
    each entry (or piece) stands and how long it is, and the list offsets of each group.
    """
    remaining = np.empty(MAX_NESTING, np.int64)
    length = np.empty(MAX_NESTING, np.int64)
    totals[:] = 0
    for m in range(len(starts)):
        position = starts[m]
        end = ends[m]
        depth = 0
        at = 0
        while at < len(code):
            node = code[at, NODE]
            if code[at, KIND] == END:
                if remaining[depth] == 0:
                    depth -= 1
                    at += 1
                    continue
                at = code[at, JUMP]
            else:
                first = position + code[at, HEADER]
                if first > end:
                    bad[m] = True
                    break
                size = _number(
                    buffer, position + code[at, LENGTH_AT], code[at, LENGTH_WIDTH], big_endian
                )
                parent = parents[node]
                owner = m if parent < 0 else totals[parent] - 1
                if code[at, KIND] == DATA:
                    if size > end - first:
                        bad[m] = True
                        break
                    if fill:
                        entry_positions[bases[node] + owner] = first
                        entry_lengths[bases[node] + owner] = size
                    totals[node] += 1
                    position = first + size
                    at += 1
                    continue
                count = _number(
                    buffer, position + code[at, COUNT_AT], code[at, COUNT_WIDTH], big_endian
                )
                room = end - first
                if count > room or (count > 0 and max(size, 1) > room // count):
                    bad[m] = True
                    break
                if fill:
                    list_offsets[offset_bases[node] + owner + 1] = totals[node] + count
                position = first
                if count == 0:
                    at = code[at, JUMP]
                    continue
                depth += 1
                remaining[depth] = count
                length[depth] = size
                at += 1
            # Here an entry begins.
            if length[depth] > end - position:
                bad[m] = True
                break
            if fill:
                entry_positions[bases[node] + totals[node]] = position
                entry_lengths[bases[node] + totals[node]] = length[depth]
            totals[node] += 1
            remaining[depth] -= 1
            position += length[depth]


# Text


@njit
def text_sizes(buffer, starts, lengths, stop_at_nul, sizes):
    """How many bytes of UTF-8 each Latin-1 text takes, and how many of its bytes count."""
    for i in range(len(starts)):
        length = lengths[i]
        high = 0
        for k in range(length):
            byte = load_u8(buffer, starts[i] + k)
            if byte == 0 and stop_at_nul:
                length = k
                break
            high += byte >> 7
        lengths[i] = length
        sizes[i] = length + high


@njit
def copy_text(buffer, starts, lengths, offsets, widen, out):
    """Copy texts one after another, Latin-1 to UTF-8 if asked."""
    for i in range(len(starts)):
        at = offsets[i]
        for k in range(lengths[i]):
            byte = load_u8(buffer, starts[i] + k)
            if widen and byte > 127:
                out[at] = 0xC0 | (byte >> 6)
                out[at + 1] = 0x80 | (byte & 0x3F)
                at += 2
            else:
                out[at] = byte
                at += 1
