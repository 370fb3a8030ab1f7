"""Prices, sides, days, durations and zones: the only definition of each.

A price inside the package is a mantissa, an integer of its last decimal; one that leaves it is a
`Decimal`, a decimal column, or a string in JSON. A day is a number of days since 1970, or a `date`.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from datetime import date
from decimal import Decimal
from enum import IntEnum
from functools import lru_cache
from typing import TYPE_CHECKING, TypeVar, overload

from pregao.clock import DAY, HOUR, MICROSECOND, MILLISECOND, MINUTE, SECOND
from pregao.errors import UsageError
from pregao.name_matching import similar

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

    import numpy as np
    import numpy.typing as npt

# --- Prices ---

PRICE_DECIMALS = 4
"""Decimal places of a price."""
PRICE_SCALE: int = 10**PRICE_DECIMALS
"""Mantissa of a price of one."""


@overload
def price_of(mantissa: int, decimals: int = PRICE_DECIMALS) -> Decimal: ...
@overload
def price_of(mantissa: int | None, decimals: int = PRICE_DECIMALS) -> Decimal | None: ...
def price_of(mantissa: int | None, decimals: int = PRICE_DECIMALS) -> Decimal | None:
    """Return a price, with all its decimals."""
    return None if mantissa is None else Decimal(mantissa).scaleb(-decimals)


@overload
def price_text(mantissa: int, decimals: int = PRICE_DECIMALS) -> str: ...
@overload
def price_text(mantissa: int | None, decimals: int = PRICE_DECIMALS) -> str | None: ...
def price_text(mantissa: int | None, decimals: int = PRICE_DECIMALS) -> str | None:
    """Return the text of a price, with all its decimals."""
    return None if mantissa is None else _price_text(mantissa, decimals)


@lru_cache(1 << 16)
def _price_text(mantissa: int, decimals: int) -> str:
    whole, part = divmod(abs(mantissa), 10**decimals)
    return f"{'-' if mantissa < 0 else ''}{whole}.{part:0{decimals}d}"


def mantissa_of(price: Decimal | None, decimals: int = PRICE_DECIMALS) -> int | None:
    """Return the mantissa of a price; None without a price or if it has more decimals."""
    if price is None:
        return None
    scaled = price.scaleb(decimals)
    whole = int(scaled)
    return whole if whole == scaled else None


# --- Sides ---


class Side(IntEnum):
    """A side of a book."""

    BID = 0
    ASK = 1

    @property
    def other(self) -> Side:
        """The opposite side."""
        return Side.ASK if self is Side.BID else Side.BID


# --- Days ---

MARKET_ZONE = "America/Sao_Paulo"
"""Time zone of the market, by its name in the tz database."""
MARKET_OFFSET_NS = -3 * HOUR
"""Offset of Brasília time from UTC, outside summer time."""
EPOCH_ORDINAL = 719_163
"""1970-01-01 as a proleptic Gregorian ordinal."""
MIN_DAY, MAX_DAY = 1 - EPOCH_ORDINAL, 3_652_059 - EPOCH_ORDINAL
"""First and last date of Python (9999-12-31), as days since 1970."""

_SUMMERS = (
    "1985-11-02 1986-03-15 1986-10-25 1987-02-14 1987-10-25 1988-02-07 1988-10-16 1989-01-29 "
    "1989-10-15 1990-02-11 1990-10-21 1991-02-17 1991-10-20 1992-02-09 1992-10-25 1993-01-31 "
    "1993-10-17 1994-02-20 1994-10-16 1995-02-19 1995-10-15 1996-02-11 1996-10-06 1997-02-16 "
    "1997-10-06 1998-03-01 1998-10-11 1999-02-21 1999-10-03 2000-02-27 2000-10-08 2001-02-18 "
    "2001-10-14 2002-02-17 2002-11-03 2003-02-16 2003-10-19 2004-02-15 2004-11-02 2005-02-20 "
    "2005-10-16 2006-02-19 2006-11-05 2007-02-25 2007-10-14 2008-02-17 2008-10-19 2009-02-15 "
    "2009-10-18 2010-02-21 2010-10-17 2011-02-20 2011-10-16 2012-02-26 2012-10-21 2013-02-17 "
    "2013-10-20 2014-02-16 2014-10-19 2015-02-22 2015-10-18 2016-02-21 2016-10-16 2017-02-19 "
    "2017-10-15 2018-02-18 2018-11-04 2019-02-17"
)
"""First days with and without summer time, by turns. There has been none since 2019.

