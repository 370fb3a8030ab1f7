"""Incremental stream of a channel: events and a time in, packets out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, get_args

from pregao.errors import UsageError
from pregao.exchange.engine.model.enums import OrderSide, SecurityUpdateAction
from pregao.exchange.engine.model.events import (
    ChangeOrderMbo,
    ChannelReset,
    DeleteOrderMbo,
    EmptyBook,
    ForwardTrade,
    LastTradePrice,
    MarketEvent,
    MarketItem,
    MassDeleteOrders,
    NewOrderMbo,
    News,
    SecurityDefinition,
    SecurityGroupPhase,
    SecurityStatus,
    SequenceReset,
    Statistic,
    Trade,
)
from pregao.exchange.publisher.encoding.encoder import FeedEncoder
from pregao.exchange.publisher.encoding.orders import OrderItem
from pregao.exchange.publisher.packet_writer import HEARTBEAT_NS, PacketWriter
from pregao.exchange.publisher.published_state import PublishedChannel

_Publish = Callable[[Any, int], None]
_BUY = OrderSide.BUY
_SHOWN = frozenset(get_args(Statistic))
"""Events that snapshots include until they are replaced or deleted."""


class IncrementalStream:
    """Encodes units of events as numbered packets, and records the published state.

    In a unit that is one event, only the last message carries EndOfEvent; in any other unit every
    message does. ``rptSeq`` counts the messages of an instrument.
    """

    def __init__(
        self,
        encoder: FeedEncoder,
        state: PublishedChannel,
        packets: PacketWriter,
        start_ns: int,
    ) -> None:
        self._encoder = encoder
        self._orders = encoder.orders
        self._state = state
        self._instruments = state.instruments
        self._packets = packets
        self._add = packets.add
        self._flush = packets.flush
        self._added, self._changed = encoder.orders.added, encoder.orders.changed
        self._deleted = encoder.orders.deleted
        self._end_of_event = encoder.end_of_event
        self._last_sent_ns = start_ns
        self._positions = encoder.positions
        self._unknown = encoder.unknown
        self._publish: dict[type, _Publish] = {
            kind: self._statistic(kind) for kind in encoder.writers
        }
        self._publish |= {
            NewOrderMbo: self._order_added,
            ChangeOrderMbo: self._order_changed,
            DeleteOrderMbo: self._order_deleted,
            MassDeleteOrders: self._side_deleted,
            Trade: self._trade,
            ForwardTrade: self._trade,
            LastTradePrice: self._trade,
            SecurityStatus: self._status,
            SecurityGroupPhase: self._phase,
            EmptyBook: self._empty_book,
            ChannelReset: self._channel_reset,
            SequenceReset: self._sequence_reset,
            News: self._news,
            SecurityDefinition: self._definition,
        }

    @property
    def messages(self) -> int:
        """Number of messages sent."""
        return self._packets.messages

    @property
    def last_number(self) -> int:
        """Number of the last packet sent in this sequence version."""
        return self._packets.last_number

    @property
    def sequence_version(self) -> int:
        """Current sequence version of the packets."""
        return self._packets.sequence_version

    @property
    def next_due_ns(self) -> int:
        """Time of the next heartbeat if nothing is sent before."""
        return self._last_sent_ns + HEARTBEAT_NS

    def heartbeats(self, until_ns: int) -> list[tuple[int, bytes]]:
        """Return the heartbeats due up to a time, with their times."""
        sent = []
        while (due := self._last_sent_ns + HEARTBEAT_NS) <= until_ns:
            message = self._encoder.sequence(self._packets.next_number)
            sent.append((due, self._packets.heartbeat(message, due)))
            self._last_sent_ns = due
        return sent

    def publish(self, units: Iterable[MarketEvent], now_ns: int) -> list[bytes]:
        """Write units of events and return their packets."""
        for unit in units:
            self.add(unit)
        packets = self._flush(now_ns)
        if packets:
            self._last_sent_ns = now_ns
        return packets

    def add(self, unit: MarketEvent) -> None:
        """Write a unit of events for `flush`."""
        items: Sequence[MarketItem] = unit.items
        if self._unknown:
            items = [item for item in items if type(item) not in self._unknown]
        if self._positions:
            self._publish_by_position(items, unit.event)
        else:
            self._publish_items(items, unit.event)

    def flush(self, now_ns: int) -> list[bytes]:
        """Return the packets of everything written so far."""
        packets = self._flush(now_ns)
        if packets:
            self._last_sent_ns = now_ns
        return packets

    def initialize(self, now_ns: int) -> list[bytes]:
        """Publish a start of the system: reset the channel and publish everything again.

        The sequence is ChannelReset, every definition, then for each book that had orders
        EmptyBook and these orders.
        """
        books = {
            instrument.security_id: [*instrument.bids.in_order(), *instrument.offers.in_order()]
            for instrument in self._instruments.values()
        }
        self._publish_items([ChannelReset(self._packets.channel, now_ns)], event=False)
        definitions = list(self._state.definitions.values())
        total = len(definitions)
        for number, instrument in enumerate(definitions, 1):
            self._add(
                self._encoder.definitions.message(
                    instrument, SecurityUpdateAction.ADD, total, last_fragment=number == total
                )
            )
        for security_id, orders in books.items():
            if orders:
                republished = [_recovery(order, now_ns) for order in orders]
                self._publish_items([EmptyBook(security_id, now_ns), *republished], event=True)
        return self.flush(now_ns)

    def _publish_items(self, items: Sequence[MarketItem], event: bool) -> None:
        publish = self._publish
        end_of_event = self._end_of_event
        flags = 0 if event else end_of_event
        last = len(items) - 1
        if last:
            if last < 0:
                return
            for item in items[:last]:
                publish[type(item)](item, flags)
        item = items[last]
        publish[type(item)](item, end_of_event)

    def _publish_by_position(self, items: Sequence[MarketItem], event: bool) -> None:
        """Publish items, with a run of executed orders at the top as one mass deletion."""
        publish = self._publish
        end_of_event = self._end_of_event
        index = 0
        while index < len(items):
            item = items[index]
            run = self._swept(items, index) if isinstance(item, DeleteOrderMbo) else 1
            index += run
            flags = end_of_event if index == len(items) or not event else 0
            if run > 1:
                last = items[index - 1]
                assert isinstance(last, DeleteOrderMbo)
                self._top_deleted(last, run, flags)
            else:
                publish[type(item)](item, flags)

    def _swept(self, items: Sequence[MarketItem], start: int) -> int:
        """Return the length of the run of executed orders at the top of a side from `start`."""
        first = items[start]
        assert isinstance(first, DeleteOrderMbo)
        if not first.matched:
            return 1
        ranked = self._instruments[first.security_id].side(first.side).ranked
        assert ranked is not None
        count = 0
        for item in items[start:]:
            if (
                not isinstance(item, DeleteOrderMbo)
                or not item.matched
                or item.implied
                or item.security_id != first.security_id
                or item.side != first.side
                or not ranked.stands_at(item, count + 1)
            ):
                break
            count += 1
        return max(count, 1)

    # Handlers of events that are not plain statistics

    def _order_added(self, item: NewOrderMbo, flags: int) -> None:
        instrument = self._instruments[item.security_id]
        instrument.emptied = False
        rpt_seq = instrument.rpt_seq = instrument.rpt_seq + 1
        side = instrument.bids if item.side == _BUY else instrument.offers
        number = item.secondary_order_id
        side.orders[number] = item
        side.touched.append(number)
        position = None if side.ranked is None else side.ranked.add(item)
        self._add(self._added(item, flags, rpt_seq, position))

    def _order_changed(self, item: ChangeOrderMbo, flags: int) -> None:
        instrument = self._instruments[item.security_id]
        rpt_seq = instrument.rpt_seq = instrument.rpt_seq + 1
        side = instrument.bids if item.side == _BUY else instrument.offers
        number = item.secondary_order_id
        side.orders[number] = item
        side.touched.append(number)
        position = None if side.ranked is None else side.ranked.position(item)
        self._add(self._changed(item, flags, rpt_seq, position))

    def _order_deleted(self, item: DeleteOrderMbo, flags: int) -> None:
        instrument = self._instruments[item.security_id]
        rpt_seq = instrument.rpt_seq = instrument.rpt_seq + 1
        side = instrument.bids if item.side == _BUY else instrument.offers
        number = item.secondary_order_id
        side.orders.pop(number, None)
        side.touched.append(number)
        position = None if side.ranked is None else side.ranked.remove(item)
        self._add(self._deleted(item, flags, rpt_seq, position))

    def _top_deleted(self, last: DeleteOrderMbo, count: int, flags: int) -> None:
        instrument = self._instruments[last.security_id]
        rpt_seq = instrument.rpt_seq = instrument.rpt_seq + 1
        side = instrument.side(last.side)
        assert side.ranked is not None
        for number in side.ranked.remove_top(count):
            del side.orders[number]
        self._add(self._orders.top_deleted(last, flags, rpt_seq, count))

    def _side_deleted(self, item: MassDeleteOrders, flags: int) -> None:
        instrument = self._instruments[item.security_id]
        rpt_seq = instrument.rpt_seq = instrument.rpt_seq + 1
        instrument.side(item.side).clear()
        self._add(self._orders.side_deleted(item, flags, rpt_seq))

    def _trade(self, item: Trade | ForwardTrade | LastTradePrice, flags: int) -> None:
        instrument = self._instruments[item.security_id]
        instrument.emptied = False
        rpt_seq = instrument.rpt_seq = instrument.rpt_seq + 1
        instrument.traded(item)
        self._add(self._encoder.write(item, flags, rpt_seq))

    def _status(self, item: SecurityStatus, flags: int) -> None:
        instrument = self._instruments[item.security_id]
        instrument.emptied = False
        rpt_seq = instrument.rpt_seq = instrument.rpt_seq + 1
        self._state.status(item)
        self._add(self._encoder.write(item, flags, rpt_seq))

    def _phase(self, item: SecurityGroupPhase, flags: int) -> None:
        self._state.phase(item)
        self._add(self._encoder.write(item, flags))

    def _empty_book(self, item: EmptyBook, flags: int) -> None:
        self._instruments[item.security_id].empty_book()
        self._add(self._encoder.write(item, flags))

    def _channel_reset(self, item: ChannelReset, flags: int) -> None:
        self._check_channel(item.channel)
        for instrument in self._instruments.values():
            instrument.clear_book()
        self._add(self._encoder.write(item, flags))

    def _sequence_reset(self, item: SequenceReset, _flags: int) -> None:
        self._check_channel(item.channel)
        self._packets.add_alone(self._encoder.sequence_reset)
        self._packets.restart()

    def _check_channel(self, channel: int) -> None:
        if channel != self._packets.channel:
            raise UsageError(
                f"reset of channel {channel} was routed to channel {self._packets.channel}"
            )

    def _news(self, item: News, flags: int) -> None:
        # Outside an event, each part of a piece of news is a separate event too.
        for message in self._encoder.news.messages(item, flags, flags):
            self._add(message)

    def _definition(self, item: SecurityDefinition, _flags: int) -> None:
        self._state.define(item)
        self._add(
            self._encoder.definitions.message(item.instrument, item.action, 1, last_fragment=True)
        )

    def _statistic(self, kind: type) -> _Publish:
        """Return the handler of a statistic; most remain in snapshots until they are replaced."""
        write = self._encoder.writers[kind]
        shown = kind in _SHOWN
        instruments = self._instruments

        def publish(item: Any, flags: int) -> None:
            instrument = instruments[item.security_id]
            instrument.emptied = False
            rpt_seq = instrument.rpt_seq = instrument.rpt_seq + 1
            if shown:
                instrument.show(item)
            self._add(write(item, flags, rpt_seq))

        return publish


def _recovery(order: OrderItem, now_ns: int) -> NewOrderMbo:
    """Return the event that publishes an order again."""
    return NewOrderMbo(
        order.security_id,
        order.side,
        order.price,
        order.size,
        order.secondary_order_id,
        order.firm,
        order.insert_time_ns,
        now_ns,
        None,
        order.implied,
        True,
    )
