"""Kernels that parse Parquet footers: structs in Thrift's compact protocol."""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, check-untyped-defs=False
# mypy: disallow-untyped-decorators=False

from __future__ import annotations

import numpy as np

from pregao._njit import load_i32, load_i64, njit, part
from pregao.lake.storage.fast_parquet.columns import (
    BINARY,
    BYTE,
    DEEPEST,
    DOUBLE,
    FALSE,
    GROUP_ROWS,
    INT32,
    KNOWN_AT,
    KNOWN_BOUNDED,
    KNOWN_BYTES,
    KNOWN_CODEC,
    KNOWN_HIGH,
    KNOWN_KIND,
    KNOWN_LOW,
    KNOWN_NULLS,
    LIST,
    MAX_MEMBERS,
    NUMBER,
    RECORD_FACTS,
    SET,
    SMALL_NUMBER,
    STRUCT,
)

BROKEN = -1
MAX_MEMBER = (1 << 15) - 1
MAX_SMALL = (1 << 32) - 1
"""Maximum of a 32-bit number before zigzag decoding."""


@part
def read_varint(data, at, end):
    """Read a varint; return it and its end, which is after ``end`` if the varint is invalid.

    A varint is invalid if it does not end before ``end`` or has more than 64 bits.
    """
    value = np.uint64(0)
    shift = np.uint64(0)
    while at < end:
        byte = np.uint64(data[at])
        at += 1
        if shift == np.uint64(63) and byte > np.uint64(1):
            break
        value |= (byte & np.uint64(127)) << shift
        shift += np.uint64(7)
        if byte < np.uint64(128):
            return np.int64(value), at
    return np.int64(-1), end + 1


@part
def signed(value):
    """Decode a zigzag-encoded number."""
    return np.int64(np.uint64(value) >> np.uint64(1)) ^ -(value & np.int64(1))


@part
def has(found, member, kind):
    """Whether a parsed struct has a field of a type."""
    return found[MAX_MEMBERS + member] == kind


@njit
def read_record(data, at, end, found):
    """Parse a struct and return its end; -1 if it is invalid.

    ``found`` gets, by field ID, the values of numbers and the positions of strings, lists and
    structs; -1 for missing fields. Their types follow, 0 for missing fields, so that a number is
    not mistaken for a position.

    ``data`` must have at least one readable byte after ``end``.
    """
    found[:MAX_MEMBERS] = -1
    found[MAX_MEMBERS:] = 0
    kinds = np.zeros(DEEPEST, np.int64)
    left = np.zeros(DEEPEST, np.int64)
    kinds[0] = STRUCT
    depth = 0
    member = np.int64(0)
    while at < end:
        recorded = False
        if kinds[depth] == STRUCT and left[depth] == 0:
            head = np.int64(data[at])
            at += 1
            if head == 0:
                depth -= 1
                if depth < 0:
                    return at
                continue
            kind = head & 15
            step = head >> 4
            if kind == 0:
                return BROKEN
            if step == 0:
                number, at = read_varint(data, at, end)
                number = signed(number)
                if number <= 0 or number > MAX_MEMBER:
                    return BROKEN
                if depth == 0:
                    member = number
            elif depth == 0:
                member += step
            recorded = depth == 0 and 0 < member < MAX_MEMBERS
            if recorded:
                if found[MAX_MEMBERS + member]:
                    return BROKEN
                found[MAX_MEMBERS + member] = kind
            if kind <= FALSE:
                if recorded:
                    found[member] = FALSE - kind
                continue
        else:
            # ``left`` of a list counts its remaining elements plus one.
            left[depth] -= 1
            if left[depth] == 0:
                depth -= 1
                continue
            kind = kinds[depth]
        if recorded:
            found[member] = at
        if kind <= BYTE:
            at += 1
        elif kind <= NUMBER:
            number, at = read_varint(data, at, end)
            if number < 0 or (kind < NUMBER and number > MAX_SMALL):
                return BROKEN
            if recorded:
                found[member] = signed(number)
        elif kind == DOUBLE:
            at += 8
        elif kind == BINARY:
            number, at = read_varint(data, at, end)
            if number < 0 or number > end - at:
                return BROKEN
            at += number
        elif kind in (LIST, SET, STRUCT):
            depth += 1
            if depth == DEEPEST:
                return BROKEN
            kinds[depth] = STRUCT
            left[depth] = 0
            if kind != STRUCT:
                head = np.int64(data[at])
                number, at = read_list(data, at, end)
                if head & 15 == 0 or number < 0 or number > end - at:
                    return BROKEN
                kinds[depth] = head & 15
                left[depth] = number + 1
        else:
            return BROKEN
    return BROKEN


