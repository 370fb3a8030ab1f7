"""Settings, actions, states and counters of a followed channel."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from enum import Enum

from pregao.clock import MILLISECOND, SECOND
from pregao.errors import UsageError
from pregao.feed.recovery import MAX_INSTRUMENTS
from pregao.umdf.streams import Stream

MISSED_HEARTBEATS = 3
"""Intervals without a packet after which a channel is down (000 §6.2), and a stream is silent."""


@dataclass(frozen=True, slots=True)
class LegacyFeed:
    """Additional settings of a channel of the legacy feed (UMDF FIX/FAST)."""

    platform: str = "PUMA"
    """Platform that sends the channel: PUMA or MEGABOLSA."""
    market_depth: int | None = None
    """Price levels of a book before its first snapshot; None is all orders."""
    recovery: bool = False
    """Whether missing messages are requested over TCP, and waited for as long as that may take."""
    snapshot_feeds: tuple[str, ...] = ()
    """Feeds whose market recovery stream can be joined; none means all feeds of the channel."""
    definition_feeds: tuple[str, ...] = ()
    """Likewise for the instrument definition stream."""


@dataclass(frozen=True, slots=True)
class ChannelSettings:
    """Settings of a followed channel."""

    number: int
    feeds: tuple[str, ...] = ("A", "B")
    """Feeds of the incremental stream that carry the same packets. The first is the main one, which
    also has the snapshot and definition streams."""
    backup: tuple[str, ...] = ()
    """Feeds of the backup site, which numbers packets independently: usually ``("C",)``."""
    from_the_start: bool = False
    """Whether the first packet is the first of all, so that no synchronization is needed."""
    reorder_packets: int = 16
    """A missing packet is declared lost once every feed is this many packets past it."""
    reorder_ns: int = 20 * MILLISECOND
    """Maximum time to wait for a missing packet."""
    max_held_packets: int = 65_536
    """Maximum number of packets held while one is missing."""
    heartbeat_ns: int = SECOND
    """Interval within which the exchange sends at least a heartbeat."""
    max_queued_messages: int = 10_000
    """Maximum number of messages of one instrument queued until a snapshot heals it."""
    max_queued_total: int = 1_000_000
    """Maximum number of queued messages of all instruments."""
    max_instruments: int = MAX_INSTRUMENTS
    """Maximum number of followed instruments without a definition, and also of those with one;
    messages of others are counted and dropped."""
    max_events: int = 1_000_000
    """Maximum number of events waiting to be taken; beyond it they are dropped, which
    `EventsMissed` reports."""
    max_news_bytes: int = 1 << 20
    """Maximum length of a news item."""
    news_ns: int = 60 * SECOND
    """Maximum time to wait for the parts of a news item."""
    legacy: LegacyFeed | None = None
    """None for the binary feed."""

    def __post_init__(self) -> None:
        if not 0 <= self.number <= 0xFF:
            raise UsageError(f"channel number must be from 0 to 255, was {self.number}")
        if not self.feeds:
            raise UsageError(f"channel {self.number} has no feed: name one, such as A")
        names = [*self.feeds, *self.backup]
        if len(set(names)) < len(names):
            raise UsageError(f"channel {self.number} has a duplicate feed: {', '.join(names)}")
        for each in fields(self):
            value = getattr(self, each.name)
            if each.type == "int" and each.name != "number" and value <= 0:
                raise UsageError(f"channel {self.number}: {each.name} must be above 0, was {value}")

    @property
    def sites(self) -> tuple[tuple[str, ...], ...]:
        """Feeds by site, the main site first."""
        return (self.feeds, self.backup) if self.backup else (self.feeds,)


@dataclass(frozen=True, slots=True)
class Join:
    """Request to receive a stream on a feed."""

    stream: Stream
    feed: str


@dataclass(frozen=True, slots=True)
class Leave:
    """Request to stop receiving a stream on a feed."""

    stream: Stream
    feed: str


StreamAction = Join | Leave
"""A channel's request to the owner of its sockets."""


class ChannelState(Enum):
    """State of a channel."""

    STARTING = "no packet was received yet"
    SYNCHRONIZING = "instrument definitions or snapshots are still missing"
    LIVE = "every book is confirmed"
    HEALING = "packets were lost; some books are stale or unconfirmed"
    SILENT = "a recovery stream that is needed sends nothing"
    WAITING = "the recovery streams are idle until a ChannelReset"
    DOWN = "no packets are received"


@dataclass(slots=True)
class FeedCounters:
    """Counters of one feed of the incremental stream."""

    packets: int = 0
    first_arrivals: int = 0
    """Packets that no other feed had delivered before."""
    duplicates: int = 0
    late: int = 0
    """Packets that arrived after they were declared lost."""
    heartbeats: int = 0


@dataclass(slots=True)
class ChannelCounters:
    """Counters of a channel since its start."""

    packets: int = 0
    """Datagrams received, on all streams and feeds."""
    bytes: int = 0
    bad_packets: int = 0
    """Datagrams that are not packets of this channel."""
    unexpected_packets: int = 0
    """Packets of streams that were left, or of the site that is not followed."""
    delivered: int = 0
    """Incremental packets applied in sequence."""
    messages: int = 0
    undecoded_messages: int = 0
    """Messages that could not be decoded, or lack required fields."""
    failures: int = 0
    """Packets whose processing failed: each counts as lost, and the channel is rebuilt."""
    gaps: int = 0
    lost_packets: int = 0
    """Packets that no feed delivered, where their number is known."""
    recovered_messages: int = 0
    """Lost messages that were recovered over TCP (legacy feed)."""
    stale: int = 0
    """Number of times that a book became stale."""
    healed: int = 0
    unconfirmed: int = 0
    """Number of times that a book became unconfirmed."""
    confirmed: int = 0
    overflows: int = 0
    """Messages of stale or unconfirmed books dropped because the queue was full."""
    instruments_dropped: int = 0
    """Messages, snapshots and definitions of instruments beyond the limit."""
    snapshots: int = 0
    """Complete snapshots received."""
    outdated_snapshots: int = 0
    """Snapshots of an older sequence version, which are not used (000 §7.2)."""
    snapshot_loops: int = 0
    """Complete loops received."""
    definition_loops: int = 0
    outages: int = 0
    """Number of times that the channel went down."""
    silent_streams: int = 0
    """Number of times that a joined stream of a feed fell silent."""
    failovers: int = 0
    resyncs: int = 0
    """Number of restarts because sequence numbers had gone back."""
    events_missed: int = 0
    news_dropped: int = 0
    """News items that were too long, or whose parts did not all arrive in time."""
    feeds: dict[str, FeedCounters] = field(default_factory=dict)
    silent: set[tuple[Stream, str]] = field(default_factory=set)
    """Joined streams and their feeds that are silent now."""
