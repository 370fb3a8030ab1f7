"""Kernels of the lake's Parquet files: encode columns of integers as pages.

Constants of the format are in `columns`. Columns are 64-bit integers; strings are labels, with the
strings themselves passed separately. Nothing is compressed: encoded data hardly shrinks further.
"""

from __future__ import annotations

import numpy as np

from pregao._njit import load_u64, part, store_u64
from pregao.lake.storage.fast_parquet.columns import BLOCK, DATA_PAGE, RLE, SMALL_NUMBER, STRUCT

QUARTER = 32
HEADER_CAPACITY = 64
"""Maximum bytes of a page header."""
MAX_GROUPS = 63
"""Maximum groups of eight in a bit-packed run, so that its header fits into one byte."""


@part
def put_varint(out, at, value):
    """Write a varint: seven bits per byte."""
    rest = np.uint64(value)
    while rest > np.uint64(127):
        out[at] = np.uint8(rest & np.uint64(127)) | np.uint8(128)
        rest >>= np.uint64(7)
        at += 1
    out[at] = np.uint8(rest)
    return at + 1


@part
def put_signed(out, at, value):
    """Write a signed number as a zigzag varint."""
    number = np.int64(value)
    return put_varint(out, at, np.uint64((number << np.int64(1)) ^ (number >> np.int64(63))))


@part
def put_field(out, at, step, kind, value):
    """Write a number field of a struct; ``step`` is the difference of its ID from the last."""
    out[at] = np.uint8(step << 4 | kind)
    return put_signed(out, at + 1, value)


@part
def put_bytes(out, at, source, first, last):
    """Copy bytes."""
    for index in range(first, last):
        out[at] = source[index]
        at += 1
    return at


@part
def put_plain(out, at, value, narrow):
    """Write a value in four or eight bytes."""
    store_u64(out, at, np.uint64(value))
    return at + (4 if narrow else 8)


@part
def bits_of(value):
    """Return the bit width of a number."""
    rest = np.uint64(value)
    bits = 0
    for step in (32, 16, 8, 4, 2, 1):
        if rest >> np.uint64(step):
            rest >>= np.uint64(step)
            bits += step
    return bits + np.int64(rest)


@part
def pack(values, first, count, width, out, at):
    """Bit-pack values of ``width`` bits each; ``count`` is a multiple of eight."""
    held = np.uint64(0)
    used = 0
    for index in range(np.uint64(first), np.uint64(first + count)):
        value = np.uint64(values[index])
        held |= value << np.uint64(used)
        used += width
        if used >= 64:
            store_u64(out, at, held)
            at += 8
            used -= 64
            held = value >> np.uint64(width - used) if used else np.uint64(0)
    store_u64(out, at, held)
    return at + (used >> 3)


@part
def put_differences(values, first, count, narrow, work, out, at):
    """Write values with delta encoding."""
    at = put_varint(out, at, BLOCK)
    at = put_varint(out, at, BLOCK // QUARTER)
    at = put_varint(out, at, count)
    at = put_signed(out, at, values[first] if count else 0)
    begin = 1
    while begin < count:
        block_count = min(BLOCK, count - begin)
        start = np.uint64(first + begin)
        low = np.int64(0x7FFFFFFFFFFFFFFF)
        for k in range(np.uint64(block_count)):
            step = values[start + k] - values[start + k - np.uint64(1)]
            if narrow:
                step = np.int64(np.int32(step))
            work[k] = step
            low = min(low, step)
        for k in range(np.uint64(block_count), np.uint64(BLOCK)):
            work[k] = low
        at = put_signed(out, at, low)
        widths = at
        store_u64(out, at, np.uint64(0))
        at += BLOCK // QUARTER
        for quarter in range(BLOCK // QUARTER):
            if quarter * QUARTER >= block_count:
                break
            own = np.uint64(quarter * QUARTER)
            every = np.uint64(0)
            for k in range(own, own + np.uint64(QUARTER)):
                more = np.uint64(work[k] - low)
                if narrow:
                    more &= np.uint64(0xFFFFFFFF)
                work[k] = np.int64(more)
                every |= more
            width = bits_of(every)
            out[widths + quarter] = width
            if width:
                at = pack(work, own, QUARTER, width, out, at)
        begin += block_count
    return at


@part
def eight_alike(labels, first):
    """Whether eight labels are equal."""
    unlike = np.int64(0)
    for index in range(np.uint64(first), np.uint64(first + 8)):
        unlike |= labels[index] ^ labels[np.uint64(first)]
    return unlike == 0


@part
def run_at(labels, first, last):
    """Return the length of the run of equal labels that starts at ``first``."""
    index = first + 1
    while index < last and labels[index] == labels[first]:
        index += 1
    return index - first


@part
def put_labels(labels, first, count, width, out, at):
    """Write labels: long runs of equal ones as RLE, others bit-packed in groups of eight."""
    least = max(8, 64 // width)
    last = first + count
    begin = first
    while begin < last:
        run = run_at(labels, begin, last)
        if run >= least or begin + run == last:
            at = put_varint(out, at, run << 1)
            store_u64(out, at, np.uint64(labels[begin]))
            at += (width + 7) >> 3
            begin += run
            continue
        end = begin + 8
        while end < last and end - begin < 8 * MAX_GROUPS:
            # The cheap test first: it nearly always fails.
            if eight_alike(labels, end) and run_at(labels, end, last) >= least:
                break
            end += 8
        out[at] = np.uint8((end - begin) >> 3 << 1 | 1)
        at = pack(labels, begin, end - begin, width, out, at + 1)
        begin = end
    return at


@part
def put_presence(validity, offset, count, nulls, out, at):
    """Write the definition levels: a bit per value, 1 if it is not null."""
    start = at
    at += 4
    if nulls == 0 or nulls == count:
        at = put_varint(out, at, count << 1)
        out[at] = 0 if nulls else 1
        at += 1
    else:
        groups = (count + 7) >> 3
        at = put_varint(out, at, groups << 1 | 1)
        shift = np.uint8(offset & 7)
        byte = offset >> 3
        last = (offset + count - 1) >> 3
        for k in range(groups):
            value = validity[byte + k] >> shift
            if shift and byte + k < last:
                value |= validity[byte + k + 1] << (np.uint8(8) - shift)
            out[at] = value
            at += 1
    length = at - start - 4
    for k in range(4):
        out[start + k] = np.uint8(length >> (8 * k) & 255)
    return at


@part
def put_page_header(out, at, kind, length, count, coding):
    """Write the header of an uncompressed page of ``length`` bytes."""
    at = put_field(out, at, 1, SMALL_NUMBER, kind)
    at = put_field(out, at, 1, SMALL_NUMBER, length)
    at = put_field(out, at, 1, SMALL_NUMBER, length)
    out[at] = np.uint8((2 if kind == DATA_PAGE else 4) << 4 | STRUCT)
    at = put_field(out, at + 1, 1, SMALL_NUMBER, count)
    at = put_field(out, at, 1, SMALL_NUMBER, coding)
    if kind == DATA_PAGE:
        at = put_field(out, at, 1, SMALL_NUMBER, RLE)
        at = put_field(out, at, 1, SMALL_NUMBER, RLE)
    out[at] = 0
    out[at + 1] = 0
    return at + 2


@part
def finish_page(out, at, body, end, kind, count, coding):
    """Write a page's header and move the body next to it; return the end."""
    length = end - body
    start = put_page_header(out, at, kind, length, count, coding)
    for k in range(0, length, 8):
        store_u64(out, start + k, load_u64(out, body + k))
    return start + length
