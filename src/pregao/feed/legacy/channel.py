"""Channel of the legacy feed, with the interface of all followed channels.

Datagrams and times in, events and actions out, without sockets and clocks. It has the same parts as
the binary channel, fed by the streams of `pregao.legacy`. `LegacyStreamFollower` follows the
channel over its feeds; `LegacyFeedChannel` adds events, states and recovery.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Final

from pregao import events as channel_events
from pregao.book.position_book import PositionBook
from pregao.book.state import State
from pregao.book.updates import BookEmptied, BookReset, DepthUpdate, Update
from pregao.clock import SECOND
from pregao.errors import UsageError
from pregao.feed.channel.channel_base import ChannelBook
from pregao.feed.channel.event_publisher import EventLog
from pregao.feed.channel.failover import RecoveryStreams, StreamSilence
from pregao.feed.channel.settings import (
    ChannelCounters,
    ChannelSettings,
    ChannelState,
    FeedCounters,
    Join,
    LegacyFeed,
    StreamAction,
)
from pregao.feed.legacy.book_updates import (
    ELECTRONIC,
    MULTI_ASSET,
    MULTI_ASSET_TRADE,
    TRADE_CONDITIONS,
    Entry,
    LegacyTrade,
    exact_mantissa,
    number_of,
)
from pregao.feed.legacy.follower import LegacyBook, LegacyFollower
from pregao.feed.legacy.state import MAX_TRADES, LegacyInstrument, LegacyState, StatisticKey
from pregao.feed.listener import FollowerListener
from pregao.feed.recovery import MAX_INSTRUMENTS
from pregao.legacy.incremental_line import (
    RECOVERY,
    IncrementalLine,
    LineEvent,
    LineGap,
    LineMessage,
    LineRestarted,
    LineSwitched,
)
from pregao.legacy.loop_line import LoopEnded, LoopLine, LoopMessage
from pregao.legacy.messages import LegacyMessage, MessageReader, MsgType
from pregao.legacy.recovery import MAX_RECOVERY_WAIT_NS
from pregao.legacy.streams import (
    DEAD_AFTER_NS,
    HEARTBEAT_NS,
    PLATFORMS,
    PUMA,
    LegacyStream,
    Platform,
)
from pregao.umdf.arbitration import MAX_WAIT_NS
from pregao.umdf.phases import Phases, Status, StatusChange
from pregao.umdf.sequencing import PacketKey
from pregao.umdf.streams import Stream

_STREAMS: Final = {
    Stream.INCREMENTAL: LegacyStream.INCREMENTAL,
    Stream.SNAPSHOT: LegacyStream.MARKET_RECOVERY,
    Stream.DEFINITION: LegacyStream.INSTRUMENT_DEFINITION,
}
_LOOPS: Final = (Stream.SNAPSHOT, Stream.DEFINITION)
_CLAIMS: Final = (State.VALID, State.EMPTY, State.BUILDING)
"""States that make a claim about the exchange's book; a silent channel supports none."""


@dataclass(frozen=True, slots=True)
class LegacyStreamSettings:
    """Settings of a followed channel."""

    platform: Platform = PUMA
    feeds: Sequence[str] = ("A", "B")
    market_depth: int | None = None
    """Depth of books without a snapshot; None is a book of all orders."""
    from_the_start: bool = False
    """Whether the first message is the first of its week or day."""
    max_wait_ns: int = MAX_WAIT_NS
    """Maximum wait for a missing message, from the other feed or TCP recovery."""
    recoverable: bool = False
    """Whether TCP recovery is used: then a message may arrive after all feeds have passed it."""
    max_instruments: int = MAX_INSTRUMENTS
    """Maximum number of undefined instruments that are followed, and of defined ones."""


