"""Arrow types of values: no unsigned integers, exact decimals, names for enumerations."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from pregao.sbe.model import Block, Data, Group, snake_case
from pregao.sbe.value_specs import DECIMAL_DIGITS, ValueKind, ValueSpec, readings

_INTEGERS = {
    "char": pa.int16(),
    "uint8": pa.int16(),
    "uint16": pa.int32(),
    "uint32": pa.int64(),
    "uint64": pa.int64(),
    "int8": pa.int8(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
}


def column_type(reading: ValueSpec) -> Any:
    """Return the Arrow type of a reading's column."""
    match reading.kind:
        case ValueKind.DECIMAL:
            return pa.decimal64(DECIMAL_DIGITS, reading.scale)
        case ValueKind.DATE:
            return pa.date32()
        case ValueKind.TIME:
            return pa.int64()
        case ValueKind.TEXT:
            return pa.string()
        case ValueKind.BYTES:
            return pa.binary()
        case ValueKind.NUMBERS:
            return pa.list_(_INTEGERS[reading.primitive.name], reading.length)
        case ValueKind.ENUM:
            return pa.dictionary(enum_index_type(reading), pa.string())
        case ValueKind.RECORD:
            return pa.struct(
                [pa.field(member.column, column_type(member)) for member in reading.members]
            )
        case _:
            return _INTEGERS[reading.primitive.name]


def enum_index_type(reading: ValueSpec) -> Any:
    """Return the index type of an enumeration's dictionary, wide enough for every number."""
    return pa.int16() if reading.primitive.size == 1 else pa.int32()


def data_type(data: Data) -> Any:
    """Return the Arrow type of variable-length data."""
    return pa.binary() if data.character_encoding is None else pa.string()


def group_type(group: Group) -> Any:
    """Return the Arrow type of a repeating group: a list of its entries."""
    return pa.list_(pa.field("item", pa.struct(list(block_schema(group))), nullable=False))


def block_schema(block: Block) -> Any:
    """Return the Arrow schema of a message's or group's columns."""
    fields = [pa.field(reading.column, column_type(reading)) for reading in readings(block)]
    fields += [pa.field(snake_case(group.name), group_type(group)) for group in block.groups]
    fields += [pa.field(snake_case(data.name), data_type(data)) for data in block.data]
    return pa.schema(fields)


def widened(kind: Any) -> Any:
    """Return the type with 128-bit decimals, which every Arrow reader supports."""
    if pa.types.is_decimal64(kind):
        return pa.decimal128(kind.precision, kind.scale)
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(widened(field.type)) for field in kind])
    if pa.types.is_fixed_size_list(kind):
        return kind
    if pa.types.is_list(kind):
        item = kind.value_field
        return pa.list_(item.with_type(widened(item.type)))
    return kind
