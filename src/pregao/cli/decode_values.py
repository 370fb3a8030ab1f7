"""How values are written as text, whether whole columns at a time or one by one."""

from __future__ import annotations

import json

PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
FIRST_SECOND = -62_135_596_800
LAST_SECOND = 253_402_300_799
"""Of the years 1 to 9999; what is outside is written as a number."""
MONTH_YEAR = ("year", "month", "day", "week")
"""The columns of a record that is written as FIX writes it."""


def shown(value: str) -> str:
    """A text in quotes in which nothing can disturb a terminal."""
    quoted = json.dumps(value, ensure_ascii=False)
    return "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in quoted)
