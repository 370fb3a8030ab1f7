"""Generated encoders of messages and groups for one layout.

A generated function merges the given values over a dictionary of blanks, whose size then shows
whether all names are known; tests each field with a test that usual values pass; packs header and
block with one ``struct``; then encodes groups and data in order. A value that fails its test goes
to the field's function of `_to_wire`, which converts it or refuses it with a reason. If a message
cannot be encoded, the error names the first field with an invalid value.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from pregao.errors import EncodeError
from pregao.sbe._source import (
    BoundedCache,
    ComputedDict,
    FunctionSource,
    layout_format,
    length_struct,
    unpacking,
)
from pregao.sbe._to_wire import EXACT, ValueRefusedError, bounds, encode_text, encoder
from pregao.sbe.model import Block, Data, Group, Presence
from pregao.sbe.value_specs import ValueKind, ValueSpec, python_encoding, readings

_MISSING = object()
"""Stand-in for a required value that is not given; no field accepts it."""

Encoder = Callable[[Mapping[str, Any]], bytes]

_FAILURES = (ValueRefusedError, struct.error, TypeError, ValueError, ArithmeticError)
"""Exceptions that encoding an invalid value can raise."""


# --- Errors ---


def blanks_of(fields: Sequence[ValueSpec]) -> dict[str, Any]:
    """Return the values of fields that are not given."""
    return {field.name: _MISSING if field.required else None for field in fields}


class EntryErrors:
    """Diagnosis of a block's values, used only after encoding failed."""

    def __init__(self, block: Block) -> None:
        self._block = block
        self._constants = {
            field.name: field.constant
            for field in block.fields
            if field.presence is Presence.CONSTANT
        }
        self.blanks = blanks_of(readings(block))
        """All names that can be given, in order, with their values if they are not given."""
        self.blanks.update({group.name: None for group in block.groups})
        self.blanks.update({data.name: None for data in block.data})

    def without_constants(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values without constants; refuse unknown names and wrong constants."""
        for name in values:
            if name not in self.blanks:
                self._check_constant(name, values[name])
        known = {name: value for name, value in values.items() if name in self.blanks}
        return {**self.blanks, **known}

    def _check_constant(self, name: str, value: Any) -> None:
        if name not in self._constants:
            raise self._error(ValueRefusedError(f"no such field in {self._block.name}", (name,)))
        constant = self._constants[name]
        if value != constant:
            raise self._error(
                ValueRefusedError(f"must be the constant {constant!r}, was {value!r}", (name,))
            )

    def of(self, values: Mapping[str, Any], failure: Exception) -> Exception:
        """Return the error for values whose encoding failed."""
        for field in readings(self._block):
            try:
                if field.required and field.name not in values:
                    raise ValueRefusedError("a value is required")
                encoder(field)(values.get(field.name))
            except ValueRefusedError as refused:
                return self._error(ValueRefusedError(refused.reason, (field.name, *refused.path)))
        return self._error(failure) if isinstance(failure, ValueRefusedError) else failure

    def _error(self, refused: ValueRefusedError) -> Exception:
        return refused


class MessageErrors(EntryErrors):
    """Diagnosis of a message's values, with errors for users."""

    def _error(self, refused: ValueRefusedError) -> Exception:
        return EncodeError(f"{'.'.join(refused.path)}: {refused.reason}")


# --- Groups and variable-length data ---


class GroupHeader:
    """Encoder of a group's header (dimensions)."""

    def __init__(self, group: Group, byte_order: str) -> None:
        self._group = group
        self._block_length = length_struct(group.dimension.block_length, byte_order)
        self._count = length_struct(group.dimension.num_in_group, byte_order)

    def encode(self, entries: int) -> bytes:
        """Encode the header for the given number of entries."""
        dimension, name = self._group.dimension, self._group.name
        limit = dimension.num_in_group.maximum
        if entries > limit:
            raise ValueRefusedError(f"{entries} entries exceed the maximum of {limit}", (name,))
        header = bytearray(dimension.size)
        try:
            self._block_length.pack_into(
                header, dimension.block_length.offset, self._group.block_length
            )
        except struct.error:
            raise ValueRefusedError(
                "its block is too long for the group's header", (name,)
            ) from None
        self._count.pack_into(header, dimension.num_in_group.offset, entries)
        return bytes(header)


class GroupEncoder:
    """Encoder of a group: its header, then its entries."""

    def __init__(
        self, group: Group, byte_order: str, entry: Callable[[Mapping[str, Any]], bytes]
    ) -> None:
        self._name = group.name
        self._header = GroupHeader(group, byte_order)
        self._entry = entry

    def encode(self, entries: Sequence[Mapping[str, Any]]) -> bytes:
        """Encode a group."""
        name, write = self._name, self._entry
        if isinstance(entries, (str, bytes, Mapping)) or not isinstance(entries, Sequence):
            raise ValueRefusedError(f"{entries!r} is not a list of entries", (name,))
        parts = [self._header.encode(len(entries))]
        for number, entry in enumerate(entries):
            if not isinstance(entry, Mapping):
                raise ValueRefusedError(f"{entry!r} is not named values", (f"{name}[{number}]",))
            try:
                parts.append(write(entry))
            except ValueRefusedError as refused:
                path = (f"{name}[{number}]", *refused.path)
                raise ValueRefusedError(refused.reason, path) from None
        return b"".join(parts)


class DataEncoder:
    """Encoder of variable-length data: a length, then bytes."""

    def __init__(self, data: Data, byte_order: str) -> None:
        self._data = data
        before = data.length.offset
        after = data.header_size - before - data.length.primitive.size
        self._header = struct.Struct(f"{byte_order}{before}x{data.length.primitive.code}{after}x")
        self._encoding = python_encoding(data.character_encoding or "utf-8")

    def encode(self, value: Any) -> bytes:
        """Encode a value: its length and its bytes."""
        if value is None:
            raw = b""
        elif isinstance(value, (bytes, bytearray)):
            raw = bytes(value)
        else:
            raw = self._text(value)
        limit = self._data.length.maximum
        if len(raw) > limit:
            raise ValueRefusedError(
                f"{len(raw)} bytes exceed the maximum of {limit}", (self._data.name,)
            )
        return self._header.pack(len(raw)) + raw

    def _text(self, value: Any) -> bytes:
        try:
            return encode_text(value, self._encoding)
        except ValueRefusedError as refused:
            raise ValueRefusedError(refused.reason, (self._data.name,)) from None


# --- Generated functions ---


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
