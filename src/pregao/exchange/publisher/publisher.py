"""Publishes the engine's events on every stream of every channel.

The publisher is a pure state machine: units of events and a time in, datagrams out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from pregao.errors import UsageError
from pregao.exchange.engine.model.enums import SecurityUpdateAction
from pregao.exchange.engine.model.events import (
    ChannelReset,
    MarketEvent,
    MarketItem,
    News,
    SecurityDefinition,
    SecurityGroupPhase,
    SequenceReset,
)
from pregao.exchange.engine.model.instruments import Instrument
from pregao.exchange.publisher.channels import ChannelEndpoints, OutgoingPacket
from pregao.exchange.publisher.encoding.encoder import DEFAULT_VERSION, FeedEncoder
from pregao.exchange.publisher.incremental import IncrementalStream
from pregao.exchange.publisher.legacy.channel_publisher import LegacyChannelPublisher
from pregao.exchange.publisher.loops import DefinitionWriter, LoopPace, LoopStream, SnapshotWriter
from pregao.exchange.publisher.packet_writer import PacketWriter
from pregao.exchange.publisher.published_state import PublishedChannel
from pregao.legacy.recovery import MessageStore
from pregao.legacy.streams import LegacyStream
from pregao.umdf.streams import Stream

_PACE = LoopPace()
_INCREMENTAL = Stream.INCREMENTAL
_STREAMS = {
    LegacyStream.INCREMENTAL: Stream.INCREMENTAL,
    LegacyStream.MARKET_RECOVERY: Stream.SNAPSHOT,
    LegacyStream.INSTRUMENT_DEFINITION: Stream.DEFINITION,
}


class ChannelPublisher:
    """Publishes all streams of one channel.

    Time must not go back. Loop packets and heartbeats are sent when they are due, with the state
    published by then.
    """

    def __init__(
        self,
        channel: ChannelEndpoints,
        instruments: Iterable[Instrument],
        start_ns: int,
        *,
        encoder: FeedEncoder | None = None,
        sequence_version: int = 1,
        first_number: int = 1,
        snapshot_pace: LoopPace = _PACE,
        definition_pace: LoopPace = _PACE,
        legacy: LegacyChannelPublisher | None = None,
    ) -> None:
        """Create the streams; ``legacy`` publishes the same events on the channel's legacy feed."""
        self.channel = channel
        self.legacy = legacy
        number = channel.number
        encoder = FeedEncoder() if encoder is None else encoder
        self.state = PublishedChannel(instruments, encoder.positions)
        self.incremental = IncrementalStream(
            encoder, self.state, PacketWriter(number, sequence_version, first_number), start_ns
        )
        snapshots = SnapshotWriter(encoder, self.state, self._processed)
        self.snapshots = LoopStream(
            encoder, PacketWriter(number), snapshots.begin, snapshot_pace, start_ns
        )
        definitions = DefinitionWriter(encoder, self.state)
        self.definitions = LoopStream(
            encoder, PacketWriter(number), definitions.begin, definition_pace, start_ns
        )
        self.add = self.incremental.add
        self._now_ns = start_ns
        self._staged: list[OutgoingPacket] = []
        self.idle_until_ns = start_ns
        """No packet is due before this time; publishing can only postpone a heartbeat."""

    @property
    def next_due_ns(self) -> int:
        """Time of the next scheduled packet."""
        due = min(
            self.incremental.next_due_ns,
            self.snapshots.next_due_ns,
            self.definitions.next_due_ns,
        )
        return due if self.legacy is None else min(due, self.legacy.next_due_ns)

    def advance(self, now_ns: int) -> list[OutgoingPacket]:
        """Return the packets scheduled up to a time, in order of time."""
        _check_time(now_ns, self._now_ns)
        self._now_ns = now_ns
        if self.idle_until_ns > now_ns:
            return []
        number = self.channel.number
        sent = [
            OutgoingPacket(number, stream, time_ns, payload)
            for stream, packets in (
                (Stream.INCREMENTAL, self.incremental.heartbeats(now_ns)),
                (Stream.SNAPSHOT, self.snapshots.advance(now_ns)),
                (Stream.DEFINITION, self.definitions.advance(now_ns)),
            )
            for time_ns, payload in packets
        ]
        if self.legacy is not None:
            sent += self._of_legacy(self.legacy.advance(now_ns))
        sent.sort(key=lambda datagram: datagram.time_ns)
        self.idle_until_ns = self.next_due_ns
        return sent

    def publish(self, units: Sequence[MarketEvent], now_ns: int) -> list[OutgoingPacket]:
        """Publish units of events now, after the packets that were due before."""
        packets = self.packets(units, now_ns)
        if packets is not None:
            number = self.channel.number
            return [OutgoingPacket(number, _INCREMENTAL, now_ns, payload) for payload in packets]
        sent = self.advance(now_ns)
        self._append(sent, self.incremental.publish(units, now_ns), now_ns)
        if self.legacy is not None:
            sent += self._of_legacy(self.legacy.publish(units, now_ns))
        return sent

    def stage(self, unit: MarketEvent, now_ns: int) -> None:
        """Encode a unit of events for `flush`. Do not advance the clock in between."""
        self.add(unit)
        if self.legacy is not None:
            self._staged += self._of_legacy(self.legacy.publish([unit], now_ns))

    def flush(self, now_ns: int) -> list[OutgoingPacket]:
        """Return the staged packets, then those that are due."""
        sent: list[OutgoingPacket] = []
        self._append(sent, self.incremental.flush(now_ns), now_ns)
        if self._staged:
            sent += self._staged
            self._staged = []
        return sent + self.advance(now_ns)

    def packets(self, units: Sequence[MarketEvent], now_ns: int) -> list[bytes] | None:
        """Publish units of events and return their packets, if no other packet is due.

        Otherwise return None without any effect.
        """
        if not self._now_ns <= now_ns < self.idle_until_ns or self.legacy is not None:
            return None
        self._now_ns = now_ns
        return self.incremental.publish(units, now_ns)

    def initialize(self, now_ns: int) -> list[OutgoingPacket]:
        """Publish a start of the system: ChannelReset, definitions, and all books again."""
        sent = self.advance(now_ns)
        self._append(sent, self.incremental.initialize(now_ns), now_ns)
        if self.legacy is not None:
            sent += self._of_legacy(self.legacy.initialize(now_ns))
        return sent

    def _append(self, sent: list[OutgoingPacket], packets: list[bytes], now_ns: int) -> None:
        number = self.channel.number
        sent.extend([OutgoingPacket(number, _INCREMENTAL, now_ns, payload) for payload in packets])

    def _of_legacy(self, sent: Iterable[tuple[LegacyStream, int, bytes]]) -> list[OutgoingPacket]:
        number = self.channel.number
        return [
            OutgoingPacket(number, _STREAMS[stream], time_ns, payload, legacy=True)
            for stream, time_ns, payload in sent
        ]

    def _processed(self) -> tuple[int, int]:
        return self.incremental.sequence_version, self.incremental.last_number


