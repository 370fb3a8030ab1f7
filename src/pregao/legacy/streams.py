"""Streams of the legacy feed, the platforms that send them, and detection by content.

The platforms differ in a few rules. Datagrams and raw dumps of the feed are detected by their
content.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import StrEnum

from pregao.clock import SECOND
from pregao.errors import DecodeError
from pregao.legacy.messages import MessageReader, MsgType
from pregao.legacy.reassembly import HEADER_SIZE, AssembledMessage, read_chunks

HEARTBEAT_NS = 10 * SECOND
"""Heartbeat interval of a silent stream (002 §5.1.1)."""
DEAD_AFTER_NS = 30 * SECOND
"""Silence after which a stream has failed (002 §5.3.6: three heartbeats)."""

RAW_HEAD = 1 << 16
"""Bytes of a file that are enough to detect a raw dump."""


class LegacyStream(StrEnum):
    """A stream of a channel (002 §5.1)."""

    INCREMENTAL = "incremental"
    MARKET_RECOVERY = "recovery"
    INSTRUMENT_DEFINITION = "definition"


def stream_of(types: Collection[MsgType]) -> LegacyStream | None:
    """Return the stream that sends messages of these types; None if they are ambiguous.

    Definitions are also sent on the incremental stream, heartbeats and resets on all streams.
    """
    if MsgType.SNAPSHOT in types:
        return LegacyStream.MARKET_RECOVERY
    incremental = (MsgType.INCREMENTAL_REFRESH, MsgType.SECURITY_STATUS, MsgType.NEWS)
    if any(each in types for each in incremental):
        return LegacyStream.INCREMENTAL
    return LegacyStream.INSTRUMENT_DEFINITION if MsgType.SECURITY_LIST in types else None


@dataclass(frozen=True, slots=True)
class Platform:
    """A trading platform and the properties of its feeds."""

    name: str
    max_bytes: int
    """Maximum size of a datagram, header included (002 §5.3.3)."""
    same_on_both_feeds: bool
    """Whether feeds A and B have the same messages and numbers (002 §5.2, §15.3)."""
    numbered_weekly: bool
    """Whether incremental numbers restart weekly; else they restart daily (002 §15.7)."""
    max_recovered: int | None
    """Number of past messages that TCP recovery has; None for all since the last reset."""
    milliseconds: bool
    """Whether times of day include milliseconds (002 §15.11)."""
    separate_states: bool
    """Whether an instrument keeps its own state when its group gets another one (002 §15.6)."""


PUMA = Platform("PUMA", 1420, True, True, 10_000, True, True)
MEGABOLSA = Platform("MEGABOLSA", 1400, False, False, None, False, False)
PLATFORMS = {each.name: each for each in (PUMA, MEGABOLSA)}


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
