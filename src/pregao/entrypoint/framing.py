"""Frames of messages in a byte stream, and the credentials in their first messages.

Each message follows a framing header with its length. A TCP segment may contain several messages or
part of one; `FrameReader` reassembles them. Credentials in Negotiate and Establish are created,
verified, and masked for storage.
"""

from __future__ import annotations

import hmac
import json
import struct
from typing import Final, NamedTuple

from pregao.errors import EncodeError, SchemaError, UsageError
from pregao.safe_io.documents import DocumentError, parse_json
from pregao.sbe.codec import HeaderCodec, MessageHeader
from pregao.sbe.model import LITTLE_ENDIAN_FRAME, Composite, EncodedType
from pregao.sbe.xml import template
from pregao.schemas.bundle import bundled

_SCHEMA = bundled("entrypoint")
MAX_MESSAGE_SIZE: Final = 16_384
"""Maximum message length of §4.4, the upper limit of that setting."""
_MESSAGE_HEADER = HeaderCodec(_SCHEMA)

MAX_CREDENTIALS = 128
WITH_CREDENTIALS = {
    message.id: message
    for message in (template(bundled("entrypoint"), name) for name in ("Negotiate", "Establish"))
}


def _framing() -> tuple[struct.Struct, int]:
    """Return the ``struct`` of the framing header and the schema's maximum message length."""
    composite = _SCHEMA.types.get("FramingHeader")
    if isinstance(composite, Composite):
        types = {m.name: m.type for m in composite.members if isinstance(m.type, EncodedType)}
        if list(types) == ["messageLength", "encodingType"]:
            codes = "".join(kind.primitive.code for kind in types.values())
            return struct.Struct("<" + codes), int(types["messageLength"].maximum or 0xFFFF)
    raise SchemaError("the bundled EntryPoint schema has no framing header of two numbers")


_HEADER, MAX_MESSAGE = _framing()
"""Maximum message length of the schema, 2048 bytes; enforced unless a setting allows more."""
FRAMING_SIZE: Final[int] = _HEADER.size
HEADERS_SIZE: Final[int] = FRAMING_SIZE + _MESSAGE_HEADER.size
"""Offset of the body of a framed message."""


def _offset(composite: str, member: str) -> int:
    kind = _SCHEMA.types.get(composite)
    found = kind.member(member) if isinstance(kind, Composite) else None
    if found is None:
        raise SchemaError(f"the bundled EntryPoint schema has no {composite}.{member}")
    return found.offset


# Kernels use these as compile-time constants.
MESSAGE_LENGTH_AT: Final[int] = _offset("FramingHeader", "messageLength")
ENCODING_TYPE_AT: Final[int] = _offset("FramingHeader", "encodingType")
BLOCK_LENGTH_AT: Final[int] = FRAMING_SIZE + _offset("messageHeader", "blockLength")
TEMPLATE_ID_AT: Final[int] = FRAMING_SIZE + _offset("messageHeader", "templateId")
SCHEMA_ID_AT: Final[int] = FRAMING_SIZE + _offset("messageHeader", "schemaId")


class StreamFrame(NamedTuple):
    """A framed message: its bytes, including both headers, and its decoded message header."""

    data: bytes
    header: MessageHeader


def frame_of(data: bytes) -> StreamFrame:
    """Return the frame of a complete message."""
    return StreamFrame(data, _MESSAGE_HEADER.decode(data, FRAMING_SIZE))


class BadFrame(NamedTuple):
    """Bytes that are not a message; the rest of the stream cannot be read."""

    reason: str


class FrameReader:
    """Reassembles the messages of one direction of a connection.

    Args:
        max_message: Maximum length of a message, up to 16,384 bytes (§4.4).

    Raises:
        UsageError: ``max_message`` is out of range.
    """

    def __init__(self, max_message: int = MAX_MESSAGE) -> None:
        if not HEADERS_SIZE <= max_message <= MAX_MESSAGE_SIZE:
            raise UsageError(
                f"max_message must be from {HEADERS_SIZE} to {MAX_MESSAGE_SIZE} bytes, "
                f"was {max_message}."
            )
        self._max_message = max_message
        self._rest = b""
        self._broken = False

    def receive(self, data: bytes) -> list[StreamFrame | BadFrame]:
        """Return the messages completed by these bytes; nothing is returned after a bad frame."""
        if self._broken:
            return []
        buffer = self._rest + data if self._rest else data
        found: list[StreamFrame | BadFrame] = []
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
    """Return a message (header and body) with its framing header.

    Args:
        message: The encoded message, without framing.

    Returns:
        The bytes to send.

    Raises:
        EncodeError: The framed message is longer than the schema allows.

    Example:
        >>> framed(b"message").hex(" ")
        '0b 00 50 eb 6d 65 73 73 61 67 65'
    """
    length = FRAMING_SIZE + len(message)
    if length > MAX_MESSAGE:
        raise EncodeError(f"a message of {length} bytes is longer than {MAX_MESSAGE}")
    return _HEADER.pack(length, LITTLE_ENDIAN_FRAME) + message


def credentials(session_id: int, access_key: str) -> str:
    """Return the JSON credentials that a client sends.

    Args:
        session_id: The session.
        access_key: Its access key.

    Returns:
        The document as text.

    Example:
        >>> credentials(7, "secret")
        '{"auth_type": "basic", "username": "7", "access_key": "secret"}'
    """
    document = {"auth_type": "basic", "username": str(session_id), "access_key": access_key}
    return json.dumps(document)


def are_right(given: str | None, session_id: int, access_key: str) -> bool:
    """Whether credentials are valid for a session; the key is compared in constant time."""
    if given is None or len(given) > MAX_CREDENTIALS:
        return False
    try:
        document = parse_json(given)
    except DocumentError:
        return False
    if not isinstance(document, dict) or document.get("auth_type") != "basic":
        return False
    key = str(document.get("access_key", "")).encode("utf-8", "replace")
    right = hmac.compare_digest(key, access_key.encode())
    return document.get("username") == str(session_id) and right


def blanked(frame: StreamFrame) -> bytes:
    """Return the bytes of a frame with its credentials replaced by asterisks, safe to store.

    If the credentials cannot be located reliably, the complete body is masked.

    Args:
        frame: The frame to mask; frames without credentials are returned unchanged.

    Returns:
        The masked bytes, of the same length.

    Example:
        >>> values = {"sessionID": 7, "sessionVerID": 1, "timestamp": 1,
        ...     "enteringFirm": 85, "credentials": credentials(7, "secret")}
        >>> sent = messages(6).encode("Negotiate", values)
        >>> (frame,) = FrameReader().receive(sent)
        >>> b"secret" in frame.data, b"secret" in blanked(frame)
        (True, False)
    """
    message = WITH_CREDENTIALS.get(frame.header.template_id)
    if message is None:
        return frame.data
    data, start, end = frame.data, HEADERS_SIZE, len(frame.data)
    first = start + message.block_length + message.data[0].header_size
    if frame.header.block_length == message.block_length and first <= end:
        length = data[first - 1]
        if length <= end - first:
            start, end = first, first + length
    return data[:start] + b"*" * (end - start) + data[end:]
