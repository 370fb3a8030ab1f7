"""Kernels over datagrams of the legacy feed: their chunks, and the headers of their messages."""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, check-untyped-defs=False
# mypy: disallow-untyped-decorators=False

from __future__ import annotations

import numpy as np

from pregao._njit import njit, part
from pregao.legacy.times import DAY_DIGITS

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
_MAX_DIGITS = 1 << 57
_DAYS_TO_1970 = 719_468
"""Days from March 1 of the year 0 to 1970."""


@part
def _number(buffer, position):
    """Return the sequence number of a chunk's message."""
    high = (np.int64(buffer[position]) << 24) | (np.int64(buffer[position + 1]) << 16)
    return high | (np.int64(buffer[position + 2]) << 8) | np.int64(buffer[position + 3])


@part
def _chunk(buffer, position, end):
    """Parse the chunk at a position: fault code, number of chunks, index of this one, its size."""
    if end - position < HEADER:
        return SHORT, np.int64(0), np.int64(0), np.int64(0)
    count = (np.int64(buffer[position + 4]) << 8) | buffer[position + 5]
    index = (np.int64(buffer[position + 6]) << 8) | buffer[position + 7]
    size = (np.int64(buffer[position + 8]) << 8) | buffer[position + 9]
    fault = SOUND
    if index < 1 or index > count:
        fault = NOT_A_CHUNK
    elif size == 0:
        fault = EMPTY_CHUNK
    elif size > end - position - HEADER:
        fault = LONG_CHUNK
    return fault, count, index, size


@njit
def count_chunks(buffer, offset, length, chunks, fault):
    """Count the intact chunks of each datagram and the fault after them; return their total."""
    total = 0
    for i in range(len(offset)):
        position = offset[i]
        end = position + length[i]
        found = 0
        fault[i] = SOUND if position < end else EMPTY
        while position < end:
            fault[i], _, _, size = _chunk(buffer, position, end)
            if fault[i] != SOUND:
                break
            found += 1
            position += HEADER + size
        chunks[i] = found
        total += found
    return total


@njit
def list_chunks(buffer, offset, chunks, datagram, ordinal, number, count, index, start, size):
    """List the intact chunks of all datagrams, in order."""
    row = 0
    for i in range(len(offset)):
        position = offset[i]
        for k in range(chunks[i]):
            datagram[row] = i
            ordinal[row] = k
            number[row] = _number(buffer, position)
            _, count[row], index[row], size[row] = _chunk(buffer, position, len(buffer))
            start[row] = position + HEADER
            position += HEADER + size[row]
            row += 1


@part
def _unsigned(buffer, position, end):
    """Read an unsigned integer; return it and its end, or -1 if it is unterminated or too long."""
    value = np.int64(0)
    while position < end:
        byte = np.int64(buffer[position])
        position += 1
        if value >= _MAX_DIGITS:
            return np.int64(-1), position
        value = (value << 7) | (byte & 127)
        if byte & 128:
            return value, position
    return np.int64(-1), position


@part
def _head(buffer, position, end, kinds):
    """Read template, tag 34 and sending time (as digits) of the message at a position."""
    number = np.int64(-1)
    digits = np.int64(0)
    if position >= end or not buffer[position] & 64:
        return np.int64(-1), number, digits
    while position < end and not buffer[position] & 128:
        position += 1
    position += 1
    kind_at, position = _unsigned(buffer, position, end)
    if kind_at < 0 or kind_at >= len(kinds) or kinds[kind_at] < 0:
        return np.int64(-1), number, digits
    if kinds[kind_at] == NO_TIME:
        return kind_at, number, digits
    number, position = _unsigned(buffer, position, end)
    if kinds[kind_at] == TIME_AS_NUMBER:
        value, position = _unsigned(buffer, position, end)
        digits = max(value, np.int64(0))
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
        digits = value if read == _DIGITS else np.int64(0)
    return kind_at, number, digits


