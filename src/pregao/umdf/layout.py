"""Offsets of the packet, framing and message header fields, from the schema."""

from __future__ import annotations

import struct
from typing import Final

from pregao.errors import SchemaError
from pregao.sbe.model import LITTLE_ENDIAN_FRAME, Composite, EncodedType
from pregao.schemas.bundle import bundled

ENCODING_TYPE: Final[int] = LITTLE_ENDIAN_FRAME
MAX_PACKET: Final = 1400
"""Maximum size of a packet of the exchange, in bytes."""

_TYPES = bundled("umdf").types


def _composite(name: str) -> Composite:
    found = _TYPES.get(name)
    if not isinstance(found, Composite):
        raise SchemaError(f"the bundled UMDF schema has no composite {name}")
    return found


def _structure(composite: Composite) -> struct.Struct:
    """Return the ``struct`` of a composite of numbers without padding."""
    codes = []
    for member in composite.members:
        if not isinstance(member.type, EncodedType):
            raise SchemaError(f"{composite.name}.{member.name} is not a number")
        codes.append(member.type.primitive.code)
    return struct.Struct("<" + "".join(codes))


def _offset(composite: Composite, name: str) -> int:
    member = composite.member(name)
    if member is None:
        raise SchemaError(f"the bundled UMDF schema has no {composite.name}.{name}")
    return member.offset


_PACKET = _composite("PacketHeader")
_FRAMING = _composite("FramingHeader")
_MESSAGE = _composite("messageHeader")

PACKET_HEADER: Final = _structure(_PACKET)
FRAMING_HEADER: Final = _structure(_FRAMING)
MESSAGE_HEADER: Final = _structure(_MESSAGE)
PACKET_HEADER_SIZE: Final[int] = PACKET_HEADER.size
FRAMING_SIZE: Final[int] = FRAMING_HEADER.size
MESSAGE_HEADER_SIZE: Final[int] = MESSAGE_HEADER.size
MIN_MESSAGE_SIZE: Final[int] = FRAMING_SIZE + MESSAGE_HEADER_SIZE

# Kernels use these as compile-time constants.
CHANNEL_AT: Final[int] = _offset(_PACKET, "channelNumber")
SEQUENCE_VERSION_AT: Final[int] = _offset(_PACKET, "sequenceVersion")
SEQUENCE_NUMBER_AT: Final[int] = _offset(_PACKET, "sequenceNumber")
SENDING_TIME_AT: Final[int] = _offset(_PACKET, "sendingTime")
MESSAGE_LENGTH_AT: Final[int] = _offset(_FRAMING, "messageLength")
ENCODING_TYPE_AT: Final[int] = _offset(_FRAMING, "encodingType")
BLOCK_LENGTH_AT: Final[int] = FRAMING_SIZE + _offset(_MESSAGE, "blockLength")
TEMPLATE_ID_AT: Final[int] = FRAMING_SIZE + _offset(_MESSAGE, "templateId")
SCHEMA_ID_AT: Final[int] = FRAMING_SIZE + _offset(_MESSAGE, "schemaId")
VERSION_AT: Final[int] = FRAMING_SIZE + _offset(_MESSAGE, "version")
