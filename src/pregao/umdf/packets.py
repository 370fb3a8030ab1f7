"""Packets: the header, the walk over framed messages, and decoding one message at a time.

A packet is a packet header and one or more messages, each with a framing header and a message
header. A malformed part is reported with a reason and a position; the messages before it remain
valid.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple

from pregao.errors import DecodeError, EncodeError
from pregao.sbe.codec import SbeMessage, SchemaCodec
from pregao.sbe.model import MessageTemplate, Schema
from pregao.schemas.bundle import PROTOCOLS, UMDF_SCHEMA_ID
from pregao.schemas.registry import Registry
from pregao.umdf.layout import (
    ENCODING_TYPE,
    FRAMING_HEADER,
    FRAMING_SIZE,
    MESSAGE_HEADER,
    MIN_MESSAGE_SIZE,
    PACKET_HEADER,
    PACKET_HEADER_SIZE,
)


class PacketHeader(NamedTuple):
    """The header of a packet."""

    channel: int
    sequence_version: int
    sequence_number: int
    sending_time_ns: int

    @property
    def sequenced(self) -> bool:
        """Whether the packet has a sequence number; a heartbeat (number 0) has none."""
        return self.sequence_number != 0


class PacketFrame(NamedTuple):
    """A message in a packet: its index, offsets and header fields."""

    index_in_packet: int
    position: int
    """Offset of the framing header."""
    end: int
    block_length: int
    template_id: int
    schema_id: int
    version: int

    @property
    def body(self) -> int:
        """Offset of the block."""
        return self.position + MIN_MESSAGE_SIZE


@dataclass(slots=True)
class DecodedMessage:
    """Result of one message: decoded, of an unknown template, or rejected."""

    frame: PacketFrame | None
    """None if the walk itself could not continue."""
    position: int
    end: int
    decoded: SbeMessage | None = None
    schema: Schema | None = None
    reason: str = ""
    """Why it was rejected; empty if it was not."""

    @property
    def message(self) -> MessageTemplate | None:
        """The template, if it is known."""
        return None if self.decoded is None else self.decoded.message


@dataclass(slots=True)
class DecodedPacket:
    """A packet: its header and the result of each message."""

    header: PacketHeader
    outcomes: list[DecodedMessage] = field(default_factory=list)

    @property
    def messages(self) -> list[SbeMessage]:
        """The decoded messages."""
        return [outcome.decoded for outcome in self.outcomes if outcome.decoded is not None]


def decode_header(payload: Any, position: int = 0, end: int | None = None) -> PacketHeader:
    """Decode the packet header at a position.

    Raises:
        DecodeError: The packet is too short, or its sending time is out of range.
    """
    end = len(payload) if end is None else end
    if end - position < PACKET_HEADER_SIZE:
        raise DecodeError(f"a packet of {end - position} bytes is too short", position)
    channel, _reserved, version, number, time = PACKET_HEADER.unpack_from(payload, position)
    if time >> 63:
        raise DecodeError("a sending time beyond the year 2262", position)
    return PacketHeader(channel, version, number, time)


def frames(payload: Any, position: int = 0, end: int | None = None) -> Iterator[PacketFrame]:
    """Yield the messages of the packet at a position, in order.

    Raises:
        DecodeError: The packet is malformed after the messages yielded so far.
    """
    end = len(payload) if end is None else end
    start = position
    position += PACKET_HEADER_SIZE
    if position >= end:
        raise DecodeError("a packet without messages", start)
    index = 0
    while position < end:
        if end - position < MIN_MESSAGE_SIZE:
            raise DecodeError(f"{end - position} bytes after the last message", position)
        length, encoding = FRAMING_HEADER.unpack_from(payload, position)
        if encoding != ENCODING_TYPE:
            raise DecodeError(
                f"encoding type {encoding:#06x} is not {ENCODING_TYPE:#06x}", position
            )
        if length < MIN_MESSAGE_SIZE:
            raise DecodeError(f"a message length of {length} bytes is too small", position)
        if length > end - position:
            raise DecodeError(f"a message of {length} bytes runs past the packet", position)
        block, template, schema, version = MESSAGE_HEADER.unpack_from(
            payload, position + FRAMING_SIZE
        )
        yield PacketFrame(index, position, position + length, block, template, schema, version)
        index += 1
        position += length


def check_schema_id(registry: Registry, schema_id: int, own: int = UMDF_SCHEMA_ID) -> None:
    """Raise DecodeError for messages of another protocol, unless the user named their schema."""
    named = schema_id not in PROTOCOLS.values() and any(s.id == schema_id for s in registry.named())
    if schema_id != own and not named:
        raise DecodeError(f"schema id {schema_id} is not {own}")


class PacketDecoder:
    """Decodes packets message by message, each with the schema of its version."""

    def __init__(self, registry: Registry | None = None, schema_id: int = UMDF_SCHEMA_ID) -> None:
        self.registry = Registry.bundled() if registry is None else registry
        self._schema_id = schema_id
        self._codecs: dict[tuple[int, int], SchemaCodec] = {}
        self._of_schema: dict[int, SchemaCodec] = {}
        """Codecs by the identity of the schema: one schema may decode many versions on the wire."""

    def codec(self, schema_id: int, version: int) -> SchemaCodec:
        """Return the codec for a message's schema id and version."""
        codec = self._codecs.get((schema_id, version))
        if codec is None:
            check_schema_id(self.registry, schema_id, self._schema_id)
            schema = self.registry.find(schema_id, version)
            codec = self._of_schema.setdefault(id(schema), SchemaCodec(schema))
            if len(self._codecs) < 1024:  # both numbers come from the wire
                self._codecs[schema_id, version] = codec
        return codec

    def decode(self, payload: Any, position: int = 0, end: int | None = None) -> DecodedPacket:
        """Decode a packet; raises DecodeError only if the header is incomplete."""
        end = len(payload) if end is None else end
        packet = DecodedPacket(decode_header(payload, position, end))
        walk = frames(payload, position, end)
        while True:
            try:
                part = next(walk, None)
            except DecodeError as error:
                fault_position = position if error.position is None else error.position
                packet.outcomes.append(
                    DecodedMessage(None, fault_position, end, reason=error.reason)
                )
                return packet
            if part is None:
                return packet
            packet.outcomes.append(self.outcome(payload, part))

    def outcome(self, payload: Any, part: PacketFrame) -> DecodedMessage:
        """Decode one message of a payload."""
        outcome = DecodedMessage(part, part.position, part.end)
        try:
            codec = self.codec(part.schema_id, part.version)
            outcome.schema = codec.schema
            message = codec.codec(part.template_id)
            # Template 0 is the packet header, which the schema declares as a message.
            if message is not None and part.template_id:
                outcome.decoded = message.decode_body(
                    payload, part.body, part.block_length, part.version, part.end
                )
        except DecodeError as error:
            outcome.reason = error.reason
        return outcome


