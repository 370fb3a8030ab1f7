"""Kernels over datagrams of the legacy feed: their chunks, and the heads of their messages."""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, check-untyped-defs=False
# mypy: disallow-untyped-decorators=False

from __future__ import annotations

import numpy as np

from pregao._njit import njit

HEADER = 10
SOUND = 0
SHORT = 1
NOT_A_CHUNK = 2
EMPTY_CHUNK = 3
LONG_CHUNK = 4
EMPTY = 5

NO_TIME = 0
TIME_AS_NUMBER = 1
TIME_AS_TEXT = 2

_DIGITS = 17
_MOST = 1 << 57


@njit
def count_chunks(buffer, offset, length, chunks, fault):
    """How many sound chunks each datagram has, and what is wrong behind them; returns the sum."""
    total = 0
    for i in range(len(offset)):
        position = offset[i]
        end = position + length[i]
        found = 0
        fault[i] = SOUND if position < end else EMPTY
        while position < end:
            if end - position < HEADER:
                fault[i] = SHORT
                break
            count = (np.int64(buffer[position + 4]) << 8) | buffer[position + 5]
            index = (np.int64(buffer[position + 6]) << 8) | buffer[position + 7]
            size = (np.int64(buffer[position + 8]) << 8) | buffer[position + 9]
            if index < 1 or index > count:
                fault[i] = NOT_A_CHUNK
                break
            if size == 0:
                fault[i] = EMPTY_CHUNK
                break
            if size > end - position - HEADER:
                fault[i] = LONG_CHUNK
                break
            found += 1
            position += HEADER + size
        chunks[i] = found
        total += found
    return total


@njit
def list_chunks(buffer, offset, chunks, datagram, ordinal, number, count, index, start, size):
    """The sound chunks of datagrams, one after the other."""
    row = 0
    for i in range(len(offset)):
        position = offset[i]
        for k in range(chunks[i]):
            datagram[row] = i
            ordinal[row] = k
            number[row] = (
                (np.int64(buffer[position]) << 24)
                | (np.int64(buffer[position + 1]) << 16)
                | (np.int64(buffer[position + 2]) << 8)
                | np.int64(buffer[position + 3])
            )
            count[row] = (np.int64(buffer[position + 4]) << 8) | buffer[position + 5]
            index[row] = (np.int64(buffer[position + 6]) << 8) | buffer[position + 7]
            size[row] = (np.int64(buffer[position + 8]) << 8) | buffer[position + 9]
            start[row] = position + HEADER
            position += HEADER + size[row]
            row += 1


@njit
def _unsigned(buffer, position, end):
    """An unsigned integer and where it ends; -1 if it does not end in time."""
    value = np.int64(0)
    while position < end:
        byte = np.int64(buffer[position])
        position += 1
        if value >= _MOST:
            return np.int64(-1), position
        value = (value << 7) | (byte & 127)
        if byte & 128:
            return value, position
    return np.int64(-1), position


@njit
def read_heads(buffer, start, size, kinds, template, number, digits):
    """Template, tag 34 and sending time (as digits) of messages that begin here.

    ``kinds`` says by template how its messages tell the time; a template is -1 where a message
    has none that is known, the time 0 where it has none.
    """
    for i in range(len(start)):
        position = start[i]
        end = position + size[i]
        template[i] = number[i] = -1
        digits[i] = 0
        if position >= end or not buffer[position] & 64:
            continue
        while position < end and not buffer[position] & 128:
            position += 1
        position += 1
        found, position = _unsigned(buffer, position, end)
        if found < 0 or found >= len(kinds) or kinds[found] < 0:
            continue
        template[i] = found
        if kinds[found] == NO_TIME:
            continue
        number[i], position = _unsigned(buffer, position, end)
        if kinds[found] == TIME_AS_NUMBER:
            value, position = _unsigned(buffer, position, end)
            digits[i] = max(value, 0)
        else:
            value = np.int64(0)
            read = 0
            while position < end and read <= _DIGITS:
                byte = np.int64(buffer[position])
                position += 1
                if 48 <= (byte & 127) <= 57:
                    value = value * 10 + (byte & 127) - 48
                    read += 1
                if byte & 128:
                    break
            digits[i] = value if read == _DIGITS else 0


@njit
def scale_decimals(exponent, mantissa, scale, out):
    """Mantissas at one scale; returns how many do not fit, whose exponent becomes 127."""
    failed = 0
    for i in range(len(exponent)):
        shift = np.int64(exponent[i]) + scale
        value = mantissa[i]
        good = True
        while shift > 0 and value != 0:
            if value > 99_999_999_999_999_999 or value < -99_999_999_999_999_999:
                good = False
                break
            value *= 10
            shift -= 1
        while shift < 0 and value != 0:
            if value % 10 != 0:
                good = False
                break
            value //= 10
            shift += 1
        if not good or value > 999_999_999_999_999_999 or value < -999_999_999_999_999_999:
            out[i] = 0
            failed += 1
            exponent[i] = 127
        else:
            out[i] = value
    return failed
