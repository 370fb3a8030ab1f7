"""Lengths of bars, as users write them."""

from __future__ import annotations

import re
from collections.abc import Iterable

from pregao.clock import DAY, HOUR, MILLISECOND, MINUTE, SECOND
from pregao.errors import UsageError

_UNITS = {"ms": MILLISECOND, "s": SECOND, "m": MINUTE, "h": HOUR, "d": DAY}
_SPAN = re.compile(r"([0-9]{1,12})(ms|s|m|h|d)")


def interval_ns(text: str) -> int:
    """Return a length such as ``15m`` in nanoseconds."""
    matched = _SPAN.fullmatch(text.strip().lower())
    length = int(matched.group(1)) * _UNITS[matched.group(2)] if matched else 0
    if not 0 < length <= DAY:
        raise UsageError(
            "--interval must be a length such as 500ms, 1s, 15m, 1h or 1d, at most one day, "
            f"was {text!r}."
        )
    return length


def interval_name(length_ns: int) -> str:
    """Return the shortest text of a length: ``60s`` and ``1m`` are the same bars."""
    for unit, size in sorted(_UNITS.items(), key=lambda item: -item[1]):
        if length_ns % size == 0:
            return f"{length_ns // size}{unit}"
    raise AssertionError(f"{length_ns} ns is not a multiple of a millisecond")


def known_intervals(texts: Iterable[str]) -> tuple[str, ...]:
    """Return each interval once, in its shortest form, from short to long."""
    return tuple(interval_name(length) for length in sorted({interval_ns(text) for text in texts}))


def is_interval(text: object) -> bool:
    """Whether it is a value of the column ``interval`` of bars."""
    try:
        return isinstance(text, str) and known_intervals([text]) == (text,)
    except UsageError:
        return False