Both changes happen at midnight by the time until then: at 03:00 UTC to summer time, at 02:00 back.
They are listed so that the partition of an archived packet needs no time zone database.
"""
_CHANGES_NS = [
    (date.fromisoformat(text).toordinal() - EPOCH_ORDINAL) * DAY + (3 - index % 2) * HOUR
    for index, text in enumerate(_SUMMERS.split())
]
_LAST_CHANGE_NS = _CHANGES_NS[-1]

Times = TypeVar("Times", int, "npt.NDArray[np.int64]")


def day_number(day: date) -> int:
    """Return the days from 1970-01-01 to a date."""
    return day.toordinal() - EPOCH_ORDINAL


def date_of(number: int) -> date:
    """Return the date of a number of days since 1970."""
    return date.fromordinal(EPOCH_ORDINAL + number)


def iso_day(number: int) -> str:
    """Return the text of a number of days since 1970, such as ``2026-05-21``."""
    return date_of(number).isoformat()


def midnight_ns(day: date) -> int:
    """Return midnight UTC of a date, in nanoseconds since 1970."""
    return day_number(day) * DAY


def day_of(time_ns: Times) -> Times:
    """Return the market's day of a time, or of a column of times, as days since 1970."""
    if isinstance(time_ns, int):
        summer = time_ns < _LAST_CHANGE_NS and bisect_right(_CHANGES_NS, time_ns) % 2 == 1
        return (time_ns + MARKET_OFFSET_NS + (HOUR if summer else 0)) // DAY
    if not time_ns.size or time_ns.min() >= _LAST_CHANGE_NS:
        # In one expression, numpy reuses the memory of the sum: a fifth of the time.
        return (time_ns + MARKET_OFFSET_NS) // DAY
    import numpy as np

    summer = np.searchsorted(_CHANGES_NS, time_ns, "right") % 2
    return (time_ns + (MARKET_OFFSET_NS + summer * HOUR)) // DAY


def day_begins_ns(number: int) -> int:
    """Return the start of a day of the market, in nanoseconds since 1970."""
    begin = number * DAY - MARKET_OFFSET_NS
    return begin - HOUR if day_of(begin - HOUR) == number else begin


def parse_day(text: str, what: str) -> date:
    """Parse a date such as ``2026-05-21``; ``what`` names it in the error."""
    try:
        return date.fromisoformat(text)
    except (TypeError, ValueError):
        raise UsageError(f"{what} must be a date such as 2026-05-21, was {text!r:.80}.") from None


# --- Durations and zones ---

MAX_DURATION = 36_500 * DAY
"""Maximum duration: added to any market time, the sum still fits 64 bits."""

_UNITS = {
    "ns": 1,
    "us": MICROSECOND,
    "ms": MILLISECOND,
    "s": SECOND,
    "m": MINUTE,
    "min": MINUTE,
    "h": HOUR,
    "d": DAY,
}
_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(ns|us|ms|s|min|m|h|d)\s*")


def parse_duration(text: str, what: str, longest: int = MAX_DURATION) -> int:
    """Parse a duration such as ``500ms`` or ``1h30m`` into nanoseconds; ``what`` is for errors."""
    compact = text.strip().lower()
    parts = list(_PART.finditer(compact))
    if not parts or "".join(part.group(0) for part in parts) != compact:
        raise UsageError(
            f"{what} must be a duration such as 500ms, 10s, 1h30m or 7d, was {text!r:.80}."
        )
    duration = sum(float(part.group(1)) * _UNITS[part.group(2)] for part in parts)
    if not duration <= longest:
        raise UsageError(
            f"{what} must be a duration of at most {longest // DAY}d, was {text!r:.80}."
        )
    return round(duration)


def parse_zone(name: str, what: str) -> ZoneInfo:
    """Return a time zone by its name in the tz database; ``what`` is for errors."""
    import zoneinfo

    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        known = sorted(zoneinfo.available_timezones())
    if not known:
        raise UsageError(
            f"{what}: this machine has no time zone database; run `pip install tzdata`."
        )
    zones = {each: each for each in known} | {each.rpartition("/")[2]: each for each in known}
    near = similar(name.replace(" ", "_"), zones)
    hint = f" Did you mean {zones[near[0]]}?" if near else ""
    raise UsageError(f"{what} must be a time zone such as {MARKET_ZONE}, was {name!r:.80}.{hint}")
