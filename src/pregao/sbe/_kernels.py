"""Kernels that turn many messages of one template into columns.

A column kernel reads one field of a run of messages and stores the values; then, over what was
stored, it flags nulls, packs the flags into the validity bitmap eight at a time, counts nulls and
says whether a value was out of its range. The fields of a run are read one after another while
its bytes are still in cache.
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

_TWINS = "pregao.sbe._whole_arrays"

# Operations: what is loaded and what is stored.
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
"""``SIZE`` is that of a value in the column; of a text, of its bytes on the wire. A text is widened
to UTF-8 where its ``NAMES`` is 1; where it is 0, a byte that is not ASCII puts it out of range."""

# Columns of the report on the columns that were filled.
PLACE, VALIDITY, NULLS, ODD, TEXT_PLACE, TEXT_SIZE = range(6)
REPORT_WIDTH = 6

ALIGNMENT = 64

RUN = 256
"""How many messages are read field by field before the next ones; a multiple of 8."""

_ANY = np.uint64((1 << 64) - 1)
"""The span of a range that holds every number."""
_GATHER = np.uint64(0x0102040810204080)

_ZEROS = np.array([8 - byte.bit_count() for byte in range(256)])
"""How many of a byte's bits are not set."""

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
    """A kernel that stores one field of a run of messages.

    Indexes are unsigned, which spares the test for a negative one at every access.
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
    """Numbers of an enumeration to indexes of names, through a table that knows every byte."""
    for i in range(np.uint64(len(positions))):
        out[i] = names[load_u8(buffer, positions[i] + offset)]


# What was stored is together and in cache: these loops become vector instructions.


@njit
def _out_of_range(values, low, span):
    """Is any value out of range: further from the lowest, as an unsigned number, than the span?"""
    bad = False
    for i in range(np.uint64(len(values))):
        bad |= np.uint64(values[i] - low) > span
    return bad


@njit
def _judge(values, null, low, span, flags):
    """Flag what is not null; is any of it out of range?"""
    bad = False
    for i in range(np.uint64(len(values))):
        valid = values[i] != null
        flags[i] = valid
        bad |= valid & (np.uint64(values[i] - low) > span)
    return bad


@njit
def _flag(values, null, flags):
    """Flag what is not null."""
    for i in range(np.uint64(len(values))):
        flags[i] = values[i] != null


@njit
def _judge_names(indexes, flags):
    """Flag what has a name; what has none gets the first index. Was any number unknown?"""
    bad = False
    for i in range(np.uint64(len(indexes))):
        index = indexes[i]
        flags[i] = index >= 0
        bad |= index == UNKNOWN
        indexes[i] = max(index, _FIRST)
    return bad


@njit
def _pack(flags, count, validity):
    """Pack flags of 0 and 1 into bits, the first lowest; returns how many are 0."""
    nulls = 0
    whole = np.uint64(count) >> np.uint64(3)
    for group in range(whole):
        word = load_u64(flags, group << np.uint64(3))
        # Every flag is shifted to a bit of its own in the topmost byte.
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


@njit_or(_TWINS)
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
def _fetch(buffer, positions, reach):
    """Ask for the bytes of messages that will soon be read."""
    for i in range(np.uint64(len(positions))):
        for offset in range(0, reach, 64):
            prefetch(buffer, positions[i] + offset)
        prefetch(buffer, positions[i] + reach)


@njit
def _aligned(size):
    return (size + (ALIGNMENT - 1)) & ~(ALIGNMENT - 1)


@njit
def lay_out(table, count, report):
    """Give every column its place: values, bits where it has any, then the bytes of texts."""
    place = 0
    for c in range(len(table)):
        report[c, PLACE] = place
        if table[c, OPERATION] == TEXT:
            place += _aligned(4 * (count + 1))
            report[c, TEXT_PLACE] = place
            place += _aligned(2 * table[c, SIZE] * count)
        else:
            place += _aligned(table[c, SIZE] * count)
        report[c, VALIDITY] = -1
        if table[c, NULLABLE]:
            report[c, VALIDITY] = place
            place += _aligned((count + 7) >> 3)
        report[c, NULLS] = 0
        report[c, ODD] = 0
        report[c, TEXT_SIZE] = 0


@njit
def _load_texts(buffer, positions, size, widen, offsets, used, out, flags):
    """Texts of a fixed size, each up to its first NUL; flags those that are not empty.

    Returns how many bytes they all took, and whether a byte was there that cannot be copied.
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


@njit_or(_TWINS)
def fill_columns(
    buffer, positions, table, names, reach, out16, out32, out64, arena, report
):  # fmt: skip
    """Fill every column of a table of operations; all blocks must reach all of its fields.

    The arena, seen through arrays of four types, holds all columns; the report says where.
    ``reach`` is the offset of the last byte that is read of a block.
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
            place = report[c, PLACE]
            bits = report[c, VALIDITY]
            wrong = False
            # Numbers of up to 32 bits are in range whatever they are.
            if operation == W64_I64:
                start = (place >> 3) + first
                wide = out64[start : start + len(run)]
                _load_w64(buffer, run, offset, wide)
                if bits >= 0:
                    wrong = _judge(wide, null, low, span, flags)
                elif span != _ANY:
                    wrong = _out_of_range(wide, low, span)
            elif operation == U32_I64:
                start = (place >> 3) + first
                wide = out64[start : start + len(run)]
                _load_u32(buffer, run, offset, wide)
                if bits >= 0:
                    _flag(wide, null, flags)
            elif operation == ENUM8_I16:
                start = (place >> 1) + first
                short = out16[start : start + len(run)]
                _load_names(buffer, run, offset, names[table[c, NAMES]], short)
                wrong = _judge_names(short, flags)
            elif operation == U8_I16:
                start = (place >> 1) + first
                short = out16[start : start + len(run)]
                _load_u8(buffer, run, offset, short)
                if bits >= 0:
                    _flag(short, null, flags)
            elif operation == TEXT:
                start = (place >> 2) + first
                used, wrong = _load_texts(
                    buffer, run + offset, table[c, SIZE], table[c, NAMES] == 1,
                    out32[start : start + len(run) + 1], report[c, TEXT_SIZE],
                    arena[report[c, TEXT_PLACE] :], flags,
                )  # fmt: skip
                report[c, TEXT_SIZE] = used
            elif operation == U16_I32:
                start = (place >> 2) + first
                middle = out32[start : start + len(run)]
                _load_u16(buffer, run, offset, middle)
                if bits >= 0:
                    _flag(middle, null, flags)
            else:
                start = (place >> 2) + first
                middle = out32[start : start + len(run)]
                _load_i32(buffer, run, offset, middle)
                if bits >= 0:
                    wrong = _judge(middle, null, low, span, flags)
                elif span != _ANY:
                    wrong = _out_of_range(middle, low, span)
            width = table[c, SIZE]
            begin = place + (first + RUN) * width
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
    each entry (or piece) is and how long it is, and the list offsets of each group.
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


@njit
def lay_out_parts(totals, parents, messages, bases, offset_bases):
    """Give each group and piece of data its places among the entries and the list offsets.

    Returns how many entries and how many list offsets there are in all.
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
