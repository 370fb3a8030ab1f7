"""A stream of a channel as one sequence of messages, merged from the datagrams of its feeds.

Without sockets or a clock: datagrams and times go in; messages in sequence, and the gaps between
them, come out. The feed has no sequence versions. Here a SequenceReset, or numbers that go back
permanently, starts the next version, so that every message has a unique packet key.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pregao.errors import DecodeError
from pregao.legacy.messages import LegacyMessage, MessageReader, MsgType
from pregao.legacy.reassembly import AssembledMessage, Assembler, read_chunks
from pregao.legacy.streams import DEAD_AFTER_NS, PUMA, Platform
from pregao.umdf.arbitration import (
    MAX_WAIT_NS,
    Arbiter,
    FeedOutcome,
    PacketDelivered,
    PacketDuplicate,
    PacketsLost,
    PacketTooLate,
)
from pregao.umdf.sequencing import PacketKey, next_version, version_distance

RECOVERY = "recovery"
"""Name used instead of a feed for messages that TCP recovery sent again."""
MAX_STEPS_BACK = 64
"""Maximum consecutive messages with past numbers; after more, the numbers have restarted."""


@dataclass(slots=True)
class LineCounters:
    """Counters of a line."""

    datagrams: int = 0
    messages: int = 0
    """Complete messages, of all feeds."""
    delivered: int = 0
    duplicates: int = 0
    late: int = 0
    lost: int = 0
    """Numbers that no feed delivered."""
    heartbeats: int = 0
    resets: int = 0
    rejected: int = 0
    """Datagrams and messages that could not be decoded."""
    ignored: int = 0
    """Datagrams of a feed that is not being followed."""


@dataclass(frozen=True, slots=True)
class LineMessage:
    """A message delivered in sequence."""

    packet_key: PacketKey
    message: LegacyMessage
    feed: str
    time_ns: int


@dataclass(frozen=True, slots=True)
class LineGap:
    """Messages that no feed delivered in time; ``last`` is None if their number is unknown."""

    sequence_version: int
    first: int
    last: int | None


@dataclass(frozen=True, slots=True)
class LineRestarted:
    """A sequence begins: the next message has this key. Books must be synchronized again."""

    packet_key: PacketKey


LineEvent = LineMessage | LineGap | LineRestarted


@dataclass(slots=True)
class _Feed:
    """State of one feed."""

    assembler: Assembler
    version: int = 0
    """Sequence version of its messages; 0 before the first one."""
    highest: int = 0
    back: int = 0
    """Number of consecutive messages with past numbers."""
    last_received_ns: int | None = None


class IncrementalLine:
    """The incremental stream: merges feeds A and B if the platform sends the same on both.

    MEGABOLSA's feeds may number messages differently, so only one is followed, and the other
    replaces it when it falls silent.
    """

    def __init__(
        self,
        feeds: Sequence[str] = ("A", "B"),
        *,
        platform: Platform = PUMA,
        reader: MessageReader | None = None,
        max_wait_ns: int = MAX_WAIT_NS,
        recoverable: bool = False,
    ) -> None:
        """Create a line that waits up to ``max_wait_ns`` for missing messages.

        If they are ``recoverable`` from TCP recovery, it waits even after all feeds have passed
        them.
        """
        self.counters = LineCounters()
        self._asked_for = recoverable
        self._platform = platform
        self._reader = MessageReader() if reader is None else reader
        self._feeds = {feed: _Feed(Assembler()) for feed in feeds}
        self._followed = None if platform.same_on_both_feeds else feeds[0]
        self._version = 1
        self._heartbeat: PacketKey | None = None
        """Key of the last message delivered, if it was a heartbeat."""
        self._max_wait_ns = max_wait_ns
        self._arbiter = self._new_arbiter()

    @property
    def followed(self) -> str | None:
        """The only feed that is followed; None if all are."""
        return self._followed

    @property
    def version(self) -> int:
        """The current sequence version."""
        return self._version

    @property
    def deadline_ns(self) -> int | None:
        """Time at which the missing messages will be declared lost, if there are any."""
        return self._arbiter.deadline_ns

    def is_dead(self, now_ns: int) -> bool:
        """Whether the stream has been silent so long that it counts as failed (002 §5.1.1)."""
        received_ns = [
            each.last_received_ns
            for each in self._feeds.values()
            if each.last_received_ns is not None
        ]
        return bool(received_ns) and now_ns - max(received_ns) >= DEAD_AFTER_NS

    @property
    def awaited(self) -> LineGap | None:
        """The messages missing now that may still arrive or be requested again."""
        lost = self._arbiter.awaited
        if lost is None:
            return None
        return LineGap(lost.sequence_version, lost.first, lost.last)

    def tick(self, now_ns: int) -> list[LineEvent]:
        """Advance the clock: declare messages lost that have been missing for too long."""
        return self._events(list(self._arbiter.expire(now_ns)))

    def give_up(self, now_ns: int) -> list[LineEvent]:
        """Declare the first missing messages lost immediately."""
        deadline = self._arbiter.deadline_ns
        return [] if deadline is None else self.tick(max(now_ns, deadline))

    def receive(self, feed: str, datagram: bytes, time_ns: int) -> list[LineEvent]:
        """Process a datagram of a feed."""
        self.counters.datagrams += 1
        source = self._feeds[feed]
        events = self._choose(feed, time_ns)
        source.last_received_ns = time_ns
        if self._followed not in (None, feed):
            self.counters.ignored += 1
            return events
        try:
            for chunk in read_chunks(datagram):
                message = source.assembler.add(chunk, time_ns)
                if message is not None:
                    self.counters.messages += 1
                    events += self._whole(feed, message, time_ns)
        except DecodeError:
            self.counters.rejected += 1
        return events

    def recovered(self, version: int, message: LegacyMessage, time_ns: int) -> list[LineEvent]:
        """Process a message that TCP recovery sent again (002 §6.2)."""
        key = PacketKey(version, message.number)
        return self._events(self._arbiter.accept(RECOVERY, key, time_ns, message))

    def _choose(self, feed: str, time_ns: int) -> list[LineEvent]:
        """Switch to this feed if only one feed is followed and it has fallen silent."""
        if self._followed is None or self._followed == feed:
            return []
        last_ns = self._feeds[self._followed].last_received_ns
        if last_ns is not None and time_ns - last_ns < DEAD_AFTER_NS:
            return []
        events: list[LineEvent] = []
        if self._arbiter.expected is not None:
            events = self._events(self._give_up())
            self._begin_version(feed)
        self._followed = feed
        return events

    def _whole(self, feed: str, whole: AssembledMessage, time_ns: int) -> list[LineEvent]:
        source = self._feeds[feed]
        if source.version == 0:
            source.version = self._version
        try:
            message = self._reader.read(whole)
        except DecodeError:
            # The message is missing, unless the other feed delivers it.
            self.counters.rejected += 1
            return []
        number = message.number
        if message.type is MsgType.SEQUENCE_RESET:
            self.counters.resets += 1
            return self._reset(feed, message)
        if message.type is MsgType.HEARTBEAT:
            self.counters.heartbeats += 1
        events: list[LineEvent] = []
        if number < source.highest and self._is_past(source, number):
            source.back += 1
            if source.back > MAX_STEPS_BACK:
                events = self._lost_reset(feed, number)
        elif number >= source.highest:
            source.back, source.highest = 0, number
        key = PacketKey(source.version, number)
        if key == self._heartbeat and message.type is not MsgType.HEARTBEAT:
            # The heartbeat delivered before has the number of this message.
            return events + self._deliver(key, message, feed, time_ns)
        return events + self._events(self._arbiter.accept(feed, key, time_ns, message))

    def _is_past(self, source: _Feed, number: int) -> bool:
        expected = self._arbiter.expected
        return expected is not None and (
            version_distance(expected.sequence_version, source.version) < 0
            or number < expected.sequence_number
        )

    def _reset(self, feed: str, message: LegacyMessage) -> list[LineEvent]:
        """Apply a SequenceReset of a feed; the second feed's copy does not restart anything."""
        source = self._feeds[feed]
        if source.version < self._version:
            source.version, source.highest, source.back = self._version, 0, 0
            return []
        if self._arbiter.expected is None:
            return []  # the platform starts: there were no messages before
        if source.highest == 0:
            return []  # a repeated reset
        events = self._events(self._give_up())
        return events + self._restart(feed, message.new_number)

    def _lost_reset(self, feed: str, number: int) -> list[LineEvent]:
        """Restart the numbers of a feed whose SequenceReset was lost."""
        source = self._feeds[feed]
        if source.version < self._version:
            source.version, source.highest, source.back = self._version, number, 0
            return []
        return self._events(self._give_up()) + self._restart(feed, number)

    def _give_up(self) -> list[FeedOutcome[LegacyMessage]]:
        """Deliver all held messages and declare the missing ones lost."""
        outcomes: list[FeedOutcome[LegacyMessage]] = []
        while (deadline := self._arbiter.deadline_ns) is not None:
            outcomes += list(self._arbiter.expire(deadline))
        return outcomes

    def _restart(self, feed: str, number: int) -> list[LineEvent]:
        self._begin_version(feed)
        self._arbiter.heartbeat(self._version, number, 0)
        return [LineRestarted(PacketKey(self._version, number))]

    def _begin_version(self, feed: str) -> None:
        self._version = next_version(self._version)
        source = self._feeds[feed]
        source.version, source.highest, source.back = self._version, 0, 0
        source.assembler.reset()
        self._arbiter = self._new_arbiter()
        self._heartbeat = None

    def _new_arbiter(self) -> Arbiter[LegacyMessage]:
        # With a single feed, no other feed can deliver what is missing.
        alone = self._followed is not None or self._asked_for
        feeds = () if alone else tuple(self._feeds)
        return Arbiter(max_wait_ns=self._max_wait_ns, feeds=feeds)

    def _events(self, outcomes: Sequence[FeedOutcome[LegacyMessage]]) -> list[LineEvent]:
        events: list[LineEvent] = []
        for outcome in outcomes:
            match outcome:
                case PacketDelivered(key, item, feed, time_ns):
                    events += self._deliver(key, item, feed, time_ns)
                case PacketsLost(version, first, last):
                    self.counters.lost += 0 if last is None else last - first + 1
                    events.append(LineGap(version, first, last))
                case PacketDuplicate():
                    self.counters.duplicates += 1
                case PacketTooLate():
                    self.counters.late += 1
        return events

    def _deliver(
        self, packet_key: PacketKey, message: LegacyMessage, feed: str, time_ns: int
    ) -> list[LineEvent]:
        self._heartbeat = packet_key if message.type is MsgType.HEARTBEAT else None
        self.counters.delivered += 1
        return [LineMessage(packet_key, message, feed, time_ns)]
