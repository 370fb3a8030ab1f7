"""Generated decoders of messages and groups for one layout and one sender's version.

A generated function unpacks the fixed block with one ``struct``, copies a dictionary of nulls and
stores the values that are not null in it, then decodes groups and data in order. A field that was
added after the sender's version stays null.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from pregao.errors import DecodeError, FieldRangeError
from pregao.sbe._from_wire import blank_record, decode_text, values_of_numbers
from pregao.sbe._source import FunctionSource, layout_format, length_struct, unpacking
from pregao.sbe.model import Block, Data, Group, MessageTemplate
from pregao.sbe.value_specs import ValueKind, ValueSpec, python_encoding, readings

Values = dict[str, Any]
Decoder = Callable[[Any, int, int, int, int], Any]
"""Arguments: buffer, position and length of the block, the sender's version, end."""


def version_marks(block: Block) -> set[int]:
    """Return the versions that added something to a message or group; 0 is always one."""
    marks = {0}
    for reading in readings(block):
        marks.update(_marks(reading))
    for data in block.data:
        marks.add(data.since_version)
    for group in block.groups:
        marks |= {group.since_version, *version_marks(group)}
    return marks


def _marks(reading: ValueSpec) -> Iterator[int]:
    yield reading.since_version
    for member in reading.members:
        yield from _marks(member)


def message_decoder(
    message: MessageTemplate,
    byte_order: str,
    version: int,
    decoded: Callable[[MessageTemplate, int, Values, int], Any],
) -> Decoder:
    """Return the decoder of a message of one version.

    It returns the result of ``decoded`` for the template, the version, the values and their end.
    """
    return _decoder(message, byte_order, version, decoded)


def _decoder(block: Block, byte_order: str, version: int, decoded: Any) -> Decoder:
    fields = readings(block)
    source = FunctionSource(
        f"decoder of {block.name}", "buffer, position, block_length, version, end"
    )
    failure = source.name(DecodeError)
    source.open("if block_length > end - position:")
    reason = 'f"a block of {block_length} bytes runs past the end"'
    source.add(f"raise {failure}({reason}, position)")
    source.close()
    blank: Values = {field.name: None for field in fields}
    blank.update({group.name: None for group in block.groups})
    blank.update({data.name: None for data in block.data})
    source.add(f"values = {source.name(blank.copy)}()")
    if fields:
        _block(source, fields, byte_order, version)
    source.add("position += block_length")
    for group in block.groups:
        if group.since_version > version:
            source.add(f"values[{group.name!r}] = []")
        else:
            read = source.name(_group_decoder(group, byte_order, version))
            source.add(f"values[{group.name!r}], position = {read}(buffer, position, version, end)")
    for data in block.data:
        if data.since_version <= version:
            write_data(source, data, byte_order, f"values[{data.name!r}]")
    if decoded is None:
        source.add("return values, position")
    else:
        result = f"{source.name(decoded)}({source.name(block)}, version, values, position)"
        source.add(f"return {result}")
    return source.compiled()


def _block(
    source: FunctionSource, fields: tuple[ValueSpec, ...], byte_order: str, version: int
) -> None:
    """Write the conversion of the fixed fields to values."""
    structure = struct.Struct(byte_order + layout_format(fields))
    reach = structure.size
    variables = [f"v{number}" for number in range(sum(field.width for field in fields))]
    source.open(f"if block_length >= {reach}:")
    unpack = source.name(structure.unpack_from)
    source.add(unpacking(variables, f"{unpack}(buffer, position)"))
    source.close("else:")
    short = source.name(_ShortBlocks(fields, structure))
    source.add(unpacking(variables, f"{short}.numbers(buffer, position, block_length)"))
    source.close()
    source.open("try:")
    names = iter(variables)
    for field in fields:
        _store(source, field, _expression(source, field, names, version))
    source.add("pass")
    failure = source.name(FieldRangeError)
    source.close(f"except {failure} as error:")
    source.add(f"raise {failure}(error.reason, position) from None")
    source.close()
    source.open(f"if block_length < {reach}:")
    source.add(f"{short}.clear_absent(values, block_length)")
    source.close()


def _store(source: FunctionSource, field: ValueSpec, written: _Expression) -> None:
    """Write the store of a value in the dictionary, unless it is null."""
    if written.present == _NEVER:
        return
    looked_up = field.kind not in (ValueKind.INTEGER, ValueKind.TIME, ValueKind.RECORD)
    if written.present in (_ALWAYS, _UNTOLD) or (looked_up and field.required):
        source.add(f"values[{field.name!r}] = {written.value}")
    else:
        source.open(f"if {written.present}:")
        source.add(f"values[{field.name!r}] = {written.value_if_present}")
        source.close()


class _ShortBlocks:
    """Blocks of older senders, in which fields after their end are null."""

    def __init__(self, fields: tuple[ValueSpec, ...], structure: struct.Struct) -> None:
        self._ends = [(field.name, field.end) for field in fields]
        self._structure = structure

    def numbers(self, buffer: Any, position: int, block_length: int) -> tuple[Any, ...]:
        """Return the numbers of a block, with zeros after its last complete field."""
        reached = max((end for _, end in self._ends if end <= block_length), default=0)
        block = bytes(buffer[position : position + reached])
        return self._structure.unpack(block.ljust(self._structure.size, b"\0"))

    def clear_absent(self, values: dict[str, Any], block_length: int) -> None:
        """Set the fields after the end of the block to null."""
        for name, end in self._ends:
            if end > block_length:
                values[name] = None


