"""Kernel that decodes a column of a row group from its pages."""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, check-untyped-defs=False
# mypy: disallow-untyped-decorators=False

from __future__ import annotations

import numpy as np

from pregao._njit import load_i32, load_i64, load_u32, load_u64, njit, part
from pregao.lake.storage.fast_parquet._footer_kernels import (
    MAX_SMALL,
    has,
    read_record,
    read_varint,
    signed,
)
from pregao.lake.storage.fast_parquet._kernels import QUARTER
from pregao.lake.storage.fast_parquet.columns import (
    BLOCK,
    DATA_PAGE,
    DELTA,
    DICTIONARY,
    DICTIONARY_PAGE,
    INT32,
    PLAIN,
    RECORD_FACTS,
    RLE,
    SMALL_NUMBER,
    STRUCT,
    TEXT,
)

MAX_LABEL = 32
ONE_LOAD = 57
"""Maximum width of a value that is always in one load of eight bytes, whatever its bit offset."""


@part
def read_labels(data, at, end, width, count, out, first):
    """Decode RLE or bit-packed labels; return whether all were read."""
    mask = (np.uint64(1) << np.uint64(width)) - np.uint64(1)
    size = (width + 7) >> 3
    own_bytes = (np.uint64(1) << np.uint64(8 * size)) - np.uint64(1)
    done = 0
    while done < count:
        if at >= end:
            return False
        head, at = read_varint(data, at, end)
        if at > end or head > MAX_SMALL:
            return False
        if head & 1:
            groups = head >> 1
            if groups <= 0 or groups > (end - at) // width:
                return False
            own = min(groups << 3, count - done)
            bit = np.uint64(0)
            for k in range(np.uint64(first + done), np.uint64(first + done + own)):
                word = load_u64(data, at + np.int64(bit >> np.uint64(3)))
                out[k] = np.int64(word >> (bit & np.uint64(7)) & mask)
                bit += np.uint64(width)
            at += groups * width
        else:
            own = min(head >> 1, count - done)
            if own <= 0 or size > end - at:
                return False
            value = np.int64(load_u64(data, at) & own_bytes)
            if value > np.int64(mask):
                return False
            for k in range(np.uint64(first + done), np.uint64(first + done + own)):
                out[k] = value
            at += size
        done += own
    return True


@part
def read_known(data, at, end, width, count, known, labels, out, first):
    """Decode values of the dictionary ``known`` of ``labels`` entries; return if all are valid."""
    mask = (np.uint64(1) << np.uint64(width)) - np.uint64(1)
    size = (width + 7) >> 3
    own_bytes = (np.uint64(1) << np.uint64(8 * size)) - np.uint64(1)
    done = 0
    last = labels - 1
    highest = np.int64(0)
    while done < count:
        if at >= end:
            return False
        head, at = read_varint(data, at, end)
        if at > end or head > MAX_SMALL:
            return False
        if head & 1:
            groups = head >> 1
            if groups <= 0 or groups > (end - at) // width:
                return False
            own = min(groups << 3, count - done)
            bit = np.uint64(0)
            for k in range(np.uint64(first + done), np.uint64(first + done + own)):
                word = load_u64(data, at + np.int64(bit >> np.uint64(3)))
                label = np.int64(word >> (bit & np.uint64(7)) & mask)
                highest = max(highest, label)
                out[k] = known[np.uint64(min(label, last))]
                bit += np.uint64(width)
            at += groups * width
        else:
            own = min(head >> 1, count - done)
            if own <= 0 or size > end - at:
                return False
            label = np.int64(load_u64(data, at) & own_bytes)
            highest = max(highest, label)
            value = known[min(label, last)]
            for k in range(np.uint64(first + done), np.uint64(first + done + own)):
                out[k] = value
            at += size
        done += own
    return highest <= last


