"""Instruments as users name them: by symbol or security ID."""

from __future__ import annotations

_MAX_ID = (1 << 63) - 1


def security_number(name: str) -> int | None:
    """Return the security ID that a name is; None if it can only be a symbol."""
    if not (name.isascii() and name.isdigit() and len(name) <= len(str(_MAX_ID))):
        return None
    number = int(name)
    return number if number <= _MAX_ID else None