class _Expression(NamedTuple):
    """Python expressions of a value."""

    value: str
    """The value, or None if it is null."""
    value_if_present: str
    """The value, if it is known not to be null."""
    present: str
    """Whether it is not null."""


_ALWAYS, _NEVER, _UNTOLD = "always", "never", "untold"
"""Values of ``present`` without a test; ``untold`` if only the value shows its presence."""


def _expression(
    source: FunctionSource, reading: ValueSpec, variables: Iterator[str], version: int
) -> _Expression:
    if reading.since_version > version:
        for _ in range(reading.width):
            next(variables)
        return _Expression("None", "None", _NEVER)
    if reading.kind is ValueKind.RECORD:
        return _record_expression(source, reading, variables, version)
    if reading.kind is ValueKind.NUMBERS:
        numbers = f"({''.join(f'{next(variables)}, ' for _ in range(reading.width))})"
        return _Expression(numbers, numbers, _ALWAYS)
    variable, null = next(variables), reading.null
    if reading.kind in (ValueKind.ENUM, ValueKind.DECIMAL, ValueKind.DATE, ValueKind.TEXT):
        value = f"{source.name(values_of_numbers(reading))}[{variable}]"
        if null is None:
            return _Expression(value, value, _ALWAYS)
        text = reading.kind is ValueKind.TEXT
        return _Expression(value, value, _UNTOLD if text else f"{variable} != {int(null)}")
    if null is None:
        return _Expression(variable, variable, _ALWAYS)
    if null != null:  # NaN
        present = f"{variable} == {variable}"
    elif null == 0:
        present = variable
    else:
        present = f"{variable} != {source.name(null)}"
    return _Expression(f"({variable} if {present} else None)", variable, present)


def _record_expression(
    source: FunctionSource, reading: ValueSpec, variables: Iterator[str], version: int
) -> _Expression:
    """Return the expressions of a record; it is null if all of its members are."""
    members = [(m.name, _expression(source, m, variables, version)) for m in reading.members]
    values = f"{{{', '.join(f'{name!r}: {member.value}' for name, member in members)}}}"
    tests = [member.present for _, member in members if member.present != _NEVER]
    if _ALWAYS in tests:
        return _Expression(values, values, _ALWAYS)
    if not tests:
        return _Expression("None", "None", _NEVER)
    if _UNTOLD in tests:
        blank = f"{source.name(blank_record)}({values})"
        return _Expression(blank, blank, _UNTOLD)
    present = " or ".join(tests)
    return _Expression(f"({values} if {present} else None)", values, f"({present})")


def _group_decoder(
    group: Group, byte_order: str, version: int
) -> Callable[[Any, int, int, int], tuple[list[Values], int]]:
    """Return the decoder of a complete group, which returns its entries and their end."""
    dimension, name = group.dimension, group.name
    header_size = dimension.size
    length_at, count_at = dimension.block_length.offset, dimension.num_in_group.offset
    read_length = length_struct(dimension.block_length, byte_order).unpack_from
    read_count = length_struct(dimension.num_in_group, byte_order).unpack_from
    read_entry = _decoder(group, byte_order, version, None)

    def decode(buffer: Any, position: int, version: int, end: int) -> tuple[list[Values], int]:
        first = position + header_size
        if first > end:
            raise DecodeError(f"{name}: too short for the group's header", position)
        (block_length,) = read_length(buffer, position + length_at)
        (count,) = read_count(buffer, position + count_at)
        if count * max(1, block_length) > end - first:
            raise DecodeError(
                f"{name}: {count} entries of {block_length} bytes run past the end", position
            )
        position = first
        entries = []
        for _ in range(count):
            entry, position = read_entry(buffer, position, block_length, version, end)
            entries.append(entry)
        return entries, position

    return decode


def write_data(
    source: FunctionSource, data: Data, byte_order: str, target: str, *, text: bool = True
) -> None:
    """Write the decoding of variable-length data into a target, as text or as bytes.

    Empty data is not stored as text; as bytes it is None.
    """
    failure = source.name(DecodeError)
    source.add(f"start = position + {data.header_size}")
    source.open("if start > end:")
    source.add(f"raise {failure}({f'{data.name}: too short for its length'!r}, position)")
    source.close()
    position = f"position + {data.length.offset}" if data.length.offset else "position"
    if data.length.primitive.size == 1:
        source.add(f"length = buffer[{position}]")
    else:
        read = source.name(length_struct(data.length, byte_order).unpack_from)
        source.add(unpacking(["length"], f"{read}(buffer, {position})"))
    source.open("if length:")
    source.open("if length > end - start:")
    reason = f'{f"{data.name}: "!r} f"{{length}} bytes run past the end"'
    source.add(f"raise {failure}({reason}, position)")
    source.close()
    source.add("position = start + length")
    raw = "bytes(buffer[start:position])"
    if text and data.character_encoding is not None:
        encoding = python_encoding(data.character_encoding)
        raw = f"{source.name(decode_text)}({raw}, {encoding!r})"
    source.add(f"{target} = {raw}")
    source.close("else:")
    source.add("position = start", *([] if text else [f"{target} = None"]))
    source.close()
