"""Text formats of values, shared by the columnar and the row-by-row writers."""

from __future__ import annotations

import json

PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
FIRST_SECOND = -62_135_596_800
LAST_SECOND = 253_402_300_799
"""Seconds of the years 1 to 9999; times outside that range are written as numbers."""
MONTH_YEAR = ("year", "month", "day", "week")
"""Columns of a MaturityMonthYear record, which is written in FIX's text form."""


def shown(value: str) -> str:
    """Return a quoted string with every non-printable character escaped."""
    quoted = json.dumps(value, ensure_ascii=False)
    return "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in quoted)
