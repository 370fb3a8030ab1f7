"""A stream of a channel as one sequence of messages, merged from the datagrams of its feeds.

Without sockets or a clock: datagrams and times go in; messages in sequence, and the gaps between
them, come out. The feed has no sequence versions. Here a SequenceReset, or numbers that go back
permanently, starts the next version, so that every message has a unique packet key.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from pregao.clock import SECOND
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
MIN_STEPS_BACK = 4
"""Likewise while the line is silent: a few past numbers may only be late."""
MAX_COMPARED = 1024
"""Maximum number of messages kept of a feed, to compare its numbers with those of the line."""
MAX_CLOCK_DIFFERENCE_NS = SECOND
"""Maximum difference of the sending times of one message on both feeds."""


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


@dataclass(frozen=True, slots=True)
class LineSwitched:
    """The line now follows the numbers of one feed: the others fell silent, or number other
    messages.
    """

    feed: str


LineEvent = LineMessage | LineGap | LineRestarted | LineSwitched


class _Standing(Enum):
    """Whether a feed's numbers are those of the line."""

    AGREES = "it sends the messages of the line with the same numbers"
    UNPROVEN = "its numbers restarted, perhaps at another message than those of the line"
    DIFFERENT = "its numbers are not those of the line"


@dataclass(slots=True)
class _Feed:
    """State of one feed."""

    assembler: Assembler
    version: int = 0
    """Sequence version of its messages; 0 before the first one."""
    highest: int = 0
    back: int = 0
    """Number of consecutive messages with past numbers."""
    back_since_ns: int = 0
    standing: _Standing = _Standing.AGREES
    lags_since: tuple[int, int] | None = None
    """Number and sending time of the line's last message when this feed began to lag; None while
    it does not."""
    unproven: dict[int, LegacyMessage] = field(default_factory=dict)
    """Messages since its numbers restarted, while its standing is unproven."""

    def restart(self, version: int, standing: _Standing) -> None:
        """Start the numbers again."""
        self.version, self.highest, self.back = version, 0, 0
        self.standing, self.lags_since = standing, None
        self.unproven.clear()


class _Original(NamedTuple):
    """The first copy of a message."""

    feed: str
    time_ns: int
    payload: bytes
    message: LegacyMessage