def _check_time(now_ns: int, last_ns: int) -> None:
    if now_ns < last_ns:
        raise UsageError(f"time must not go back: {now_ns} ns after {last_ns} ns")


_OF_NO_INSTRUMENT = frozenset(
    {ChannelReset, SequenceReset, SecurityGroupPhase, SecurityDefinition, News}
)
"""Events that are not routed to a channel by their instrument."""


class Publisher:
    """Publishes a market on all its channels; each instrument names its channel.

    An event with instruments of several channels ends on each of them. A group's phase goes to
    the channels with instruments of the group, news without an instrument to all channels.
    """

    def __init__(
        self,
        channels: Sequence[ChannelEndpoints],
        instruments: Iterable[Instrument],
        start_ns: int,
        *,
        schema_version: int | str = DEFAULT_VERSION,
        sequence_version: int = 1,
        snapshot_pace: LoopPace = _PACE,
        definition_pace: LoopPace = _PACE,
        legacy: bool = False,
        legacy_depth: int | None = None,
        legacy_store: MessageStore | None = None,
    ) -> None:
        """Create the channels, with ``legacy`` also their legacy feeds.

        ``legacy_depth`` is the number of price levels of the legacy feed, None for all orders.
        ``legacy_store`` stores its messages for TCP recovery.
        """
        self.encoder = FeedEncoder(schema_version)
        by_channel: dict[int, list[Instrument]] = {channel.number: [] for channel in channels}
        if len(by_channel) < len(channels):
            raise UsageError(
                "two channels have the same number: "
                f"{', '.join(str(channel.number) for channel in channels)}"
            )
        self._channel_of: dict[int, int] = {}
        for instrument in instruments:
            if instrument.channel not in by_channel:
                known = ", ".join(map(str, by_channel)) or "none"
                raise UsageError(
                    f"{instrument.symbol}: channel {instrument.channel} is not published; "
                    f"published channels: {known}"
                )
            by_channel[instrument.channel].append(instrument)
            self._channel_of[instrument.security_id] = instrument.channel
        self.channels = {
            channel.number: ChannelPublisher(
                channel,
                by_channel[channel.number],
                start_ns,
                encoder=self.encoder,
                sequence_version=sequence_version,
                snapshot_pace=snapshot_pace,
                definition_pace=definition_pace,
                legacy=LegacyChannelPublisher(
                    channel.number,
                    by_channel[channel.number],
                    start_ns,
                    market_depth=legacy_depth,
                    pace=snapshot_pace,
                    store=legacy_store,
                )
                if legacy
                else None,
            )
            for channel in channels
        }
        self._now_ns = start_ns
        self._idle_until_ns = start_ns
        """No packet is due on any channel before this time."""

    @property
    def messages(self) -> int:
        """Number of messages written on the incremental streams."""
        return sum(channel.incremental.messages for channel in self.channels.values())

    @property
    def next_due_ns(self) -> int:
        """Time of the next scheduled packet of any channel."""
        return min(channel.next_due_ns for channel in self.channels.values())

    def advance(self, now_ns: int) -> list[OutgoingPacket]:
        """Return the packets of all channels scheduled up to a time, in order of time."""
        _check_time(now_ns, self._now_ns)
        self._now_ns = now_ns
        if self._idle_until_ns > now_ns:
            return []
        sent = [each for channel in self.channels.values() for each in channel.advance(now_ns)]
        sent.sort(key=lambda datagram: datagram.time_ns)
        self._idle_until_ns = min(c.idle_until_ns for c in self.channels.values())
        return sent

    def publish(self, units: Sequence[MarketEvent], now_ns: int) -> list[OutgoingPacket]:
        """Publish units of events on their channels now, after the packets that were due before."""
        if len(self.channels) == 1:
            (only,) = self.channels.values()
            return only.publish(units, now_ns)
        routed: dict[int, list[MarketEvent]] = {}
        for unit in units:
            one = self._only_destination(unit.items)
            if one is not None:
                routed.setdefault(one, []).append(unit)
                continue
            for number, items in self._route(unit.items).items():
                routed.setdefault(number, []).append(MarketEvent(items, unit.event))
        sent = self.advance(now_ns)
        for number, parts in routed.items():
            sent.extend(self.channels[number].publish(parts, now_ns))
        return sent

    def stage(self, units: Sequence[MarketEvent], now_ns: int) -> None:
        """Encode units of events for `flush`. Do not advance the clock in between."""
        channels = self.channels
        for unit in units:
            one = self._only_destination(unit.items)
            if one is not None:
                channels[one].stage(unit, now_ns)
                continue
            for number, items in self._route(unit.items).items():
                channels[number].stage(MarketEvent(items, unit.event), now_ns)

    def flush(self, now_ns: int) -> list[OutgoingPacket]:
        """Return the staged packets of all channels, then those that are due."""
        _check_time(now_ns, self._now_ns)
        self._now_ns = now_ns
        sent = [each for channel in self.channels.values() for each in channel.flush(now_ns)]
        self._idle_until_ns = min(c.idle_until_ns for c in self.channels.values())
        return sent

    def initialize(self, now_ns: int) -> list[OutgoingPacket]:
        """Publish a start of the system on every channel."""
        sent = self.advance(now_ns)
        for channel in self.channels.values():
            sent.extend(channel.initialize(now_ns))
        return sent

    def _only_destination(self, items: Iterable[MarketItem]) -> int | None:
        """Return the channel if all items concern instruments of one channel, as nearly always."""
        only = None
        item: Any
        for item in items:
            if type(item) in _OF_NO_INSTRUMENT:
                return None
            number = self._channel_of.get(item.security_id)
            if number is None or (only is not None and number != only):
                return None
            only = number
        return only

    def _route(self, items: Iterable[MarketItem]) -> dict[int, list[MarketItem]]:
        """Return the items by destination channel."""
        routed: dict[int, list[MarketItem]] = {}
        for item in items:
            for number in self._destinations(item):
                routed.setdefault(number, []).append(item)
        return routed

    def _destinations(self, item: MarketItem) -> Iterable[int]:
        match item:
            case ChannelReset() | SequenceReset():
                return (self._known(item.channel),)
            case SecurityGroupPhase():
                return [
                    number
                    for number, channel in self.channels.items()
                    if channel.state.has_group(item.group)
                ]
            case SecurityDefinition():
                instrument = item.instrument
                if item.action == SecurityUpdateAction.DELETE:
                    return (self._channel_of.pop(instrument.security_id, instrument.channel),)
                self._channel_of[instrument.security_id] = self._known(instrument.channel)
                return (instrument.channel,)
            case News(security_id=None):
                return self.channels
            case _:
                assert item.security_id is not None
                number = self._channel_of.get(item.security_id)
                if number is None:
                    raise UsageError(f"instrument {item.security_id}: no published channel has it")
                return (number,)

    def _known(self, channel: int) -> int:
        if channel not in self.channels:
            raise UsageError(
                f"channel {channel} is not published; published channels: "
                f"{', '.join(map(str, self.channels)) or 'none'}"
            )
        return channel
