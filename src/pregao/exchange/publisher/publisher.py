"""The market data publisher: the engine's events on every stream of every channel.

It is a pure state machine: units of events and a time in, datagrams out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from pregao.errors import UsageError
from pregao.exchange.engine.events import (
    ChannelReset,
    MarketEvent,
    MarketItem,
    News,
    SecurityDefinition,
    SecurityGroupPhase,
    SequenceReset,
)
from pregao.exchange.engine.instruments import Instrument
from pregao.exchange.engine.terms import SecurityUpdateAction
from pregao.exchange.publisher.channels import Channel, Datagram
from pregao.exchange.publisher.definition_loop import DefinitionWriter
from pregao.exchange.publisher.encoding.encoder import DEFAULT_VERSION, FeedEncoder
from pregao.exchange.publisher.incremental import IncrementalStream
from pregao.exchange.publisher.legacy import LegacyChannelPublisher
from pregao.exchange.publisher.loops import LoopPace, LoopStream
from pregao.exchange.publisher.packetiser import PacketWriter
from pregao.exchange.publisher.snapshot_loop import SnapshotWriter
from pregao.exchange.publisher.state import ChannelState
from pregao.legacy import MessageStore
from pregao.legacy import Stream as LegacyStream
from pregao.umdf.streams import Stream

_PACE = LoopPace()
_INCREMENTAL = Stream.INCREMENTAL
_STREAMS = {
    LegacyStream.INCREMENTAL: Stream.INCREMENTAL,
    LegacyStream.MARKET_RECOVERY: Stream.SNAPSHOT,
    LegacyStream.INSTRUMENT_DEFINITION: Stream.DEFINITION,
}


class ChannelPublisher:
    """All that one channel sends.

    Time never goes back. What is due on the loops, and the heartbeats of a silence, is sent as
    time goes by; it shows what had been published by then.
    """

    def __init__(
        self,
        channel: Channel,
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
        """``legacy`` publishes the same on the legacy feed of the channel."""
        self.channel = channel
        self.legacy = legacy
        number = channel.number
        encoder = FeedEncoder() if encoder is None else encoder
        self.state = ChannelState(instruments, encoder.positions)
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
        self._staged: list[Datagram] = []
        self.idle_until_ns = start_ns
        """Nothing is due before this time; publishing can only put a heartbeat off."""

    @property
    def next_due_ns(self) -> int:
        """When something goes out by itself."""
        due = min(
            self.incremental.next_due_ns,
            self.snapshots.next_due_ns,
            self.definitions.next_due_ns,
        )
        return due if self.legacy is None else min(due, self.legacy.next_due_ns)

    def advance(self, now_ns: int) -> list[Datagram]:
        """What goes out by itself up to a time, in the order of time."""
        _check_time(now_ns, self._now_ns)
        self._now_ns = now_ns
        if self.idle_until_ns > now_ns:
            return []
        number = self.channel.number
        sent = [
            Datagram(number, stream, time_ns, payload)
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

    def publish(self, units: Sequence[MarketEvent], now_ns: int) -> list[Datagram]:
        """Publish units of events now; what was due before goes out first."""
        packets = self.packets(units, now_ns)
        if packets is not None:
            number = self.channel.number
            return [Datagram(number, _INCREMENTAL, now_ns, payload) for payload in packets]
        sent = self.advance(now_ns)
        self._append(sent, self.incremental.publish(units, now_ns), now_ns)
        if self.legacy is not None:
            sent += self._of_legacy(self.legacy.publish(units, now_ns))
        return sent

    def stage(self, unit: MarketEvent, now_ns: int) -> None:
        """Encode a unit of events; `flush` sends it. Nothing advances in between."""
        self.add(unit)
        if self.legacy is not None:
            self._staged += self._of_legacy(self.legacy.publish([unit], now_ns))

    def flush(self, now_ns: int) -> list[Datagram]:
        """Send what was staged, then what is due."""
        sent: list[Datagram] = []
        self._append(sent, self.incremental.flush(now_ns), now_ns)
        if self._staged:
            sent += self._staged
            self._staged = []
        return sent + self.advance(now_ns)

    def packets(self, units: Sequence[MarketEvent], now_ns: int) -> list[bytes] | None:
        """Publish units of events now, if nothing but their own packets goes out with them.

        None if something else is due as well, and then nothing has been done.
        """
        if not self._now_ns <= now_ns < self.idle_until_ns or self.legacy is not None:
            return None
        self._now_ns = now_ns
        return self.incremental.publish(units, now_ns)

    def initialize(self, now_ns: int) -> list[Datagram]:
        """Begin as after a start of the system: ChannelReset, definitions, the books anew."""
        sent = self.advance(now_ns)
        self._append(sent, self.incremental.initialize(now_ns), now_ns)
        if self.legacy is not None:
            sent += self._of_legacy(self.legacy.initialize(now_ns))
        return sent

    def _append(self, sent: list[Datagram], packets: list[bytes], now_ns: int) -> None:
        number = self.channel.number
        sent.extend([Datagram(number, _INCREMENTAL, now_ns, payload) for payload in packets])

    def _of_legacy(self, sent: Iterable[tuple[LegacyStream, int, bytes]]) -> list[Datagram]:
        number = self.channel.number
        return [
            Datagram(number, _STREAMS[stream], time_ns, payload, legacy=True)
            for stream, time_ns, payload in sent
        ]

    def _processed(self) -> tuple[int, int]:
        return self.incremental.sequence_version, self.incremental.last_number


def _check_time(now_ns: int, last_ns: int) -> None:
    if now_ns < last_ns:
        raise UsageError(f"time goes back: {now_ns} ns after {last_ns} ns")


_OF_NO_INSTRUMENT = frozenset(
    {ChannelReset, SequenceReset, SecurityGroupPhase, SecurityDefinition, News}
)
"""What goes to channels in other ways than by its instrument."""


class Publisher:
    """Publishes a market on all its channels; each instrument names the channel it is on.

    An event over instruments of several channels ends on each of them. A group's phase goes to
    the channels with instruments of the group, news about no instrument to all.
    """

    def __init__(
        self,
        channels: Sequence[Channel],
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
        """``legacy`` channels have a legacy feed too, of all orders or of so many price levels.

        The ``legacy_store`` keeps its messages for those who ask for them again.
        """
        self.encoder = FeedEncoder(schema_version)
        by_channel: dict[int, list[Instrument]] = {channel.number: [] for channel in channels}
        if len(by_channel) < len(channels):
            raise UsageError("two channels have the same number")
        self._channel_of: dict[int, int] = {}
        for instrument in instruments:
            if instrument.channel not in by_channel:
                known = ", ".join(map(str, by_channel)) or "none"
                raise UsageError(
                    f"{instrument.symbol} is on channel {instrument.channel}, which is not "
                    f"published; published are {known}"
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
        """Nothing is due on any channel before this time."""

    @property
    def messages(self) -> int:
        """How many messages were written on the incremental streams."""
        return sum(channel.incremental.messages for channel in self.channels.values())

    @property
    def next_due_ns(self) -> int:
        """When something goes out by itself."""
        return min(channel.next_due_ns for channel in self.channels.values())

    def advance(self, now_ns: int) -> list[Datagram]:
        """What goes out by itself up to a time, in the order of time."""
        _check_time(now_ns, self._now_ns)
        self._now_ns = now_ns
        if self._idle_until_ns > now_ns:
            return []
        sent = [each for channel in self.channels.values() for each in channel.advance(now_ns)]
        sent.sort(key=lambda datagram: datagram.time_ns)
        self._idle_until_ns = min(c.idle_until_ns for c in self.channels.values())
        return sent

    def publish(self, units: Sequence[MarketEvent], now_ns: int) -> list[Datagram]:
        """Publish units of events now; what was due before goes out first."""
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
        """Encode units of events; `flush` sends them. Nothing advances in between."""
        channels = self.channels
        for unit in units:
            one = self._only_destination(unit.items)
            if one is not None:
                channels[one].stage(unit, now_ns)
                continue
            for number, items in self._route(unit.items).items():
                channels[number].stage(MarketEvent(items, unit.event), now_ns)

    def flush(self, now_ns: int) -> list[Datagram]:
        """Send what was staged on all channels, then what is due."""
        _check_time(now_ns, self._now_ns)
        self._now_ns = now_ns
        sent = [each for channel in self.channels.values() for each in channel.flush(now_ns)]
        self._idle_until_ns = min(c.idle_until_ns for c in self.channels.values())
        return sent

    def initialize(self, now_ns: int) -> list[Datagram]:
        """Begin as after a start of the system, on every channel."""
        sent = self.advance(now_ns)
        for channel in self.channels.values():
            sent.extend(channel.initialize(now_ns))
        return sent

    def _only_destination(self, items: Iterable[MarketItem]) -> int | None:
        """The one channel of units about instruments of one channel, as nearly all are."""
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
        """The items by the channel they go to."""
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
                    raise UsageError(f"instrument {item.security_id} is on no published channel")
                return (number,)

    def _known(self, channel: int) -> int:
        if channel not in self.channels:
            raise UsageError(f"channel {channel} is not published")
        return channel
