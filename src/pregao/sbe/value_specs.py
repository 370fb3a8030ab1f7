"""Readings: the typed values of a block's fields, shared by codec and kernels.

A field that is not on the wire (a constant) or only pads has no reading. Decimals (mantissa and
constant exponent) and times (time and constant unit) are single values; any other composite is a
record of its members.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from functools import cache
from typing import Any

from pregao.sbe.model import (
    Block,
    Composite,
    EncodedType,
    EnumType,
    Nature,
    Presence,
    Primitive,
    SetType,
    Type,
    is_padding,
    snake_case,
)

MAX_SIGNED = (1 << 63) - 1
"""Largest integer of a column; unsigned numbers of messages may be larger."""
DECIMAL_DIGITS = 18
MAX_MANTISSA = 10**DECIMAL_DIGITS - 1
"""Largest mantissa of a decimal value."""

_UNITS = {0: "s", 3: "ms", 6: "us", 9: "ns"}
_SINGLE_BYTE = ("ascii", "us-ascii", "iso-8859-1", "iso8859-1", "latin-1", "latin1")


class ValueKind(Enum):
    """Kind of a field's value."""

    INTEGER = "integer"
    FLOAT = "float"
    DATE = "date"
    DECIMAL = "decimal"
    TIME = "time"
    TEXT = "text"
    BYTES = "bytes"
    NUMBERS = "numbers"
    ENUM = "enum"
    SET = "set"
    RECORD = "record"


_WHOLE_NUMBERS = (ValueKind.INTEGER, ValueKind.TIME, ValueKind.SET, ValueKind.NUMBERS)


@dataclass(frozen=True, slots=True)
class ValueSpec:
    """How one field, or one member of a record, is decoded."""

    name: str
    column: str
    kind: ValueKind
    offset: int
    """Offset from the start of its block."""
    size: int
    primitive: Primitive
    """Primitive on the wire; meaningless for a record."""
    length: int = 1
    since_version: int = 0
    required: bool = True
    """Whether an encoder needs its value."""
    null: int | float | None = None
    """Number that means null, if any."""
    minimum: int | float | None = None
    maximum: int | float | None = None
    scale: int = 0
    unit: str = ""
    duration: bool = False
    """Whether a time is a duration, not one since 1970."""
    enum: EnumType | None = None
    set: SetType | None = None
    encoding: str = ""
    members: tuple[ValueSpec, ...] = ()
    description: str = ""

    @property
    def end(self) -> int:
        """End offset from the start of its block."""
        return self.offset + self.size

    @property
    def withheld_if_wrong(self) -> bool:
        """Whether a value that its column cannot hold is null there; else its message is rejected.

        A required date has no null value on the wire, but its message is valid without it.
        """
        if self.kind is ValueKind.DATE:
            return True
        return self.null is not None and self.kind is not ValueKind.DECIMAL

    @property
    def single(self) -> bool:
        """Whether it is one number (or string) on the wire, not several."""
        return self.kind not in (ValueKind.RECORD, ValueKind.NUMBERS)

    @property
    def width(self) -> int:
        """Number of numbers (or strings) it has on the wire."""
        if self.kind is ValueKind.RECORD:
            return sum(member.width for member in self.members)
        return self.length if self.kind is ValueKind.NUMBERS else 1

    @property
    def leaves(self) -> tuple[ValueSpec, ...]:
        """Its parts that are not records, in order."""
        if self.kind is not ValueKind.RECORD:
            return (self,)
        return tuple(leaf for member in self.members for leaf in member.leaves)


def beyond_columns(block: Block, values: Mapping[str, Any]) -> str | None:
    """Return the reason for which values that the codec accepts do not fit columns; else None.

    Dates and values of optional fields are ignored: one that does not fit becomes null in columns.
    """
    beyond = _beyond(readings(block), values)
    found = next((field.name for field in beyond if not field.withheld_if_wrong), None)
    if found is not None:
        return f"{found}: a number above {MAX_SIGNED}, the maximum of a column"
    for group in block.groups:
        for entry in values[group.name]:
            reason = beyond_columns(group, entry)
            if reason is not None:
                return reason
    return None


