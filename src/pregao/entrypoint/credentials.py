"""The credentials in Negotiate and Establish: made, checked, and blanked before they are kept."""

from __future__ import annotations

import hmac
import json

from pregao.documents import DocumentError, parse_json
from pregao.entrypoint.framing import HEADERS_SIZE, Frame
from pregao.sbe import template
from pregao.schemas import bundled

MAX_CREDENTIALS = 128
WITH_CREDENTIALS = {
    message.id: message
    for message in (template(bundled("entrypoint"), name) for name in ("Negotiate", "Establish"))
}


def credentials(session_id: int, access_key: str) -> str:
    """The JSON document that a client sends."""
    document = {"auth_type": "basic", "username": str(session_id), "access_key": access_key}
    return json.dumps(document)


def are_right(given: str | None, session_id: int, access_key: str) -> bool:
    """Do credentials open a session? How long the answer takes does not tell how wrong they are."""
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


def blanked(frame: Frame) -> bytes:
    """The bytes of a frame as they may be kept: asterisks in place of credentials.

    Where they cannot be found for sure, the whole body is blanked.
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
