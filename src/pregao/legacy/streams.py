"""The streams of a channel, the platforms that send them, and what differs between these."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum

from pregao.clock import SECOND
from pregao.legacy.messages import MsgType

HEARTBEAT_NS = 10 * SECOND
"""How often a silent stream sends a heartbeat (002 §5.1.1)."""
DEAD_AFTER_NS = 30 * SECOND
"""After so long a silence a stream is not working (002 §5.3.6: three heartbeats)."""


class Stream(StrEnum):
    """A stream of a channel (002 §5.1)."""

    INCREMENTAL = "incremental"
    MARKET_RECOVERY = "recovery"
    INSTRUMENT_DEFINITION = "definition"


def stream_of(types: Collection[MsgType]) -> Stream | None:
    """The stream that sends messages of these types; None if they do not tell.

    Definitions are sent on the incremental stream too, heartbeats and resets on all of them.
    """
    if MsgType.SNAPSHOT in types:
        return Stream.MARKET_RECOVERY
    incremental = (MsgType.INCREMENTAL_REFRESH, MsgType.SECURITY_STATUS, MsgType.NEWS)
    if any(each in types for each in incremental):
        return Stream.INCREMENTAL
    return Stream.INSTRUMENT_DEFINITION if MsgType.SECURITY_LIST in types else None


@dataclass(frozen=True, slots=True)
class Platform:
    """A trading platform, as far as its feeds differ."""

    name: str
    most_bytes: int
    """Of a datagram, header included (002 §5.3.3)."""
    same_on_both_feeds: bool
    """Do feeds A and B carry the same messages under the same numbers (002 §5.2, §15.3)?"""
    numbered_weekly: bool
    """Do the numbers of the incremental stream begin anew each week, or each day (002 §15.7)?"""
    recovered_at_most: int | None
    """So many messages back TCP recovery reaches; None for all since the last reset."""


PUMA = Platform("PUMA", 1420, True, True, 10_000)
MEGABOLSA = Platform("MEGABOLSA", 1400, False, False, None)
PLATFORMS = {each.name: each for each in (PUMA, MEGABOLSA)}