@njit
def read_heads(buffer, start, size, kinds, template, number, digits):
    """Read template, tag 34 and sending time (as digits) of the messages at these positions.

    ``kinds`` gives for each template the encoding of its sending time. The template is -1 if it is
    missing or unknown, the time 0 if there is none.
    """
    for i in range(len(start)):
        end = start[i] + size[i]
        template[i], number[i], digits[i] = _head(buffer, start[i], end, kinds)


@part
def _day_of(day):
    """Convert a date (YYYYMMDD) to days since 1970; -1 if it is invalid or out of range."""
    year, month, date = day // 10_000, day // 100 % 100, day % 100
    if not (1970 <= year < 2262 and 1 <= month <= 12):
        return np.int64(-1)
    if month == 2:
        leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
        last = 29 if leap else 28
    else:
        last = 30 + (month + month // 8) % 2
    if not 1 <= date <= last:
        return np.int64(-1)
    # Counting years from March puts the leap day last.
    years = year - (month < 3)
    months = month - 3 if month > 2 else month + 9
    days = 365 * years + years // 4 - years // 100 + years // 400 + (153 * months + 2) // 5
    return np.int64(days + date - 1 - _DAYS_TO_1970)


@part
def _moment(digits, days):
    """Convert a wire timestamp, whose date is ``days`` after 1970, to ns; 0 if it is invalid."""
    time = digits % DAY_DIGITS
    rest = time // 1000
    hour, minute, second = rest // 10_000, rest // 100 % 100, rest % 100
    if days < 0 or hour > 23 or minute > 59 or second > 60:
        return np.int64(0)
    seconds = ((days * 24 + hour) * 60 + minute) * 60 + second
    return (seconds * 1000 + time % 1000) * 1_000_000


@njit
def read_times(digits, out):
    """Convert wire timestamps to nanoseconds; 0 where they are invalid."""
    known = days = np.int64(-1)
    for i in range(len(digits)):
        if digits[i] // DAY_DIGITS != known:
            known = digits[i] // DAY_DIGITS
            days = _day_of(known)
        out[i] = _moment(digits[i], days)


@njit
def read_keys(buffer, offset, length, kinds, numbered, using, found, number, sending, last):
    """Read the keys of datagrams: whether they start with a chunk, number, time, last number.

    Templates in ``numbered`` give a datagram its number; those in ``using`` consume a number.
    """
    known = days = np.int64(-1)
    for i in range(len(offset)):
        position = offset[i]
        end = position + length[i]
        found[i] = False
        number[i] = sending[i] = last[i] = 0
        first = latest = np.int64(0)
        start = stop = np.int64(-1)
        while position < end:
            fault, _, index, size = _chunk(buffer, position, end)
            if fault != SOUND:
                break
            latest = _number(buffer, position)
            if not found[i]:
                found[i] = True
                first = latest
                if index == 1:
                    start = position + HEADER
                    stop = start + size
            position += HEADER + size
        if start < 0:
            continue
        kind_at, _, digits = _head(buffer, start, stop, kinds)
        if kind_at < 0:
            continue
        if digits // DAY_DIGITS != known:
            known = digits // DAY_DIGITS
            days = _day_of(known)
        sending[i] = _moment(digits, days)
        if numbered[kind_at]:
            number[i] = first
        if using[kind_at]:
            last[i] = max(first, latest)


@njit
def scale_decimals(exponent, mantissa, there, scale, out, failed):
    """Rescale mantissas to one scale, 0 where missing; return how many do not fit."""
    count = 0
    for i in range(len(exponent)):
        out[i] = 0
        if not there[i]:
            continue
        shift = exponent[i] + scale
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
            count += 1
            failed[i] = True
        else:
            out[i] = value
    return count


@njit
def chosen_decimals(scaled, there, rows, words, bitmap):
    """Write the 128-bit words and validity bitmap of the selected decimals; row -1 is null.

    Returns the number of nulls.
    """
    missing = 0
    bitmap[:] = 0
    for i in range(len(rows)):
        row = rows[i]
        if row >= 0 and there[row]:
            words[i, 0] = scaled[row]
            words[i, 1] = scaled[row] >> 63
            bitmap[i >> 3] |= np.uint8(1 << (i & 7))
        else:
            words[i, 0] = words[i, 1] = 0
            missing += 1
    return missing
