"""Times and dates of the feed: UTC as decimal digits, in a number or a text (002 §3.1.3, §15.11).

A timestamp is YYYYMMDDhhmmssmmm, a time of day hhmmss or, on PUMA, hhmmssmmm. A missing or invalid
time gives None: an invalid time must not cause the message to be rejected.
"""

from __future__ import annotations

from datetime import UTC, date, datetime
from functools import lru_cache

from pregao.clock import HOUR, MILLISECOND, MINUTE, SECOND
from pregao.units import midnight_ns

_MAX_DIGITS = 17
"""Digits of a timestamp; Python refuses to convert very long digit strings."""
DAY_DIGITS = 1_000_000_000
"""A timestamp is a date times this, plus a time of day with milliseconds."""
FIRST_WITH_MILLISECONDS = 1_000_000
"""A time of day from this value on includes milliseconds; a smaller one does not."""

Digits = int | str | None
"""A time as encoded on the wire."""


def timestamp_ns(value: Digits) -> int | None:
    """Convert a timestamp to nanoseconds since 1970."""
    number = _number(value)
    if number is None or number < DAY_DIGITS:
        return None
    day, milliseconds = divmod(number, DAY_DIGITS)
    return moment_ns(day, milliseconds, milliseconds=True)


def moment_ns(day: Digits, time: Digits, *, milliseconds: bool | None = None) -> int | None:
    """Convert a date and a time of day to nanoseconds since 1970; without a time, midnight.

    ``milliseconds`` states whether the time includes them; None decides by its size. Then
    000000364 is not recognized as 364 ms past midnight, which it is on PUMA.
    """
    start = _day_ns(_number(day))
    if start is None:
        return None
    number = _number(time)
    if number is None:
        return start if time is None else None
    if number < 0:
        return None
    if milliseconds is None:
        milliseconds = number >= FIRST_WITH_MILLISECONDS
    number = number if milliseconds else number * 1000
    seconds, thousandths = divmod(number, 1000)
    rest, second = divmod(seconds, 100)
    hour, minute = divmod(rest, 100)
    if hour > 23 or minute > 59 or second > 60:
        return None
    return start + hour * HOUR + minute * MINUTE + second * SECOND + thousandths * MILLISECOND


def timestamp_digits(time_ns: int) -> int:
    """Convert nanoseconds since 1970 to a wire timestamp."""
    seconds, rest = divmod(time_ns, SECOND)
    text = datetime.fromtimestamp(seconds, UTC).strftime("%Y%m%d%H%M%S")
    return int(text) * 1000 + rest // MILLISECOND


def date_digits(time_ns: int) -> int:
    """Return the UTC date of a time in the wire's encoding."""
    return timestamp_digits(time_ns) // DAY_DIGITS


def time_digits(time_ns: int) -> int:
    """Return the UTC time of day, with milliseconds, in PUMA's encoding."""
    return timestamp_digits(time_ns) % DAY_DIGITS


@lru_cache(4096)
def _day_ns(number: int | None) -> int | None:
    if number is None:
        return None
    year = number // 10_000
    # Other years do not fit into 64-bit nanoseconds, or precede the feed.
    if not 1970 <= year < 2262:
        return None
    try:
        day = date(year, number // 100 % 100, number % 100)
    except ValueError:
        return None
    return midnight_ns(day)


def _number(value: Digits) -> int | None:
    if isinstance(value, str):
        digits = value.translate(_SEPARATORS)
        valid = len(digits) <= _MAX_DIGITS and digits.isascii() and digits.isdecimal()
        return int(digits) if valid else None
    return value


_SEPARATORS = {ord(mark): None for mark in "-:. "}
