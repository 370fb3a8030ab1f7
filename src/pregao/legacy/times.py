"""Times and dates of the feed: UTC as decimal digits, in a number or a text (002 §3.1.3, §15.11).

A timestamp is YYYYMMDDhhmmssmmm, a time of day hhmmss or, on PUMA, hhmmssmmm. Without a value, or
with one that is no time, the result is None: a strange time must not cost the message.
"""

from __future__ import annotations

from datetime import UTC, date, datetime
from functools import lru_cache

from pregao.clock import DAY, HOUR, MILLISECOND, MINUTE, SECOND

_EPOCH = date(1970, 1, 1).toordinal()
_MOST_DIGITS = 17
"""Digits of a timestamp; a number of many more cannot even be converted."""
DAY_DIGITS = 1_000_000_000
"""A timestamp is a date times this, and a time of day with milliseconds."""
FIRST_WITH_MILLISECONDS = 1_000_000
"""From here on a time of day has milliseconds; below it has none."""

Digits = int | str | None
"""A time as the wire has it."""


def timestamp_ns(value: Digits) -> int | None:
    """A timestamp as nanoseconds since 1970."""
    number = _number(value)
    if number is None or number < DAY_DIGITS:
        return None
    day, milliseconds = divmod(number, DAY_DIGITS)
    return moment_ns(day, milliseconds, milliseconds=True)


def moment_ns(day: Digits, time: Digits, *, milliseconds: bool | None = None) -> int | None:
    """A date and a time of day as nanoseconds since 1970; midnight without a time.

    Whether the time has ``milliseconds`` shows in its size, unless it is said: 000000364 is a
    third of a second past midnight only on PUMA.
    """
    start = _day_ns(_number(day))
    if start is None:
        return None
    number = _number(time)
    if number is None:
        return start if time is None else None
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
    """A moment as a timestamp of the wire."""
    seconds, rest = divmod(time_ns, SECOND)
    text = datetime.fromtimestamp(seconds, UTC).strftime("%Y%m%d%H%M%S")
    return int(text) * 1000 + rest // MILLISECOND


def date_digits(time_ns: int) -> int:
    """The day of a moment, as the wire has it."""
    return timestamp_digits(time_ns) // DAY_DIGITS


def time_digits(time_ns: int) -> int:
    """The time of day of a moment with milliseconds, as PUMA has it."""
    return timestamp_digits(time_ns) % DAY_DIGITS


@lru_cache(4096)
def _day_ns(number: int | None) -> int | None:
    if number is None:
        return None
    year = number // 10_000
    # Nanoseconds of other years do not fit a signed 64-bit number, or are before all markets here.
    if not 1970 <= year < 2262:
        return None
    try:
        day = date(year, number // 100 % 100, number % 100)
    except ValueError:
        return None
    return (day.toordinal() - _EPOCH) * DAY


def _number(value: Digits) -> int | None:
    if isinstance(value, str):
        digits = value.translate(_SEPARATORS)
        known = len(digits) <= _MOST_DIGITS and digits.isascii() and digits.isdecimal()
        return int(digits) if known else None
    return value


_SEPARATORS = {ord(mark): None for mark in "-:. "}
