"""Kernels that read what Parquet files tell of themselves: records in Thrift's compact form."""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, check-untyped-defs=False
# mypy: disallow-untyped-decorators=False

from __future__ import annotations

import numpy as np

from pregao._njit import load_i32, load_i64, njit, part
from pregao.lake.store.flat_parquet.numbers import (
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
    MOST_MEMBERS,
    NUMBER,
    SET,
    STRUCT,
)

BROKEN = -1


@part
def read_varint(data, at, end):
    """A number of seven bits a byte, and where it ends."""
    value = np.uint64(0)
    shift = np.uint64(0)
    while at < end:
        byte = np.uint64(data[at])
        at += 1
        value |= (byte & np.uint64(127)) << shift
        shift += np.uint64(7)
        if byte < np.uint64(128) or shift > np.uint64(63):
            break
    return np.int64(value), at


@part
def signed(value):
    """A number that may be negative, of one that was read."""
    return np.int64(np.uint64(value) >> np.uint64(1)) ^ -(value & np.int64(1))


@njit
def read_record(data, at, end, found):
    """Read a record, and tell where it ends; -1 if it is broken.

    Its numbers are put where their members' numbers say; of its texts, lists and records it is
    told where they begin. What is not there is -1.
    """
    found[:] = -1
    kinds = np.zeros(DEEPEST, np.int64)
    left = np.zeros(DEEPEST, np.int64)
    kinds[0] = STRUCT
    depth = 0
    member = np.int64(0)
    while at < end:
        told = False
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
            if step == 0:
                number, at = read_varint(data, at, end)
                if depth == 0:
                    member = signed(number)
            elif depth == 0:
                member += step
            told = depth == 0 and 0 < member < len(found)
            if kind <= FALSE:
                if told:
                    found[member] = FALSE - kind
                continue
        else:
            # Of a list there are as many more as it was said to have, and one.
            left[depth] -= 1
            if left[depth] == 0:
                depth -= 1
                continue
            kind = kinds[depth]
        if told:
            found[member] = at
        if kind <= BYTE:
            at += 1
        elif kind <= NUMBER:
            number, at = read_varint(data, at, end)
            if told:
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
                at += 1
                number = head >> 4
                if number == 15:
                    number, at = read_varint(data, at, end)
                if number < 0 or number > end - at:
                    return BROKEN
                kinds[depth] = head & 15
                left[depth] = number + 1
        else:
            return BROKEN
    return BROKEN


@part
def read_list(data, at, end):
    """How many are in a list, and where the first begins."""
    number = np.int64(data[at]) >> 4
    at += 1
    if number == 15:
        number, at = read_varint(data, at, end)
    return number, at


@njit
def count_of(data, at, end):
    """How many are in a list, of which each takes a byte at least."""
    number, at = read_list(data, at, end)
    return max(0, min(number, end - at))


@part
def read_bound(data, at, end, narrow):
    """The bytes of a number, and whether they are as many as they should be."""
    size, at = read_varint(data, at, end)
    if narrow:
        return np.int64(load_i32(data, at)), size == 4
    return load_i64(data, at), size == 8


@njit
def read_row_groups(data, at, end, groups, chunks):
    """What the end of a file tells of its row groups; is it as it should be?

    ``data`` goes on for eight bytes behind what is read.
    """
    group = np.empty(MOST_MEMBERS, np.int64)
    column = np.empty(MOST_MEMBERS, np.int64)
    inner = np.empty(MOST_MEMBERS, np.int64)
    told = np.empty(MOST_MEMBERS, np.int64)
    count, at = read_list(data, at, end)
    if count != len(groups):
        return False
    for number in range(count):
        at = read_record(data, at, end, group)
        if at < 0 or group[1] < 0 or group[3] < 0:
            return False
        groups[number, GROUP_ROWS] = group[3]
        columns, place = read_list(data, group[1], at)
        if columns != chunks.shape[1]:
            return False
        for c in range(columns):
            chunk = chunks[number, c]
            place = read_record(data, place, at, column)
            if place < 0 or column[3] < 0 or read_record(data, column[3], place, inner) < 0:
                return False
            if inner[5] != group[3] or inner[7] < 0 or inner[9] < 0:
                return False
            chunk[KNOWN_KIND], chunk[KNOWN_CODEC] = inner[1], inner[4]
            chunk[KNOWN_AT] = inner[11] if inner[11] > 0 else inner[9]
            chunk[KNOWN_BYTES] = inner[7]
            chunk[KNOWN_NULLS], chunk[KNOWN_BOUNDED] = -1, 0
            if inner[12] >= 0:
                if read_record(data, inner[12], place, told) < 0:
                    return False
                chunk[KNOWN_NULLS] = told[3]
                if told[5] >= 0 and told[6] >= 0:
                    narrow = inner[1] == INT32
                    chunk[KNOWN_LOW], low = read_bound(data, told[6], place, narrow)
                    chunk[KNOWN_HIGH], high = read_bound(data, told[5], place, narrow)
                    chunk[KNOWN_BOUNDED] = low and high
    return True
