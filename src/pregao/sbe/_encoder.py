"""Generated encoders of messages and groups for one layout.

A generated function merges the given values over a dictionary of blanks, whose size then shows
whether all names are known; tests each field with a test that usual values pass; packs header and
block with one ``struct``; then encodes groups and data in order. A value that fails its test goes
to the field's function of `_to_wire`, which converts it or refuses it with a reason.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from pregao.errors import EncodeError
from pregao.sbe._layout import layout_format
from pregao.sbe._parts import DataEncoder, GroupEncoder, GroupHeader
from pregao.sbe._refusals import EntryErrors, MessageErrors, blanks_of
from pregao.sbe._source import BoundedCache, ComputedDict, FunctionSource, unpacking
from pregao.sbe._to_wire import EXACT, ValueRefusedError, bounds, encoder
from pregao.sbe.model import Block, Group
from pregao.sbe.values import ValueKind, ValueSpec, readings

Encoder = Callable[[Mapping[str, Any]], bytes]

_FAILURES = (ValueRefusedError, struct.error, TypeError, ValueError, ArithmeticError)
"""Exceptions that encoding an invalid value can raise."""


def message_encoder(message: Block, byte_order: str, header: bytes) -> Encoder:
    """Return the encoder of a message with its header; it raises EncodeError."""
    return _encoder(message, byte_order, header, MessageErrors(message))


def group_encoder(group: Group, byte_order: str) -> GroupEncoder:
    """Return the encoder of a group; it raises RefusedError."""
    entry = _encoder(group, byte_order, b"", EntryErrors(group))
    return GroupEncoder(group, byte_order, entry)


def group_header(group: Group, byte_order: str) -> Callable[[int], bytes]:
    """Return the encoder of a group's header by number of entries; it raises EncodeError."""
    header = GroupHeader(group, byte_order)

    def write(entries: int) -> bytes:
        try:
            return header.encode(entries)
        except ValueRefusedError as refused:
            raise EncodeError(f"{group.name}: {refused.reason}") from None

    return write


def _encoder(block: Block, byte_order: str, header: bytes, refusals: EntryErrors) -> Encoder:
    source = FunctionSource(f"encoder of {block.name}", "values")
    refused = source.name(refusals)
    blanks = source.name(refusals.blanks)
    source.add(f"filled = {_over(blanks, 'values')}")
    source.open(f"if len(filled) != {len(refusals.blanks)}:")
    source.add(f"filled = {refused}.without_constants(values)")
    source.close()
    variables = [f"v{number}" for number in range(len(refusals.blanks))]
    source.add(unpacking(variables, "filled.values()"))
    source.open("try:")
    given = iter(variables)
    numbers: list[str] = []
    fields = readings(block)
    for field in fields:
        variable = next(given)
        _write(source, field, variable)
        numbers += _numbers(field, variable)
    form = f"{byte_order}{len(header)}s{layout_format(fields, block.block_length)}"
    pack = source.name(struct.Struct(form).pack)
    parts = [f"{pack}({', '.join([source.name(header), *numbers])})"]
    for group in block.groups:
        write, variable = source.name(group_encoder(group, byte_order).encode), next(given)
        parts.append(f"{write}({variable} or ())")
    for data in block.data:
        piece, variable = DataEncoder(data, byte_order), next(given)
        write, none = source.name(piece.encode), source.name(piece.encode(None))
        parts.append(f"({none} if {variable} is None else {write}({variable}))")
    source.add(f"return {' + '.join(parts)}")
    source.close(f"except {source.name(_FAILURES)} as error:")
    source.add(f"raise {refused}.of(values, error) from None")
    return source.compiled()


def _over(blanks: str, values: str) -> str:
    """Return the merge of values over blanks; the operator is faster, for dictionaries only."""
    return f"{blanks} | {values} if type({values}) is dict else {{**{blanks}, **{values}}}"


def _numbers(field: ValueSpec, variable: str) -> list[str]:
    """Return the variables of a value's numbers on the wire."""
    if field.kind is ValueKind.NUMBERS:
        return [f"{variable}_{number}" for number in range(field.length)]
    if field.kind is not ValueKind.RECORD:
        return [variable]
    members = enumerate(field.members)
    return [name for n, member in members for name in _numbers(member, f"{variable}_{n}")]


