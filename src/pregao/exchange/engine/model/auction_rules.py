"""Rules for the end of an auction: extensions, a random end, a protection band.

Rules belong to an instrument (``auction`` in its catalog), to a phase (``auction`` in an entry of
the schedule) or to the market; the first that exists applies. In TOML, times are in seconds::

    auction = { extension = 30, window = 60, extensions = 3, random_end = 30, protection = 10 }
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from pregao.clock import SECOND
from pregao.units import PRICE_SCALE

_MAX_SECONDS = 86_400
_TIMES = {
    "duration": "duration_ns",
    "extension": "extension_ns",
    "window": "window_ns",
    "random_end": "random_ns",
}
_FLAGS = ("binding", "self_trade")
_OTHERS = ("extensions", "protection", *_FLAGS)


@dataclass(frozen=True, slots=True)
class AuctionRules:
    """Rules for the end of an auction."""

    duration_ns: int | None = None
    """Duration of an auction that a band calls; None: the market's default."""
    extension_ns: int = 0
    """Time by which the end is extended."""
    window_ns: int = 0
    """Time before the end in which a change of the theoretical price or quantity extends it."""
    extensions: int = 0
    """Maximum number of extensions."""
    random_ns: int = 0
    """Maximum delay of the random end after the scheduled end."""
    protection: int | None = None
    """Maximum distance of the theoretical price from the reference at the end (1e-4 percent)."""
    binding: bool = False
    """Whether orders in the theoretical price can be neither canceled nor worsened."""
    self_trade: bool = False
    """Whether a self-trade calls an auction: the rule of illiquid instruments (000 §14.1)."""


def parse_auction_rules(table: object) -> AuctionRules:
    """Parse the rules of auctions from a table; raises ValueError if they are invalid."""
    if not isinstance(table, Mapping):
        raise ValueError(
            f"auction rules must be a table such as {{ extension = 30, window = 60 }}, "
            f"was {table!r}"
        )
    for name in table:
        if name not in _TIMES and name not in _OTHERS:
            known = ", ".join((*_TIMES, *_OTHERS))
            raise ValueError(f"unknown auction rule {name!r}; choose from {known}")
    given: dict[str, Any] = {
        field: _time(name, table[name]) for name, field in _TIMES.items() if name in table
    }
    if "extensions" in table:
        given["extensions"] = count = table["extensions"]
        if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count <= 1000:
            raise ValueError(f"extensions must be an integer from 0 to 1000, was {count!r}")
    elif given.get("extension_ns"):
        given["extensions"] = 1
    if "protection" in table:
        given["protection"] = _percent(table["protection"])
    for flag in _FLAGS:
        if flag in table:
            given[flag] = table[flag]
            if not isinstance(given[flag], bool):
                raise ValueError(f"{flag} must be true or false, was {given[flag]!r}")
    rules = AuctionRules(**given)
    if rules.duration_ns == 0:
        raise ValueError("duration must be greater than 0")
    if rules.extensions and not rules.extension_ns:
        raise ValueError("extensions requires extension, the time by which the end is extended")
    if rules.extension_ns and not rules.window_ns and rules.protection is None:
        raise ValueError("extension requires window, the time before the end, or a protection band")
    if rules.protection is not None and not rules.extension_ns:
        raise ValueError("protection requires extension, the time by which the end is extended")
    return rules


def _time(name: str, value: object) -> int:
    """Convert a time in seconds to nanoseconds."""
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise ValueError(f"{name} must be a time in seconds, was {value!r}")
    exact = Decimal(str(value))
    if not exact.is_finite() or not 0 <= exact <= _MAX_SECONDS:
        raise ValueError(f"{name} must be from 0 to {_MAX_SECONDS} seconds, was {value}")
    return int(exact * SECOND)


def _percent(value: object) -> int:
    """Convert a percentage to an integer of 1e-4."""
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise ValueError(f"protection must be a percentage, was {value!r}")
    exact = Decimal(str(value))
    if not exact.is_finite() or not 0 < exact <= 1000:
        raise ValueError(f"protection must be a percentage above 0 and up to 1000, was {value}")
    return int(exact * PRICE_SCALE)
