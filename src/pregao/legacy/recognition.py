"""Is it the legacy feed? Datagrams and raw dumps of it, told by their content."""

from __future__ import annotations

from collections.abc import Iterable

from pregao.errors import DecodeError
from pregao.legacy.assembly import Message
from pregao.legacy.chunks import HEADER_SIZE, read_chunks
from pregao.legacy.messages import MessageReader

RAW_HEAD = 1 << 16
"""So many bytes of a file tell whether it is a raw dump."""


def is_legacy(datagram: bytes, reader: MessageReader) -> bool:
    """Is a datagram one of the feed: sound chunks, and a message that agrees with its header?

    Of a message in several chunks only the headers can be looked at.
    """
    try:
        chunks = list(read_chunks(datagram))
        return all(
            chunk.count > 1
            or reader.read(Message(chunk.number, chunk.payload)).number == chunk.number
            for chunk in chunks
        )
    except DecodeError:
        return False


def mostly_legacy(datagrams: Iterable[bytes], reader: MessageReader) -> bool:
    """Are most of some datagrams, and one at least, of the feed?"""
    found = [is_legacy(each, reader) for each in datagrams]
    return sum(found) * 2 > len(found)


def is_raw_dump(head: bytes, reader: MessageReader) -> bool:
    """Does a file that begins so hold the feed's chunks one behind the other, and nothing else?"""
    sound = 0
    position = 0
    while position + HEADER_SIZE < len(head):
        length = int.from_bytes(head[position + 8 : position + 10], "big")
        end = position + HEADER_SIZE + length
        if not length or end > len(head):
            break
        if not is_legacy(head[position:end], reader):
            return False
        sound += 1
        position = end
    return sound > 0
