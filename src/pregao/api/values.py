"""What callers may write for a time, a day or a list, read into plain values."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from datetime import date, datetime
from enum import Enum
from typing import Any, TypeVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pregao.clock import parse_ns
from pregao.errors import UsageError

UTC = "UTC"
Time = int | str | datetime
"""Nanoseconds since 1970 UTC, ISO 8601, or a datetime (also one of pandas or numpy)."""

Path = str | os.PathLike[str]
T = TypeVar("T", int, str)
E = TypeVar("E", bound=Enum)


def moment_ns(at: Time | Any, tz: str = UTC) -> int:
    """A time in nanoseconds since 1970; one that names no zone is of the zone ``tz``."""
    if isinstance(at, int) and not isinstance(at, bool):
        return at
    text = at.isoformat() if isinstance(at, datetime) else str(at)
    try:
        return parse_ns(text, _zone(tz))
    except (ValueError, OverflowError):
        raise UsageError(
            f"{text!r} is no time: write one such as '2026-05-21 10:00:00.5', nanoseconds since "
            "1970, or a datetime."
        ) from None


def _zone(tz: str) -> ZoneInfo:
    try:
        return ZoneInfo(tz)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise UsageError(
            f"There is no time zone {tz!r} here: name one such as 'America/Sao_Paulo' or 'UTC' "
            "(where the system has none, pip install tzdata)."
        ) from None


def day_from(day: date | str) -> date:
    """A day from itself or from a text such as ``2026-05-21``."""
    if isinstance(day, datetime):
        return day.date()
    if isinstance(day, date):
        return day
    try:
        return date.fromisoformat(day)
    except ValueError:
        raise UsageError(f"{day!r} is no day: write one such as '2026-05-21'.") from None


def listed(values: T | Iterable[T] | None) -> tuple[T, ...]:
    """One value or several, as a tuple; nothing for None."""
    if values is None:
        return ()
    return (values,) if isinstance(values, int | str) else tuple(values)


def numbers(values: int | Iterable[int] | None, what: str) -> tuple[int, ...]:
    """One number or several, also as texts; ``what`` says of what they are."""
    try:
        return tuple(int(value) for value in listed(values))
    except (TypeError, ValueError):
        raise UsageError(f"{what} takes a whole number or several, not {values!r}.") from None


def paths(named: Path | Iterable[Path] | None) -> Iterator[str]:
    """One path or several, as texts."""
    if isinstance(named, str | os.PathLike):
        yield os.fspath(named)
    elif named is not None:
        yield from map(str, named)


def choice(kind: type[E], value: str, what: str) -> E:
    """A member of an enumeration by its value; ``what`` says of what."""
    try:
        return kind(value)
    except ValueError:
        known = ", ".join(repr(each.value) for each in kind)
        raise UsageError(f"{what} is one of {known}, not {value!r}.") from None