def _write(source: FunctionSource, field: ValueSpec, variable: str) -> None:
    """Write the conversion of a value to its numbers on the wire."""
    match field.kind:
        case ValueKind.RECORD:
            _write_record(source, field, variable)
        case ValueKind.INTEGER | ValueKind.TIME:
            _write_integer(source, field, variable)
        case ValueKind.SET:
            _none_is(source, variable, 0)
            _otherwise_ask(source, field, variable, f"elif type({variable}) is not int:")
        case ValueKind.DECIMAL:
            _write_decimal(source, field, variable)
        case ValueKind.ENUM:
            numbers = ComputedDict(encoder(field), _numbers_of_names(field))
            source.add(f"{variable} = {source.name(numbers)}[{variable}]")
        case ValueKind.TEXT | ValueKind.DATE:
            source.add(f"{variable} = {source.name(BoundedCache(encoder(field)))}[{variable}]")
        case ValueKind.NUMBERS:
            converted = f"{source.name(encoder(field))}({variable})"
            source.add(unpacking(_numbers(field, variable), converted))
        case _:
            source.add(f"{variable} = {source.name(encoder(field))}({variable})")


def _none_is(source: FunctionSource, variable: str, null: int | float) -> None:
    source.open(f"if {variable} is None:")
    source.add(f"{variable} = {null!r}")
    source.close()


def _otherwise_ask(
    source: FunctionSource, field: ValueSpec, variable: str, condition: str, given: str = ""
) -> None:
    source.open(condition)
    source.add(f"{variable} = {source.name(encoder(field))}({given or variable})")
    source.close()


def _numbers_of_names(field: ValueSpec) -> dict[str | None, int]:
    assert field.enum is not None
    numbers: dict[str | None, int] = {m.name: m.value for m in field.enum.members}
    if field.null is not None:
        numbers[None] = int(field.null)
    return numbers


def _write_integer(source: FunctionSource, field: ValueSpec, variable: str) -> None:
    """Write an integer; ``struct`` itself refuses numbers that exceed their bytes."""
    test = f"type({variable}) is not int"
    low, high = bounds(field)
    if (low, high) != (field.primitive.minimum, field.primitive.maximum):
        test += f" or not {low} <= {variable} <= {high}"
    if field.null is None:
        _otherwise_ask(source, field, variable, f"if {test}:")
        return
    _none_is(source, variable, field.null)
    test += f" or {variable} == {field.null!r}"
    _otherwise_ask(source, field, variable, f"elif {test}:")


def _write_decimal(source: FunctionSource, field: ValueSpec, variable: str) -> None:
    low, high = bounds(field)
    assert field.null is not None
    test = f"not {low} <= {variable} <= {high}"
    if low <= field.null <= high:
        test += f" or {variable} == {field.null!r}"
    _none_is(source, variable, field.null)
    source.open(f"elif type({variable}) is {source.name(Decimal)}:")
    source.add(f"given = {variable}")
    unit = source.name(Decimal(10) ** field.scale)
    source.add(f"scaled = {source.name(EXACT.multiply)}(given, {unit})")
    source.add(f"{variable} = int(scaled)")
    _otherwise_ask(source, field, variable, f"if {variable} != scaled or {test}:", "given")
    source.close(f"elif type({variable}) is int:")
    source.add(f"given = {variable}", f"{variable} *= {10**field.scale}")
    _otherwise_ask(source, field, variable, f"if {test}:", "given")
    source.close()
    _otherwise_ask(source, field, variable, "else:")


def _write_record(source: FunctionSource, record: ValueSpec, variable: str) -> None:
    """Write a record: its members like fields; null means that all of them are null."""
    refuse = f"raise {source.name(ValueRefusedError)}('')"
    numbers = _numbers(record, variable)
    source.open(f"if {variable} is None:")
    try:
        nulls = source.name(tuple(encoder(record)(None)))
        source.add(unpacking(numbers, nulls))
    except ValueRefusedError:
        source.add(refuse)
    source.close("else:")
    blanks = blanks_of(record.members)
    source.add(f"filled = {_over(source.name(blanks), variable)}")
    source.open(f"if len(filled) != {len(blanks)}:")
    source.add(refuse)
    source.close()
    members = [f"{variable}_{number}" for number in range(len(blanks))]
    source.add(unpacking(members, "filled.values()"))
    for member, name in zip(record.members, members, strict=True):
        _write(source, member, name)
    source.close()
