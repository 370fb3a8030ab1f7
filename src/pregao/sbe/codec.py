"""Message codec: converts one SBE message at a time between bytes and named values.

The readings define the types of values: numbers, decimals, dates, names of enumerations (a number
if there is no name), sets as numbers, records as dictionaries, groups as lists of dictionaries,
data as text. Null is None.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from pregao.errors import DecodeError, EncodeError
from pregao.sbe._decoder import Decoder, message_decoder, version_marks
from pregao.sbe._encoder import Encoder, group_header, message_encoder
from pregao.sbe.model import MessageTemplate, Schema
from pregao.sbe.packer import FieldSource, Packer, Unpacker, packer, unpacker


@dataclass(slots=True)
class SbeMessage:
    """A decoded message: its template, the sender's version, its values and its end."""

    message: MessageTemplate
    version: int
    values: dict[str, Any]
    end: int
    """End of its known parts; bytes between this and the frame's end are of a later version."""

    def __getitem__(self, name: str) -> Any:
        """Return a value by field name."""
        return self.values[name]


class MessageHeader(NamedTuple):
    """The four numbers that select how to decode a message."""

    block_length: int
    template_id: int
    schema_id: int
    version: int


_USUAL_ORDER = (0, 1, 2, 3)
_TOO_SHORT = "too short for a message header"


class HeaderCodec:
    """Codec of the message header of a schema."""

    __slots__ = ("_order", "_struct", "size", "unpack_from")

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
        self.unpack_from: Callable[[Any, int], tuple[int, ...]] = self._struct.unpack_from
        """Read the four numbers at a position, in the order of `MessageHeader`, unchecked."""
        if self._order != _USUAL_ORDER:
            self.unpack_from = self._in_order

    def decode(self, buffer: Any, position: int = 0, end: int | None = None) -> MessageHeader:
        """Return the header at a position."""
        end = len(buffer) if end is None else end
        if position < 0 or end - position < self.size:
            raise DecodeError(_TOO_SHORT, position)
        return MessageHeader._make(self.unpack_from(buffer, position))

    def _in_order(self, buffer: Any, position: int) -> tuple[int, ...]:
        numbers = self._struct.unpack_from(buffer, position)
        return tuple(numbers[index] for index in self._order)

    def encode(self, header: MessageHeader) -> bytes:
        """Encode a header."""
        ranked = [0, 0, 0, 0]
        for number, rank in zip(header, self._order, strict=True):
            ranked[rank] = number
        return self._struct.pack(*ranked)