def _beyond(fields: tuple[ValueSpec, ...], values: Mapping[str, Any]) -> Iterator[ValueSpec]:
    """Yield the fields whose values do not fit columns."""
    for field in fields:
        value = values[field.name]
        if value is None:
            continue
        if field.kind is ValueKind.RECORD:
            yield from _beyond(field.members, value)
        elif not fits_column(field, value):
            yield field


def fits_column(field: ValueSpec, value: Any) -> bool:
    """Whether the value of a field fits a column."""
    if field.kind is ValueKind.DATE:
        return not isinstance(value, int)  # a day number that is not a valid date
    if field.primitive.name == "uint64" and field.kind in _WHOLE_NUMBERS:
        numbers = value if field.kind is ValueKind.NUMBERS else (value,)
        return bool(max(numbers) <= MAX_SIGNED)
    return True


def python_encoding(name: str | None) -> str:
    """Return Python's name of a character encoding; ASCII is read as Latin-1, its superset."""
    lowered = (name or "ascii").lower()
    return "latin-1" if lowered in _SINGLE_BYTE else lowered


@cache
def readings(block: Block) -> tuple[ValueSpec, ...]:
    """Return the readings of a block's fields, in order."""
    found: list[ValueSpec] = []
    for field in block.fields:
        if field.presence is Presence.CONSTANT or is_padding(field.name):
            continue
        reading = _reading(
            field.name,
            field.type,
            field.offset,
            optional=field.presence is Presence.OPTIONAL,
            semantic_type=field.semantic_type,
        )
        if reading is not None:
            found.append(
                replace(
                    reading,
                    since_version=max(field.since_version, reading.since_version),
                    description=field.description or reading.description,
                )
            )
    return _distinct(found)


def _distinct(found: list[ValueSpec]) -> tuple[ValueSpec, ...]:
    """Make the column names of readings unique: two names may differ only in case."""
    used: set[str] = set()
    result = []
    for reading in found:
        column, number = reading.column, 1
        while column in used:
            number += 1
            column = f"{reading.column}_{number}"
        used.add(column)
        result.append(replace(reading, column=column))
    return tuple(result)


def _reading(
    name: str, kind: Type, offset: int, *, optional: bool, semantic_type: str | None = None
) -> ValueSpec | None:
    match kind:
        case EnumType():
            return _enum(name, kind, offset, optional=optional)
        case SetType():
            return ValueSpec(
                name,
                snake_case(name),
                ValueKind.SET,
                offset,
                kind.size,
                kind.encoding.primitive,
                required=not optional,
                set=kind,
                description=kind.description,
            )
        case Composite():
            return _composite(name, kind, offset, optional=optional)
        case EncodedType():
            return _encoded(name, kind, offset, optional=optional, semantic_type=semantic_type)


def _enum(name: str, kind: EnumType, offset: int, *, optional: bool) -> ValueSpec:
    # A required enumeration with its null value on the wire is null too, unless the schema names
    # that number.
    named = any(member.value == kind.null for member in kind.members)
    return ValueSpec(
        name,
        snake_case(name),
        ValueKind.ENUM,
        offset,
        kind.size,
        kind.encoding.primitive,
        required=not (optional or kind.encoding.presence is Presence.OPTIONAL),
        null=None if named else kind.null,
        enum=kind,
        description=kind.description,
    )