class LegacyStreamFollower:
    """Follows a channel over its streams."""

    def __init__(
        self,
        settings: LegacyStreamSettings | None = None,
        *,
        reader: MessageReader | None = None,
        listener: FollowerListener | None = None,
    ) -> None:
        own = LegacyStreamSettings() if settings is None else settings
        reader = MessageReader() if reader is None else reader
        self.incremental = IncrementalLine(
            own.feeds,
            platform=own.platform,
            reader=reader,
            max_wait_ns=own.max_wait_ns,
            recoverable=own.recoverable,
        )
        self.recovery = LoopLine(own.feeds, reader=reader)
        self.definition = LoopLine(own.feeds, reader=reader)
        self.state = LegacyState(
            own.max_instruments,
            milliseconds=own.platform.milliseconds,
            separate_states=own.platform.separate_states,
        )
        self.follower = LegacyFollower(
            from_the_start=own.from_the_start,
            market_depth=own.market_depth,
            listener=listener,
            max_instruments=own.max_instruments,
            milliseconds=own.platform.milliseconds,
            state=self.state,
        )

    @property
    def synchronized(self) -> bool:
        """Whether every book is trusted; else the market recovery stream is needed (002 §5.3.5)."""
        return self.follower.position is not None and self.follower.trusted

    @property
    def deadline_ns(self) -> int | None:
        """Time of the next `tick`, if messages are awaited."""
        return self.incremental.deadline_ns

    def book(self, security_id: int) -> LegacyBook | None:
        """Return the book of an instrument; None before its first message."""
        return self.follower.books.get(security_id)

    def book_state(self, security_id: int, now_ns: int | None = None) -> State:
        """Return a book's state; on a failed stream no book is trusted (002 §5.1.1)."""
        state = self.follower.state(security_id)
        if now_ns is None or not self.incremental.is_dead(now_ns) or state is State.STALE:
            return state
        return State.UNCONFIRMED

    def receive(self, stream: LegacyStream, feed: str, datagram: bytes, now_ns: int) -> None:
        """Process a datagram."""
        match stream:
            case LegacyStream.INCREMENTAL:
                self.take(self.incremental.receive(feed, datagram, now_ns))
            case LegacyStream.MARKET_RECOVERY:
                for event in self._snapshots(feed, datagram, now_ns):
                    self.follower.snapshot(event)
            case LegacyStream.INSTRUMENT_DEFINITION:
                for event in self.definition.receive(feed, datagram, now_ns):
                    self.state.definition(event)
                    self._register(event.message if isinstance(event, LoopMessage) else None)

    def _snapshots(
        self, feed: str, datagram: bytes, now_ns: int
    ) -> Sequence[LoopMessage | LoopEnded]:
        """Read snapshots of a feed with the numbers of the line: others refer to other messages."""
        agrees = self.incremental.numbers_agree
        if not agrees(feed):
            self.recovery.counters.ignored += 1
            return []
        if self.recovery.followed is not None and not agrees(self.recovery.followed):
            self.recovery.leave()
        return self.recovery.receive(feed, datagram, now_ns)

    def tick(self, now_ns: int) -> None:
        """Advance the clock."""
        self.take(self.incremental.tick(now_ns))

    def take(self, events: Sequence[LineEvent]) -> None:
        """Process events of the incremental stream, in order."""
        for event in events:
            match event:
                case LineMessage(key, message):
                    self.follower.deliver(key, message)
                    self.state.message(message, self.follower.admits, key)
                    if message.type is MsgType.SECURITY_LIST:
                        self._register(message)
                case LineGap(version, _, last):
                    if last is not None:
                        self.follower.lose(PacketKey(version, last))
                case LineRestarted(key):
                    last_key = PacketKey(key.sequence_version, key.sequence_number - 1)
                    self.follower.restart(last_key, self.recovery.version)
                case LineSwitched():
                    version = self.incremental.version
                    self.follower.restart(PacketKey(version, 0), self.recovery.version)

    def _register(self, message: LegacyMessage | None) -> None:
        """Register defined instruments, even without a snapshot; remove deleted ones (002 §8)."""
        for security_id in self.state.take_removed():
            self.follower.remove_instrument(security_id)
        for row in () if message is None else message.values.get("RelatedSym", ()):
            if row["SecurityID"] in self.state.instruments:
                self.follower.add_instrument(row["SecurityID"])


