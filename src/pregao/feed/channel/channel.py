"""A channel followed live, sans-I/O: datagrams and times in, events and actions out.

The feeds of one site carry the same packets and are merged into one sequence. The other site
numbers its packets independently, and takes over when the first one falls silent. Packets of the
merged sequence go to a `Follower`, whose rules decide which book is valid, unconfirmed or stale.
The snapshot and definition streams are joined while they are needed, and left afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pregao import events as channel_events
from pregao.book.order_book import OrderBook
from pregao.book.priority_book import PriorityBook
from pregao.book.state import State
from pregao.errors import DecodeError
from pregao.feed.channel.channel_base import ChannelBook
from pregao.feed.channel.event_publisher import EventEmitter
from pregao.feed.channel.failover import RecoveryStreams, Sites, StreamSilence
from pregao.feed.channel.follower import Follower
from pregao.feed.channel.instruments import ChannelInstrument
from pregao.feed.channel.market_state import Key, Statistic
from pregao.feed.channel.packets import RawPacket, is_reset, next_number
from pregao.feed.channel.settings import (
    MISSED_HEARTBEATS,
    ChannelCounters,
    ChannelSettings,
    ChannelState,
    FeedCounters,
    Join,
    StreamAction,
)
from pregao.feed.recovery import QueueLimits
from pregao.umdf.arbitration import (
    Arbiter,
    FeedOutcome,
    PacketDelivered,
    PacketDuplicate,
    PacketsLost,
    PacketTooLate,
)
from pregao.umdf.packets import PacketDecoder, PacketHeader, decode_header
from pregao.umdf.phases import Phases
from pregao.umdf.sequencing import PacketKey, is_sequence_version, precedes
from pregao.umdf.streams import Stream

_CLAIMING_STATES = (State.VALID, State.EMPTY, State.BUILDING)
"""States that state what the exchange's book is now, which is unknown while a channel is silent."""

MIN_OUTDATED_PACKETS = 4
"""Minimum number of outdated packets, with no others for three heartbeats, that shows that sequence
numbers went back: a few may only be late."""


