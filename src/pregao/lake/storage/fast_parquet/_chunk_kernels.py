"""Kernel that encodes a column of a row group as pages."""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, check-untyped-defs=False
# mypy: disallow-untyped-decorators=False

from __future__ import annotations

import numpy as np

from pregao._njit import njit, part, store_u64
from pregao.lake.storage.fast_parquet._kernels import (
    HEADER_CAPACITY,
    bits_of,
    finish_page,
    put_bytes,
    put_differences,
    put_labels,
    put_plain,
    put_presence,
    put_varint,
)
from pregao.lake.storage.fast_parquet.columns import (
    AT,
    BYTES,
    CODING,
    DATA_PAGE,
    DELTA,
    DICTIONARY,
    DICTIONARY_BYTES,
    DICTIONARY_PAGE,
    HIGH,
    INT32,
    LOW,
    NULLS,
    PAGE_AT,
    PAGE_BYTES,
    PAGE_HIGH,
    PAGE_LOW,
    PAGE_NULLS,
    PAGE_ROW,
    PAGE_ROWS,
    PAGE_VALUES,
    PAGES,
    PLAIN,
    PLAIN_BYTES,
    ROWS,
    TEXT,
)


@part
def label(values, low, high, max_labels, slots, known, labels):
    """Label values in order of first appearance; return their number, -1 above ``max_labels``.

    Entries of ``slots`` from earlier columns are below a stamp that increases with each call (the
    last element), so that the table need not be cleared.
    """
    capacity = len(slots) - 1
    slots[capacity] += 1
    stamp = slots[capacity] << 32
    found = 0
    if np.uint64(high - low) < np.uint64(capacity):
        for index in range(np.uint64(len(values))):
            value = values[index]
            slot = np.uint64(value - low)
            entry = slots[slot]
            if entry < stamp:
                if found == max_labels:
                    return -1
                entry = stamp + found
                slots[slot] = entry
                known[found] = value
                found += 1
            labels[index] = entry - stamp
        return found
    mask = np.uint64(capacity - 1)
    for index in range(np.uint64(len(values))):
        value = values[index]
        slot = (np.uint64(value) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(40) & mask
        entry = slots[slot]
        while entry >= stamp and known[entry - stamp] != value:
            slot = (slot + np.uint64(1)) & mask
            entry = slots[slot]
        if entry < stamp:
            if found == max_labels:
                return -1
            entry = stamp + found
            slots[slot] = entry
            known[found] = value
            found += 1
        labels[index] = entry - stamp
    return found


@part
def take_there(values, validity, offset, first, rows, dense, pages):
    """Compact the non-null values to ``dense``; return their number.

    Also sets the index of the first value of each page.
    """
    there = 0
    for page in range(len(pages)):
        pages[page, PAGE_VALUES] = there
        begin, end = page * PAGE_ROWS, min(rows, (page + 1) * PAGE_ROWS)
        for row in range(np.uint64(begin), np.uint64(end)):
            bit = np.uint64(offset) + row
            dense[there] = values[np.uint64(first) + row]
            there += np.int64(validity[bit >> np.uint64(3)] >> np.uint8(bit & np.uint64(7)) & 1)
    return there


@part
def put_dictionary(known, found, kind, texts, starts, out, at):
    """Write the dictionary page of a column."""
    body = at + HEADER_CAPACITY
    end = body
    for number in range(found):
        value = known[number]
        if kind == TEXT:
            store_u64(out, end, np.uint64(starts[value + 1] - starts[value]))
            end = put_bytes(out, end + 4, texts, starts[value], starts[value + 1])
        else:
            end = put_plain(out, end, value, kind == INT32)
    return finish_page(out, at, body, end, DICTIONARY_PAGE, found, PLAIN)


@njit
def encode_chunk(
    values, validity, offset, first, rows, coding, kind, nullable, texts, starts,
    slots, known, labels, dense, work, out, at, base, chunk, pages,
):  # fmt: skip
    """Write a column of a row group as pages from ``at`` on; fill ``chunk``, return the end.

    The start of ``out`` is at offset ``base`` of the file. ``validity`` has a bit per value,
    starting at bit ``offset``; it is empty if there are no nulls. Strings are indexes of entries
    whose bytes in ``texts`` begin at ``starts``.
    """
    own = values[first : first + rows]
    there = rows
    for page in range(len(pages)):
        pages[page, PAGE_VALUES] = page * PAGE_ROWS
    if len(validity):
        there = take_there(values, validity, offset, first, rows, dense, pages)
        own = dense[:there]
    lowest = highest = own[0] if there else np.int64(0)
    for page in range(len(pages)):
        begin = pages[page, PAGE_VALUES]
        end = pages[page + 1, PAGE_VALUES] if page + 1 < len(pages) else there
        if begin == end:
            continue
        low = high = own[begin]
        for index in range(np.uint64(begin), np.uint64(end)):
            low = min(low, own[index])
            high = max(high, own[index])
        pages[page, PAGE_LOW], pages[page, PAGE_HIGH] = low, high
        lowest, highest = min(lowest, low), max(highest, high)
    chunk[AT], chunk[ROWS], chunk[NULLS], chunk[PAGES] = base + at, rows, rows - there, len(pages)
    chunk[LOW], chunk[HIGH], chunk[DICTIONARY_BYTES] = lowest, highest, 0
    began = at
    found = 0
    if there == 0:
        coding = PLAIN
    elif coding == DICTIONARY:
        if lowest == highest:
            found = 1
            known[0] = lowest
        else:
            # Values that rarely repeat are smaller with delta encoding.
            max_labels = there if kind == TEXT else there // 2 + 8
            found = label(own, lowest, highest, max_labels, slots, known, labels)
            # The last group of eight is packed in full, and readers read all of it.
            labels[there : there + 8] = 0
        if found < 0:
            coding = DELTA
        else:
            at = put_dictionary(known, found, kind, texts, starts, out, at)
            chunk[DICTIONARY_BYTES] = at - began
    chunk[CODING] = coding
    width = max(1, bits_of(np.uint64(max(found, 1) - 1)))
    for page in range(len(pages)):
        begin = pages[page, PAGE_VALUES]
        end = pages[page + 1, PAGE_VALUES] if page + 1 < len(pages) else there
        row = page * PAGE_ROWS
        page_rows = min(rows - row, PAGE_ROWS)
        nulls = page_rows - (end - begin)
        body = at + HEADER_CAPACITY
        stop = body
        if nullable:
            stop = put_presence(validity, offset + row, page_rows, nulls, out, stop)
        if coding == DELTA:
            stop = put_differences(own, begin, end - begin, kind == INT32, work, out, stop)
        elif coding == PLAIN:
            for index in range(begin, end):
                stop = put_plain(out, stop, own[index], kind == INT32)
        else:
            out[stop] = width
            if found == 1 and end > begin:
                stop = put_varint(out, stop + 1, (end - begin) << 1)
                out[stop] = 0
                stop += 1
            else:
                stop = put_labels(labels, begin, end - begin, width, out, stop + 1)
        stop = finish_page(out, at, body, stop, DATA_PAGE, page_rows, coding)
        pages[page, PAGE_AT], pages[page, PAGE_BYTES] = base + at, stop - at
        pages[page, PAGE_ROW], pages[page, PAGE_NULLS] = row, nulls
        at = stop
    # From here on, PAGE_VALUES is the number of non-null values instead of the first index.
    for page in range(len(pages)):
        page_rows = min(rows - page * PAGE_ROWS, PAGE_ROWS)
        pages[page, PAGE_VALUES] = page_rows - pages[page, PAGE_NULLS]
    chunk[BYTES] = chunk[PLAIN_BYTES] = at - began
    return at
