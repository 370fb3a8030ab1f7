"""A stream of a channel as one line of messages, in order, out of the datagrams of its feeds.

Without sockets and without a clock: datagrams and times go in, messages in their turn come out,
with what is missing between them. The feed has no sequence versions; here a SequenceReset, or
numbers that go back for good, begin the next one, so that a message has one place for ever.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pregao.errors import DecodeError
from pregao.legacy.assembly import Assembler, Message
from pregao.legacy.chunks import read_chunks
from pregao.legacy.messages import LegacyMessage, MessageReader, MsgType
from pregao.legacy.streams import DEAD_AFTER_NS, PUMA, Platform
from pregao.umdf.arbitration import (
    MOST_WAIT_NS,
    Arbiter,
    Delivered,
    Duplicate,
    FeedOutcome,
    Lost,
    TooLate,
)
from pregao.umdf.sequencing import Place, next_version, version_distance

RECOVERY = "recovery"
"""In place of a feed: who brought a message that was asked for again."""
MOST_BACK = 64
"""After so many messages in a row with numbers that are past, numbers have begun anew."""


@dataclass(slots=True)
class LineCounters:
    """What a line has met."""

    datagrams: int = 0
    messages: int = 0
    """Whole messages, of all feeds."""
    delivered: int = 0
    duplicates: int = 0
    late: int = 0
    lost: int = 0
    """Numbers that no feed brought."""
    heartbeats: int = 0
    resets: int = 0
    rejected: int = 0
    """Datagrams and messages that could not be read."""
    ignored: int = 0
    """Datagrams of a feed that is not followed."""


@dataclass(frozen=True, slots=True)
class Told:
    """A message in its turn."""

    place: Place
    message: LegacyMessage
    feed: str
    time_ns: int


@dataclass(frozen=True, slots=True)
class Missing:
    """Messages that no feed brought in time; the last is None where nobody knows how many."""

    sequence_version: int
    first: int
    last: int | None


@dataclass(frozen=True, slots=True)
class Began:
    """A sequence begins: the next message has this place. Books are to be synchronized anew."""

    place: Place


LineEvent = Told | Missing | Began


@dataclass(slots=True)
class _Feed:
    """What is known of one feed."""

    assembler: Assembler
    version: int = 0
    """The sequence version of its messages; 0 before its first one."""
    highest: int = 0
    back: int = 0
    """How many messages in a row have come whose numbers are past."""
    heard_ns: int | None = None


class IncrementalLine:
    """The incremental stream: feeds A and B become one, if the platform sends the same on both.

    MEGABOLSA's feeds may number differently, so one of them is followed alone, and the other only
    when nothing comes of that one any more.
    """

    def __init__(
        self,
        feeds: Sequence[str] = ("A", "B"),
        *,
        platform: Platform = PUMA,
        reader: MessageReader | None = None,
        most_wait_ns: int = MOST_WAIT_NS,
        asked_for: bool = False,
    ) -> None:
        """What is missing is waited for so long; if it is ``asked_for`` elsewhere, also when all
        feeds are past it."""
        self.counters = LineCounters()
        self._asked_for = asked_for
        self._platform = platform
        self._reader = MessageReader() if reader is None else reader
        self._feeds = {feed: _Feed(Assembler()) for feed in feeds}
        self._followed = None if platform.same_on_both_feeds else feeds[0]
        self._version = 1
        self._heartbeat: Place | None = None
        """The place of the last message delivered, if that was a heartbeat."""
        self._most_wait_ns = most_wait_ns
        self._arbiter = self._new_arbiter()

    @property
    def followed(self) -> str | None:
        """The one feed that is followed; None if all are."""
        return self._followed

    @property
    def version(self) -> int:
        """The sequence version that was begun last."""
        return self._version

    @property
    def deadline_ns(self) -> int | None:
        """When what is missing will be given up, if something is."""
        return self._arbiter.deadline_ns

    def is_dead(self, now_ns: int) -> bool:
        """Has nothing come for so long that the stream is not working (002 §5.1.1)?"""
        heard = [each.heard_ns for each in self._feeds.values() if each.heard_ns is not None]
        return bool(heard) and now_ns - max(heard) >= DEAD_AFTER_NS

    @property
    def awaited(self) -> Missing | None:
        """What is missing right now and may still come; who can, asks for it again."""
        lost = self._arbiter.awaited
        if lost is None:
            return None
        return Missing(lost.sequence_version, lost.first, lost.last)

    def tick(self, now_ns: int) -> list[LineEvent]:
        """Let time pass: what has been waited for long enough is given up."""
        return self._told(list(self._arbiter.expire(now_ns)))

    def give_up(self, now_ns: int) -> list[LineEvent]:
        """Wait no longer for what is missing first."""
        deadline = self._arbiter.deadline_ns
        return [] if deadline is None else self.tick(max(now_ns, deadline))

    def receive(self, feed: str, datagram: bytes, time_ns: int) -> list[LineEvent]:
        """Take a datagram of a feed in."""
        self.counters.datagrams += 1
        source = self._feeds[feed]
        events = self._choose(feed, time_ns)
        source.heard_ns = time_ns
        if self._followed not in (None, feed):
            self.counters.ignored += 1
            return events
        try:
            for chunk in read_chunks(datagram):
                whole = source.assembler.add(chunk, time_ns)
                if whole is not None:
                    self.counters.messages += 1
                    events += self._whole(feed, whole, time_ns)
        except DecodeError:
            self.counters.rejected += 1
        return events

    def recovered(self, version: int, message: LegacyMessage, time_ns: int) -> list[LineEvent]:
        """Take a message in that was asked for again (002 §6.2)."""
        place = Place(version, message.number)
        return self._told(self._arbiter.accept(RECOVERY, place, time_ns, message))

    def _choose(self, feed: str, time_ns: int) -> list[LineEvent]:
        """Where one feed is followed: another one takes its place when it is silent."""
        if self._followed is None or self._followed == feed:
            return []
        heard = self._feeds[self._followed].heard_ns
        if heard is not None and time_ns - heard < DEAD_AFTER_NS:
            return []
        events: list[LineEvent] = []
        if self._arbiter.expected is not None:
            events = self._told(self._give_up())
            self._begin_version(feed)
        self._followed = feed
        return events

    def _whole(self, feed: str, whole: Message, time_ns: int) -> list[LineEvent]:
        source = self._feeds[feed]
        if source.version == 0:
            source.version = self._version
        try:
            message = self._reader.read(whole)
        except DecodeError:
            # It is missing then, unless the other feed brings it.
            self.counters.rejected += 1
            return []
        number = message.number
        if message.type is MsgType.SEQUENCE_RESET:
            self.counters.resets += 1
            return self._reset(feed, message)
        if message.type is MsgType.HEARTBEAT:
            self.counters.heartbeats += 1
        began: list[LineEvent] = []
        if number < source.highest and self._is_past(source, number):
            source.back += 1
            if source.back > MOST_BACK:
                began = self._lost_reset(feed, number)
        elif number >= source.highest:
            source.back, source.highest = 0, number
        place = Place(source.version, number)
        if place == self._heartbeat and message.type is not MsgType.HEARTBEAT:
            # A heartbeat had the number that this message has.
            return began + self._deliver(place, message, feed, time_ns)
        return began + self._told(self._arbiter.accept(feed, place, time_ns, message))

    def _is_past(self, source: _Feed, number: int) -> bool:
        expected = self._arbiter.expected
        return expected is not None and (
            version_distance(expected.sequence_version, source.version) < 0
            or number < expected.sequence_number
        )

    def _reset(self, feed: str, message: LegacyMessage) -> list[LineEvent]:
        """A SequenceReset of a feed; the other feed sends its own, which begins nothing anew."""
        source = self._feeds[feed]
        if source.version < self._version:
            source.version, source.highest, source.back = self._version, 0, 0
            return []
        if self._arbiter.expected is None:
            return []  # the platform starts: nothing came before
        if source.highest == 0:
            return []  # it was sent twice
        events = self._told(self._give_up())
        return events + self._begin_anew(feed, message.new_number)

    def _lost_reset(self, feed: str, number: int) -> list[LineEvent]:
        """The numbers of a feed have gone back for good: its SequenceReset did not come."""
        source = self._feeds[feed]
        if source.version < self._version:
            source.version, source.highest, source.back = self._version, number, 0
            return []
        return self._told(self._give_up()) + self._begin_anew(feed, number)

    def _give_up(self) -> list[FeedOutcome[LegacyMessage]]:
        """Deliver everything that waits, and tell what is missing."""
        outcomes: list[FeedOutcome[LegacyMessage]] = []
        while (deadline := self._arbiter.deadline_ns) is not None:
            outcomes += list(self._arbiter.expire(deadline))
        return outcomes

    def _begin_anew(self, feed: str, number: int) -> list[LineEvent]:
        self._begin_version(feed)
        self._arbiter.heartbeat(self._version, number, 0)
        return [Began(Place(self._version, number))]

    def _begin_version(self, feed: str) -> None:
        self._version = next_version(self._version)
        source = self._feeds[feed]
        source.version, source.highest, source.back = self._version, 0, 0
        source.assembler.reset()
        self._arbiter = self._new_arbiter()
        self._heartbeat = None

    def _new_arbiter(self) -> Arbiter[LegacyMessage]:
        # Where one feed is followed alone nobody else can bring what is missing.
        alone = self._followed is not None or self._asked_for
        feeds = () if alone else tuple(self._feeds)
        return Arbiter(most_wait_ns=self._most_wait_ns, feeds=feeds)

    def _told(self, outcomes: Sequence[FeedOutcome[LegacyMessage]]) -> list[LineEvent]:
        events: list[LineEvent] = []
        for each in outcomes:
            match each:
                case Delivered(place, item, feed, time_ns):
                    events += self._deliver(place, item, feed, time_ns)
                case Lost(version, first, last):
                    self.counters.lost += 0 if last is None else last - first + 1
                    events.append(Missing(version, first, last))
                case Duplicate():
                    self.counters.duplicates += 1
                case TooLate():
                    self.counters.late += 1
        return events

    def _deliver(
        self, place: Place, message: LegacyMessage, feed: str, time_ns: int
    ) -> list[LineEvent]:
        self._heartbeat = place if message.type is MsgType.HEARTBEAT else None
        self.counters.delivered += 1
        return [Told(place, message, feed, time_ns)]
