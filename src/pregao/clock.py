"""Time as integer nanoseconds since 1970 UTC, from a replaceable clock."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, tzinfo

from pregao.errors import UsageError

Clock = Callable[[], int]
"""A callable that returns the time in nanoseconds since 1970-01-01 UTC."""

SECOND = 1_000_000_000
MILLISECOND = 1_000_000
MICROSECOND = 1_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR

_EARLIEST_NS = 10**17
"""Integers below it, 3 March 1973 in nanoseconds, are times in a larger unit."""

system_clock: Clock = time.time_ns


class VirtualClock:
    """A clock that only moves when it is advanced, so that runs are reproducible."""

    __slots__ = ("now_ns",)

    def __init__(self, start_ns: int = 0) -> None:
        self.now_ns = start_ns

    def __call__(self) -> int:
        """Return the time."""
        return self.now_ns

    def advance(self, by_ns: int) -> int:
        """Advance by a span and return the new time."""
        if by_ns < 0:
            raise ValueError(f"a clock cannot be moved back by {-by_ns} ns")
        self.now_ns += by_ns
        return self.now_ns

    def advance_to(self, when_ns: int) -> int:
        """Advance to a time and return it; raises ValueError for a time in the past."""
        return self.advance(when_ns - self.now_ns)


def format_ns(when_ns: int) -> str:
    """Format a time as ``2026-05-21T13:00:00.000000001Z``, with all nine digits."""
    seconds, nanos = divmod(when_ns, SECOND)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{nanos:09d}Z"


def parse_ns(text: str, zone: tzinfo = UTC) -> int:
    """Parse an ISO 8601 time or an integer of nanoseconds since 1970.

    A time without an offset is in ``zone``.

    Raises:
        UsageError: The integer counts seconds, milliseconds or microseconds.
        ValueError: The text is not a time.
    """
    text = text.strip()
    if text.lstrip("-").isdigit() and len(text.lstrip("-")) > 8:
        return nanoseconds(int(text))
    head, dot, tail = text.partition(".")
    digits = tail[: len(tail) - len(tail.lstrip("0123456789"))]
    offset = tail[len(digits) :]
    if dot and not 1 <= len(digits) <= 9:
        raise ValueError(f"not a time: {text!r}")
    moment = datetime.fromisoformat(head + offset)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=zone)
    # Whole seconds only: datetime arithmetic is exact for them.
    elapsed = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return (elapsed.days * 86_400 + elapsed.seconds) * SECOND + int(digits.ljust(9, "0") or "0")


def nanoseconds(value: int) -> int:
    """Return an integer time, or raise `UsageError` if it is not one in nanoseconds since 1970."""
    if not 0 < abs(value) < _EARLIEST_NS:
        return value
    digits = len(str(abs(value)))
    unit, zeros = next(
        (unit, zeros)
        for unit, longest, zeros in (("seconds", 11, 9), ("milliseconds", 14, 6),
                                     ("microseconds", 17, 3))
        if digits <= longest
    )  # fmt: skip
    raise UsageError(
        f"{value} is not a time in nanoseconds since 1970: they have 18 or 19 digits. If it is in "
        f"{unit}, append {zeros} zeros."
    )
