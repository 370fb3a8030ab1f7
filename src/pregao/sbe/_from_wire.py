"""From numbers on the wire to values."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from decimal import Context, Decimal
from typing import Any

from pregao.errors import DecodeError
from pregao.sbe.values import (
    EPOCH_ORDINAL,
    MAX_DAY,
    MAX_MANTISSA,
    MAX_SIGNED,
    MIN_DAY,
    Reading,
    ValueKind,
)

Converter = Callable[[Any], Any]
_EXACT = Context(prec=60)


class _Names(dict[int, Any]):
    """The names of an enumeration's numbers; a number without a name is itself."""

    def __missing__(self, number: int) -> int:
        return number


def converter(reading: Reading) -> Converter | None:
    """What makes a value of a number on the wire; None where the number is the value."""
    match reading.kind:
        case ValueKind.RECORD:
            return _record_converter(reading)
        case ValueKind.ENUM:
            assert reading.enum is not None
            names = _Names({m.value: m.name for m in reading.enum.members})
            if reading.null is not None:
                names[int(reading.null)] = None
            return names.__getitem__
        case ValueKind.DECIMAL:
            return _decimal_converter(reading)
        case ValueKind.DATE:
            return _date_converter(reading)
        case ValueKind.TEXT:
            return _text_converter(reading)
        case ValueKind.BYTES:
            return None
        case ValueKind.NUMBERS:
            return _numbers_converter(reading)
        case ValueKind.FLOAT:
            return _float_converter(reading)
        case _:
            return _integer_converter(reading)


def _integer_converter(reading: Reading) -> Converter | None:
    null = reading.null
    wide = reading.primitive.name == "uint64"
    if not wide:
        if null is None:
            return None
        return lambda number: None if number == null else number
    reason = f"{reading.name}: a number above {MAX_SIGNED}"

    def convert(number: int) -> int | None:
        if number == null:
            return None
        if number > MAX_SIGNED:
            raise DecodeError(reason)
        return number

    return convert


def _float_converter(reading: Reading) -> Converter | None:
    null = reading.null
    if null is None:
        return None
    if null != null:  # NaN
        return lambda number: None if number != number else number
    return lambda number: None if number == null else number


def _decimal_converter(reading: Reading) -> Converter:
    null, scale = reading.null, Decimal(-reading.scale)
    scaleb = _EXACT.scaleb
    reason = f"{reading.name}: a mantissa of more than 18 digits"

    def convert(mantissa: int) -> Decimal | None:
        if mantissa == null:
            return None
        if not -MAX_MANTISSA <= mantissa <= MAX_MANTISSA:
            raise DecodeError(reason)
        return scaleb(Decimal(mantissa), scale)

    return convert


def _date_converter(reading: Reading) -> Converter:
    null = reading.null
    reason = f"{reading.name}: a day outside the years 1 to 9999"

    def convert(day: int) -> date | None:
        if day == null:
            return None
        if not MIN_DAY <= day <= MAX_DAY:
            raise DecodeError(reason)
        return date.fromordinal(EPOCH_ORDINAL + day)

    return convert


def _text_converter(reading: Reading) -> Converter:
    nullable = reading.null is not None
    encoding = reading.encoding

    def convert(raw: bytes) -> str | None:
        text, _, _ = raw.partition(b"\0")
        if not text and nullable:
            return None
        return decode_text(text, encoding)

    return convert


def decode_text(raw: bytes, encoding: str) -> str:
    """Text of any bytes: what is not text in that encoding is shown as ``\\xNN``."""
    return raw.decode(encoding, "backslashreplace")


def _numbers_converter(reading: Reading) -> Converter | None:
    if reading.primitive.name != "uint64":
        return None
    reason = f"{reading.name}: a number above {MAX_SIGNED}"

    def convert(numbers: tuple[int, ...]) -> tuple[int, ...]:
        if max(numbers) > MAX_SIGNED:
            raise DecodeError(reason)
        return numbers

    return convert


def _record_converter(reading: Reading) -> Converter:
    parts: list[tuple[str, int, int, Converter | None]] = []
    start = 0
    for member in reading.members:
        width = 0 if member.single else member.width
        parts.append((member.name, start, width, converter(member)))
        start += member.width

    def convert(numbers: Any) -> dict[str, Any] | None:
        values: dict[str, Any] = {}
        for name, first, width, change in parts:
            value = numbers[first : first + width] if width else numbers[first]
            values[name] = value if change is None else change(value)
        return None if all(value is None for value in values.values()) else values

    return convert