class Channel:
    """Follows one channel over its feeds: joins, synchronizes, survives loss and emits events."""

    def __init__(self, settings: ChannelSettings, decoder: PacketDecoder | None = None) -> None:
        self.settings = settings
        names = (*settings.feeds, *settings.backup)
        self._counters = ChannelCounters(feeds={name: FeedCounters() for name in names})
        self._decoder = PacketDecoder() if decoder is None else decoder
        self._emitter = EventEmitter(settings, self._counters)
        self._sites = Sites(settings.sites, settings.heartbeat_ns)
        self._actions: list[StreamAction] = []
        self._silence = StreamSilence(settings.heartbeat_ns, self._counters)
        self._recovery = RecoveryStreams(self._actions, self._silence)
        self._synchronized = False
        self._progress_ns = 0
        """When the sequence last advanced."""
        self._outdated = 0
        """Number of outdated packets since then."""
        self._now_ns = 0
        self._applied_messages = 0
        """Number of messages of the next packet that the fast path has already applied."""
        self._start_sequence({}, from_the_start=settings.from_the_start)

    def _start_sequence(self, books: dict[int, OrderBook], *, from_the_start: bool) -> None:
        """Start a new sequence, before any of its packets."""
        settings = self.settings
        self._arbiter: Arbiter[RawPacket] = Arbiter(
            settings.number,
            max_held_packets=settings.max_held_packets,
            max_wait_ns=settings.reorder_ns,
            feeds=self._sites.feeds,
            reorder=settings.reorder_packets,
        )
        self._limits = QueueLimits(settings.max_queued_messages, settings.max_queued_total)
        self._follower = Follower(
            from_the_start=from_the_start,
            listener=self._emitter,
            limits=self._limits,
            only_current=True,
            books=books,
            new_book=self._new_book,
            max_instruments=settings.max_instruments,
        )
        self._emitter.add_instrument = self._follower.add_instrument

    def _new_book(self) -> OrderBook:
        return PriorityBook()

    # State

    @property
    def counters(self) -> ChannelCounters:
        """Counters since the start."""
        return self._counters

    @property
    def state(self) -> ChannelState:
        """State of the channel."""
        if self._sites.life.down:
            return ChannelState.DOWN
        if self._follower.position is None and not self._sites.life.received_anything:
            return ChannelState.STARTING
        if self._synchronized and not self._recovery:
            return ChannelState.LIVE
        if self._recovery.silent:
            return ChannelState.SILENT
        if self._recovery.idle:
            return ChannelState.WAITING
        return ChannelState.HEALING if self._synchronized else ChannelState.SYNCHRONIZING

    @property
    def last_packet(self) -> PacketKey | None:
        """The last packet applied, or the one before the next packet named by a heartbeat."""
        return self._follower.position

    @property
    def site(self) -> tuple[str, ...]:
        """Feeds of the followed site."""
        return self._sites.feeds

    @property
    def instruments(self) -> Mapping[int, ChannelInstrument]:
        """Instruments by security ID."""
        return self._emitter.state.instruments

    @property
    def phases(self) -> Phases:
        """Phases of groups and states of instruments."""
        return self._emitter.state.phases

    def statistics(self, security_id: int) -> Mapping[Key, Statistic]:
        """Return the statistics of an instrument by name and kind."""
        return self._emitter.state.statistics.get(security_id, {})

    @property
    def security_ids(self) -> Iterable[int]:
        """Instruments that have a book."""
        return self._follower.books.keys()

    def book(self, security_id: int) -> ChannelBook:
        """Return the book of an instrument and its state."""
        follower = self._follower
        content = follower.books.get(security_id)
        state = follower.state(security_id)
        reason = "nothing was received for it" if content is None else content.reason
        if self._sites.life.down and state in _CLAIMING_STATES:
            state, reason = State.UNCONFIRMED, "unconfirmed: the channel is silent"
        content = PriorityBook() if content is None else content
        return ChannelBook(security_id, state, follower.position, reason, content)

    def is_alive(self, feed: str) -> bool:
        """Whether anything arrived on the feed within the last heartbeats."""
        return self._sites.is_alive(feed, self._now_ns)

    def take_events(self) -> list[channel_events.ChannelEvent]:
        """Return the events since the last call, in order."""
        return self._emitter.take()

    def enable_events(self, *, enabled: bool) -> None:
        """Enable or disable events; while they are disabled, none are kept."""
        self._emitter.wanted = enabled
        self._emitter.take()

    def take_actions(self) -> list[StreamAction]:
        """Return the requested actions since the last call, in order."""
        actions = list(self._actions)
        self._actions.clear()
        return actions

    # Time

    def start(self, now_ns: int) -> None:
        """Start: request the streams that are needed."""
        self._now_ns = self._progress_ns = now_ns
        settings = self.settings
        self._sites = Sites(settings.sites, settings.heartbeat_ns, now_ns)
        for feed in self._counters.feeds:
            self._actions.append(Join(Stream.INCREMENTAL, feed))
            self._silence.join(Stream.INCREMENTAL, feed, now_ns)
        self._update_streams()

    def tick(self, now_ns: int) -> None:
        """Advance the clock: declare missing packets lost, detect silence."""
        self._now_ns = max(now_ns, self._now_ns)
        self._process_outcomes(self._arbiter.expire(now_ns))
        self._enter_announced_version()
        self._notice_silence()
        self._check_streams()
        self._emitter.expire_news(now_ns)
        self._update_streams()

    def deadline(self) -> int | None:
        """Return when `tick` must be called next; None while nothing is pending."""
        waits = (
            self._arbiter.deadline_ns, self._sites.life.deadline_ns,
            self._emitter.news_deadline_ns, self._silence.deadline_ns,
        )  # fmt: skip
        return min((each for each in waits if each is not None), default=None)

    def _notice_silence(self) -> None:
        """Emit ChannelDown when the followed site falls silent, and look for another site."""
        life = self._sites.life
        if life.check(self._now_ns):
            self._counters.outages += 1
            self._use_current_position()
            self._emitter.end_event()
            self._emitter.emit(channel_events.ChannelDown, life.silent_ns(self._now_ns))
        if life.down or (self._recovery.idle and self._sites.followed):
            self._fail_over()

    def _check_streams(self) -> None:
        """Emit which joined streams fell silent, and on which packets arrive again."""
        due_ns = self._silence.deadline_ns
        if due_ns is None or self._now_ns < due_ns:
            return
        for feed in self._counters.feeds:
            last_ns = self._sites.received_ns(feed)
            if last_ns is not None:
                self._on_arrival(Stream.INCREMENTAL, feed, last_ns)
        for silent in self._silence.check(self._now_ns):
            self._use_current_position()
            self._emitter.emit(channel_events.StreamSilent, *silent)

    def _on_arrival(self, stream: Stream, feed: str, when_ns: int) -> None:
        """Record an arrival on a joined stream, and emit the end of its silence."""
        if self._silence.arrived(stream, feed, when_ns):
            self._use_current_position()
            self._emitter.emit(channel_events.StreamActive, stream, feed)

    def _fail_over(self) -> None:
        """Switch to another site that is alive."""
        another = self._sites.another(self._now_ns)
        if another is not None:
            self._counters.failovers += 1
            self._restart(another)
            self._emitter.emit(channel_events.FailedOver, self.site)

    def restart(self, now_ns: int) -> None:
        """Rebuild everything from the recovery streams: processing a packet failed midway.

        The packet counts as lost, and nothing that it may have touched is trusted: books start
        empty and unconfirmed, and are loaded from snapshots.
        """
        self._now_ns = max(now_ns, self._now_ns)
        self._counters.failures += 1
        self._applied_messages = 0
        security_ids, position = [*self._follower.books], self._follower.position
        if position is not None:
            self._use_current_position()
            self._emitter.lost_packets(position[0], position[1] + 1, None)
        self._restart(self._sites.followed, keep_books=False)
        for security_id in security_ids:
            self._follower.add_instrument(security_id)
        self._update_streams()

    def _restart(self, site: int, *, keep_books: bool = True) -> None:
        """Follow a site without any knowledge of its sequence; it may be the current one."""
        self._recovery.leave()
        self._sites.followed = site
        self._sites.life.down = self._synchronized = False
        self._progress_ns, self._outdated = self._now_ns, 0
        self._use_current_position()
        self._emitter.restart()
        self._start_sequence(self._follower.books if keep_books else {}, from_the_start=False)
        for security_id in self.instruments:
            self._follower.add_instrument(security_id)

    # Datagrams

    def receive(
        self,
        stream: Stream,
        feed: str,
        payload: bytes,
        now_ns: int,
        received_ns: int | None = None,
    ) -> None:
        """Process a datagram received on a stream of a feed."""
        counters = self._counters
        counters.packets += 1
        counters.bytes += len(payload)
        self._now_ns = max(now_ns, self._now_ns)
        received_ns = now_ns if received_ns is None else received_ns
        try:
            header = decode_header(payload)
        except DecodeError:
            counters.bad_packets += 1
            return
        if (
            header.channel != self.settings.number
            or feed not in self._sites
            or not is_sequence_version(header.sequence_version)
        ):
            counters.bad_packets += 1
            return
        if stream is Stream.INCREMENTAL:
            self._on_incremental_packet(feed, header, payload, received_ns)
        elif not self._recovery.listens(stream, feed):
            counters.unexpected_packets += 1
        else:
            self._on_arrival(stream, feed, self._now_ns)
            self._on_recovery_packet(
                stream, header, RawPacket.from_payload(header, payload, received_ns)
            )
        self._update_streams()

    def _on_incremental_packet(
        self, feed: str, header: PacketHeader, payload: bytes, received_ns: int
    ) -> None:
        """Process a packet of the incremental stream: arbitrate it, or read its heartbeat."""
        sites, now_ns = self._sites, self._now_ns
        key = PacketKey(header.sequence_version, header.sequence_number)
        expected = self._arbiter.expected if sites.is_followed(feed) else None
        if expected is not None and header.sequenced and _is_past(key, expected):
            raw = RawPacket(header, payload, received_ns)  # a duplicate is not parsed
        else:
            raw = self._locate_messages(header, payload, received_ns)
            if not raw.frames:
                self._counters.bad_packets += 1
                return
        self._notice_silence()
        sites.on_packet(feed, now_ns)
        if not sites.is_followed(feed):
            self._counters.unexpected_packets += 1
            return
        feed_counters = self._counters.feeds[feed]
        feed_counters.packets += 1
        if header.sequenced:
            resets = is_reset(raw)
            self._process_outcomes(self._arbiter.accept(feed, key, now_ns, raw, resets=resets))
            return
        feed_counters.heartbeats += 1
        number = next_number(raw, self._decoder)
        if number is None:
            self._counters.undecoded_messages += 1
        else:
            self._on_heartbeat(PacketKey(header.sequence_version, number), header, received_ns)

    def _locate_messages(self, header: PacketHeader, payload: bytes, received_ns: int) -> RawPacket:
        """Return a packet with the locations of its messages."""
        return RawPacket.from_payload(header, payload, received_ns)

    def _on_heartbeat(self, following: PacketKey, header: PacketHeader, received_ns: int) -> None:
        """Process a heartbeat, which names the next packet (000 §7.5)."""
        if self._follower.position is None:
            self._emitter.set_packet(None, header.sending_time_ns, received_ns)
            self._follower.begin(following)
        self._process_outcomes(self._arbiter.heartbeat(*following, self._now_ns))
        self._enter_announced_version()
        expected = self._arbiter.expected
        if following == expected and not self._arbiter.held:
            self._on_progress()
        elif expected is not None and precedes(following, expected):
            self._on_outdated_packet()

    def _process_outcomes(self, outcomes: Iterable[FeedOutcome[RawPacket]]) -> None:
        """Deliver packets in sequence; count duplicates, late packets and losses."""
        feeds = self._counters.feeds
        for outcome in outcomes:
            match outcome:
                case PacketDelivered():
                    feeds[outcome.feed].first_arrivals += 1
                    self._deliver(outcome.item, outcome.packet_key)
                case PacketDuplicate():
                    feeds[outcome.feed].duplicates += 1
                    self._on_outdated_packet()
                case PacketTooLate():
                    feeds[outcome.feed].late += 1
                    self._on_outdated_packet()
                case PacketsLost(version, first, last):
                    self._use_current_position()
                    self._emitter.lost_packets(version, first, last)
                    if last is not None:
                        self._follower.lose(PacketKey(version, last))
                    self._on_progress()

    def _deliver(self, raw: RawPacket, packet_key: PacketKey) -> None:
        """Apply the next packet of the sequence."""
        counters, emitter, follower = self._counters, self._emitter, self._follower
        emitter.set_packet(packet_key, raw.header.sending_time_ns, raw.received_ns)
        emitter.now_ns = self._now_ns
        position = follower.position
        if position is not None and position.sequence_version != packet_key.sequence_version:
            emitter.emit(channel_events.VersionChanged, packet_key.sequence_version)
        packet = raw.decoded(self._decoder)
        undecoded = [found for found in packet.outcomes if found.reason]
        if undecoded:
            counters.undecoded_messages += len(undecoded)
            # Unreadable messages count as a lost packet.
            version, number = packet_key
            emitter.lost_packets(version, number, number)
        applied, self._applied_messages = self._applied_messages, 0
        follower.deliver(packet, applied)
        counters.delivered += 1
        counters.messages += len(packet.outcomes)
        counters.overflows = self._limits.overflows
        if emitter.reset:
            emitter.reset = self._recovery.idle = False
        self._on_progress()

    def _enter_announced_version(self) -> None:
        """Move to a new sequence version that only heartbeats have announced."""
        expected, position = self._arbiter.expected, self._follower.position
        if expected is None or position is None:
            return
        if expected.sequence_version != position.sequence_version:
            self._use_current_position()
            self._emitter.emit(channel_events.VersionChanged, expected.sequence_version)
            self._follower.lose(PacketKey(expected.sequence_version, expected.sequence_number - 1))

    def _on_progress(self) -> None:
        """Record that the sequence advanced; the channel is up again if it was down."""
        self._progress_ns = self._now_ns
        self._outdated = 0
        if self._sites.life.down:
            self._sites.life.down = False
            self._emitter.emit(channel_events.ChannelUp)

    def _on_outdated_packet(self) -> None:
        """Count an outdated packet; restart if no others arrive: sequence numbers went back."""
        self._outdated += 1
        silent_ns = self._now_ns - self._progress_ns
        if (
            self._outdated >= MIN_OUTDATED_PACKETS
            and silent_ns >= MISSED_HEARTBEATS * self.settings.heartbeat_ns
        ):
            self._counters.resyncs += 1
            self._restart(self._sites.followed)

    def _use_current_position(self) -> None:
        """Attribute the next events to the last packet applied: no new packet causes them."""
        self._emitter.set_packet(self._follower.position, 0, self._now_ns)

    # Recovery streams

    def _on_recovery_packet(self, stream: Stream, header: PacketHeader, raw: RawPacket) -> None:
        """Process a packet of the snapshot or definition stream."""
        if not raw.frames:
            self._counters.bad_packets += 1
            return
        emitter = self._emitter
        emitter.set_packet(self._follower.position, header.sending_time_ns, raw.received_ns)
        if not header.sequenced:
            if self._recovery.heartbeat(stream):
                emitter.emit(channel_events.RecoveryIdle)
            return
        self._recovery.add_source(stream)
        packet = raw.decoded(self._decoder)
        self._counters.undecoded_messages += sum(bool(found.reason) for found in packet.outcomes)
        if stream is Stream.SNAPSHOT:
            emitter.begin_snapshot()
            self._follower.snapshot(packet)
            emitter.end_snapshot()
        else:
            definitions = emitter.state.definitions
            emitter.defined(definitions.looped(packet))
            self._counters.definition_loops = definitions.loops
            self._counters.instruments_dropped += definitions.take_dropped()

    def _update_streams(self) -> None:
        """Join the streams that are needed now, and leave the others."""
        emitter = self._emitter
        snapshots = (
            emitter.loop_needed
            or emitter.phases_doubted
            or bool(emitter.awaited)
            or not self._follower.trusted
        )
        definitions = not emitter.state.definitions.complete
        if self._synchronized and not (snapshots or definitions or self._recovery):
            return  # nearly always
        main = self._sites.feeds[0]
        now_ns = self._now_ns
        self._recovery.set_joined(Stream.DEFINITION, main, now_ns, wanted=definitions)
        if self._recovery.set_joined(Stream.SNAPSHOT, main, now_ns, wanted=snapshots):
            self._follower.leave_snapshots()
        if not (self._synchronized or snapshots or definitions or self.last_packet is None):
            self._synchronized = True
            self._use_current_position()
            emitter.emit(channel_events.Synchronized)


def _is_past(packet_key: PacketKey, expected: PacketKey) -> bool:
    """Whether a packet precedes the expected one within its sequence version."""
    return (
        packet_key.sequence_version == expected.sequence_version
        and packet_key.sequence_number < expected.sequence_number
    )
