"""Credentials in Negotiate and Establish: creation, verification, and masking for storage."""

from __future__ import annotations

import hmac
import json

from pregao.safe_io.documents import DocumentError, parse_json
from pregao.entrypoint.framing import HEADERS_SIZE, StreamFrame
from pregao.sbe.xml import template
from pregao.schemas.bundle import bundled

MAX_CREDENTIALS = 128
WITH_CREDENTIALS = {
    message.id: message
    for message in (template(bundled("entrypoint"), name) for name in ("Negotiate", "Establish"))
}


def credentials(session_id: int, access_key: str) -> str:
    """Return the JSON credentials that a client sends.

    Args:
        session_id: The session.
        access_key: Its access key.
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
