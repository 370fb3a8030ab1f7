"""The message codec: one message at a time, bytes to named values and back.

Values are as the readings say: numbers, decimals, dates, names of enumerations (a number where
there is no name), sets as numbers, records as dictionaries, groups as lists of dictionaries,
data as text. Null is None.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from pregao.errors import DecodeError, EncodeError
from pregao.sbe._block import BlockCodec
from pregao.sbe._from_wire import decode_text
from pregao.sbe._to_wire import encode_text
from pregao.sbe.model import Block, Data, Dimension, Group, LengthField, Message, Presence, Schema
from pregao.sbe.values import python_encoding, readings


@dataclass(slots=True)
class Decoded:
    """A decoded message: its template, the sender's version, its values, its extent."""

    message: Message
    version: int
    values: dict[str, Any]
    end: int
    """Where its known parts end; bytes between this and the frame's end were not known."""

    def __getitem__(self, name: str) -> Any:
        """A value by the field's name."""
        return self.values[name]


class MessageHeader(NamedTuple):
    """The four numbers that choose how to read a message."""

    block_length: int
    template_id: int
    schema_id: int
    version: int


def _number_struct(field: LengthField, byte_order: str) -> struct.Struct:
    return struct.Struct(byte_order + field.primitive.code)


_USUAL_ORDER = (0, 1, 2, 3)


class HeaderCodec:
    """Reads and writes the message header of a schema."""

    __slots__ = ("_order", "_struct", "size")

    def __init__(self, schema: Schema) -> None:
        header = schema.header
        self.size = header.size
        fields = [header.block_length, header.template_id, header.schema_id, header.version]
        ranked = sorted(range(4), key=lambda index: fields[index].offset)
        parts, position = [schema.byte_order], 0
        for index in ranked:
            parts.append(f"{fields[index].offset - position}x{fields[index].primitive.code}")
            position = fields[index].offset + fields[index].primitive.size
        parts.append(f"{header.size - position}x")
        self._struct = struct.Struct("".join(parts))
        self._order = tuple(ranked.index(index) for index in range(4))

    def decode(self, buffer: Any, position: int = 0, end: int | None = None) -> MessageHeader:
        """The header at a position."""
        end = len(buffer) if end is None else end
        if position < 0 or end - position < self.size:
            raise DecodeError("too short for a message header", position)
        numbers = self._struct.unpack_from(buffer, position)
        if self._order != _USUAL_ORDER:
            numbers = tuple(numbers[index] for index in self._order)
        return MessageHeader._make(numbers)

    def encode(self, header: MessageHeader) -> bytes:
        """The bytes of a header."""
        ranked = [0, 0, 0, 0]
        for number, place in zip(header, self._order, strict=True):
            ranked[place] = number
        return self._struct.pack(*ranked)


class _PartsCodec:
    """A message or group: its block, then its groups, then its data."""

    __slots__ = ("block", "byte_order", "constants", "data", "groups", "known", "layout")

    def __init__(self, layout: Block, byte_order: str) -> None:
        self.layout = layout
        self.byte_order = byte_order
        self.block = BlockCodec(readings(layout), layout.block_length, byte_order)
        self.groups = [_GroupCodec(group, byte_order) for group in layout.groups]
        self.data = [_DataCodec(data, byte_order) for data in layout.data]
        self.constants = {
            field.name: field.constant
            for field in layout.fields
            if field.presence is Presence.CONSTANT
        }
        self.known = (
            {reading.name for reading in self.block.readings}
            | {group.group.name for group in self.groups}
            | {data.data.name for data in self.data}
        )

    def decode(
        self, buffer: Any, position: int, block_length: int, version: int, end: int
    ) -> tuple[dict[str, Any], int]:
        """The values and where they end."""
        if block_length > end - position:
            raise DecodeError(f"a block of {block_length} bytes runs past the end", position)
        try:
            values = self.block.decode(buffer, position, block_length, version)
        except DecodeError as error:
            raise DecodeError(error.reason, position) from None
        position += block_length
        for group in self.groups:
            values[group.group.name], position = group.decode(buffer, position, version, end)
        for data in self.data:
            values[data.data.name], position = data.decode(buffer, position, version, end)
        return values, position

    def encode(self, values: Mapping[str, Any], prefix: str) -> list[bytes]:
        """The parts' bytes, in order."""
        for name in values:
            if name not in self.known:
                self._check_constant(name, values[name], prefix)
        parts = [self.block.encode(values, prefix)]
        for group in self.groups:
            parts.extend(group.encode(values.get(group.group.name) or (), prefix))
        for data in self.data:
            parts.append(data.encode(values.get(data.data.name), prefix))
        return parts

    def _check_constant(self, name: str, value: Any, prefix: str) -> None:
        if name not in self.constants:
            raise EncodeError(f"{prefix}{name}: no such field in {self.layout.name}")
        if value != self.constants[name]:
            raise EncodeError(
                f"{prefix}{name}: always {self.constants[name]!r} here, not {value!r}"
            )


