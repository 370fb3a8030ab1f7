"""Channel of the legacy feed, with the interface of all followed channels.

Datagrams and times in, events and actions out, without sockets and clocks. It has the same parts as
the binary channel, fed by the streams of `pregao.legacy`. `LegacyStreamFollower` follows the
channel over its feeds; `LegacyFeedChannel` adds events, states and recovery.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from pregao import events as channel_events
from pregao.book.position_book import PositionBook
from pregao.book.state import State
from pregao.book.updates import BookEmptied, BookReset, DepthUpdate, Update
from pregao.clock import SECOND
from pregao.errors import UsageError
from pregao.feed.channel.channel_base import ChannelBook
from pregao.feed.channel.event_publisher import EventLog
from pregao.feed.channel.settings import (
    ChannelCounters,
    ChannelSettings,
    ChannelState,
    FeedCounters,
    Join,
    Leave,
    LegacyFeed,
    StreamAction,
)
from pregao.feed.legacy.book_updates import Entry, LegacyTrade, exact_mantissa, number_of
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
)
from pregao.legacy.loop_line import LoopLine, LoopMessage
from pregao.legacy.messages import LegacyMessage, MessageReader, MsgType
from pregao.legacy.recovery import MAX_RECOVERY_WAIT_NS
from pregao.legacy.streams import DEAD_AFTER_NS, PLATFORMS, PUMA, LegacyStream, Platform
from pregao.umdf.arbitration import MAX_WAIT_NS
from pregao.umdf.phases import Phases, Status
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
        self.follower = LegacyFollower(
            from_the_start=own.from_the_start,
            market_depth=own.market_depth,
            listener=listener,
            max_instruments=own.max_instruments,
            milliseconds=own.platform.milliseconds,
        )
        self.state = LegacyState(own.max_instruments, milliseconds=own.platform.milliseconds)

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
                for event in self.recovery.receive(feed, datagram, now_ns):
                    self.follower.snapshot(event)
                    if isinstance(event, LoopMessage) and event.message.type is MsgType.SNAPSHOT:
                        self._shown(event)
            case LegacyStream.INSTRUMENT_DEFINITION:
                for event in self.definition.receive(feed, datagram, now_ns):
                    self.state.definition(event)
                    if isinstance(event, LoopMessage):
                        self._know(event.message)

    def tick(self, now_ns: int) -> None:
        """Advance the clock."""
        self.take(self.incremental.tick(now_ns))

    def take(self, events: Sequence[LineEvent]) -> None:
        """Process events of the incremental stream, in order."""
        for event in events:
            match event:
                case LineMessage(key, message):
                    self.follower.deliver(key, message)
                    self.state.message(message, self.follower.admits)
                    if message.type is MsgType.SECURITY_LIST:
                        self._know(message)
                case LineGap(version, _, last):
                    if last is not None:
                        self.follower.lose(PacketKey(version, last))
                case LineRestarted(key):
                    self.follower.lose(PacketKey(key.sequence_version, key.sequence_number - 1))

    def _know(self, message: LegacyMessage) -> None:
        """Register defined instruments, even without a snapshot; remove deleted ones (002 §8)."""
        for row in message.values.get("RelatedSym", ()):
            security_id = row["SecurityID"]
            if security_id in self.state.instruments:
                self.follower.add_instrument(security_id)
            else:
                self.follower.books.pop(security_id, None)

    def _shown(self, found: LoopMessage) -> None:
        """Use a snapshot's statistics unless newer ones of the instrument were published."""
        message, position = found.message, self.follower.position
        if not self.follower.admits(message.values["SecurityID"]):
            return
        outdated = position is not None and (
            message.values["LastMsgSeqNumProcessed"] < position.sequence_number
        )
        if not outdated or message.values["SecurityID"] not in self.state.statistics:
            self.state.snapshot(message)


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

    The snapshot and definition streams are joined while they are needed.
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
        self._looking = False
        """Whether the snapshot and definition streams are joined."""
        self._synchronized = False
        self._down = False
        self._now_ns = 0
        self._received_ns: dict[str, int] = {}
        self._strange = 0
        """Datagrams of a feed or stream that the channel does not have."""
        self._trades: set[tuple[int, int]] = set()
        """Published trades: one that is sent again is a correction."""

    def _new_channel(self, *, from_the_start: bool) -> LegacyStreamFollower:
        """Create a channel without any state."""
        settings = self.settings
        own = settings.legacy or LegacyFeed()
        return LegacyStreamFollower(
            LegacyStreamSettings(
                platform=PLATFORMS[own.platform],
                feeds=settings.feeds,
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
        if not self._looking:
            return ChannelState.LIVE
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
        self._actions += [Join(Stream.INCREMENTAL, feed) for feed in self.settings.feeds]
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
        self._update_streams()

    def deadline(self) -> int | None:
        """Return the time of the next `tick`; None if nothing is awaited."""
        deadlines = [self._channel.deadline_ns]
        if self._received_ns and not self._down:
            deadlines.append(max(self._received_ns.values()) + DEAD_AFTER_NS)
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
            counters.feeds[feed].packets += 1
            self._take(self._channel.incremental.receive(feed, payload, now_ns), received_ns)
            if self._down:
                self._down = False
                self._log.emit(channel_events.ChannelUp)
        else:
            self._log.set_packet(self.last_packet, 0, received_ns)
            before = self._states() if stream is Stream.DEFINITION else None
            self._channel.receive(_STREAMS[stream], feed, payload, now_ns)
            self._log.end_event()
            self._emit_states(before)
        line = self._channel.incremental.counters
        loops = (self._channel.recovery.counters, self._channel.definition.counters)
        counters.bad_packets = self._strange + line.rejected + sum(own.rejected for own in loops)
        counters.delivered = line.delivered
        counters.messages = line.messages
        dropped, self._channel.state.dropped = self._channel.state.dropped, 0
        counters.instruments_dropped += dropped
        self._update_streams()

    def _take(self, events: Iterable[LineEvent], received_ns: int) -> None:
        log = self._log
        for event in events:
            before: dict[int, tuple[str, Status]] | None = None
            if isinstance(event, LineMessage):
                log.set_packet(event.packet_key, event.message.sending_time_ns or 0, received_ns)
                if not event.message.values.get("MDEntries"):
                    before = self._states()
            else:
                log.set_packet(self.last_packet, 0, received_ns)
            if isinstance(event, LineGap):
                self.counters.gaps += 1
                self.counters.lost_packets += (
                    0 if event.last is None else event.last - event.first + 1
                )
                log.emit(channel_events.GapFound, event.sequence_version, event.first, event.last)
            self._channel.take([event])
            log.end_event()
            for trade in self._channel.state.take_trades():
                self._trade(trade)
            self._emit_states(before)

    def _states(self) -> dict[int, tuple[str, Status]]:
        """Return symbol and status of each instrument, before a message that may change them."""
        status = self.phases.status
        return {own: (each.symbol, status(own)) for own, each in self.instruments.items()}

    def _emit_states(self, before: dict[int, tuple[str, Status]] | None) -> None:
        """Emit events for instruments that were added, deleted, or changed status."""
        if before is None or not self._log.wanted:
            return
        now = self._states()
        for own in [*before, *(each for each in now if each not in before)]:
            if own not in now:
                self._log.emit(
                    channel_events.InstrumentChanged,
                    own,
                    before[own][0],
                    channel_events.DefinitionChange.DELETED,
                )
            elif own not in before:
                self._log.emit(
                    channel_events.InstrumentChanged,
                    own,
                    now[own][0],
                    channel_events.DefinitionChange.ADDED,
                )
            elif before[own][1] is not now[own][1]:
                self._log.emit(channel_events.StatusChanged, own, before[own][1], now[own][1])

    def _trade(self, trade: LegacyTrade) -> None:
        event = 0 if self._log.packet_key is None else self._log.packet_key.sequence_number
        number = number_of(trade.trade_id) or 0
        day = None
        if trade.time_ns is not None:
            day = datetime.fromtimestamp(trade.time_ns // SECOND, UTC).date()
        price, size = exact_mantissa(trade.price) or 0, trade.size or 0
        key = (trade.security_id, number)
        if trade.busted:
            self._log.emit(
                channel_events.TradeBusted, trade.security_id, event, number, day, price, size
            )
            return
        self._log.emit(
            channel_events.TradeDone, trade.security_id, event, number, day, price, size,
            number_of(trade.buyer), number_of(trade.seller), 0, None, trade.time_ns,
            key in self._trades, trade.seller_days is not None, trade.makes_last,
        )  # fmt: skip
        if len(self._trades) >= MAX_TRADES:
            self._trades.clear()
        self._trades.add(key)

    def _update_streams(self) -> None:
        """Join the loop streams while anything is missing, and leave them when nothing is."""
        channel, emptied = self._channel, self._log.emptied
        if emptied:
            filled = [own for own in emptied if channel.book_state(own) is not State.BUILDING]
            emptied.difference_update(filled)
        done = channel.synchronized and channel.state.complete and not emptied
        if done and not self._synchronized:
            self._synchronized = True
        feed = self.settings.feeds[0]
        if not done and not self._looking:
            self._looking = True
            self._actions += [Join(stream, feed) for stream in _LOOPS]
        elif done and self._looking:
            self._looking = False
            self._actions += [Leave(stream, feed) for stream in _LOOPS]
            self._log.set_packet(self.last_packet, 0, self._now_ns)
            self._log.emit(channel_events.Synchronized)
