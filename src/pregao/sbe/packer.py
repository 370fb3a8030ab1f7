"""Fast encoders and decoders of selected fields as wire values.

They are for code that processes every message of a busy line and needs a few of its fields: no
dictionary, no decimals, no names. Null is None here too.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from pregao.errors import DecodeError, EncodeError
from pregao.sbe._decoder import write_data
from pregao.sbe._encoder import DataEncoder
from pregao.sbe._source import FunctionSource, layout_format, unpacking
from pregao.sbe._to_wire import ValueRefusedError
from pregao.sbe.model import Block
from pregao.sbe.value_specs import ValueKind, ValueSpec, readings

Packer = Callable[..., bytes]
Unpacker = Callable[[Any, int, int, int], tuple[Any, ...]]
"""Arguments: buffer, position and length of the block, end."""


class FieldSource(NamedTuple):
    """Source of a field's wire value: an attribute of the encoded object.

    ``convert`` turns the attribute into the wire value, if it differs.
    """

    attribute: str
    convert: Callable[[Any], Any] | None = None


def packer(
    block: Block,
    byte_order: str,
    header: bytes,
    names: Sequence[str],
    sources: Mapping[str, FieldSource] | None = None,
    fixed: Mapping[str, Any] | None = None,
) -> Packer:
    """Return an encoder of the named fields, whose arguments are their wire values in that order.

    None means null. Fields that are not named are null, or zero if they cannot be null. A member of
    a record is named by its path, as in ``businessHeader.msgSeqNum``. The caller appends groups and
    data, but if one data field is named, all are written, as bytes.

    Fields in ``sources`` come from attributes of an object, which is then the first argument; None
    is refused if the field cannot be null. ``fixed`` fields have the same value in every message.
    """
    fields = readings(block)
    leaves = _leaves(block)
    sources, fixed = sources or {}, fixed or {}
    data = [piece for piece in block.data if any(each.name in names for each in block.data)]
    _check([*names, *sources, *fixed], {*leaves, *(piece.name for piece in data)})
    arguments = {name: f"a{number}" for number, name in enumerate(names)}
    given = ["item", *arguments.values()] if sources else list(arguments.values())
    source = FunctionSource(f"packer of {block.name}", ", ".join(given))
    numbers = [source.name(header)]
    for name, leaf in leaves.items():
        null = source.name(_raw_null(leaf))
        if name in sources:
            number = _field_source(source, sources[name])
            if leaf.null is not None or leaf.kind in (ValueKind.TEXT, ValueKind.BYTES):
                number = f"{null} if (value := {number}) is None else value"
        elif name in fixed:
            number = source.name(fixed[name])
        else:
            argument = arguments.get(name)
            number = null if argument is None else f"{null} if {argument} is None else {argument}"
        numbers.append(f"*({number})" if leaf.kind is ValueKind.NUMBERS else number)
    form = f"{byte_order}{len(header)}s{layout_format(fields, block.block_length)}"
    parts = [f"{source.name(struct.Struct(form).pack)}({', '.join(numbers)})"]
    for piece in data:
        write = DataEncoder(piece, byte_order).encode
        empty, argument = source.name(write(None)), arguments.get(piece.name, "None")
        parts.append(f"({empty} if {argument} is None else {source.name(write)}({argument}))")
    source.open("try:")
    source.add(f"return {' + '.join(parts)}")
    source.close(f"except {source.name((struct.error, ValueRefusedError))} as error:")
    reason = f"{', '.join([*names, *sources])}: "
    source.add(f"raise {source.name(EncodeError)}({reason!r} + str(error)) from None")
    return source.compiled()


def _field_source(source: FunctionSource, taken: FieldSource) -> str:
    """Return the expression of an attribute's wire value."""
    attribute, convert = taken
    if not attribute.isidentifier():
        raise EncodeError(f"{attribute!r} is not the name of an attribute")
    value = f"item.{attribute}"
    return value if convert is None else f"{source.name(convert)}({value})"


def unpacker(block: Block, byte_order: str, names: Sequence[str]) -> Unpacker:
    """Return a decoder of the named fields and data to wire values, the reverse of `packer`.

    It is for senders of the schema's version or a later one: a block too short for a named field is
    refused. Data can be named only if there are no groups.
    """
    leaves = _leaves(block)
    last = max((n for n, piece in enumerate(block.data) if piece.name in names), default=-1)
    data = () if block.groups else block.data[: last + 1]
    _check(names, {*leaves, *(piece.name for piece in data)})
    chosen = {name: leaf for name, leaf in leaves.items() if name in names}
    structure = struct.Struct(byte_order + layout_format(list(chosen.values())))
    source = FunctionSource(f"unpacker of {block.name}", "buffer, position, block_length, end")
    failure = source.name(DecodeError)
    source.open(f"if block_length > end - position or block_length < {structure.size}:")
    reason = '"runs past the end" if block_length > end - position else "is too short"'
    source.add(f'raise {failure}(f"a block of {{block_length}} bytes " + ({reason}), position)')
    source.close()
    results: dict[str, str] = {}
    variables: list[str] = []
    for name, leaf in chosen.items():
        own = [f"v{len(variables) + number}" for number in range(leaf.width)]
        variables += own
        results[name] = _raw(leaf, own)
    source.add(unpacking(variables, f"{source.name(structure.unpack_from)}(buffer, position)"))
    source.add("position += block_length")
    for number, piece in enumerate(data):
        results[piece.name] = f"d{number}"
        write_data(source, piece, byte_order, f"d{number}", text=False)
    source.add(f"return ({''.join(f'{results[name]}, ' for name in names)})")
    return source.compiled()


def _leaves(block: Block) -> dict[str, ValueSpec]:
    """Return the fields of a block that are not records, by path."""
    return {name: leaf for field in readings(block) for name, leaf in _ways(field, "")}


def _ways(reading: ValueSpec, prefix: str) -> Iterator[tuple[str, ValueSpec]]:
    if reading.kind is not ValueKind.RECORD:
        yield prefix + reading.name, reading
    for member in reading.members:
        yield from _ways(member, f"{prefix}{reading.name}.")


def _check(names: Sequence[str], known: set[str]) -> None:
    for name in names:
        if name not in known:
            raise EncodeError(f"{name}: no such field in this message")


def _raw_null(leaf: ValueSpec) -> Any:
    if leaf.kind in (ValueKind.TEXT, ValueKind.BYTES):
        return b""
    null = 0 if leaf.null is None else leaf.null
    return (null,) * leaf.length if leaf.kind is ValueKind.NUMBERS else null


def _raw(leaf: ValueSpec, variables: list[str]) -> str:
    """Return the expression of a leaf's wire value."""
    (variable, *more) = variables
    if more or leaf.kind is ValueKind.NUMBERS:
        return f"({', '.join(variables)},)"
    if leaf.kind is ValueKind.TEXT:
        return f"{variable}.partition(b'\\0')[0] or None"
    if leaf.null is None:
        return variable
    if leaf.null != leaf.null:  # NaN
        return f"{variable} if {variable} == {variable} else None"
    return f"{variable} if {variable} != {leaf.null!r} else None"