class _GroupCodec:
    """A repeating group: dimensions, then entries."""

    __slots__ = ("block_length", "group", "num_in_group", "parts")

    def __init__(self, group: Group, byte_order: str) -> None:
        self.group = group
        self.parts = _PartsCodec(group, byte_order)
        self.block_length = _number_struct(group.dimension.block_length, byte_order)
        self.num_in_group = _number_struct(group.dimension.num_in_group, byte_order)

    def decode(
        self, buffer: Any, position: int, version: int, end: int
    ) -> tuple[list[dict[str, Any]], int]:
        """The entries and where they end; none if the group came after the sender's version."""
        if self.group.since_version > version:
            return [], position
        dimension: Dimension = self.group.dimension
        if end - position < dimension.size:
            raise DecodeError(f"{self.group.name}: too short for the group's header", position)
        (block_length,) = self.block_length.unpack_from(
            buffer, position + dimension.block_length.offset
        )
        (count,) = self.num_in_group.unpack_from(buffer, position + dimension.num_in_group.offset)
        first = position + dimension.size
        if count * max(1, block_length) > end - first:
            raise DecodeError(
                f"{self.group.name}: {count} entries of {block_length} bytes run past the end",
                position,
            )
        position = first
        entries = []
        for _ in range(count):
            entry, position = self.parts.decode(buffer, position, block_length, version, end)
            entries.append(entry)
        return entries, position

    def header(self, entries: int, name: str) -> bytes:
        """The dimensions' bytes; ``name`` is what errors call the group."""
        dimension = self.group.dimension
        limit = dimension.num_in_group.maximum
        if entries > limit:
            raise EncodeError(f"{name}: {entries} entries, {limit} at most")
        header = bytearray(dimension.size)
        try:
            self.block_length.pack_into(
                header, dimension.block_length.offset, self.parts.block.size
            )
        except struct.error:
            raise EncodeError(f"{name}: its block is too long for the group's header") from None
        self.num_in_group.pack_into(header, dimension.num_in_group.offset, entries)
        return bytes(header)

    def encode(self, entries: Sequence[Mapping[str, Any]], prefix: str) -> list[bytes]:
        """The dimensions' and entries' bytes."""
        name = f"{prefix}{self.group.name}"
        if isinstance(entries, (str, bytes, Mapping)) or not isinstance(entries, Sequence):
            raise EncodeError(f"{name}: {entries!r} is not a list of entries")
        parts = [self.header(len(entries), name)]
        for number, entry in enumerate(entries):
            if not isinstance(entry, Mapping):
                raise EncodeError(f"{name}[{number}]: {entry!r} is not named values")
            parts.extend(self.parts.encode(entry, f"{name}[{number}]."))
        return parts