class _Log(EventLog):
    """Event log that also records emptied books: only snapshots show that they are refilled."""

    def __init__(self, max_events: int, counters: ChannelCounters) -> None:
        super().__init__(max_events, counters)
        self.emptied: set[int] = set()

    def on_update(self, security_id: int, event: int, update: Update | DepthUpdate) -> None:
        """Record an update of a book."""
        super().on_update(security_id, event, update)
        if isinstance(update, (BookEmptied, BookReset)):
            self.emptied.add(security_id)


class LegacyFeedChannel:
    """Follows a UMDF FIX/FAST channel: joins, synchronizes, survives loss, and emits events.

    The snapshot and definition streams are joined while they are needed, on a feed that sends them
    and has the numbers of the incremental stream (002 §5.2).
    """

    def __init__(self, settings: ChannelSettings, reader: MessageReader | None = None) -> None:
        if (settings.legacy or LegacyFeed()).platform not in PLATFORMS:
            allowed = " or ".join(PLATFORMS)
            raise UsageError(f"channel {settings.number}: legacy platform must be {allowed}")
        self.settings = settings
        self._reader = reader
        self.counters = ChannelCounters(feeds={name: FeedCounters() for name in settings.feeds})
        self._log = _Log(settings.max_events, self.counters)
        self._channel = self._new_channel(from_the_start=settings.from_the_start)
        self._actions: list[StreamAction] = []
        self._silence = StreamSilence(HEARTBEAT_NS, self.counters)
        self._loops = RecoveryStreams(self._actions, self._silence)
        self._loop_received_ns: dict[Stream, int] = {}
        """When something last arrived on a joined loop stream, or it was joined."""
        self._synchronized = False
        self._down = False
        self._now_ns = 0
        self._received_ns: dict[str, int] = {}
        self._strange = 0
        """Datagrams of a feed or stream that the channel does not have."""
        self._trades: set[tuple[int, str, date | None, int]] = set()
        """Published trades of each venue and day: one that is sent again is a correction."""

    def _new_channel(self, *, from_the_start: bool) -> LegacyStreamFollower:
        """Create a channel without any state."""
        settings = self.settings
        own = settings.legacy or LegacyFeed()
        with_snapshots = self._feeds_with(Stream.SNAPSHOT)
        return LegacyStreamFollower(
            LegacyStreamSettings(
                platform=PLATFORMS[own.platform],
                feeds=sorted(settings.feeds, key=lambda feed: feed not in with_snapshots),
                market_depth=own.market_depth,
                from_the_start=from_the_start,
                max_wait_ns=max(settings.reorder_ns, MAX_RECOVERY_WAIT_NS if own.recovery else 0),
                recoverable=own.recovery,
                max_instruments=settings.max_instruments,
            ),
            reader=self._reader,
            listener=self._log,
        )

    # Reading

    @property
    def state(self) -> ChannelState:
        """State of the channel."""
        if self._down:
            return ChannelState.DOWN
        if not self._received_ns:
            return ChannelState.STARTING
        if not self._loops:
            return ChannelState.LIVE
        if self._loops.silent:
            return ChannelState.SILENT
        return ChannelState.HEALING if self._synchronized else ChannelState.SYNCHRONIZING

    @property
    def last_packet(self) -> PacketKey | None:
        """Key of the last message applied."""
        return self._channel.follower.position

    @property
    def instruments(self) -> Mapping[int, LegacyInstrument]:
        """Instruments by security ID."""
        return self._channel.state.instruments

    @property
    def phases(self) -> Phases:
        """Phases of groups and states of instruments."""
        return self._channel.state.phases

    def statistics(self, security_id: int) -> Mapping[StatisticKey, Entry]:
        """Return the statistics of an instrument."""
        return self._channel.state.statistics.get(security_id, {})

    @property
    def security_ids(self) -> Iterable[int]:
        """Instruments that have a book."""
        return self._channel.follower.books.keys()

    def book(self, security_id: int) -> ChannelBook:
        """Return the book of an instrument and its state."""
        content = self._channel.book(security_id)
        state = self._channel.book_state(security_id)
        reason = "no messages received" if content is None else content.reason
        if self._down and state in _CLAIMS:
            state, reason = State.UNCONFIRMED, "unconfirmed: the channel is silent"
        content = PositionBook() if content is None else content
        return ChannelBook(security_id, state, self.last_packet, reason, content)

    def is_alive(self, feed: str) -> bool:
        """Whether anything arrived on a feed within three heartbeat intervals."""
        last_ns = self._received_ns.get(feed)
        return last_ns is not None and self._now_ns - last_ns < DEAD_AFTER_NS

    def take_events(self) -> list[channel_events.ChannelEvent]:
        """Return and clear the events since the last call, in order."""
        return self._log.take()

    def enable_events(self, *, enabled: bool) -> None:
        """Enable or disable events; events that occur while disabled are not kept."""
        self._log.wanted = enabled
        self._log.take()

    def take_actions(self) -> list[StreamAction]:
        """Return and clear the actions requested since the last call, in order."""
        actions = list(self._actions)
        self._actions.clear()
        return actions

    # Time

    def start(self, now_ns: int) -> None:
        """Start the channel: request the streams it needs."""
        self._now_ns = now_ns
        for feed in self.settings.feeds:
            self._actions.append(Join(Stream.INCREMENTAL, feed))
            self._silence.join(Stream.INCREMENTAL, feed, now_ns)
        self._update_streams()

    def tick(self, now_ns: int) -> None:
        """Advance the clock: declare missing messages lost and detect silence."""
        self._now_ns = max(now_ns, self._now_ns)
        self._take(self._channel.incremental.tick(now_ns), now_ns)
        if not self._down and self._channel.incremental.is_dead(self._now_ns):
            self._down = True
            self.counters.outages += 1
            self._log.set_packet(self.last_packet, 0, self._now_ns)
            self._log.emit(channel_events.ChannelDown, DEAD_AFTER_NS)
        for silent in self._silence.check(self._now_ns):
            self._log.set_packet(self.last_packet, 0, self._now_ns)
            self._log.emit(channel_events.StreamSilent, *silent)
        self._update_streams()

    def deadline(self) -> int | None:
        """Return the time of the next `tick`; None if nothing is awaited."""
        deadlines = [self._channel.deadline_ns, self._silence.deadline_ns]
        progress_ns = self._channel.incremental.progress_ns
        if progress_ns is not None and not self._down:
            deadlines.append(progress_ns + DEAD_AFTER_NS)
        deadlines += [each + DEAD_AFTER_NS for each in self._loop_received_ns.values()]
        return min((each for each in deadlines if each is not None), default=None)

    # TCP recovery

    @property
    def incremental(self) -> IncrementalLine:
        """The incremental line, for callers that request what it is missing."""
        return self._channel.incremental

    def recovered(self, events: Sequence[LineEvent], now_ns: int) -> None:
        """Process the line events that recovered messages produced."""
        if not events:
            return
        self._now_ns = max(now_ns, self._now_ns)
        self.counters.recovered_messages += sum(
            isinstance(event, LineMessage) and event.feed == RECOVERY for event in events
        )
        self._take(events, now_ns)
        self.counters.delivered = self._channel.incremental.counters.delivered
        self._update_streams()

    def give_up(self, now_ns: int) -> None:
        """Declare the first missing messages lost immediately."""
        self._take(self._channel.incremental.give_up(now_ns), now_ns)
        self._update_streams()

    def restart(self, now_ns: int) -> None:
        """Rebuild all state from the recovery streams after processing a packet failed midway."""
        self._now_ns = max(now_ns, self._now_ns)
        self.counters.failures += 1
        self._strange = self.counters.bad_packets
        position, security_ids = self.last_packet, [*self.security_ids]
        log = self._log
        log.set_packet(position, 0, self._now_ns)
        log.end_event()
        log.emptied.clear()
        if position is not None:
            self.counters.gaps += 1
            log.emit(
                channel_events.GapFound,
                position.sequence_version,
                position.sequence_number + 1,
                None,
            )
        self._channel = self._new_channel(from_the_start=False)
        for security_id in security_ids:
            self._channel.follower.add_instrument(security_id)
        self._synchronized = False
        self._update_streams()

    # Datagrams

    def receive(
        self, stream: Stream, feed: str, payload: bytes, now_ns: int, received_ns: int | None = None
    ) -> None:
        """Process a datagram received on a stream of a feed."""
        counters = self.counters
        counters.packets += 1
        counters.bytes += len(payload)
        self._now_ns = max(now_ns, self._now_ns)
        received_ns = now_ns if received_ns is None else received_ns
        if feed not in counters.feeds or stream not in _STREAMS:
            self._strange += 1
        elif stream is Stream.INCREMENTAL:
            self._received_ns[feed] = now_ns
            self._on_arrival(stream, feed)
            counters.feeds[feed].packets += 1
            self._take(self._channel.incremental.receive(feed, payload, now_ns), received_ns)
            if self._down and not self._channel.incremental.is_dead(now_ns):
                self._down = False
                self._log.emit(channel_events.ChannelUp)
        elif stream in self._loop_received_ns and not self._loops.listens(stream, feed):
            counters.unexpected_packets += 1
        else:
            if stream in self._loop_received_ns:
                self._loop_received_ns[stream] = now_ns
                self._on_arrival(stream, feed)
            self._log.set_packet(self.last_packet, 0, received_ns)
            self._channel.receive(_STREAMS[stream], feed, payload, now_ns)
            self._log.end_event()
            self._emit_changes()
        line = self._channel.incremental.counters
        loops = (self._channel.recovery.counters, self._channel.definition.counters)
        counters.bad_packets = self._strange + line.rejected + sum(own.rejected for own in loops)
        counters.delivered = line.delivered
        counters.messages = line.messages
        dropped, self._channel.state.dropped = self._channel.state.dropped, 0
        counters.instruments_dropped += dropped
        self._update_streams()

    def _on_arrival(self, stream: Stream, feed: str) -> None:
        """Record an arrival on a joined stream, and emit the end of its silence (002 §5.3.6)."""
        if self._silence.arrived(stream, feed, self._now_ns):
            self._log.set_packet(self.last_packet, 0, self._now_ns)
            self._log.emit(channel_events.StreamActive, stream, feed)

    def _take(self, events: Iterable[LineEvent], received_ns: int) -> None:
        log = self._log
        for event in events:
            if isinstance(event, LineMessage):
                log.set_packet(event.packet_key, event.message.sending_time_ns or 0, received_ns)
            else:
                log.set_packet(self.last_packet, 0, received_ns)
            if isinstance(event, LineGap):
                self.counters.gaps += 1
                self.counters.lost_packets += (
                    0 if event.last is None else event.last - event.first + 1
                )
                log.emit(channel_events.GapFound, event.sequence_version, event.first, event.last)
            if isinstance(event, LineSwitched):
                self.counters.failovers += 1
                log.emit(channel_events.FailedOver, (event.feed,))
            self._channel.take([event])
            log.end_event()
            for trade in self._channel.state.take_trades():
                self._trade(trade)
            self._emit_changes()

    def _emit_changes(self) -> None:
        """Emit events for instruments that were added, deleted, or changed status."""
        statuses: dict[int, Status] = {}
        for change in self._channel.state.take_changes():
            if isinstance(change, StatusChange):
                statuses.setdefault(change.security_id, change.before)
            else:
                self._log.emit(channel_events.InstrumentChanged, *change)
        for security_id, before in statuses.items():
            now = self.phases.status(security_id)
            if security_id in self.instruments and now is not before:
                self._log.emit(channel_events.StatusChanged, security_id, before, now)

    def _trade(self, trade: LegacyTrade) -> None:
        event = 0 if self._log.packet_key is None else self._log.packet_key.sequence_number
        number = number_of(trade.trade_id) or 0
        day = None
        if trade.time_ns is not None:
            day = datetime.fromtimestamp(trade.time_ns // SECOND, UTC).date()
        price, size = exact_mantissa(trade.price) or 0, trade.size or 0
        corrects = False
        if not trade.busted:
            key = (trade.security_id, trade.stream_id, day, number)
            corrects = key in self._trades
            if len(self._trades) >= MAX_TRADES:
                self._trades.clear()
            self._trades.add(key)
        if trade.stream_id != ELECTRONIC:
            self._log.emit(
                channel_events.VenueTrade, trade.security_id, event, trade.stream_id, number, day,
                price, size, number_of(trade.buyer), number_of(trade.seller), trade.time_ns,
                corrects, trade.busted,
            )  # fmt: skip
        elif trade.busted:
            self._log.emit(
                channel_events.TradeBusted, trade.security_id, event, number, day, price, size
            )
        else:
            condition = sum(TRADE_CONDITIONS.get(each, 0) for each in trade.conditions)
            sub_type = MULTI_ASSET_TRADE if MULTI_ASSET in trade.conditions else None
            self._log.emit(
                channel_events.TradeDone, trade.security_id, event, number, day, price, size,
                number_of(trade.buyer), number_of(trade.seller), condition, sub_type, trade.time_ns,
                corrects, trade.seller_days is not None, trade.makes_last,
            )  # fmt: skip

    def _update_streams(self) -> None:
        """Join the loop streams while anything is missing, and leave them when nothing is."""
        channel, emptied = self._channel, self._log.emptied
        if emptied:
            filled = [own for own in emptied if channel.book_state(own) is not State.BUILDING]
            emptied.difference_update(filled)
        state = channel.state
        done = channel.synchronized and state.complete and not state.phases_doubted and not emptied
        if done and not self._synchronized:
            self._synchronized = True
        looking = bool(self._loops)
        for stream in _LOOPS:
            joined = self._loop_received_ns.get(stream)
            feed = None if done else self._loop_feed(stream)
            if joined is not None and (feed is None or not self._loops.listens(stream, feed)):
                self._loops.set_joined(stream, "", self._now_ns, wanted=False)
                del self._loop_received_ns[stream]
            if feed is not None and stream not in self._loop_received_ns:
                self._loops.set_joined(stream, feed, self._now_ns, wanted=True)
                self._loop_received_ns[stream] = self._now_ns
        if looking and not self._loops:
            self._log.set_packet(self.last_packet, 0, self._now_ns)
            self._log.emit(channel_events.Synchronized)

    def _loop_feed(self, stream: Stream) -> str:
        """Return the feed on which to receive a loop stream: the joined one until it is silent."""
        feeds = self._feeds_with(stream)
        if stream is Stream.SNAPSHOT:
            feeds = [each for each in feeds if self.incremental.numbers_agree(each)] or feeds
        # The feeds of a site fail together.
        feeds = sorted(feeds, key=lambda feed: bool(self._received_ns) and not self.is_alive(feed))
        joined = [each for each in feeds if self._loops.listens(stream, each)]
        received_ns = self._loop_received_ns.get(stream, 0)
        if not joined:
            return feeds[0]
        if self._now_ns - received_ns < DEAD_AFTER_NS:
            return joined[0]
        self._loop_received_ns[stream] = self._now_ns
        others = [each for each in feeds if each not in joined]
        return [*others, *joined][0]

    def _feeds_with(self, stream: Stream) -> list[str]:
        """Return the feeds that send a loop stream."""
        legacy = self.settings.legacy or LegacyFeed()
        named = legacy.snapshot_feeds if stream is Stream.SNAPSHOT else legacy.definition_feeds
        return list(named or self.settings.feeds)
