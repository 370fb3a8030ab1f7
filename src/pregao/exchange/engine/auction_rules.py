"""How the auctions of an instrument end: extensions, a random end, a protection band.

The rules are of an instrument (``auction`` in its catalogue), of a phase (``auction`` in an entry
of the schedule) or of the whole market; the first of these that there is holds. In TOML, times are
in seconds::

    auction = { extension = 30, window = 60, extensions = 3, random_end = 30, protection = 10 }
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from pregao.clock import SECOND
from pregao.exchange.engine.terms import PRICE_SCALE

_MOST_SECONDS = 86_400
_TIMES = {
    "duration": "duration_ns",
    "extension": "extension_ns",
    "window": "window_ns",
    "random_end": "random_ns",
}
_OTHERS = ("extensions", "protection", "binding")


@dataclass(frozen=True, slots=True)
class AuctionRules:
    """What may become of the end of an auction."""

    duration_ns: int | None = None
    """How long an auction lasts that a band calls; None: as long as the market says."""
    extension_ns: int = 0
    """By how much the end moves."""
    window_ns: int = 0
    """How long before the end a change of the theoretical price or quantity moves it."""
    extensions: int = 0
    """How often the end may move."""
    random_ns: int = 0
    """The auction ends at a random moment up to so long after its scheduled end."""
    protection: int | None = None
    """How far the theoretical price may be from the reference at the end (1e-4 percent)."""
    binding: bool = False
    """Orders in the theoretical price can be neither cancelled nor made worse."""


def parse_auction_rules(table: object) -> AuctionRules:
    """Read the rules of auctions from a table; ValueError says what is wrong."""
    if not isinstance(table, Mapping):
        raise ValueError(f"{table!r} is not a table such as {{ extension = 30, window = 60 }}")
    for name in table:
        if name not in _TIMES and name not in _OTHERS:
            known = ", ".join((*_TIMES, *_OTHERS))
            raise ValueError(f"there is no {name!r} among the rules of an auction: {known}")
    given: dict[str, Any] = {
        field: _time(name, table[name]) for name, field in _TIMES.items() if name in table
    }
    if "extensions" in table:
        given["extensions"] = count = table["extensions"]
        if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count <= 1000:
            raise ValueError(f"extensions {count!r} is not a whole number from 0 to 1000")
    elif given.get("extension_ns"):
        given["extensions"] = 1
    if "protection" in table:
        given["protection"] = _percent(table["protection"])
    if "binding" in table:
        given["binding"] = table["binding"]
        if not isinstance(given["binding"], bool):
            raise ValueError(f"binding {given['binding']!r} is neither true nor false")
    rules = AuctionRules(**given)
    if rules.duration_ns == 0:
        raise ValueError("duration 0 is no time for an auction")
    if rules.extensions and not rules.extension_ns:
        raise ValueError("extensions need an extension, the time by which the end moves")
    if rules.extension_ns and not rules.window_ns and rules.protection is None:
        raise ValueError("an extension needs a window before the end, or a protection band")
    if rules.protection is not None and not rules.extension_ns:
        raise ValueError("a protection band needs an extension, the time by which the end moves")
    return rules


def _time(name: str, value: object) -> int:
    """A time in seconds as nanoseconds."""
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise ValueError(f"{name} {value!r} is not a time in seconds")
    exact = Decimal(str(value))
    if not exact.is_finite() or not 0 <= exact <= _MOST_SECONDS:
        raise ValueError(f"{name} {value} is not a time from 0 to {_MOST_SECONDS} seconds")
    return int(exact * SECOND)


def _percent(value: object) -> int:
    """A percentage as an integer of 1e-4."""
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise ValueError(f"protection {value!r} is not a percentage")
    exact = Decimal(str(value))
    if not exact.is_finite() or not 0 < exact <= 1000:
        raise ValueError(f"protection {value} is not a percentage above 0 and up to 1000")
    return int(exact * PRICE_SCALE)
