"""Messages in a stream of bytes: each behind a framing header that tells its length.

A TCP segment may hold several messages, or a part of one; the reader puts them together.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from pregao.errors import EncodeError, SchemaError, UsageError
from pregao.sbe import LITTLE_ENDIAN_FRAME, Composite, EncodedType, HeaderCodec, MessageHeader
from pregao.schemas import bundled

_SCHEMA = bundled("entrypoint")


def _framing() -> tuple[struct.Struct, int]:
    """The ``struct`` of the framing header, and the longest message that the schema allows."""
    composite = _SCHEMA.types.get("FramingHeader")
    if isinstance(composite, Composite):
        types = {m.name: m.type for m in composite.members if isinstance(m.type, EncodedType)}
        if list(types) == ["messageLength", "encodingType"]:
            codes = "".join(kind.primitive.code for kind in types.values())
            return struct.Struct("<" + codes), int(types["messageLength"].maximum or 0xFFFF)
    raise SchemaError("the bundled EntryPoint schema has no framing header of two numbers")


_HEADER, MAX_MESSAGE = _framing()
"""The schema's limit of a message, 2048 bytes, which is enforced unless a setting allows more."""
LONGEST_MESSAGE: Final = 16_384
"""The longest message of §4.4, up to which a setting may go."""
_MESSAGE_HEADER = HeaderCodec(_SCHEMA)
FRAMING_SIZE: Final[int] = _HEADER.size
HEADERS_SIZE: Final[int] = FRAMING_SIZE + _MESSAGE_HEADER.size
"""Where the body of a framed message begins."""


def _offset(composite: str, member: str) -> int:
    kind = _SCHEMA.types.get(composite)
    found = kind.member(member) if isinstance(kind, Composite) else None
    if found is None:
        raise SchemaError(f"the bundled EntryPoint schema has no {composite}.{member}")
    return found.offset


# For kernels, which take them as constants.
MESSAGE_LENGTH_AT: Final[int] = _offset("FramingHeader", "messageLength")
ENCODING_TYPE_AT: Final[int] = _offset("FramingHeader", "encodingType")
BLOCK_LENGTH_AT: Final[int] = FRAMING_SIZE + _offset("messageHeader", "blockLength")
TEMPLATE_ID_AT: Final[int] = FRAMING_SIZE + _offset("messageHeader", "templateId")
SCHEMA_ID_AT: Final[int] = FRAMING_SIZE + _offset("messageHeader", "schemaId")


class Frame(NamedTuple):
    """A message as it came: all of its bytes, and what its header says."""

    data: bytes
    header: MessageHeader


def frame_of(data: bytes) -> Frame:
    """The frame that whole bytes of a message are."""
    return Frame(data, _MESSAGE_HEADER.decode(data, FRAMING_SIZE))


class BadFrame(NamedTuple):
    """Bytes that are no message; what comes behind them cannot be read."""

    reason: str


class FrameReader:
    """Puts the messages of one direction of a connection together."""

    def __init__(self, max_message: int = MAX_MESSAGE) -> None:
        if not HEADERS_SIZE <= max_message <= LONGEST_MESSAGE:
            raise UsageError(
                f"The longest message must be from {HEADERS_SIZE} to {LONGEST_MESSAGE} bytes, "
                f"was {max_message}."
            )
        self._max_message = max_message
        self._rest = b""
        self._broken = False

    def receive(self, data: bytes) -> list[Frame | BadFrame]:
        """The messages that are whole with these bytes; a bad frame is the last there is."""
        if self._broken:
            return []
        buffer = self._rest + data if self._rest else data
        found: list[Frame | BadFrame] = []
        position, end = 0, len(buffer)
        while end - position >= FRAMING_SIZE:
            length, encoding = _HEADER.unpack_from(buffer, position)
            reason = _fault(length, encoding, self._max_message)
            if reason:
                self._broken = True
                self._rest = b""
                return [*found, BadFrame(reason)]
            if length > end - position:
                break
            found.append(frame_of(bytes(buffer[position : position + length])))
            position += length
        self._rest = bytes(buffer[position:])
        return found


def _fault(length: int, encoding: int, longest: int) -> str:
    if encoding != LITTLE_ENDIAN_FRAME:
        return f"encoding type {encoding:#06x} is not {LITTLE_ENDIAN_FRAME:#06x}"
    if not HEADERS_SIZE <= length <= longest:
        return f"a message length of {length} bytes is not from {HEADERS_SIZE} to {longest}"
    return ""


def framed(message: bytes) -> bytes:
    """A message (header and body) behind its framing header."""
    length = FRAMING_SIZE + len(message)
    if length > MAX_MESSAGE:
        raise EncodeError(f"a message of {length} bytes is longer than {MAX_MESSAGE}")
    return _HEADER.pack(length, LITTLE_ENDIAN_FRAME) + message