def _encoded(
    name: str, kind: EncodedType, offset: int, *, optional: bool, semantic_type: str | None
) -> ValueSpec | None:
    if kind.presence is Presence.CONSTANT or kind.size == 0:
        return None
    optional = optional or kind.presence is Presence.OPTIONAL
    primitive = kind.primitive
    reading = ValueSpec(
        name,
        snake_case(name),
        ValueKind.INTEGER,
        offset,
        kind.size,
        primitive,
        length=kind.length,
        required=not optional,
        null=kind.null if optional else None,
        minimum=kind.minimum,
        maximum=kind.maximum,
        description=kind.description,
    )
    if primitive.nature is Nature.CHAR or (
        kind.length > 1 and primitive.size == 1 and kind.character_encoding
    ):
        encoding = python_encoding(kind.character_encoding)
        return replace(
            reading,
            kind=ValueKind.TEXT,
            encoding=encoding,
            null=0 if optional else None,
            minimum=None,
        )
    if kind.length > 1:
        if primitive.name == "uint8":
            return replace(reading, kind=ValueKind.BYTES, null=None)
        return replace(reading, kind=ValueKind.NUMBERS, null=None)
    if primitive.nature is Nature.FLOAT:
        return replace(reading, kind=ValueKind.FLOAT)
    if "LocalMktDate" in (semantic_type, kind.semantic_type):
        return replace(reading, kind=ValueKind.DATE)
    return reading


def _composite(name: str, kind: Composite, offset: int, *, optional: bool) -> ValueSpec | None:
    single = _decimal(name, kind, offset, optional=optional) or _time(
        name, kind, offset, optional=optional
    )
    if single is not None:
        return single
    members = []
    for member in kind.members:
        if is_padding(member.name):
            continue
        reading = _reading(member.name, member.type, offset + member.offset, optional=optional)
        if reading is not None:
            members.append(
                replace(
                    reading,
                    since_version=max(member.since_version, reading.since_version),
                    description=member.description or reading.description,
                )
            )
    if not members:
        return None
    return ValueSpec(
        name,
        snake_case(name),
        ValueKind.RECORD,
        offset,
        kind.size,
        members[0].primitive,
        required=not optional and any(member.required for member in members),
        members=_distinct(members),
        description=kind.description,
    )


def _number_and_constant(kind: Composite, number: str, constant: str) -> EncodedType | None:
    """Return the number of a composite that has exactly it and a constant; else None."""
    if {member.name for member in kind.members} != {number, constant}:
        return None
    first, second = kind.member(number), kind.member(constant)
    if first is None or second is None:
        return None
    if not (isinstance(first.type, EncodedType) and isinstance(second.type, EncodedType)):
        return None
    if first.offset or first.type.length != 1 or first.type.presence is Presence.CONSTANT:
        return None
    if first.type.primitive.nature not in (Nature.SIGNED, Nature.UNSIGNED):
        return None
    return first.type if isinstance(second.type.constant, int) else None


def _constant(kind: Composite, name: str) -> int:
    member = kind.member(name)
    assert member is not None
    assert isinstance(member.type, EncodedType)
    assert isinstance(member.type.constant, int)
    return member.type.constant


def _decimal(name: str, kind: Composite, offset: int, *, optional: bool) -> ValueSpec | None:
    mantissa = _number_and_constant(kind, "mantissa", "exponent")
    if mantissa is None or not -DECIMAL_DIGITS <= _constant(kind, "exponent") <= 0:
        return None
    # The null value of its primitive can only mean null, also in a required decimal.
    return ValueSpec(
        name,
        snake_case(name),
        ValueKind.DECIMAL,
        offset,
        kind.size,
        mantissa.primitive,
        required=not (optional or mantissa.presence is Presence.OPTIONAL),
        null=mantissa.null,
        minimum=mantissa.minimum,
        maximum=mantissa.maximum,
        scale=-_constant(kind, "exponent"),
        description=kind.description,
    )


def _time(name: str, kind: Composite, offset: int, *, optional: bool) -> ValueSpec | None:
    time = _number_and_constant(kind, "time", "unit")
    if time is None or _constant(kind, "unit") not in _UNITS:
        return None
    optional = optional or time.presence is Presence.OPTIONAL
    unit = _UNITS[_constant(kind, "unit")]
    return ValueSpec(
        name,
        f"{snake_case(name)}_{unit}",
        ValueKind.TIME,
        offset,
        kind.size,
        time.primitive,
        required=not optional,
        null=time.null if optional else None,
        minimum=time.minimum,
        maximum=time.maximum,
        unit=unit,
        duration=kind.semantic_type == "Int" or kind.name.startswith("Delta"),
        description=kind.description,
    )
