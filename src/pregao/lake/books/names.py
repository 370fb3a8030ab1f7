"""Instruments as users name them: by symbol, or by number."""

from __future__ import annotations

_LARGEST = (1 << 63) - 1


def security_number(name: str) -> int | None:
    """The number that a name is; None if it can only be a symbol."""
    if not (name.isascii() and name.isdigit() and len(name) <= len(str(_LARGEST))):
        return None
    number = int(name)
    return number if number <= _LARGEST else None