class _DataCodec:
    """Variable-length data: a length, then bytes."""

    __slots__ = ("data", "encoding", "length")

    def __init__(self, data: Data, byte_order: str) -> None:
        self.data = data
        self.length = _number_struct(data.length, byte_order)
        self.encoding = (
            None if data.character_encoding is None else python_encoding(data.character_encoding)
        )

    def decode(
        self, buffer: Any, position: int, version: int, end: int
    ) -> tuple[str | bytes | None, int]:
        """The text (or bytes where the schema names no encoding); an empty one is null."""
        if self.data.since_version > version:
            return None, position
        start = position + self.data.header_size
        if start > end:
            raise DecodeError(f"{self.data.name}: too short for its length", position)
        (length,) = self.length.unpack_from(buffer, position + self.data.length.offset)
        if length > end - start:
            raise DecodeError(f"{self.data.name}: {length} bytes run past the end", position)
        raw = bytes(buffer[start : start + length])
        if not raw:
            return None, start
        text = raw if self.encoding is None else decode_text(raw, self.encoding)
        return text, start + length

    def encode(self, value: Any, prefix: str) -> bytes:
        """The length and the bytes."""
        name = f"{prefix}{self.data.name}"
        if value is None:
            raw = b""
        elif isinstance(value, (bytes, bytearray)):
            raw = bytes(value)
        else:
            raw = encode_text(name, value, self.encoding or "utf-8")
        limit = self.data.length.maximum
        if len(raw) > limit:
            raise EncodeError(f"{name}: {len(raw)} bytes, {limit} at most")
        header = bytearray(self.data.header_size)
        self.length.pack_into(header, self.data.length.offset, len(raw))
        return bytes(header) + raw


class MessageCodec:
    """Reads and writes one template of a schema; bodies begin after the message header."""

    __slots__ = ("_parts", "header", "message", "schema")

    def __init__(self, schema: Schema, message: Message) -> None:
        self.schema = schema
        self.message = message
        self._parts = _PartsCodec(message, schema.byte_order)
        self.header = HeaderCodec(schema).encode(
            MessageHeader(message.block_length, message.id, schema.id, schema.version)
        )

    def decode_body(
        self, buffer: Any, position: int, block_length: int, version: int, end: int
    ) -> Decoded:
        """Decode what follows the header, up to ``end``."""
        values, stop = self._parts.decode(buffer, position, block_length, version, end)
        return Decoded(self.message, version, values, stop)

    def encode(self, values: Mapping[str, Any]) -> bytes:
        """The message's bytes, header first."""
        return self.header + b"".join(self._parts.encode(values, ""))

    def packer(self, *names: str) -> Callable[..., bytes]:
        """A fast writer of header and block from the named fields' numbers on the wire.

        For messages without groups and data; see :meth:`BlockCodec.packer`.
        """
        write = self._parts.block.packer(names)
        header = self.header
        return lambda *raws: header + write(*raws)

    def group_packers(
        self, group: str, *names: str
    ) -> tuple[Callable[[int], bytes], Callable[..., bytes]]:
        """Fast writers of a group: its header for so many entries, and one entry.

        An entry is written from the named fields' numbers on the wire; for entries without groups
        and data of their own; see :meth:`BlockCodec.packer`.
        """
        codec = next((each for each in self._parts.groups if each.group.name == group), None)
        if codec is None:
            raise EncodeError(f"{group}: no such group in {self.message.name}")
        header = codec.header
        return lambda entries: header(entries, group), codec.parts.block.packer(names)


class SchemaCodec:
    """Reads and writes every message of a schema."""

    __slots__ = ("_codecs", "header", "schema")

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.header = HeaderCodec(schema)
        self._codecs: dict[int, MessageCodec] = {}

    def codec(self, template_id: int) -> MessageCodec | None:
        """The codec of a template, or None if the schema does not have it."""
        codec = self._codecs.get(template_id)
        if codec is None:
            message = self.schema.by_id.get(template_id)
            if message is None:
                return None
            codec = self._codecs[template_id] = MessageCodec(self.schema, message)
        return codec

    def decode(self, buffer: Any, position: int = 0, end: int | None = None) -> Decoded:
        """Decode the message whose header is at a position, up to ``end``."""
        end = len(buffer) if end is None else end
        header = self.header.decode(buffer, position, end)
        if header.schema_id != self.schema.id:
            raise DecodeError(f"schema id {header.schema_id} is not {self.schema.id}", position)
        codec = self.codec(header.template_id)
        if codec is None:
            raise DecodeError(f"template {header.template_id} is not known", position)
        return codec.decode_body(
            buffer, position + self.header.size, header.block_length, header.version, end
        )

    def encode(self, name: str, values: Mapping[str, Any]) -> bytes:
        """The bytes of the message of that name, header first."""
        message = self.schema.by_name.get(name)
        if message is None:
            raise EncodeError(f"{name}: no such message in version {self.schema.version}")
        codec = self.codec(message.id)
        assert codec is not None
        return codec.encode(values)