class MessageCodec:
    """Codec of one template of a schema; bodies begin after the message header.

    Its functions are generated and compiled on first use: one that encodes, and one that decodes
    for each version with a different layout.
    """

    __slots__ = ("_encode", "_marks", "decoders", "header", "message", "schema")

    def __init__(self, schema: Schema, message: MessageTemplate) -> None:
        self.schema = schema
        self.message = message
        self.header = HeaderCodec(schema).encode(
            MessageHeader(message.block_length, message.id, schema.id, schema.version)
        )
        self._encode: Encoder | None = None
        self.decoders: dict[int, Decoder] = {}
        """Decoding functions by the sender's version, generated on demand."""
        self._marks: list[int] = []

    def decode_body(
        self, buffer: Any, position: int, block_length: int, version: int, end: int
    ) -> SbeMessage:
        """Decode the body after the header, up to ``end``."""
        decode = self.decoders.get(version) or self.decoder(version)
        decoded: SbeMessage = decode(buffer, position, block_length, version, end)
        return decoded

    def decoder(self, version: int) -> Decoder:
        """Return the function that decodes messages of a version."""
        self._marks = self._marks or sorted(version_marks(self.message))
        mark = max(mark for mark in self._marks if mark <= version)
        found = self.decoders.get(mark)
        if found is None:
            found = message_decoder(self.message, self.schema.byte_order, mark, SbeMessage)
            self.decoders[mark] = found
        if len(self.decoders) < 64:  # the version comes from the wire
            self.decoders[version] = found
        return found

    def encode(self, values: Mapping[str, Any]) -> bytes:
        """Encode a message, including its header."""
        return (self._encode or self.encoder())(values)

    def encoder(self) -> Encoder:
        """Return the encoding function, for repeated calls."""
        if self._encode is None:
            self._encode = message_encoder(self.message, self.schema.byte_order, self.header)
        return self._encode

    def packer(
        self,
        *names: str,
        sources: Mapping[str, FieldSource] | None = None,
        fixed: Mapping[str, Any] | None = None,
    ) -> Packer:
        """Return a fast encoder of header and block from wire values of the named fields.

        None means null. Fields that are not named are null, or zero if they cannot be null. A
        member of a record is named by its path, as in ``businessHeader.msgSeqNum``. The caller
        appends groups and data; but if one data field is named, all are written, each given as
        bytes. Fields in ``sources`` come from attributes of an object, which is then the first
        argument; ``fixed`` fields have the same value in every message.
        """
        return packer(self.message, self.schema.byte_order, self.header, names, sources, fixed)

    def unpacker(self, *names: str) -> Unpacker:
        """Return a fast decoder of the named fields to wire values, the reverse of :meth:`packer`.

        Its arguments are a buffer, the position and the length of the block, and the end. It is for
        senders of the schema's version or a later one: a block too short for a named field is
        refused.
        """
        return unpacker(self.message, self.schema.byte_order, names)

    def group_packers(
        self,
        group: str,
        *names: str,
        sources: Mapping[str, FieldSource] | None = None,
        fixed: Mapping[str, Any] | None = None,
    ) -> tuple[Callable[[int], bytes], Callable[..., bytes]]:
        """Return fast encoders of a group: of its header by number of entries, and of an entry.

        An entry is encoded from wire values of the named fields, as by :meth:`packer`; entries with
        groups or data are not supported.
        """
        found = next((each for each in self.message.groups if each.name == group), None)
        if found is None:
            raise EncodeError(f"{group}: no such group in {self.message.name}")
        order = self.schema.byte_order
        return group_header(found, order), packer(found, order, b"", names, sources, fixed)


class SchemaCodec:
    """Codec of all messages of a schema."""

    __slots__ = ("_codecs", "_encoders", "_size", "_unpack", "header", "schema")

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.header = HeaderCodec(schema)
        self._size = self.header.size
        self._unpack = self.header.unpack_from
        self._codecs: dict[int, MessageCodec] = {}
        self._encoders: dict[str, Encoder] = {}

    def codec(self, template_id: int) -> MessageCodec | None:
        """Return the codec of a template, or None if the schema does not have it."""
        codec = self._codecs.get(template_id)
        if codec is None:
            message = self.schema.by_id.get(template_id)
            if message is None:
                return None
            codec = self._codecs[template_id] = MessageCodec(self.schema, message)
        return codec

    def decode(self, buffer: Any, position: int = 0, end: int | None = None) -> SbeMessage:
        """Decode the message whose header is at ``position``, up to ``end``."""
        if end is None:
            end = len(buffer)
        if position < 0 or end - position < self._size:
            raise DecodeError(_TOO_SHORT, position)
        block_length, template_id, schema_id, version = self._unpack(buffer, position)
        if schema_id != self.schema.id:
            raise DecodeError(f"schema id {schema_id} is not {self.schema.id}", position)
        codec = self._codecs.get(template_id) or self.codec(template_id)
        if codec is None:
            raise DecodeError(f"template {template_id} is not known", position)
        decode = codec.decoders.get(version) or codec.decoder(version)
        decoded: SbeMessage = decode(buffer, position + self._size, block_length, version, end)
        return decoded

    def encode(self, name: str, values: Mapping[str, Any]) -> bytes:
        """Encode the message of that name, including its header."""
        try:
            encode = self._encoders[name]
        except KeyError:
            encode = self._encoder(name)
        return encode(values)

    def _encoder(self, name: str) -> Encoder:
        message = self.schema.by_name.get(name)
        if message is None:
            raise EncodeError(f"{name}: no such message in version {self.schema.version}")
        codec = self.codec(message.id)
        assert codec is not None
        encoder = self._encoders[name] = codec.encoder()
        return encoder