def frame(message: bytes) -> bytes:
    """Return a message (header and body) with its framing header."""
    return _framing(message) + message


def _framing(message: bytes) -> bytes:
    return _framing_of(len(message))


@cache
def _framing_of(size: int) -> bytes:
    """Return the framing header of a message size; cached, as there are few sizes."""
    try:
        return FRAMING_HEADER.pack(FRAMING_SIZE + size, ENCODING_TYPE)
    except struct.error:
        length = FRAMING_SIZE + size
        raise EncodeError(
            f"a message of {length} bytes exceeds the frame's maximum length"
        ) from None


def encode_packet(header: PacketHeader, messages: Iterable[bytes]) -> bytes:
    """Encode a packet from messages (header and body, without framing)."""
    return write_packet(*header, [*messages])


def write_packet(
    channel: int, version: int, number: int, time_ns: int, messages: Sequence[bytes]
) -> bytes:
    """Encode a packet as `encode_packet` does, without a header object, for bulk writers."""
    header = PACKET_HEADER.pack(channel, 0, version, number, time_ns)
    if len(messages) == 1:
        return header + _framing_of(len(messages[0])) + messages[0]
    parts = [header]
    for message in messages:
        parts.append(_framing_of(len(message)))
        parts.append(message)
    return b"".join(parts)