class IncrementalLine:
    """The incremental stream: merges feeds A and B if the platform sends the same on both.

    MEGABOLSA's feeds may number messages differently, so only one is followed, and the other
    replaces it when it falls silent. PUMA's feeds do so after the failure of one site, which
    resets its own numbers only (002 §5.3.7): then the feed that was reset leads, and the other
    replaces it when it falls silent, or joins it once both have sent the same message with the same
    number. Silence means that no message continued the sequence, whatever else was received. Where
    two feeds give one number to different messages, only one of them is followed.
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
        self._recoverable = recoverable
        self._platform = platform
        self._reader = MessageReader() if reader is None else reader
        self._feeds = {feed: _Feed(Assembler()) for feed in feeds}
        self._followed = None if platform.same_on_both_feeds else feeds[0]
        self._version = 1
        self._heartbeat: PacketKey | None = None
        """Key of the last message delivered, if it was a heartbeat."""
        self._max_wait_ns = max_wait_ns
        self._progress_ns: int | None = None
        """When a message last continued the sequence."""
        self._last: tuple[int, int] | None = None
        """Number and sending time of the last message delivered of the version."""
        self._disputed = False
        """Whether a feed may join the sequence once its numbers have been compared."""
        self._recent: dict[int, LegacyMessage] = {}
        """Messages of the version by number, to compare those of other feeds with."""
        self._originals: dict[int, _Original] = {}
        """First copies of messages: equal ones are decoded once."""
        self._arbiter = self._new_arbiter()

    @property
    def progress_ns(self) -> int | None:
        """When a message last continued the sequence; None before the first."""
        return self._progress_ns

    def numbers_agree(self, feed: str) -> bool:
        """Whether a feed's numbers are those of the line."""
        if self._followed is not None:
            return feed == self._followed
        source = self._feeds[feed]
        if source.version == 0:
            return self._version == 1
        return source.version == self._version and source.standing is _Standing.AGREES

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
        return self._progress_ns is not None and now_ns - self._progress_ns >= DEAD_AFTER_NS

    @property
    def awaited(self) -> LineGap | None:
        """The messages missing now that may still arrive or be requested again."""
        lost = self._arbiter.awaited
        if lost is None:
            return None
        return LineGap(lost.sequence_version, lost.first, lost.last)

    def tick(self, now_ns: int) -> list[LineEvent]:
        """Advance the clock: declare messages lost that have been missing for too long."""
        return self._to_events(list(self._arbiter.expire(now_ns)))

    def give_up(self, now_ns: int) -> list[LineEvent]:
        """Declare the first missing messages lost immediately."""
        deadline = self._arbiter.deadline_ns
        return [] if deadline is None else self.tick(max(now_ns, deadline))

    def receive(self, feed: str, datagram: bytes, time_ns: int) -> list[LineEvent]:
        """Process a datagram of a feed."""
        self.counters.datagrams += 1
        source = self._feeds[feed]
        events = self._fail_over(feed, time_ns)
        if self._followed not in (None, feed):
            self.counters.ignored += 1
            return events
        try:
            for chunk in read_chunks(datagram):
                message = source.assembler.add(chunk, time_ns)
                if message is not None:
                    self.counters.messages += 1
                    events += self._on_message(feed, message, time_ns)
        except DecodeError:
            self.counters.rejected += 1
        return events

    def recovered(self, version: int, message: LegacyMessage, time_ns: int) -> list[LineEvent]:
        """Process a message that TCP recovery sent again (002 §6.2)."""
        key = PacketKey(version, message.number)
        return self._to_events(self._arbiter.accept(RECOVERY, key, time_ns, message))

    def _fail_over(self, feed: str, time_ns: int) -> list[LineEvent]:
        """Switch to this feed if only one feed is followed and it has fallen silent."""
        if self._followed is None or self._followed == feed:
            return []
        if self._progress_ns is not None and not self.is_dead(time_ns):
            return []
        self._followed = feed
        return self._switch(feed) if self._arbiter.expected is not None else []

    def _switch(self, feed: str) -> list[LineEvent]:
        """Follow the numbers of another feed: books must be synchronized with its snapshots."""
        events = self._to_events(self._end_waiting())
        self._begin_version(feed)
        return [*events, LineSwitched(feed)]

    def _on_message(self, feed: str, assembled: AssembledMessage, time_ns: int) -> list[LineEvent]:
        """Process a complete message of a feed."""
        source = self._feeds[feed]
        original = self._originals.get(assembled.number)
        copy = original is not None and original.payload == assembled.payload
        try:
            message = original.message if original and copy else self._reader.read(assembled)
        except DecodeError:
            # The message is missing, unless the other feed delivers it.
            self.counters.rejected += 1
            return []
        number = message.number
        if source.version == 0:
            # Both feeds have the same numbers, until one of them restarts alone.
            first = self._version == 1
            source.restart(self._version, _Standing.AGREES if first else _Standing.UNPROVEN)
        if message.type is MsgType.SEQUENCE_RESET:
            self.counters.resets += 1
            return self._on_reset(feed, message, time_ns)
        if message.type is MsgType.HEARTBEAT:
            self.counters.heartbeats += 1
        events: list[LineEvent] = []
        if not source.highest and source.version == self._version != 1:
            self._choose_leader(source)
        agrees = source.version == self._version and source.standing is _Standing.AGREES
        if not agrees and self.is_dead(time_ns):
            events, agrees = self._switch(feed), True
        if number < source.highest and self._is_past(source, number):
            if not source.back:
                source.back_since_ns = time_ns
            source.back += 1
            silent = self.is_dead(time_ns) and source.back >= MIN_STEPS_BACK
            if silent or source.back > MAX_STEPS_BACK:
                events += self._on_lost_reset(feed, number, time_ns)
                agrees = source.standing is _Standing.AGREES
        elif number >= source.highest:
            if agrees and self._contradicts_line(source, message):
                self._restart_alone(source)
                agrees = False
            if agrees and original and self._contradicts_original(original, feed, message):
                # Books may contain messages of both already: one that a feed lost may have been
                # taken from the other while the line waited for it.
                if time_ns - original.time_ns <= self._max_wait_ns:
                    events += self._switch(original.feed)
                self._restart_alone(source)
                agrees = False
            source.back, source.highest = 0, number
        if not agrees:
            self._rejoin(source, message)
            if source.version == self._version:
                return events + self._compare(feed, message, time_ns)
        events += self._accept(feed, PacketKey(source.version, number), message, time_ns)
        if self._recent.get(number) is message and not copy:
            self._originals[number] = _Original(feed, time_ns, assembled.payload, message)
            if len(self._originals) > MAX_COMPARED:
                del self._originals[next(iter(self._originals))]
        return events

    def _accept(
        self, feed: str, key: PacketKey, message: LegacyMessage, time_ns: int
    ) -> list[LineEvent]:
        """Add a message to the sequence."""
        expected = self._arbiter.expected
        if key.sequence_version == self._version:
            # A silent stream may repeat the number of its last message in heartbeats.
            if expected is None or key.sequence_number >= expected.sequence_number - 1:
                self._progress_ns = time_ns
            if self._followed is None and len(self._feeds) > 1:
                self._remember(self._recent, message)
        if key == self._heartbeat and message.type is not MsgType.HEARTBEAT:
            # The heartbeat delivered before has the number of this message.
            return self._deliver(key, message, feed, time_ns)
        events = self._to_events(self._arbiter.accept(feed, key, time_ns, message))
        if self._disputed:
            for other, source in self._feeds.items():
                found = source.unproven.get(key.sequence_number)
                if found is not None:
                    self._rejoin(source, found)
                    if source.version == self._version:
                        events += self._compare(other, found, time_ns)
        return events

    @staticmethod
    def _remember(messages: dict[int, LegacyMessage], message: LegacyMessage) -> None:
        # A heartbeat may have the number of the message after it, and all heartbeats are equal.
        if message.type is not MsgType.HEARTBEAT:
            messages.setdefault(message.number, message)
        if len(messages) > MAX_COMPARED:
            del messages[next(iter(messages))]

    def _compare(self, feed: str, message: LegacyMessage, time_ns: int) -> list[LineEvent]:
        """Compare a message of a feed whose numbers restarted with that of the line."""
        source = self._feeds[feed]
        if source.standing is _Standing.DIFFERENT:
            return []
        self._remember(source.unproven, message)
        own = self._recent.get(message.number)
        if own is None or message.type is MsgType.HEARTBEAT:
            return []
        if not _are_same(own, message):
            source.standing = _Standing.DIFFERENT
            source.unproven.clear()
            return []
        waiting = sorted(source.unproven.items())
        source.standing = _Standing.AGREES
        source.unproven.clear()
        self._disputed = not all(map(self.numbers_agree, self._feeds))
        events: list[LineEvent] = []
        for number, each in waiting:
            events += self._accept(feed, PacketKey(self._version, number), each, time_ns)
        return events

    @staticmethod
    def _contradicts_original(original: _Original, feed: str, message: LegacyMessage) -> bool:
        """Whether another feed has sent a different message with the same number."""
        if original.feed == feed or original.message is message:
            return False
        return message.type is not MsgType.HEARTBEAT and not _are_same(original.message, message)

    def _rejoin(self, source: _Feed, message: LegacyMessage) -> None:
        """Compare again a feed with the numbers of an earlier version if a message is the line's.

        Its SequenceReset was lost, or the other feed's numbers went back without one.
        """
        if source.version == self._version or message.type is MsgType.HEARTBEAT:
            return
        own = self._recent.get(message.number)
        if own is None:
            self._remember(source.unproven, message)  # the line may be slower than this feed
        elif _are_same(own, message):
            source.restart(self._version, _Standing.UNPROVEN)
            source.highest = message.number

    def _is_past(self, source: _Feed, number: int) -> bool:
        """Whether the line has passed a number of a feed."""
        expected = self._arbiter.expected
        return expected is not None and (
            version_distance(expected.sequence_version, source.version) < 0
            or number < expected.sequence_number
        )

    def _contradicts_line(self, source: _Feed, message: LegacyMessage) -> bool:
        """Whether a message was sent after one of the line with a higher number.

        Then a site had restarted alone before the line began, so that nothing showed it.
        """
        expected = self._arbiter.expected
        if expected is None or message.number >= expected.sequence_number - 1:
            source.lags_since = None
            return False
        source.lags_since = source.lags_since or self._last
        if source.lags_since is None or message.sending_time_ns is None:
            return False
        number, sent_ns = source.lags_since
        later_ns = message.sending_time_ns - sent_ns
        return message.number < number and later_ns > MAX_CLOCK_DIFFERENCE_NS

    def _on_reset(self, feed: str, message: LegacyMessage, time_ns: int) -> list[LineEvent]:
        """Apply a SequenceReset of a feed.

        Both feeds send one if the platform restarts, and only one feed if its site does. The first
        reset restarts the line. The messages of the other feed then show whether their numbers are
        those of the line.
        """
        source = self._feeds[feed]
        if source.version != self._version or source.standing is not _Standing.AGREES:
            self._restart_alone(source)
            return []
        if self._arbiter.expected is None:
            return []  # the platform starts: there were no messages before
        if source.highest == 0:
            if any(each.highest for each in self._current_feeds()):
                self._restart_alone(source)
            return []  # a repeated reset
        events = self._to_events(self._end_waiting())
        return events + self._restart(feed, message.new_number, time_ns)

    def _restart_alone(self, source: _Feed) -> None:
        """Restart the numbers of one feed; the line goes on with those of the others."""
        if not self._disputed:  # messages from before the restart prove nothing
            self._recent.clear()
            self._originals.clear()
        source.restart(self._version, _Standing.UNPROVEN)
        source.assembler.reset()
        self._disputed = True

    def _choose_leader(self, source: _Feed) -> None:
        """Take the numbers of the feed that sends the first message of a version.

        The others may join once they agree with it.
        """
        own = self._current_feeds()
        if not any(each.highest for each in own):
            for each in own:
                each.standing = _Standing.UNPROVEN
            source.standing = _Standing.AGREES

    def _current_feeds(self) -> list[_Feed]:
        return [each for each in self._feeds.values() if each.version == self._version]

    def _on_lost_reset(self, feed: str, number: int, time_ns: int) -> list[LineEvent]:
        """Restart the numbers of a feed whose SequenceReset was lost."""
        source = self._feeds[feed]
        followed = source.version == self._version and source.standing is _Standing.AGREES
        progress_ns = self._progress_ns
        if followed and (progress_ns is None or progress_ns <= source.back_since_ns):
            return self._to_events(self._end_waiting()) + self._restart(feed, number, time_ns)
        self._restart_alone(source)
        source.highest = number
        return []

    def _end_waiting(self) -> list[FeedOutcome[LegacyMessage]]:
        """Deliver all held messages and declare the missing ones lost."""
        outcomes: list[FeedOutcome[LegacyMessage]] = []
        while (deadline := self._arbiter.deadline_ns) is not None:
            outcomes += list(self._arbiter.expire(deadline))
        return outcomes

    def _restart(self, feed: str, number: int, time_ns: int) -> list[LineEvent]:
        """Begin the next version, whose first message has a number."""
        self._begin_version(feed)
        self._progress_ns = time_ns
        self._arbiter.heartbeat(self._version, number, 0)
        return [LineRestarted(PacketKey(self._version, number))]

    def _begin_version(self, feed: str) -> None:
        """Begin the next version with the numbers of a feed."""
        self._version = next_version(self._version)
        source = self._feeds[feed]
        source.restart(self._version, _Standing.AGREES)
        source.assembler.reset()
        self._recent.clear()
        self._originals.clear()
        self._last = None
        self._disputed = self._followed is None and len(self._feeds) > 1
        self._arbiter = self._new_arbiter()
        self._heartbeat = None

    def _new_arbiter(self) -> Arbiter[LegacyMessage]:
        # With a single feed, no other feed can deliver what is missing.
        alone = self._followed is not None or self._recoverable
        feeds = () if alone else tuple(self._feeds)
        return Arbiter(max_wait_ns=self._max_wait_ns, feeds=feeds)

    def _to_events(self, outcomes: Sequence[FeedOutcome[LegacyMessage]]) -> list[LineEvent]:
        """Convert outcomes of the arbitration to events, and count them."""
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
        if message.sending_time_ns is not None:
            self._last = message.number, message.sending_time_ns
        self.counters.delivered += 1
        return [LineMessage(packet_key, message, feed, time_ns)]


def _are_same(one: LegacyMessage, other: LegacyMessage) -> bool:
    """Whether two feeds sent the same message; each site may state its own sending time."""
    times = one.sending_time_ns, other.sending_time_ns
    if None not in times and abs((times[0] or 0) - (times[1] or 0)) > MAX_CLOCK_DIFFERENCE_NS:
        return False
    return {**one.values, "SendingTime": None} == {**other.values, "SendingTime": None}
