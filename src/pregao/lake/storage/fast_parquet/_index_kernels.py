"""Kernels that write the end of Parquet files: page indexes and row group metadata."""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, check-untyped-defs=False
# mypy: disallow-untyped-decorators=False

from __future__ import annotations

import numpy as np

from pregao._njit import njit, part
from pregao.lake.storage.fast_parquet._kernels import (
    put_bytes,
    put_field,
    put_plain,
    put_signed,
    put_varint,
)
from pregao.lake.storage.fast_parquet.columns import (
    AT,
    BINARY,
    BYTES,
    CODEC,
    CODING,
    COLUMN,
    DATA_PAGE,
    DICTIONARY,
    DICTIONARY_BYTES,
    DICTIONARY_PAGE,
    FIRST_PAGE,
    HIGH,
    INDEX_AT,
    INDEX_BYTES,
    INT32,
    LIST,
    LOW,
    NULLS,
    NUMBER,
    OFFSETS_AT,
    OFFSETS_BYTES,
    PAGE_AT,
    PAGE_BYTES,
    PAGE_HIGH,
    PAGE_LOW,
    PAGE_NULLS,
    PAGE_ROW,
    PAGE_VALUES,
    PAGES,
    PLAIN,
    PLAIN_BYTES,
    RLE,
    ROWS,
    SMALL_NUMBER,
    STRUCT,
    TRUE,
)


@part
def put_list(out, at, step, kind, count):
    """Write the header of a list field of a struct."""
    out[at] = np.uint8(step << 4 | LIST)
    if count < 15:
        out[at + 1] = np.uint8(count << 4 | kind)
        return at + 2
    out[at + 1] = np.uint8(15 << 4 | kind)
    return put_varint(out, at + 2, count)


@part
def put_value(out, at, value, narrow):
    """Write a value as bytes with their length."""
    out[at] = 4 if narrow else 8
    return put_plain(out, at + 1, value, narrow)


@njit
def put_indexes(chunks, pages, kinds, bounded, out, base):
    """Write the column indexes, then the offset indexes of all pages; return the end."""
    at = 0
    for c in range(len(chunks)):
        chunk = chunks[c]
        first, last = chunk[FIRST_PAGE], chunk[FIRST_PAGE] + chunk[PAGES]
        narrow = kinds[chunk[COLUMN]] == INT32
        chunk[INDEX_BYTES] = 0
        if not bounded[chunk[COLUMN]]:
            continue
        chunk[INDEX_AT] = base + at
        began = at
        at = put_list(out, at, 1, TRUE, last - first)
        rising = True
        before = -1
        for p in range(first, last):
            out[at] = 2 if pages[p, PAGE_VALUES] else 1
            at += 1
            if pages[p, PAGE_VALUES]:
                if before >= 0:
                    rising &= pages[p, PAGE_LOW] >= pages[before, PAGE_LOW]
                    rising &= pages[p, PAGE_HIGH] >= pages[before, PAGE_HIGH]
                before = p
        for end in (PAGE_LOW, PAGE_HIGH):
            at = put_list(out, at, 1, BINARY, last - first)
            for p in range(first, last):
                if pages[p, PAGE_VALUES]:
                    at = put_value(out, at, pages[p, end], narrow)
                else:
                    out[at] = 0
                    at += 1
        at = put_field(out, at, 1, SMALL_NUMBER, 1 if rising else 0)
        at = put_list(out, at, 1, NUMBER, last - first)
        for p in range(first, last):
            at = put_signed(out, at, pages[p, PAGE_NULLS])
        out[at] = 0
        at += 1
        chunk[INDEX_BYTES] = at - began
    for c in range(len(chunks)):
        chunk = chunks[c]
        first, last = chunk[FIRST_PAGE], chunk[FIRST_PAGE] + chunk[PAGES]
        chunk[OFFSETS_AT] = base + at
        began = at
        at = put_list(out, at, 1, STRUCT, last - first)
        for p in range(first, last):
            at = put_field(out, at, 1, NUMBER, pages[p, PAGE_AT])
            at = put_field(out, at, 1, SMALL_NUMBER, pages[p, PAGE_BYTES])
            at = put_field(out, at, 1, NUMBER, pages[p, PAGE_ROW])
            out[at] = 0
            at += 1
        out[at] = 0
        at += 1
        chunk[OFFSETS_BYTES] = at - began
    return at


