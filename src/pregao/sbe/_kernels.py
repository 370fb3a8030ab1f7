"""Kernels that decode many messages of one template into columns.

A column kernel reads one field of a run of messages and stores the values; then, over the stored
values, it flags nulls, packs the flags into the validity bitmap eight at a time, counts nulls and
reports whether a value was out of range. The fields of a run are read one after another while its
bytes are still in cache.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pregao._njit import (
    load_i32,
    load_i64,
    load_u8,
    load_u16,
    load_u32,
    load_u64,
    njit,
    njit_or,
    prefetch,
    prefetch_to_write,
)

_FALLBACK = "pregao.sbe._numpy_fallback"

# Operations, by loaded and stored type.
U8_I16 = 0
U16_I32 = 1
U32_I64 = 2
I32_I32 = 3
W64_I64 = 4
ENUM8_I16 = 5
TEXT = 6

# Columns of the operation table.
OPERATION, OFFSET, SIZE, NULLABLE, NULL, LOW, SPAN, NAMES = range(8)
TABLE_WIDTH = 8
"""``SIZE`` is the size of a value in the column; for a text, its bytes on the wire. A text is
converted from Latin-1 to UTF-8 if its ``NAMES`` is 1; if 0, a non-ASCII byte is out of range."""

# Columns of the report on filled columns.
VALUES_OFFSET, VALIDITY, NULLS, ODD, TEXT_OFFSET, TEXT_SIZE = range(6)
REPORT_WIDTH = 6

ALIGNMENT = 64

RUN = 256
"""Number of messages that are read field by field before the next ones; a multiple of 8."""

_ANY = np.uint64((1 << 64) - 1)
"""Span of the range of all numbers."""
_GATHER = np.uint64(0x0102040810204080)

_ZEROS = np.array([8 - byte.bit_count() for byte in range(256)])
"""Number of zero bits by byte."""

UNKNOWN = np.int16(-2)
NULL_NAME = np.int16(-1)
_FIRST = np.int16(0)


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


def _loader(load: Any) -> Any:
    """Return a kernel that stores one field of a run of messages.

    Indices are unsigned, which avoids the test for a negative one at every access.
    """

    @njit
    def load_run(buffer, positions, offset, out):
        for i in range(np.uint64(len(positions))):
            out[i] = load(buffer, positions[i] + offset)

    return load_run


_load_u8, _load_u16, _load_u32 = _loader(_u8), _loader(_u16), _loader(_u32)
_load_i32, _load_w64 = _loader(_i32), _loader(_w64)


@njit
def _load_names(buffer, positions, offset, names, out):
    """Convert numbers of an enumeration to indices of names, with a table of all bytes."""
    for i in range(np.uint64(len(positions))):
        out[i] = names[load_u8(buffer, positions[i] + offset)]


# Stored values are contiguous and in cache: these loops become vector instructions.


@njit
def _out_of_range(values, low, span):
    """Whether any value minus ``low``, as an unsigned number, exceeds the span."""
    bad = False
    for i in range(np.uint64(len(values))):
        bad |= np.uint64(values[i] - low) > span
    return bad


@njit
def _judge(values, null, low, span, flags):
    """Flag values that are not null; return whether any of them is out of range."""
    bad = False
    for i in range(np.uint64(len(values))):
        valid = values[i] != null
        flags[i] = valid
        bad |= valid & (np.uint64(values[i] - low) > span)
    return bad


@njit
def _flag(values, null, flags):
    """Flag values that are not null."""
    for i in range(np.uint64(len(values))):
        flags[i] = values[i] != null


@njit
def _judge_names(indexes, flags):
    """Flag indices of names, replace others by the first; return whether any was unknown."""
    bad = False
    for i in range(np.uint64(len(indexes))):
        index = indexes[i]
        flags[i] = index >= 0
        bad |= index == UNKNOWN
        indexes[i] = max(index, _FIRST)
    return bad


@njit
def _pack(flags, count, validity):
    """Pack flags of 0 and 1 into bits, the first lowest; return the number of zeros."""
    nulls = 0
    whole = np.uint64(count) >> np.uint64(3)
    for group in range(whole):
        word = load_u64(flags, group << np.uint64(3))
        # The product shifts each flag to a different bit of the top byte.
        byte = (word * _GATHER) >> np.uint64(56)
        validity[group] = byte
        nulls += _ZEROS[byte]
    if count & 7:
        byte = np.uint64(0)
        for i in range(whole << np.uint64(3), np.uint64(count)):
            byte |= np.uint64(flags[i]) << (i & np.uint64(7))
            nulls += 1 - flags[i]
        validity[whole] = byte
    return nulls


@njit_or(_FALLBACK)
def check_blocks(positions, block_lengths, ends):
    """Return the shortest block, and whether any block runs past the end of its message."""
    shortest = np.int64(1 << 62)
    bad = False
    for i in range(np.uint64(len(positions))):
        length = block_lengths[i]
        shortest = min(shortest, length)
        bad |= length > ends[i] - positions[i]
    return shortest, bad


@njit
def _fetch(buffer, positions, reach):
    """Prefetch the bytes of the next messages."""
    for i in range(np.uint64(len(positions))):
        for offset in range(0, reach, 64):
            prefetch(buffer, positions[i] + offset)
        prefetch(buffer, positions[i] + reach)


@njit
def _aligned(size):
    return (size + (ALIGNMENT - 1)) & ~(ALIGNMENT - 1)


@njit
def lay_out(table, count, report):
    """Assign offsets to every column: values, bytes of texts, and validity bits if nullable."""
    values_offset = 0
    for c in range(len(table)):
        report[c, VALUES_OFFSET] = values_offset
        if table[c, OPERATION] == TEXT:
            values_offset += _aligned(4 * (count + 1))
            report[c, TEXT_OFFSET] = values_offset
            values_offset += _aligned(2 * table[c, SIZE] * count)
        else:
            values_offset += _aligned(table[c, SIZE] * count)
        report[c, VALIDITY] = -1
        if table[c, NULLABLE]:
            report[c, VALIDITY] = values_offset
            values_offset += _aligned((count + 7) >> 3)
        report[c, NULLS] = 0
        report[c, ODD] = 0
        report[c, TEXT_SIZE] = 0


@njit
def _load_texts(buffer, positions, size, widen, offsets, used, out, flags):
    """Copy texts of a fixed size, each up to its first NUL; flag those that are not empty.

    Return the end of the used bytes, and whether a byte could not be copied.
    """
    odd = False
    for i in range(np.uint64(len(positions))):
        offsets[i] = used
        before = used
        for k in range(size):
            byte = load_u8(buffer, positions[i] + k)
            if byte == 0:
                break
            if byte < 128:
                out[used] = byte
                used += 1
            elif widen:
                out[used] = 0xC0 | (byte >> 6)
                out[used + 1] = 0x80 | (byte & 0x3F)
                used += 2
            else:
                odd = True
                break
        flags[i] = used > before
    offsets[len(positions)] = used
    return used, odd


@njit_or(_FALLBACK)
def fill_columns(
    buffer, positions, table, names, reach, out16, out32, out64, arena, report
):  # fmt: skip
    """Fill every column of a table of operations; all blocks must contain all of its fields.

    The arena, viewed as arrays of four types, has all columns; the report has their offsets.
    ``reach`` is the offset of the last byte that is read from a block.
    """
    count = len(positions)
    lay_out(table, count, report)
    flags = np.empty(RUN, np.uint8)
    columns = max(len(table), 1)
    for first in range(0, count, RUN):
        run = positions[first : first + RUN]
        following = positions[first + RUN : first + 2 * RUN]
        for c in range(len(table)):
            _fetch(buffer, following[c * RUN // columns : (c + 1) * RUN // columns], reach)
            operation = table[c, OPERATION]
            offset = table[c, OFFSET]
            null = table[c, NULL]
            low = table[c, LOW]
            span = np.uint64(table[c, SPAN])
            values_offset = report[c, VALUES_OFFSET]
            bits = report[c, VALIDITY]
            wrong = False
            # Unsigned numbers of up to 32 bits are always in range.
            if operation == W64_I64:
                start = (values_offset >> 3) + first
                wide = out64[start : start + len(run)]
                _load_w64(buffer, run, offset, wide)
                if bits >= 0:
                    wrong = _judge(wide, null, low, span, flags)
                elif span != _ANY:
                    wrong = _out_of_range(wide, low, span)
            elif operation == U32_I64:
                start = (values_offset >> 3) + first
                wide = out64[start : start + len(run)]
                _load_u32(buffer, run, offset, wide)
                if bits >= 0:
                    _flag(wide, null, flags)
            elif operation == ENUM8_I16:
                start = (values_offset >> 1) + first
                short = out16[start : start + len(run)]
                _load_names(buffer, run, offset, names[table[c, NAMES]], short)
                wrong = _judge_names(short, flags)
            elif operation == U8_I16:
                start = (values_offset >> 1) + first
                short = out16[start : start + len(run)]
                _load_u8(buffer, run, offset, short)
                if bits >= 0:
                    _flag(short, null, flags)
            elif operation == TEXT:
                start = (values_offset >> 2) + first
                used, wrong = _load_texts(
                    buffer, run + offset, table[c, SIZE], table[c, NAMES] == 1,
                    out32[start : start + len(run) + 1], report[c, TEXT_SIZE],
                    arena[report[c, TEXT_OFFSET] :], flags,
                )  # fmt: skip
                report[c, TEXT_SIZE] = used
            elif operation == U16_I32:
                start = (values_offset >> 2) + first
                middle = out32[start : start + len(run)]
                _load_u16(buffer, run, offset, middle)
                if bits >= 0:
                    _flag(middle, null, flags)
            else:
                start = (values_offset >> 2) + first
                middle = out32[start : start + len(run)]
                _load_i32(buffer, run, offset, middle)
                if bits >= 0:
                    wrong = _judge(middle, null, low, span, flags)
                elif span != _ANY:
                    wrong = _out_of_range(middle, low, span)
            width = table[c, SIZE]
            begin = values_offset + (first + RUN) * width
            for at in range(begin, begin + RUN * width, ALIGNMENT):
                prefetch_to_write(arena, at)
            if bits >= 0:
                report[c, NULLS] += _pack(flags, len(run), arena[bits + (first >> 3) :])
            report[c, ODD] |= wrong


# The walk over groups and data

GROUP, END, DATA = 1, 2, 3
KIND, NODE, HEADER, LENGTH_AT, LENGTH_WIDTH, COUNT_AT, COUNT_WIDTH, JUMP = range(8)
CODE_WIDTH = 8
MAX_NESTING = 64
MAX_NUMBER = np.uint64(1 << 62)


@njit
def _number(buffer, position, width, big_endian):
    """Read an unsigned number of a header, limited to `MAX_NUMBER`."""
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

    Without ``fill`` it counts the entries of each group (and data fields) and marks malformed
    messages. With it, for well-formed messages, it writes the position and length of each entry (or
    data field), and the list offsets of each group.
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
                available = end - first
                if count > available or (count > 0 and max(size, 1) > available // count):
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
            # Start of an entry.
            if length[depth] > end - position:
                bad[m] = True
                break
            if fill:
                entry_positions[bases[node] + totals[node]] = position
                entry_lengths[bases[node] + totals[node]] = length[depth]
            totals[node] += 1
            remaining[depth] -= 1
            position += length[depth]


@njit
def lay_out_parts(totals, parents, messages, bases, offset_bases):
    """Assign each group and data field its range of entries and of list offsets.

    Return the total number of entries and of list offsets.
    """
    entries = 0
    offsets = 0
    for node in range(len(totals)):
        bases[node] = entries
        entries += totals[node]
        offset_bases[node] = offsets
        offsets += 1 + (messages if parents[node] < 0 else totals[parents[node]])
    return entries, offsets


# Text


@njit
def text_sizes(buffer, starts, lengths, stop_at_nul, sizes):
    """Compute the UTF-8 size of each Latin-1 text, and its length up to NUL."""
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
    """Copy texts to their offsets; ``widen`` converts Latin-1 to UTF-8."""
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
