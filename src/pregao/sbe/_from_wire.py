"""Conversion of numbers on the wire to enumerations, decimals, dates and texts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import date
from decimal import Context, Decimal
from functools import lru_cache
from typing import Any

from pregao.errors import FieldRangeError
from pregao.sbe._source import BoundedCache
from pregao.sbe.value_specs import MAX_MANTISSA, ValueKind, ValueSpec
from pregao.units import MAX_DAY, MIN_DAY, date_of

Converter = Callable[[Any], Any]
_EXACT = Context(prec=60)


def values_of_numbers(reading: ValueSpec) -> BoundedCache | Sequence[Any]:
    """Return a lookup from a number (or string) on the wire to its value.

    For enumerations, decimals, dates and texts. Fields of the same name and type share one cache,
    across messages.
    """
    return _values(replace(reading, offset=0, since_version=0, required=True, description=""))


@lru_cache(maxsize=1024)
def _values(reading: ValueSpec) -> BoundedCache | Sequence[Any]:
    convert = _converter(reading)
    if reading.kind is ValueKind.ENUM and reading.primitive.maximum == 0xFF:
        return tuple(convert(number) for number in range(256))
    return BoundedCache(convert)


def _converter(reading: ValueSpec) -> Converter:
    match reading.kind:
        case ValueKind.ENUM:
            return _enum_converter(reading)
        case ValueKind.DECIMAL:
            return _decimal_converter(reading)
        case ValueKind.DATE:
            return _date_converter(reading)
        case _:
            return _text_converter(reading)


def _enum_converter(reading: ValueSpec) -> Converter:
    assert reading.enum is not None
    names: dict[int, str | None] = {m.value: m.name for m in reading.enum.members}
    if reading.null is not None:
        names[int(reading.null)] = None
    return lambda number: names.get(number, number)  # a number without a name is its own value


def _decimal_converter(reading: ValueSpec) -> Converter:
    null, scale = reading.null, Decimal(-reading.scale)
    scaleb = _EXACT.scaleb
    reason = f"{reading.name}: a mantissa of more than 18 digits"

    def convert(mantissa: int) -> Decimal | None:
        if mantissa == null:
            return None
        if not -MAX_MANTISSA <= mantissa <= MAX_MANTISSA:
            raise FieldRangeError(reason)
        return scaleb(mantissa, scale)

    return convert


def _date_converter(reading: ValueSpec) -> Converter:
    null = reading.null

    def convert(day: int) -> date | int | None:
        if day == null:
            return None
        if not MIN_DAY <= day <= MAX_DAY:
            return day  # the rest of the message is valid without it
        return date_of(day)

    return convert


def _text_converter(reading: ValueSpec) -> Converter:
    nullable = reading.null is not None
    encoding = reading.encoding

    def convert(raw: bytes) -> str | None:
        text, _, _ = raw.partition(b"\0")
        if not text and nullable:
            return None
        return decode_text(text, encoding)

    return convert


def decode_text(raw: bytes, encoding: str) -> str:
    """Decode any bytes; those that are invalid in the encoding become ``\\xNN``."""
    return raw.decode(encoding, "backslashreplace")


def blank_record(values: dict[str, Any]) -> dict[str, Any] | None:
    """Return a record, or None if all its members are null."""
    return None if all(value is None for value in values.values()) else values
