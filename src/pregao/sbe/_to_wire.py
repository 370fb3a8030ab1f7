"""Conversion of values to numbers on the wire; a value that does not fit is refused.

These functions define the values that each kind of field accepts. Generated encoders (`_encoder`)
handle the usual cases inline and call these functions for all others.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from datetime import date
from decimal import Context, Decimal, DivisionByZero, Inexact, InvalidOperation, Overflow
from typing import Any

from pregao.sbe._from_wire import Converter
from pregao.sbe.model import Nature
from pregao.sbe.value_specs import MAX_MANTISSA, ValueKind, ValueSpec
from pregao.units import MAX_DAY, MIN_DAY, day_number

EXACT = Context(
    prec=60, Emin=-60, Emax=60, traps=[DivisionByZero, Inexact, InvalidOperation, Overflow]
)
"""Decimal context that raises instead of rounding, and limits the number of digits."""


class ValueRefusedError(Exception):
    """A value that cannot be encoded, with its path inside the field."""

    def __init__(self, reason: str, path: tuple[str, ...] = ()) -> None:
        super().__init__(reason)
        self.reason = reason
        self.path = path


def encoder(reading: ValueSpec) -> Converter:
    """Return the function that converts a value to its number on the wire."""
    match reading.kind:
        case ValueKind.RECORD:
            return _record_encoder(reading)
        case ValueKind.ENUM:
            return _enum_encoder(reading)
        case ValueKind.SET:
            return _set_encoder(reading)
        case ValueKind.DECIMAL:
            return _decimal_encoder(reading)
        case ValueKind.DATE:
            return _date_encoder(reading)
        case ValueKind.TEXT | ValueKind.BYTES:
            return _string_encoder(reading)
        case ValueKind.NUMBERS:
            return _numbers_encoder(reading)
        case ValueKind.FLOAT:
            return _float_encoder(reading)
        case _:
            return _integer_encoder(reading)


def _null(reading: ValueSpec) -> int | float:
    if reading.null is None:
        raise ValueRefusedError("cannot be null")
    return reading.null


def bounds(reading: ValueSpec) -> tuple[int, int]:
    """Return the smallest and the largest number of a field, except null."""
    primitive = reading.primitive
    low = primitive.minimum if reading.minimum is None else int(reading.minimum)
    high = primitive.maximum if reading.maximum is None else int(reading.maximum)
    if reading.kind is ValueKind.DECIMAL:
        return max(low, -MAX_MANTISSA), min(high, MAX_MANTISSA)
    return low, high


def _integer_encoder(reading: ValueSpec) -> Converter:
    low, high = bounds(reading)
    null = reading.null

    def encode(value: Any) -> int | float:
        if value is None:
            return _null(reading)
        if not isinstance(value, int) or isinstance(value, bool):
            raise ValueRefusedError(f"{value!r} is not an integer")
        if not low <= value <= high:
            raise ValueRefusedError(f"{value} is not from {low} to {high}")
        if value == null:
            raise ValueRefusedError(f"{value} means null in this field; use None for null")
        return value

    return encode


def _float_encoder(reading: ValueSpec) -> Converter:
    narrow = struct.Struct("<f") if reading.primitive.size == 4 else None
    null = reading.null

    def encode(value: Any) -> float:
        if value is None:
            return _null(reading)
        if not isinstance(value, (int, float)) or isinstance(value, bool):
            raise ValueRefusedError(f"{value!r} is not a number")
        if null is not None and (value == null or (null != null and value != value)):
            raise ValueRefusedError(f"{value} means null in this field; use None for null")
        if narrow is not None:
            try:
                narrow.pack(value)
            except (OverflowError, struct.error):
                raise ValueRefusedError(f"{value} is too large") from None
        return value

    return encode


def _decimal_encoder(reading: ValueSpec) -> Converter:
    low, high = bounds(reading)
    scale, null = reading.scale, reading.null
    shift = Decimal(scale)

    def encode(value: Any) -> int | float:
        if value is None:
            return _null(reading)
        if isinstance(value, bool) or not isinstance(value, (int, str, Decimal)):
            raise ValueRefusedError(f"{value!r} is not a decimal")
        try:
            shifted = EXACT.scaleb(Decimal(value), shift)
            mantissa = int(shifted)
        except Inexact:
            raise ValueRefusedError(f"{value} has too many digits") from None
        except (InvalidOperation, ValueError, OverflowError):
            raise ValueRefusedError(f"{value!r} is not a decimal") from None
        if mantissa != shifted:
            raise ValueRefusedError(f"{value} has more than {scale} decimal places")
        if not low <= mantissa <= high:
            raise ValueRefusedError(f"{value} is out of range")
        if mantissa == null:
            raise ValueRefusedError(f"{value} means null in this field; use None for null")
        return mantissa

    return encode


def _date_encoder(reading: ValueSpec) -> Converter:
    low, high = bounds(reading)
    null = reading.null

    def encode(value: Any) -> int | float:
        if value is None:
            return _null(reading)
        if isinstance(value, date):
            day = day_number(value)
        elif type(value) is int and not MIN_DAY <= value <= MAX_DAY:
            day = value  # a day number that is not a valid date, which other senders may use
        else:
            raise ValueRefusedError(f"{value!r} is not a date")
        if not low <= day <= high:
            raise ValueRefusedError(f"{value} does not fit")
        if day == null:
            raise ValueRefusedError(f"{value} means null in this field; use None for null")
        return day

    return encode


def _enum_encoder(reading: ValueSpec) -> Converter:
    assert reading.enum is not None
    numbers = {member.name: member.value for member in reading.enum.members}
    low, high = reading.primitive.minimum, reading.primitive.maximum

    def encode(value: Any) -> int | float:
        if value is None:
            return _null(reading)
        if isinstance(value, str):
            number = numbers.get(value)
            if number is None:
                names = ", ".join(numbers)
                raise ValueRefusedError(f"{value!r} is not one of {names}")
            return number
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            raise ValueRefusedError(f"{value!r} is not a value of this enumeration")
        if value == reading.null:
            raise ValueRefusedError(f"{value} means null in this field; use None for null")
        return value

    return encode


def _set_encoder(reading: ValueSpec) -> Converter:
    assert reading.set is not None
    bits = {choice.name: 1 << choice.bit for choice in reading.set.choices}
    high = reading.primitive.maximum

    def encode(value: Any) -> int:
        if value is None:
            return 0
        if isinstance(value, int) and not isinstance(value, bool):
            number = value
        elif isinstance(value, (list, tuple, set, frozenset)):
            unknown = [bit for bit in value if bit not in bits]
            if unknown:
                raise ValueRefusedError(f"{unknown[0]!r} is not one of {', '.join(bits)}")
            number = sum(bits[bit] for bit in set(value))
        else:
            raise ValueRefusedError(f"{value!r} is neither a number nor names of flags")
        if not 0 <= number <= high:
            raise ValueRefusedError(f"{number} is not from 0 to {high}")
        return number

    return encode


def _string_encoder(reading: ValueSpec) -> Converter:
    text = reading.kind is ValueKind.TEXT
    size = reading.size

    def encode(value: Any) -> bytes:
        if value is None:
            if reading.required:
                raise ValueRefusedError("cannot be null")
            return b""
        if text:
            raw = encode_text(value, reading.encoding)
            if b"\0" in raw:
                raise ValueRefusedError("a NUL character would end the text")
            if not raw and reading.null is not None:
                raise ValueRefusedError("an empty text means null in this field; use None")
            if len(raw) > size:
                raise ValueRefusedError(f"{value!r} is longer than {size} bytes")
            return raw
        if not isinstance(value, bytes) or len(value) != size:
            raise ValueRefusedError(f"{value!r} is not {size} bytes")
        return value

    return encode


def encode_text(value: Any, encoding: str) -> bytes:
    """Encode a text."""
    if not isinstance(value, str):
        raise ValueRefusedError(f"{value!r} is not text")
    try:
        # ASCII is decoded leniently but encoded strictly.
        return value.encode("ascii" if encoding == "latin-1" else encoding)
    except UnicodeEncodeError:
        raise ValueRefusedError(f"{value!r} has characters that cannot be written") from None


def _numbers_encoder(reading: ValueSpec) -> Converter:
    floating = reading.primitive.nature is Nature.FLOAT
    low, high = (0, 0) if floating else bounds(reading)

    def encode(value: Any) -> Any:
        if not isinstance(value, (list, tuple)) or len(value) != reading.length:
            raise ValueRefusedError(f"{value!r} is not {reading.length} numbers")
        for number in value:
            if floating and isinstance(number, (int, float)):
                continue
            if not isinstance(number, int) or not low <= number <= high:
                raise ValueRefusedError(f"{number!r} is not from {low} to {high}")
        return value

    return encode


def _record_encoder(reading: ValueSpec) -> Converter:
    encoders = [
        (member.name, member.required, member.single, encoder(member)) for member in reading.members
    ]
    known = {member.name for member in reading.members}

    def encode(value: Any) -> list[Any]:
        if value is None:  # all of its members are null
            value = dict.fromkeys(known)
        elif not isinstance(value, Mapping):
            raise ValueRefusedError(f"{value!r} is not a record of {', '.join(sorted(known))}")
        unknown = [key for key in value if key not in known]
        if unknown:
            raise ValueRefusedError("no such member", (str(unknown[0]),))
        leaves: list[Any] = []
        for name, required, single, change in encoders:
            try:
                if required and name not in value:
                    raise ValueRefusedError("a value is required")
                raw = change(value.get(name))
            except ValueRefusedError as refused:
                raise ValueRefusedError(refused.reason, (name, *refused.path)) from None
            if single:
                leaves.append(raw)
            else:
                leaves.extend(raw)
        return leaves

    return encode