@part
def put_chunk(chunk, kind, bounded, names, begin, stop, out, at):
    """Write the metadata of a column chunk."""
    narrow = kind == INT32
    at = put_field(out, at, 2, NUMBER, 0)
    out[at] = np.uint8(1 << 4 | STRUCT)
    at = put_field(out, at + 1, 1, SMALL_NUMBER, kind)
    coding = chunk[CODING]
    of_dictionary = coding == DICTIONARY
    at = put_list(out, at, 1, SMALL_NUMBER, 3 if of_dictionary else 2)
    if of_dictionary:
        at = put_signed(out, at, PLAIN)
    at = put_signed(out, at, RLE)
    at = put_signed(out, at, coding)
    at = put_list(out, at, 1, BINARY, 1)
    at = put_varint(out, at, stop - begin)
    at = put_bytes(out, at, names, begin, stop)
    at = put_field(out, at, 1, SMALL_NUMBER, chunk[CODEC])
    at = put_field(out, at, 1, NUMBER, chunk[ROWS])
    at = put_field(out, at, 1, NUMBER, chunk[PLAIN_BYTES])
    at = put_field(out, at, 1, NUMBER, chunk[BYTES])
    at = put_field(out, at, 2, NUMBER, chunk[AT] + chunk[DICTIONARY_BYTES])
    step = 3
    if of_dictionary:
        at = put_field(out, at, 2, NUMBER, chunk[AT])
        step = 1
    if bounded:
        out[at] = np.uint8(step << 4 | STRUCT)
        at = put_field(out, at + 1, 3, NUMBER, chunk[NULLS])
        if chunk[NULLS] < chunk[ROWS]:
            for step, end in ((2, HIGH), (1, LOW)):
                out[at] = np.uint8(step << 4 | BINARY)
                at = put_value(out, at + 1, chunk[end], narrow)
            # Both bounds are exact.
            out[at] = np.uint8(1 << 4 | TRUE)
            out[at + 1] = np.uint8(1 << 4 | TRUE)
            at += 2
        out[at] = 0
        at += 1
        step = 1
    else:
        step += 1
    at = put_list(out, at, step, STRUCT, 2 if of_dictionary else 1)
    for page, own, count in ((DICTIONARY_PAGE, PLAIN, 1), (DATA_PAGE, coding, chunk[PAGES])):
        if page == DATA_PAGE or of_dictionary:
            at = put_field(out, at, 1, SMALL_NUMBER, page)
            at = put_field(out, at, 1, SMALL_NUMBER, own)
            at = put_field(out, at, 1, SMALL_NUMBER, count)
            out[at] = 0
            at += 1
    out[at] = 0
    at = put_field(out, at + 1, 1, NUMBER, chunk[OFFSETS_AT])
    at = put_field(out, at, 1, SMALL_NUMBER, chunk[OFFSETS_BYTES])
    if chunk[INDEX_BYTES]:
        at = put_field(out, at, 1, NUMBER, chunk[INDEX_AT])
        at = put_field(out, at, 1, SMALL_NUMBER, chunk[INDEX_BYTES])
    out[at] = 0
    return at + 1


@njit
def put_row_groups(chunks, kinds, bounded, names, starts, out):
    """Write the metadata of all row groups; return the end."""
    at = 0
    columns = len(kinds)
    for group in range(len(chunks) // columns):
        own = chunks[group * columns : (group + 1) * columns]
        at = put_list(out, at, 1, STRUCT, columns)
        size = np.int64(0)
        plain_size = np.int64(0)
        for c in range(columns):
            at = put_chunk(own[c], kinds[c], bounded[c], names, starts[c], starts[c + 1], out, at)
            size += own[c, BYTES]
            plain_size += own[c, PLAIN_BYTES]
        at = put_field(out, at, 1, NUMBER, plain_size)
        at = put_field(out, at, 1, NUMBER, own[0, ROWS])
        at = put_field(out, at, 2, NUMBER, own[0, AT])
        at = put_field(out, at, 1, NUMBER, size)
        out[at] = 0
        at += 1
    return at
