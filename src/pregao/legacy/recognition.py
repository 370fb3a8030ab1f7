"""Detects datagrams and raw dumps of the legacy feed by their content."""

from __future__ import annotations

from collections.abc import Iterable

from pregao.errors import DecodeError
from pregao.legacy.assembly import AssembledMessage
from pregao.legacy.chunks import HEADER_SIZE, read_chunks
from pregao.legacy.messages import MessageReader

RAW_HEAD = 1 << 16
"""Bytes of a file that are enough to detect a raw dump."""


def is_legacy(datagram: bytes, reader: MessageReader) -> bool:
    """Whether a datagram is of the feed: valid chunks, and messages that match their headers.

    Of a message in several chunks only the headers can be checked.
    """
    try:
        chunks = list(read_chunks(datagram))
        return all(
            chunk.count > 1
            or reader.read(AssembledMessage(chunk.number, chunk.payload)).number == chunk.number
            for chunk in chunks
        )
    except DecodeError:
        return False


def mostly_legacy(datagrams: Iterable[bytes], reader: MessageReader) -> bool:
    """Whether more than half of the datagrams, and at least one, are of the feed."""
    matches = [is_legacy(each, reader) for each in datagrams]
    return sum(matches) * 2 > len(matches)


def is_raw_dump(head: bytes, reader: MessageReader) -> bool:
    """Whether a file with this beginning consists only of concatenated chunks of the feed."""
    chunks = 0
    position = 0
    while position + HEADER_SIZE < len(head):
        length = int.from_bytes(head[position + 8 : position + 10], "big")
        end = position + HEADER_SIZE + length
        if not length or end > len(head):
            break
        if not is_legacy(head[position:end], reader):
            return False
        chunks += 1
        position = end
    return chunks > 0
