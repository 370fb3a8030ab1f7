"""Kernels over captured streams: message boundaries and business headers.

The plain Python equivalent of `walk_stream` is in its tests.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from pregao._njit import load_u16, load_u32, load_u64, njit
from pregao.entrypoint.framing import (
    BLOCK_LENGTH_AT,
    ENCODING_TYPE_AT,
    FRAMING_SIZE,
    HEADERS_SIZE,
    MAX_MESSAGE,
    MESSAGE_LENGTH_AT,
    SCHEMA_ID_AT,
    TEMPLATE_ID_AT,
)
from pregao.sbe.model import LITTLE_ENDIAN_FRAME
from pregao.schemas.bundle import ENTRYPOINT_SCHEMA_ID

MAX_STRETCH: Final = 32_768
"""Maximum length of one range of bytes that are not a message; longer ranges are split."""

_ENCODING: Final[int] = LITTLE_ENDIAN_FRAME
_SCHEMA: Final[int] = ENTRYPOINT_SCHEMA_ID
_TIME_LIMIT = np.uint64(1 << 63)

# Results of `starts_message`.
_NO, _YES, _LATER = 0, 1, 2


@njit
def gather_pieces(buffer: Any, offset: Any, length: Any, rows: Any, out: Any, at: int) -> Any:
    """Concatenate pieces into ``out``; return the end offset."""
    for r in range(len(rows)):
        i = rows[r]
        for k in range(length[i]):
            out[at + k] = buffer[offset[i] + k]
        at += length[i]
    return at


@njit
def is_sound(buffer: Any, at: int) -> Any:
    """Whether complete headers are those of an EntryPoint message."""
    length = np.int64(load_u16(buffer, at + MESSAGE_LENGTH_AT))
    return (
        load_u16(buffer, at + ENCODING_TYPE_AT) == _ENCODING
        and HEADERS_SIZE <= length <= MAX_MESSAGE
        and load_u16(buffer, at + SCHEMA_ID_AT) == _SCHEMA
        and np.int64(load_u16(buffer, at + BLOCK_LENGTH_AT)) + HEADERS_SIZE <= length
    )


@njit
def may_become_sound(buffer: Any, at: int, end: int) -> Any:
    """Whether a part of the headers can be the start of an EntryPoint message."""
    there = end - at
    if there >= ENCODING_TYPE_AT + 2:
        return load_u16(buffer, at + ENCODING_TYPE_AT) == _ENCODING
    if there == ENCODING_TYPE_AT + 1:
        return np.int64(buffer[at + ENCODING_TYPE_AT]) == (_ENCODING & 0xFF)
    return True


@njit
def starts_message(buffer: Any, at: int, end: int, final: bool) -> Any:
    """Whether a message starts at an offset of an unsynchronized stream.

    Its headers must be valid, and so must those of the next message, if available.
    """
    if end - at < HEADERS_SIZE:
        return _LATER if not final and may_become_sound(buffer, at, end) else _NO
    if not is_sound(buffer, at):
        return _NO
    following = at + np.int64(load_u16(buffer, at + MESSAGE_LENGTH_AT))
    if following > end:
        return _NO if final else _LATER
    if end - following >= HEADERS_SIZE:
        return _YES if is_sound(buffer, following) else _NO
    if not may_become_sound(buffer, following, end):
        return _NO
    return _YES if final else _LATER


@njit
def put_stretch(start: int, end: int, count: int, offsets: Any, lengths: Any) -> Any:
    """Add bytes that are not a message, split into ranges; return the new number of entries."""
    while start < end:
        size = min(end - start, MAX_STRETCH)
        offsets[count] = start
        lengths[count] = size
        count += 1
        start += size
    return count


@njit
def walk_stream(
    buffer: Any, begin: int, end: int, synced: bool, recognised: bool, final: bool, offsets: Any,
    lengths: Any,
) -> Any:  # fmt: skip
    """Find the messages in a stream's bytes, and the ranges between them that are not messages.

    ``synced`` states that a message starts at ``begin``; ``recognised`` that the stream has
    contained a message before; ``final`` that nothing follows. Returns the number of entries, the
    offset of the bytes that need more data, and the new ``synced`` and ``recognised``.
    """
    count = 0
    at: Any = begin
    while at < end:
        available = end - at
        if synced:
            if available < FRAMING_SIZE or (not recognised and available < HEADERS_SIZE):
                break
            length = np.int64(load_u16(buffer, at + MESSAGE_LENGTH_AT))
            good = (
                load_u16(buffer, at + ENCODING_TYPE_AT) == _ENCODING
                and HEADERS_SIZE <= length <= MAX_MESSAGE
            )
            if not good or (not recognised and not is_sound(buffer, at)):
                synced = False
                continue
            if length > available:
                break
            offsets[count] = at
            lengths[count] = length
            count += 1
            recognised = True
            at += length
        else:
            start = at
            verdict = _NO
            while at < end:
                verdict = starts_message(buffer, at, end, final)
                if verdict != _NO:
                    break
                at += 1
            count = put_stretch(start, at, count, offsets, lengths)
            if verdict != _YES:
                break
            synced = True
    if final:
        count = put_stretch(at, end, count, offsets, lengths)
        at = end
    return count, at, synced, recognised


@njit
def read_templates(buffer: Any, offsets: Any, lengths: Any, templates: Any) -> None:
    """Read the template ids of messages; -1 for ranges that are not a message."""
    for i in range(len(offsets)):
        at = offsets[i]
        templates[i] = -1
        if (
            lengths[i] >= HEADERS_SIZE
            and np.int64(load_u16(buffer, at + MESSAGE_LENGTH_AT)) == lengths[i]
            and load_u16(buffer, at + ENCODING_TYPE_AT) == _ENCODING
        ):
            templates[i] = load_u16(buffer, at + TEMPLATE_ID_AT)


@njit
def read_business_headers(
    buffer: Any, offsets: Any, lengths: Any, templates: Any, header_at: Any, session_at: int,
    number_at: int, time_at: int, sessions: Any, numbers: Any, times: Any,
) -> None:  # fmt: skip
    """Read the business headers of messages; zeros for messages without one.

    ``header_at`` has the offset of the header in the block for each template id, or -1.
    """
    for i in range(len(offsets)):
        sessions[i], numbers[i], times[i] = 0, 0, 0
        kind = templates[i]
        if kind < 0 or kind >= len(header_at) or header_at[kind] < 0:
            continue
        at = offsets[i] + HEADERS_SIZE + header_at[kind]
        if at + time_at + 8 > offsets[i] + lengths[i]:
            continue
        sessions[i] = load_u32(buffer, at + session_at)
        numbers[i] = load_u32(buffer, at + number_at)
        time = load_u64(buffer, at + time_at)
        if time < _TIME_LIMIT:
            times[i] = np.int64(time)
