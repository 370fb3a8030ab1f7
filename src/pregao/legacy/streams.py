"""The streams of a channel, the platforms that send them, and the platforms' differences."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum

from pregao.clock import SECOND
from pregao.legacy.messages import MsgType

HEARTBEAT_NS = 10 * SECOND
"""Heartbeat interval of a silent stream (002 §5.1.1)."""
DEAD_AFTER_NS = 30 * SECOND
"""Silence after which a stream has failed (002 §5.3.6: three heartbeats)."""


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


PUMA = Platform("PUMA", 1420, True, True, 10_000, True)
MEGABOLSA = Platform("MEGABOLSA", 1400, False, False, None, False)
PLATFORMS = {each.name: each for each in (PUMA, MEGABOLSA)}