@part
def read_differences(data, at, end, count, narrow, out, first):
    """Decode delta-encoded values; return whether all were read."""
    block, at = read_varint(data, at, end)
    quarters, at = read_varint(data, at, end)
    stored_count, at = read_varint(data, at, end)
    number, at = read_varint(data, at, end)
    if at > end or block != BLOCK or quarters != BLOCK // QUARTER or stored_count != count:
        return False
    widest = 32 if narrow else 64
    if narrow and (number < 0 or number > MAX_SMALL):
        return False
    value = signed(number)
    out[first] = value
    done = 1
    while done < count:
        number, at = read_varint(data, at, end)
        if narrow and (number < 0 or number > MAX_SMALL):
            return False
        low = signed(number)
        widths = at
        at += BLOCK // QUARTER
        if at > end:
            return False
        for quarter in range(BLOCK // QUARTER):
            own = min(QUARTER, count - done)
            if own <= 0:
                break
            width = np.int64(data[widths + quarter])
            if width > widest or width * (QUARTER >> 3) > end - at:
                return False
            bit = np.uint64(0)
            mask = np.uint64(0xFFFFFFFFFFFFFFFF)
            if width < 64:
                mask = (np.uint64(1) << np.uint64(width)) - np.uint64(1)
            for k in range(np.uint64(first + done), np.uint64(first + done + own)):
                start = at + np.int64(bit >> np.uint64(3))
                shift = bit & np.uint64(7)
                more = load_u64(data, start) >> shift
                if width > ONE_LOAD and shift:
                    more |= np.uint64(data[start + 8]) << (np.uint64(64) - shift)
                value += low + np.int64(more & mask)
                if narrow:
                    value = np.int64(np.int32(value))
                out[k] = value
                bit += np.uint64(width)
            at += width * (QUARTER >> 3)
            done += own
    return True


@part
def spread(out, there, first, count, values, null):
    """Move compacted values to their rows, and set the other rows to ``null``."""
    source = np.int64(first + values)
    for k in range(first + count - 1, first - 1, -1):
        own = np.int64(there[k])
        source -= own
        # Loads both, because a branch would be unpredictable and mispredictions are costly.
        value = out[max(source, first)]
        out[k] = value if own else null


@part
def page_facts(inner):
    """Whether a page header has the number of values and their encoding."""
    return has(inner, 1, SMALL_NUMBER) and has(inner, 2, SMALL_NUMBER)


@njit
def decode_chunk(data, at, end, rows, kind, nullable, null, known, out, there, first, texts):
    """Decode a column of a row group; return whether its pages are in the form we write.

    Values go to ``out`` from ``first`` on, with ``null`` for nulls; if the column is nullable,
    ``there`` gets 1 for values and 0 for nulls. Strings are decoded as labels; ``texts`` gets the
    number of dictionary entries, and their begin and end in ``data``. ``data`` must have sixteen
    readable bytes after the column.
    """
    page = np.empty(RECORD_FACTS, np.int64)
    inner = np.empty(RECORD_FACTS, np.int64)
    narrow = kind == INT32
    size = 4 if narrow else 8
    labels = np.int64(0)
    done = 0
    texts[:] = 0
    while done < rows:
        body = read_record(data, at, end, page)
        if body < 0 or page[3] < 0 or page[3] != page[2] or page[3] > end - body:
            return False
        if not (has(page, 1, SMALL_NUMBER) and has(page, 2, SMALL_NUMBER)):
            return False
        if not has(page, 3, SMALL_NUMBER):
            return False
        at = body + page[3]
        if page[1] == DICTIONARY_PAGE:
            if not has(page, 7, STRUCT) or read_record(data, page[7], body, inner) < 0:
                return False
            if not page_facts(inner) or inner[2] != PLAIN or done or labels or inner[1] < 0:
                return False
            labels = inner[1]
            if kind == TEXT:
                texts[0], texts[1], texts[2] = labels, body, at
                continue
            if labels > len(known) or labels * size > page[3]:
                return False
            for k in range(labels):
                if narrow:
                    known[k] = load_i32(data, body + 4 * k)
                else:
                    known[k] = load_i64(data, body + 8 * k)
            continue
        if page[1] != DATA_PAGE or not has(page, 5, STRUCT):
            return False
        if read_record(data, page[5], body, inner) < 0 or not page_facts(inner):
            return False
        # Also the encoding of the levels, which pyarrow checks in any case.
        if not (has(inner, 3, SMALL_NUMBER) and has(inner, 4, SMALL_NUMBER)) or inner[3] != RLE:
            return False
        count, coding = inner[1], inner[2]
        if count <= 0 or count > rows - done:
            return False
        start = first + done
        values = count
        if nullable:
            if page[3] < 4:
                return False
            levels = np.int64(load_u32(data, body))
            if levels > page[3] - 4:
                return False
            if not read_labels(data, body + 4, body + 4 + levels, 1, count, there, start):
                return False
            values = 0
            for k in range(np.uint64(start), np.uint64(start + count)):
                values += np.int64(there[k])
            body += 4 + levels
        if values == 0:
            if coding not in (PLAIN, DELTA, DICTIONARY):
                return False
        elif coding == DICTIONARY and body < at:
            width = np.int64(data[body])
            if width == 0 or width > MAX_LABEL:
                return False
            if kind == TEXT:
                if not read_labels(data, body + 1, at, width, values, out, start):
                    return False
                highest = np.int64(0)
                for k in range(np.uint64(start), np.uint64(start + values)):
                    highest = max(highest, out[k])
                if highest >= labels:
                    return False
            elif labels == 0 or not read_known(
                data, body + 1, at, width, values, known, labels, out, start
            ):
                return False
        elif coding == DELTA and kind != TEXT:
            if not read_differences(data, body, at, values, narrow, out, start):
                return False
        elif coding == PLAIN and kind != TEXT and values * size <= at - body:
            for k in range(values):
                if narrow:
                    out[start + k] = load_i32(data, body + 4 * k)
                else:
                    out[start + k] = load_i64(data, body + 8 * k)
        else:
            return False
        if values < count:
            spread(out, there, start, count, values, null)
        done += count
    return True