@part
def read_list(data, at, end):
    """Return the length of a list and the position of its first element; -1 if it is invalid."""
    if at >= end:
        return np.int64(-1), at
    number = np.int64(data[at]) >> 4
    at += 1
    if number == 15:
        number, at = read_varint(data, at, end)
        if at > end:
            return np.int64(-1), at
    return number, at


@part
def read_records(data, at, end):
    """Return the length of a list of structs and the position of the first; -1 if it is invalid."""
    if at >= end or np.int64(data[at]) & 15 != STRUCT:
        return np.int64(-1), at
    return read_list(data, at, end)


@njit
def count_of(data, at, end):
    """Return the length of a list of structs, limited by its bytes, at least one per struct."""
    number, at = read_records(data, at, end)
    return max(0, min(number, end - at))


@njit
def end_of_records(data, at, end):
    """Return the end of a list of structs; -1 if it is invalid."""
    found = np.empty(RECORD_FACTS, np.int64)
    count, at = read_records(data, at, end)
    for _ in range(count):
        at = read_record(data, at, end, found)
        if at < 0:
            return BROKEN
    return BROKEN if count < 0 else at


@part
def read_bound(data, at, end, narrow):
    """Return a number stored as bytes, and whether it has the right size."""
    size, at = read_varint(data, at, end)
    if size != (4 if narrow else 8) or size > end - at:
        return np.int64(0), False
    if narrow:
        return np.int64(load_i32(data, at)), True
    return load_i64(data, at), True


@njit
def read_row_groups(data, at, end, groups, chunks):
    """Parse the row groups of a footer; return whether they are valid."""
    group = np.empty(RECORD_FACTS, np.int64)
    column = np.empty(RECORD_FACTS, np.int64)
    inner = np.empty(RECORD_FACTS, np.int64)
    statistics = np.empty(RECORD_FACTS, np.int64)
    count, at = read_records(data, at, end)
    if count != len(groups):
        return False
    for number in range(count):
        at = read_record(data, at, end, group)
        if at < 0 or not (has(group, 1, LIST) and has(group, 3, NUMBER)) or group[3] < 0:
            return False
        groups[number, GROUP_ROWS] = group[3]
        columns, cursor = read_records(data, group[1], at)
        if columns != chunks.shape[1]:
            return False
        for c in range(columns):
            chunk = chunks[number, c]
            cursor = read_record(data, cursor, at, column)
            if cursor < 0 or not has(column, 3, STRUCT):
                return False
            # Column chunks in another file, or encrypted.
            if column[1] >= 0 or column[8] >= 0 or column[9] >= 0:
                return False
            if read_record(data, column[3], cursor, inner) < 0 or not whole_column(inner):
                return False
            if inner[5] != group[3] or inner[7] < 0 or inner[9] < 0:
                return False
            chunk[KNOWN_KIND], chunk[KNOWN_CODEC] = inner[1], inner[4]
            chunk[KNOWN_AT] = inner[9]
            if has(inner, 11, NUMBER):
                if inner[11] <= 0 or inner[11] >= inner[9]:
                    return False
                chunk[KNOWN_AT] = inner[11]
            elif inner[11] >= 0:
                return False
            chunk[KNOWN_BYTES] = inner[7]
            chunk[KNOWN_NULLS], chunk[KNOWN_BOUNDED] = -1, 0
            if inner[12] >= 0:
                if (
                    not has(inner, 12, STRUCT)
                    or read_record(data, inner[12], cursor, statistics) < 0
                ):
                    return False
                if has(statistics, 3, NUMBER):
                    chunk[KNOWN_NULLS] = statistics[3]
                if has(statistics, 5, BINARY) and has(statistics, 6, BINARY):
                    narrow = inner[1] == INT32
                    chunk[KNOWN_LOW], low = read_bound(data, statistics[6], cursor, narrow)
                    chunk[KNOWN_HIGH], high = read_bound(data, statistics[5], cursor, narrow)
                    chunk[KNOWN_BOUNDED] = low and high
    return True


@part
def whole_column(inner):
    """Whether a column's metadata has all required fields, of the right types."""
    small = has(inner, 1, SMALL_NUMBER) and has(inner, 4, SMALL_NUMBER)
    lists = has(inner, 2, LIST) and has(inner, 3, LIST)
    sizes = has(inner, 5, NUMBER) and has(inner, 6, NUMBER) and has(inner, 7, NUMBER)
    return small and lists and sizes and has(inner, 9, NUMBER)
