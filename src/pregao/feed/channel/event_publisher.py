"""Emits the events of a channel from the actions of its follower, and keeps the market state.

A change of a book is emitted once per market event, after its last message (EndOfEvent); trades,
states and statistics are emitted with their messages. `EventLog` stores the events, and the changes
of books and of their trust, until the caller takes them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import date
from functools import partial
from typing import Any

from pregao import events as channel_events
from pregao.book.updates import BookEmptied, BookReset, DepthUpdate, GapPossible, Update
from pregao.book.updates import GapExcluded as BookConfirmed
from pregao.feed.book_updates import mantissa
from pregao.feed.channel.instruments import ChannelInstrument
from pregao.feed.channel.market_state import STATISTICS, MarketState, StateChange, StatisticChange
from pregao.feed.channel.settings import ChannelCounters, ChannelSettings
from pregao.feed.listener import NO_EVENT, EventMessage, FollowerListener
from pregao.feed.recovery import InstrumentGap, MarkHealed, is_void
from pregao.umdf import templates
from pregao.umdf.events import ends_event
from pregao.umdf.loops import InstrumentSnapshot
from pregao.umdf.news import NewsParts
from pregao.umdf.phases import StatusChange
from pregao.umdf.sequencing import PacketKey, covers

MAX_PENDING = 262_144
"""Maximum number of queued messages."""

Work = Callable[[int], int]
"""Processes at most the given number of its messages. Returns how many are left."""


class MessageBacklog:
    """Queue of messages, added singly or in batches."""

    def __init__(self) -> None:
        self._work: deque[tuple[Work, int]] = deque()
        self._count = 0

    def __len__(self) -> int:
        """Number of queued messages."""
        return self._count

    def add(self, work: Work, count: int) -> None:
        """Queue ``count`` messages; if they exceed the capacity, process the earlier ones first."""
        if self._count + count > MAX_PENDING:
            self.process(self._count)
        self._work.append((work, count))
        self._count += count

    def process(self, limit: int) -> None:
        """Process at most ``limit`` messages, oldest first."""
        while self._work and limit > 0:
            work, count = self._work.popleft()
            left = work(limit)
            self._count -= count - left
            limit -= count - left
            if left:
                self._work.appendleft((work, left))


_Handler = Callable[[Mapping[str, Any]], None]

_OF_STATE = STATISTICS | {
    templates.TRADE,
    templates.FORWARD_TRADE,
    templates.TRADE_BUST,
    templates.SECURITY_STATUS,
    templates.SECURITY_GROUP_PHASE,
}
"""Messages that affect only the market state."""

_NOWHERE = PacketKey(0, 0)
"""The packet key of events before the first packet."""


class EventLog(FollowerListener):
    """Collects and counts the events of a follower."""

    def __init__(self, max_events: int, counters: ChannelCounters) -> None:
        self.packet_key: PacketKey | None = None
        """Packet key, sending time and reception time of the next events."""
        self.sending_ns = self.received_ns = 0
        self.wanted = True
        """Whether events are enabled."""
        self._counters = counters
        self._max_events = max_events
        self._events: list[channel_events.ChannelEvent] = []
        self._missed = 0
        self._last_missed: channel_events.ChannelEvent | None = None
        self._touched: dict[int, int] = {}
        """Books that changed in the unfinished market event, and its number."""

    def emit(self, kind: Callable[..., channel_events.ChannelEvent], *values: Any) -> None:
        """Emit an event of the current packet, if events are enabled."""
        if self.wanted:
            self.add(kind(self.packet_key, self.sending_ns, self.received_ns, *values))

    def add(self, event: channel_events.ChannelEvent) -> None:
        """Append an event; the caller has checked that events are enabled."""
        if len(self._events) >= self._max_events:
            # A slow reader never stops the feed: it receives `EventsMissed`.
            self._missed += len(self._events)
            self._last_missed = self._events[-1]
            self._counters.events_missed += len(self._events)
            self._events.clear()
        self._events.append(event)

    def take(self) -> list[channel_events.ChannelEvent]:
        """Return the events since the last call, in order."""
        events, self._events = self._events, []
        if (last := self._last_missed) is not None:
            first = channel_events.EventsMissed(
                last.packet_key, last.sending_ns, last.received_ns, self._missed
            )
            events.insert(0, first)
            self._missed, self._last_missed = 0, None
        return events

    def set_packet(self, packet_key: PacketKey | None, sending_ns: int, received_ns: int) -> None:
        """Set the packet key and times of the next events."""
        self.packet_key, self.sending_ns, self.received_ns = packet_key, sending_ns, received_ns

    def end_event(self) -> None:
        """Emit the changed books: the market event is complete, or its end was lost."""
        touched, self._touched = self._touched, {}
        for security_id, event in touched.items():
            self.emit(channel_events.BookChanged, security_id, event)

    # Books

    def on_update(self, security_id: int, event: int, update: Update | DepthUpdate) -> None:
        """Record that an update was applied to a book."""
        kind = type(update)
        if kind is GapPossible:
            self._counters.unconfirmed += 1
            self.emit(channel_events.BookUnconfirmed, security_id)
        elif kind is BookConfirmed:
            self._counters.confirmed += 1
            self.emit(channel_events.BookConfirmed, security_id)
        else:
            self._touched[security_id] = event

    def dropped(self, template_id: int, values: Mapping[str, Any]) -> None:  # noqa: ARG002
        """Count a dropped message of an instrument beyond the limit."""
        self._counters.instruments_dropped += 1

    def on_stale(self, gap: InstrumentGap) -> None:
        """Emit that a book is no longer trusted."""
        self._counters.stale += 1
        self.emit(channel_events.BookStale, gap.security_id, gap.reason)

    def on_healed(self, healed: MarkHealed) -> None:
        """Emit that a stale book is valid again."""
        self._counters.healed += 1
        self.emit(channel_events.BookHealed, healed.gap.security_id, healed.by.name.lower())


class EventEmitter(EventLog):
    """Collects the events of a channel until they are taken."""

    def __init__(self, settings: ChannelSettings, counters: ChannelCounters) -> None:
        super().__init__(settings.max_events, counters)
        self.state = MarketState(settings.max_instruments)
        self.now_ns = 0
        """The current time; packets may carry reception times of another clock."""
        self.missing = 0
        """Number of gaps so far: data published before one may be outdated."""
        self.phases_doubted = False
        """Whether packets were lost that may have contained the phase of a group."""
        self.loop_needed = not settings.from_the_start
        """Whether a complete snapshot loop is needed, to find the instruments without any data."""
        self.awaited: dict[int, PacketKey] = {}
        """Instruments whose books were emptied, and the packet that did so. A snapshot after it
        shows that the book was filled again, and has the statistics that may have been lost
        before."""
        self.reset = False
        """Whether a ChannelReset arrived since this was last cleared."""
        self.backlog: MessageBacklog | None = None
        """Queue of messages about the market state; None if they are processed immediately."""
        self.add_instrument: Callable[[int], None] = lambda _: None
        """Adds an instrument to the follower."""
        self._news = NewsParts(settings.max_news_bytes, settings.news_ns)
        self._set_aside: dict[int, int] = {}
        self._event = self._template = 0
        """Of the message that is being processed."""
        self._handlers: dict[int, _Handler] = {
            templates.TRADE: self._trade,
            templates.FORWARD_TRADE: self._trade,
            templates.TRADE_BUST: self._bust,
            templates.SECURITY_STATUS: self._status,
            templates.SECURITY_GROUP_PHASE: self._phase,
            templates.CHANNEL_RESET: self._channel_reset,
            templates.NEWS: self._part_of_news,
            **dict.fromkeys(STATISTICS, self._statistic),
            **dict.fromkeys(templates.SECURITY_DEFINITIONS, self._definition),
        }

    @property
    def _current_packet(self) -> PacketKey:
        return self.packet_key or _NOWHERE

    @property
    def templates(self) -> Collection[int]:
        """Templates of the messages that cause events."""
        return self._handlers.keys()

    def take_touched(self) -> dict[int, int]:
        """Return and clear the books changed in the unfinished market event, with its number."""
        touched, self._touched = self._touched, {}
        return touched

    def put_touched(self, touched: dict[int, int]) -> None:
        """Set the books changed in the unfinished market event, with its number."""
        self._touched = touched

    # Books

    def on_update(self, security_id: int, event: int, update: Update | DepthUpdate) -> None:
        """Record that an update was applied to a book."""
        super().on_update(security_id, event, update)
        kind = type(update)
        if event != NO_EVENT and (kind is BookEmptied or kind is BookReset):
            self.awaited[security_id] = self._current_packet

    # Messages

    def on_message(
        self, packet_key: PacketKey, event: int, template_id: int, values: Mapping[str, Any]
    ) -> None:
        """Process a message of the incremental stream."""
        handler = self._handlers.get(template_id)
        if handler is not None:
            if self.backlog is not None and self._may_wait(template_id, values):
                origin = (packet_key, self.sending_ns, self.received_ns)
                process = partial(self._process_message, origin, event, template_id, values)
                self.backlog.add(process, 1)
            else:
                self.emit_message(packet_key, event, template_id, values)
        if self._touched and ends_event(template_id, values.get("matchEventIndicator")):
            self.end_event()

    def dropped(self, template_id: int, values: Mapping[str, Any]) -> None:
        """Count a dropped message of an instrument beyond the limit; it may end a market event."""
        super().dropped(template_id, values)
        if self._touched and ends_event(template_id, values.get("matchEventIndicator")):
            self.end_event()

    def _may_wait(self, template_id: int, values: Mapping[str, Any]) -> bool:
        """Whether a message affects only the market state."""
        if template_id in _OF_STATE:
            return True
        if template_id in templates.SECURITY_DEFINITIONS and self.state.definitions.complete:
            if values["securityUpdateAction"] not in templates.DELISTED:
                self.add_instrument(values["securityID"])
            return True
        return False

    def emit_message(
        self, packet_key: PacketKey, event: int, template_id: int, values: Mapping[str, Any]
    ) -> None:
        """Emit the events of a message other than changes of books."""
        self._event, self._template = event, template_id
        self.packet_key = packet_key
        self._handlers[template_id](values)

    def _process_message(
        self,
        where: tuple[PacketKey, int, int],
        event: int,
        template_id: int,
        values: Mapping[str, Any],
        _limit: int,
    ) -> int:
        """Process a message of the backlog."""
        self.set_packet(*where)
        self.emit_message(where[0], event, template_id, values)
        return 0

    def catch_up(self, limit: int = MAX_PENDING) -> None:
        """Process messages of the backlog: what follows depends on them, or there is time."""
        backlog = self.backlog
        if backlog:
            current = self.packet_key, self.sending_ns, self.received_ns
            self.backlog = None
            backlog.process(limit)
            self.backlog = backlog
            self.set_packet(*current)

    def _trade(self, values: Mapping[str, Any]) -> None:
        security_id = values["securityID"]
        makes_last = self.trade(
            self._event,
            self._template,
            security_id,
            values["tradeID"],
            values["tradeDate"],
            mantissa(values["mDEntryPx"]),
            values["mDEntrySize"],
            values["mDEntryBuyer"],
            values["mDEntrySeller"],
            values["tradeCondition"],
            values.get("trdSubType"),
            values.get("transactTime") or values.get("mDEntryTimestamp"),
        )
        if makes_last:
            self.state.keep_last(security_id, self._template, values, self._current_packet)

    def trade(
        self,
        event: int,
        template: int,
        security_id: int,
        trade_id: int,
        trade_date: date | None,
        price: int | None,
        size: int,
        buyer: int | None,
        seller: int | None,
        condition: int | None,
        sub_type: str | int | None,
        transact_ns: int | None,
    ) -> bool:
        """Emit a trade. Returns whether it sets the last price; then its fields must be kept."""
        # A block too short for the condition has none, as in tables.
        condition = condition or 0
        corrects, makes_last = self.state.trade(
            security_id, trade_id, trade_date, condition, sub_type
        )
        if self.wanted:
            # Created directly, for speed: there are thousands in a row.
            self.add(
                channel_events.TradeDone(
                    self.packet_key, self.sending_ns, self.received_ns, security_id, event,
                    trade_id, trade_date, price, size, buyer, seller, condition, sub_type,
                    transact_ns, corrects, template == templates.FORWARD_TRADE, makes_last,
                )
            )  # fmt: skip
        return makes_last

    def replaced(
        self, security_id: int, template_id: int, values: Mapping[str, Any], packet_key: PacketKey
    ) -> None:
        """Emit a statistic that replaces the one before it."""
        name = self.state.replace(security_id, template_id, values, packet_key)
        if self.wanted:
            self.add(
                channel_events.StatisticChanged(
                    packet_key, self.sending_ns, self.received_ns, security_id, name, None, values
                )
            )

    def removed(self, security_id: int, template_id: int) -> None:
        """Emit the deletion of a statistic without variants."""
        name = self.state.remove(security_id, template_id)
        if name is not None:
            self.emit(channel_events.StatisticChanged, security_id, name, None, None)

    def _bust(self, values: Mapping[str, Any]) -> None:
        self.emit(
            channel_events.TradeBusted,
            values["securityID"],
            self._event,
            values["tradeID"],
            values["tradeDate"],
            mantissa(values["mDEntryPx"]),
            values["mDEntrySize"],
        )

    def _statistic(self, values: Mapping[str, Any]) -> None:
        self.changed(
            self.state.statistic(values["securityID"], self._template, values, self._current_packet)
        )

    def _status(self, values: Mapping[str, Any]) -> None:
        self.changed(self.state.security_status(values["securityID"], values, self._current_packet))

    def _phase(self, values: Mapping[str, Any]) -> None:
        self.changed(self.state.group_phase(values, self._current_packet, self.missing))

    def _channel_reset(self, _values: Mapping[str, Any]) -> None:
        self.catch_up()
        self.state.definitions.channel_reset()
        # Books that are not filled again are empty: no loop is needed to find them.
        self.loop_needed = False
        self.reset = True
        self.emit(channel_events.BooksReset)

    def _definition(self, values: Mapping[str, Any]) -> None:
        self.defined(self.state.definitions.message(values))
        self._counters.instruments_dropped += self.state.definitions.take_dropped()

    def _part_of_news(self, values: Mapping[str, Any]) -> None:
        news = self._news.part(values, self.now_ns)
        self._counters.news_dropped = self._news.dropped
        if news is not None:
            self.emit(channel_events.NewsReceived, news)

    def expire_news(self, now_ns: int) -> None:
        """Drop news items whose parts do not arrive."""
        self._news.expire(now_ns)
        self._counters.news_dropped = self._news.dropped

    @property
    def news_deadline_ns(self) -> int | None:
        """When the next incomplete news item expires."""
        return self._news.deadline_ns

    def defined(
        self, changes: Iterable[tuple[channel_events.DefinitionChange, ChannelInstrument]]
    ) -> None:
        """Apply changes of definitions."""
        self.catch_up()
        for change, instrument in changes:
            security_id = instrument.security_id
            self.emit(channel_events.InstrumentChanged, security_id, instrument.symbol, change)
            if change is channel_events.DefinitionChange.DELETED:
                self.state.delete(security_id)
            else:
                self.add_instrument(security_id)
                self.changed(self.state.define(instrument, self._current_packet))

    def changed(self, changes: Iterable[StateChange]) -> None:
        """Emit changes of statistics, states or phases."""
        if not self.wanted:
            for _ in changes:  # generators make their changes as they are consumed
                pass
            return
        add = self.add
        origin = self.packet_key, self.sending_ns, self.received_ns
        for change in changes:
            if isinstance(change, StatusChange):  # frequent: a group's phase causes many
                add(channel_events.StatusChanged(*origin, *change))
            elif isinstance(change, StatisticChange):
                values = None if change.statistic is None else change.statistic.values
                own = change.security_id, change.name, change.kind
                add(channel_events.StatisticChanged(*origin, *own, values))
            else:
                add(channel_events.PhaseChanged(*origin, change.group, change.before, change.now))

    # Snapshots

    def begin_snapshot(self) -> None:
        """Set the unfinished market event aside: the next changes are not part of it."""
        self._set_aside, self._touched = self._touched, {}

    def end_snapshot(self) -> None:
        """Emit the books that a snapshot changed, and resume the unfinished market event."""
        self.end_event()
        self._touched, self._set_aside = self._set_aside, {}

    def on_snapshot(
        self, found: InstrumentSnapshot[EventMessage], packet_key: PacketKey, *, needed: bool
    ) -> None:
        """Process a complete snapshot."""
        self.catch_up()
        assert found.header is not None
        self._counters.snapshots += 1
        if is_void(found.header):
            return  # it has no statistics
        security_id = found.security_id
        awaited = self.awaited.get(security_id)
        if awaited is not None and covers(packet_key, awaited):
            del self.awaited[security_id]
        if needed or awaited is not None:
            self.changed(self.state.snapshot(security_id, found.items, packet_key))

    def on_absent(self, security_id: int, packet_key: PacketKey) -> None:
        """Process the absence of an instrument from a complete snapshot loop."""
        self.catch_up()
        self.changed(self.state.absent(security_id, packet_key))

    def on_complete_loop(
        self,
        packet_key: PacketKey,
        members: Collection[int],
        phases: list[EventMessage],
        *,
        covers_all: bool,
    ) -> None:
        """Process a complete snapshot loop."""
        self.catch_up()
        self._counters.snapshot_loops += 1
        for part in phases:
            self.changed(self.state.snapshot_phase(part.values, packet_key, self.missing))
        if covers_all:
            self.phases_doubted = self.loop_needed = False
        for security_id, emptied in list(self.awaited.items()):
            if security_id not in members and covers(packet_key, emptied):
                del self.awaited[security_id]
                self.on_absent(security_id, packet_key)

    def on_outdated_snapshot(self, security_id: int) -> None:  # noqa: ARG002
        """Count an ignored snapshot of an older sequence version."""
        self._counters.outdated_snapshots += 1

    def lost_packets(self, version: int, first: int, last: int | None) -> None:
        """Process a gap: the phases and instruments in the missing packets are unknown."""
        self.catch_up()
        self.end_event()
        self.missing += 1
        self.phases_doubted = True
        self.state.definitions.lost()
        self._counters.gaps += 1
        self._counters.lost_packets += 0 if last is None else last - first + 1
        self.emit(channel_events.GapFound, version, first, last)

    def restart(self) -> None:
        """Restart: the channel is followed at another site, or from the beginning."""
        self.catch_up()
        self._touched.clear()
        self.awaited.clear()
        self.state.restart()
        self.loop_needed = True
        self.missing += 1
