"""Conversion of arguments: times, days and lists as callers may write them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from datetime import date, datetime
from enum import Enum
from typing import Any, TypeVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pregao.clock import nanoseconds, parse_ns
from pregao.errors import UsageError

UTC = "UTC"
Time = int | str | datetime
"""Nanoseconds since 1970 UTC, ISO 8601, or a datetime (also one of pandas or numpy)."""

Path = str | os.PathLike[str]
T = TypeVar("T", int, str)
E = TypeVar("E", bound=Enum)


def moment_ns(at: Time | Any, tz: str = UTC) -> int:
    """Return a time in nanoseconds since 1970; one without an offset is in the time zone ``tz``."""
    if isinstance(at, int) and not isinstance(at, bool):
        return nanoseconds(at)
    text = at.isoformat() if isinstance(at, datetime) else str(at)
    try:
        return parse_ns(text, time_zone(tz))
    except (ValueError, OverflowError):
        raise UsageError(
            f"{text!r} is not a valid time: use ISO 8601 such as '2026-05-21 10:00:00.5', "
            "nanoseconds since 1970, or a datetime."
        ) from None


def time_zone(tz: str) -> ZoneInfo:
    """Return a time zone by name."""
    try:
        return ZoneInfo(tz)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise UsageError(
            f"Unknown time zone {tz!r}: use one such as 'America/Sao_Paulo' or 'UTC' (if the "
            "system has no time zones, pip install tzdata)."
        ) from None


def day_from(day: date | str) -> date:
    """Return a day as a date, from itself or from text such as ``2026-05-21``."""
    if isinstance(day, datetime):
        return day.date()
    if isinstance(day, date):
        return day
    try:
        return date.fromisoformat(day)
    except ValueError:
        raise UsageError(f"{day!r} is not a valid day: use a date such as '2026-05-21'.") from None


def listed(values: T | Iterable[T] | None) -> tuple[T, ...]:
    """Return one value or several as a tuple; empty for None."""
    if values is None:
        return ()
    return (values,) if isinstance(values, int | str) else tuple(values)


def numbers(values: int | Iterable[int] | None, what: str) -> tuple[int, ...]:
    """Return one number or several, also from text; ``what`` is the name of the argument."""
    try:
        return tuple(int(value) for value in listed(values))
    except (TypeError, ValueError):
        raise UsageError(f"{what} must be an integer or several, was {values!r}.") from None


def paths(named: Path | Iterable[Path] | None) -> Iterator[str]:
    """Yield one path or several as text."""
    if isinstance(named, str | os.PathLike):
        yield os.fspath(named)
    elif named is not None:
        yield from map(str, named)


def choice(kind: type[E], value: str, what: str) -> E:
    """Return the member of an enumeration by its value; ``what`` is the name of the argument."""
    try:
        return kind(value)
    except ValueError:
        known = ", ".join(repr(each.value) for each in kind)
        raise UsageError(f"{what} must be one of {known}, was {value!r}.") from None
