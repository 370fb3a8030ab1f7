"""Field rules of control requests: type, bounds and allowed values of each field."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import MISSING, Field, dataclass, field, fields
from datetime import date
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from pregao.errors import UsageError
from pregao.exchange.host.gateway.order_requests import MAX_PRICE
from pregao.units import PRICE_SCALE

PRICE_DECIMALS: Final = 4
_COUNTS: Final = {4: "four", 8: "eight"}
_RULE: Final = "rule"
_SHOWN_CHARACTERS: Final = 80


class _NotAllowedError(Exception):
    """A value that its field does not allow."""


@dataclass(frozen=True, slots=True)
class FieldRule:
    """Allowed values of a field: a function that reads one, and a description for errors."""

    read: Callable[[Any], Any]
    allowed: str


def whole(low: int, high: int, *, default: Any = MISSING) -> Any:
    """Declare a field with an integer within bounds."""

    def read(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise _NotAllowedError
        return value

    return _field(FieldRule(read, f"an integer from {low} to {high}"), default)


def text(max_bytes: int, *, empty: bool = False, default: Any = MISSING) -> Any:
    """Declare a field with text of at most ``max_bytes`` bytes of UTF-8."""

    def read(value: Any) -> str:
        return _text(value, max_bytes, empty=empty)

    kind = "a string" if empty else "a non-empty string"
    return _field(FieldRule(read, f"{kind} of at most {max_bytes} bytes"), default)


def texts(max_count: int, max_bytes: int, *, default: Any = MISSING) -> Any:
    """Declare a field with a list of texts of at most ``max_bytes`` bytes of UTF-8 each."""

    def read(value: Any) -> tuple[str, ...]:
        if not isinstance(value, list) or not 1 <= len(value) <= max_count:
            raise _NotAllowedError
        return tuple(_text(each, max_bytes, empty=False) for each in value)

    allowed = f"a list of 1 to {max_count} non-empty strings of at most {max_bytes} bytes"
    return _field(FieldRule(read, allowed), default)


def _text(value: Any, max_bytes: int, *, empty: bool) -> str:
    if not isinstance(value, str) or not (value.strip() or empty):
        raise _NotAllowedError
    try:
        if len(value.encode()) > max_bytes:
            raise _NotAllowedError
    except UnicodeEncodeError:  # half of a surrogate pair
        raise _NotAllowedError from None
    return value


def choice(names: Iterable[str], *, default: Any = MISSING) -> Any:
    """Declare a field with one of the names, in upper or lower case and with ``-`` or ``_``."""
    known = tuple(names)

    def read(value: Any) -> str:
        name = value.upper().replace("-", "_") if isinstance(value, str) else ""
        if name not in known:
            raise _NotAllowedError
        return name

    return _field(FieldRule(read, f"one of {', '.join(known)}"), default)


def flag() -> Any:
    """Declare a field that is true or false; false if absent."""

    def read(value: Any) -> bool:
        if not isinstance(value, bool):
            raise _NotAllowedError
        return value

    return _field(FieldRule(read, "true or false"), False)


def price(*, decimals: int = PRICE_DECIMALS, default: Any = None) -> Any:
    """Declare a field with a price, which is read as an integer of its last decimal."""
    highest = MAX_PRICE // PRICE_SCALE
    return decimal(-highest, highest, decimals, "a price", default=default)


def decimal(low: int, high: int, decimals: int, noun: str, *, default: Any = MISSING) -> Any:
    """Declare a field with a decimal number, which is read as an integer of its last decimal."""
    scale = 10**decimals

    def read(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, str | int | float | Decimal):
            raise _NotAllowedError
        if isinstance(value, str) and len(value) > _SHOWN_CHARACTERS:
            raise _NotAllowedError
        try:
            exact = Decimal(str(value))
        except InvalidOperation:
            raise _NotAllowedError from None
        if not exact.is_finite() or not low <= exact <= high:
            raise _NotAllowedError
        scaled = exact * scale
        if scaled != int(scaled):
            raise _NotAllowedError
        return int(scaled)

    described = f"{noun} from {low} to {high} with at most {_COUNTS[decimals]} decimals"
    return _field(FieldRule(read, described), default)


def day(first: date, last: date, *, default: Any = MISSING) -> Any:
    """Declare a field with a date within bounds."""

    def read(value: Any) -> date:
        try:
            found = date.fromisoformat(value)
        except (TypeError, ValueError):
            raise _NotAllowedError from None
        if not first <= found <= last:
            raise _NotAllowedError
        return found

    return _field(FieldRule(read, f"a date such as 2026-05-21, from {first} to {last}"), default)


def record(kind: type) -> Any:
    """Declare an optional field with a nested table, whose fields have rules."""

    def read(value: Any) -> Any:
        if not isinstance(value, dict):
            raise _NotAllowedError
        return value

    rule = FieldRule(read, f"a table of {', '.join(each.name for each in fields(kind))}")
    return field(default=None, metadata={_RULE: rule, "record": kind})


def records(kind: type, max_count: int) -> Any:
    """Declare an optional field with a list of tables, whose fields have rules."""

    def read(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list) or not 1 <= len(value) <= max_count:
            raise _NotAllowedError
        if not all(isinstance(each, dict) for each in value):
            raise _NotAllowedError
        return tuple(value)

    names = ", ".join(each.name for each in fields(kind))
    rule = FieldRule(read, f"a list of 1 to {max_count} tables of {names}")
    return field(default=(), metadata={_RULE: rule, "record": kind})


def _field(rule: FieldRule, default: Any) -> Any:
    return field(default=default, metadata={_RULE: rule})


def read_record(command: str, kind: type, given: dict[str, Any]) -> Any:
    """Return a record of a kind from the given values; UsageError names the first invalid one.

    A value of None counts as absent. Fields that the kind does not have are refused.
    """
    known: dict[str, Field[Any]] = {each.name: each for each in fields(kind)}
    for name in given:
        if name not in known:
            allowed = ", ".join(known) or "no fields"
            raise UsageError(f"{command}: unknown field {_shown(name)}; allowed: {allowed}")
    values = {}
    for name, own in known.items():
        value = given.get(name)
        rule: FieldRule = own.metadata[_RULE]
        if value is None:
            if own.default is MISSING:
                raise UsageError(f"{command}: {name} is missing; it must be {rule.allowed}")
            continue
        try:
            values[name] = rule.read(value)
        except _NotAllowedError:
            raise UsageError(
                f"{command}: {name} must be {rule.allowed}, was {_shown(value)}"
            ) from None
        inner = own.metadata.get("record")
        if inner is None:
            continue
        if isinstance(values[name], tuple):
            values[name] = tuple(
                read_record(f"{command} {name} {number}", inner, each)
                for number, each in enumerate(values[name], 1)
            )
        else:
            values[name] = read_record(f"{command} {name}", inner, values[name])
    return kind(**values)


def _shown(value: object) -> str:
    words = ascii(value)
    return words if len(words) <= _SHOWN_CHARACTERS else f"{words[:_SHOWN_CHARACTERS]}…"
