"""What a followed channel is told beforehand, and what it asks of its surroundings."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from enum import Enum

from pregao.clock import MILLISECOND, SECOND
from pregao.errors import UsageError
from pregao.umdf.streams import Stream

MAX_INSTRUMENTS = 100_000
"""Undefined instruments that a channel follows; what is beyond is counted and dropped."""
MISSED_HEARTBEATS = 3
"""After so many intervals without a packet a channel is down (000 §6.2)."""


@dataclass(frozen=True, slots=True)
class LegacyFeed:
    """What a channel of the legacy feed (UMDF FIX/FAST) is told besides."""

    platform: str = "PUMA"
    """The platform that sends it: PUMA or MEGABOLSA."""
    market_depth: int | None = None
    """How many price levels books show of which no snapshot came; None is all orders."""
    recovery: bool = False
    """Is what is missing asked for over TCP? Then it is waited for as long as that may take."""


@dataclass(frozen=True, slots=True)
class ChannelSettings:
    """All that following a channel depends on."""

    number: int
    feeds: tuple[str, ...] = ("A", "B")
    """The feeds of the incremental stream that carry the same packets, the main one first: it has
    the snapshot and definition streams too."""
    backup: tuple[str, ...] = ()
    """The feeds of the other site, whose numbers are its own: usually ``("C",)``."""
    from_the_start: bool = False
    """Is the first packet the first of all? Then there is nothing to be synchronized."""
    reorder_packets: int = 16
    """Once every feed is so many packets past a missing one, it is given up."""
    reorder_ns: int = 20 * MILLISECOND
    """A missing packet is waited for no longer than this."""
    most_held: int = 65_536
    """So many packets wait for a missing one at the most."""
    heartbeat_ns: int = SECOND
    """How often the exchange sends at least something."""
    most_queued: int = 10_000
    """So many messages of one instrument are kept until a snapshot heals it."""
    most_queued_in_all: int = 1_000_000
    """So many messages of all instruments together."""
    max_instruments: int = MAX_INSTRUMENTS
    """So many instruments are followed that nothing has defined, and so many that are defined;
    messages of others are counted and dropped."""
    most_events: int = 1_000_000
    """So many events wait to be taken; beyond, they are dropped and that is told."""
    most_news_bytes: int = 1 << 20
    """No piece of news is longer."""
    news_ns: int = 60 * SECOND
    """The parts of a piece of news are waited for no longer than this."""
    legacy: LegacyFeed | None = None
    """None for the binary feed."""

    def __post_init__(self) -> None:
        if not 0 <= self.number <= 0xFF:
            raise UsageError(f"channel {self.number} is not from 0 to 255")
        if not self.feeds:
            raise UsageError(f"channel {self.number} has no feed: name one, such as A")
        names = [*self.feeds, *self.backup]
        if len(set(names)) < len(names):
            raise UsageError(f"channel {self.number} names a feed twice: {', '.join(names)}")
        for each in fields(self):
            value = getattr(self, each.name)
            if each.type == "int" and each.name != "number" and value <= 0:
                raise UsageError(f"channel {self.number}: {each.name} must be above 0")

    @property
    def sites(self) -> tuple[tuple[str, ...], ...]:
        """The feeds by site, the main site first."""
        return (self.feeds, self.backup) if self.backup else (self.feeds,)


@dataclass(frozen=True, slots=True)
class Join:
    """Begin to receive a stream on a feed."""

    stream: Stream
    feed: str


@dataclass(frozen=True, slots=True)
class Leave:
    """Receive a stream on a feed no more."""

    stream: Stream
    feed: str


Action = Join | Leave
"""What a channel asks of who has the sockets."""


class ChannelState(Enum):
    """How a channel is."""

    STARTING = "nothing has come yet"
    SYNCHRONIZING = "instruments or snapshots have not all come yet"
    LIVE = "every book is confirmed"
    HEALING = "packets were lost; some books are stale or unconfirmed"
    WAITING = "the recovery streams are idle until a ChannelReset"
    DOWN = "nothing comes any more"


@dataclass(slots=True)
class FeedCounters:
    """What came on one feed of the incremental stream."""

    packets: int = 0
    first: int = 0
    """Packets that no other feed had brought before."""
    duplicates: int = 0
    late: int = 0
    """Packets that came after they were given up."""
    heartbeats: int = 0


@dataclass(slots=True)
class ChannelCounters:
    """What happened on a channel so far."""

    packets: int = 0
    """Datagrams received, on all streams and feeds."""
    bytes: int = 0
    bad_packets: int = 0
    """Datagrams that are no packets of this channel."""
    unasked: int = 0
    """Packets of streams that were left, or of the site that is not followed."""
    delivered: int = 0
    """Incremental packets in their turn."""
    messages: int = 0
    unread: int = 0
    """Messages that could not be decoded, or lack required fields."""
    failures: int = 0
    """Packets whose processing failed: each counts as lost, and the channel is rebuilt."""
    gaps: int = 0
    lost: int = 0
    """Packets that no feed brought, as far as that is known."""
    recovered: int = 0
    """Messages that were lost, asked for over TCP, and came (legacy feed)."""
    stale: int = 0
    """How often a book became stale."""
    healed: int = 0
    unconfirmed: int = 0
    """How often a book became unconfirmed."""
    confirmed: int = 0
    overflows: int = 0
    """Messages of stale or unconfirmed books for which there was no room in the queue."""
    instruments_dropped: int = 0
    """Messages, snapshots and definitions of instruments beyond the limit."""
    snapshots: int = 0
    """Whole snapshots of instruments that came."""
    old_snapshots: int = 0
    """Snapshots of an older sequence version, which are not used (000 §7.2)."""
    snapshot_loops: int = 0
    """Whole loops."""
    definition_loops: int = 0
    downs: int = 0
    failovers: int = 0
    resyncs: int = 0
    """How often the channel was begun anew because its numbers had gone back."""
    events_missed: int = 0
    news_dropped: int = 0
    """Pieces of news that were too long, or whose parts did not all come in time."""
    feeds: dict[str, FeedCounters] = field(default_factory=dict)
