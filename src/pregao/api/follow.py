"""Follow the channels of captures, of both feeds, with the code and the events of the live feed."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from pregao.api.arguments import Path, listed, paths
from pregao.api.capture import read
from pregao.api.reading.legacy import are_legacy, is_dump
from pregao.capture.block_reader import read_blocks
from pregao.capture.blocks import PADDING
from pregao.errors import UsageError
from pregao.events import ChannelEvent
from pregao.extras import imported
from pregao.feed.channel.channel import Channel
from pregao.feed.channel.channel_base import FeedChannel
from pregao.feed.channel.settings import ChannelSettings, LegacyFeed
from pregao.feed.fastpath.channel import FastChannel
from pregao.feed.fastpath.driver import DatagramColumns
from pregao.feed.legacy.channel import LegacyFeedChannel
from pregao.legacy.streams import LegacyStream
from pregao.live.capture_merge import merged
from pregao.live.items import LiveEvent
from pregao.live.subscriptions import DEPTH, Subscription
from pregao.name_matching import did_you_mean, folded
from pregao.schemas.registry import Registry
from pregao.umdf.arbitration import feed_name
from pregao.umdf.bulk_decoder import walk
from pregao.umdf.packets import PacketDecoder
from pregao.umdf.streams import Stream
from pregao.umdf.survey.lines import LineNumbers, LineTable

_MAX_PENDING = 1 << 40
_FOLLOWED_STREAMS = (Stream.INCREMENTAL, Stream.SNAPSHOT, Stream.DEFINITION)

_LEGACY_STREAMS = {
    LegacyStream.INCREMENTAL.value: Stream.INCREMENTAL,
    LegacyStream.MARKET_RECOVERY.value: Stream.SNAPSHOT,
    LegacyStream.INSTRUMENT_DEFINITION.value: Stream.DEFINITION,
}
_LegacyRoute = tuple[LegacyFeedChannel, Stream, str]


# --- Binary feed ---


def follow(
    *captures: Path | Iterable[Path],
    snapshot: Path | Iterable[Path] | None = None,
    definition: Path | Iterable[Path] | None = None,
    symbol: str | Iterable[str] | None = None,
    kinds: type[ChannelEvent] | Iterable[type[ChannelEvent]] | None = None,
    depth: int = DEPTH,
    from_the_start: bool = False,
    schema: Path | None = None,
) -> Iterator[LiveEvent]:
    """Follow the channels in captures, in time order, and yield the events of `Live`.

    The stream of each destination is detected, and the incremental lines of one channel are merged
    as its feeds. Gaps heal from snapshots as they do live. Memory is bounded, whatever the size of
    the captures. Captures of the legacy feed are followed likewise, message by message.

    Args:
        captures: Files, folders or patterns, of feed A, feed B, or all lines together.
        snapshot: Captures of the snapshot stream, unless they are among ``captures``.
        definition: Captures of the definition stream, unless they are among ``captures``.
        symbol: Yield only events of these symbols.
        kinds: Yield only events of these types of `pregao.events`.
        depth: Levels in the books that accompany the events.
        from_the_start: The first packets are the first of the day, so that books need no snapshot.
        schema: SBE schema file that decodes the messages of every version, instead of the bundled.

    Returns:
        An iterator over events, each with its channel, symbol and a copy of its book.

    Raises:
        UsageError: An argument is invalid, or the captures contain no incremental stream. At the
            end of the captures: they contain nothing about one of the symbols.

    Example:
        >>> from pregao.events import TradeDone
        >>> items = pregao.follow("day", symbol="PETR4", kinds=TradeDone)
        >>> {(item.channel, item.symbol) for item in items}
        {(51, 'PETR4')}
    """
    wanted, classes = _symbols(symbol), _kinds(kinds)
    if not isinstance(depth, int) or depth < 0:
        raise UsageError(f"depth must be a number of levels, 0 or more, was {depth!r}.")
    names: Sequence[str] = read(*captures, *paths(snapshot), *paths(definition)).names
    if are_legacy(names):
        # The ingest code detects the legacy streams, which needs the lake extra.
        with imported():
            pass

        return _follow_legacy(names, wanted, classes, depth, from_the_start)
    named = [] if schema is None else [os.fspath(schema)]
    registry = Registry.from_environment(named, known_names=True)
    return _follow_binary(names, wanted, classes, depth, from_the_start, registry)


def _symbols(symbol: Any) -> tuple[str, ...]:
    """Return the symbols of an argument; one that is no text is an error."""
    found: tuple[Any, ...] = ()
    if isinstance(symbol, Iterable) or symbol is None:
        found = listed(symbol)
    if symbol is None or (found and all(isinstance(each, str) and each.strip() for each in found)):
        return found
    raise UsageError(
        f"symbol must be a symbol such as 'PETR4', or several, was {symbol!r}. Omit it for all."
    )


def _kinds(kinds: Any) -> tuple[type[ChannelEvent], ...] | None:
    """Return the event types of an argument; None for all."""
    if kinds is None:
        return None
    found = tuple(kinds) if isinstance(kinds, list | tuple | set | frozenset) else (kinds,)
    for each in found:
        if not (isinstance(each, type) and issubclass(each, ChannelEvent)):
            known = [kind.__name__ for kind in ChannelEvent.__subclasses__()]
            hint = did_you_mean(each, known) if isinstance(each, str) else ""
            raise UsageError(
                "kinds must be event types of pregao.events, such as (TradeDone, BookChanged), "
                f"was {each!r}.{hint}"
            )
    if not found:
        raise UsageError("kinds selects no event: name a type of pregao.events, or omit it.")
    return found


class _KnownSymbols(Subscription):
    """A subscription that states which of its symbols never occurred."""

    def __init__(
        self, symbols: tuple[str, ...], kinds: tuple[type[ChannelEvent], ...] | None, depth: int
    ) -> None:
        super().__init__(symbols or None, kinds=kinds, depth=depth, max_pending=_MAX_PENDING)
        self._names = symbols
        self._seen: set[str] = set()

    def matches(self, symbol: str | None, security_id: int) -> bool:
        """Whether the instrument is selected, which is noted."""
        found = super().matches(symbol, security_id)
        if found and self._names:
            self._seen |= {folded(symbol or ""), str(security_id)}
        return found

    def require_known(self, channels: Iterable[FeedChannel]) -> None:
        """Raise `UsageError` for a symbol without an event, definition or book."""
        known: set[str] = set()
        for channel in channels:
            known.update(each.symbol for each in channel.instruments.values())
            known.update(map(str, [*channel.instruments, *channel.security_ids]))
        for name in self._names:
            if folded(name) not in self._seen | set(map(folded, known)):
                raise UsageError(
                    f"symbol {name!r} is not in the captures.{did_you_mean(name, sorted(known))}"
                )


def _follow_binary(
    names: Sequence[str],
    symbols: tuple[str, ...],
    kinds: tuple[type[ChannelEvent], ...] | None,
    depth: int,
    from_the_start: bool,
    registry: Registry,
) -> Iterator[LiveEvent]:
    lines = LineTable()
    routes = _binary_routes(names, lines, from_the_start, registry)
    channels = list({id(channel): channel for channel in routes.values()}.values())
    subscription = _KnownSymbols(symbols, kinds, depth)
    last = 0
    for stretch in merged(names, lines):
        if not last:
            for channel in channels:
                channel.start(int(stretch.time_ns[0]))
        last = int(stretch.time_ns[-1])
        padded = np.concatenate([stretch.buffer, np.zeros(PADDING, np.uint8)])
        datagrams = DatagramColumns(
            padded, stretch.offset, stretch.length, stretch.time_ns, stretch.line
        )
        for owner, begin, end in _channel_runs(datagrams, routes):
            when = int(stretch.time_ns[begin])
            due = [channel for channel in channels if _is_due(channel, when)]
            for channel in due:
                channel.tick(when)
            yield from _take_events(due, subscription)
            row = begin
            while owner is not None and row < end:
                # Stop after each packet with events, so that books are copied as of that packet.
                row = owner.receive_many(datagrams, row, end, singly=True)
                yield from _take_events([owner], subscription)
    for channel in channels:  # what is still missing is lost
        channel.tick(last + channel.settings.reorder_ns)
    yield from _take_events(channels, subscription)
    subscription.require_known(channels)


def _channel_runs(
    datagrams: DatagramColumns, routes: Mapping[tuple[int, int], FastChannel]
) -> Iterator[tuple[FastChannel | None, int, int]]:
    """Yield runs of consecutive datagrams of one channel, bounded in time; None is no channel."""
    number = datagrams.buffer[datagrams.offset].astype(np.int64)
    number[datagrams.length == 0] = -1
    source = (datagrams.line.astype(np.int64) << 9) + number
    kinds, kind = np.unique(source, return_inverse=True)
    channels = [routes.get((each >> 9, each & 0x1FF)) for each in kinds.tolist()]
    own = np.array([-1 if each is None else each.settings.number for each in channels])[kind]
    changes = np.flatnonzero(np.diff(own)) + 1
    for begin, end in pairwise([0, *changes.tolist(), len(own)]):
        start = begin
        while start < end:
            owner = channels[kind[start]]
            # Time advances between runs: none may be longer than the wait for a missing packet.
            wait = 0 if owner is None else owner.settings.reorder_ns
            until = int(datagrams.time_ns[start]) + wait
            count = int(np.searchsorted(datagrams.time_ns[start:end], until, "right"))
            yield owner, start, start + count
            start += count


def _is_due(channel: Channel, when_ns: int) -> bool:
    deadline = channel.deadline()
    return deadline is not None and deadline <= when_ns


def _take_events(channels: Iterable[Channel], subscription: Subscription) -> Iterator[LiveEvent]:
    """Yield the new events of the channels, with the current books."""
    for channel in channels:
        channel.take_actions()  # all streams are read anyway
        if events := channel.take_events():
            subscription.on_events(channel, events)
    for item in subscription.take():
        assert isinstance(item, LiveEvent)  # nothing is missed, so that no book is sent again
        yield item


def _binary_routes(
    names: Sequence[str], lines: LineTable, from_the_start: bool, registry: Registry
) -> dict[tuple[int, int], FastChannel]:
    """Return the channels by line and channel number; the captures are read once before."""
    seen: dict[tuple[int, int], None] = {}
    for name in names:
        with read_blocks(name) as reader:
            numbers = LineNumbers(lines, reader.flows)
            for block in reader:
                walked = walk(block.buffer, block.offset, block.length)
                own = numbers.of(block.flow)
                lines.add(own, walked)
                valid = walked.message_count > 0
                pairs = np.unique((own[valid].astype(np.int64) << 8) | walked.channel[valid])
                seen.update(dict.fromkeys((pair >> 8, pair & 0xFF) for pair in pairs.tolist()))
    streams = lines.streams(registry)
    feeds: dict[tuple[int, int], tuple[Stream, str]] = {}
    counts: Counter[tuple[int, Stream]] = Counter()
    for line, number in seen:
        stream = streams[line]
        if stream in _FOLLOWED_STREAMS:
            feeds[line, number] = stream, feed_name(counts[number, stream])
            counts[number, stream] += 1
    channels = {
        number: FastChannel(
            ChannelSettings(
                number, tuple(map(feed_name, range(lanes))), from_the_start=from_the_start
            ),
            PacketDecoder(registry),
        )
        for (number, stream), lanes in counts.items()
        if stream is Stream.INCREMENTAL
    }
    if not channels:
        raise UsageError(
            f"No incremental stream of Binary UMDF in {', '.join(names)}; `pregao info` lists the "
            "streams that a capture contains."
        )
    for number, channel in channels.items():
        channel.set_lines({line: what for (line, own), what in feeds.items() if own == number})
    return {(line, number): channels[number] for line, number in feeds if number in channels}


# --- Legacy feed ---


def _follow_legacy(
    names: Sequence[str],
    symbols: tuple[str, ...],
    kinds: tuple[type[ChannelEvent], ...] | None,
    depth: int,
    from_the_start: bool,
) -> Iterator[LiveEvent]:
    """Yield the events of the channels in captures of the legacy feed, in time order."""
    for name in names:
        if is_dump(name):
            raise UsageError(
                f"{name}: a raw dump has no capture times; it can be read with pregao.read, but "
                "not followed."
            )
    lines = LineTable()
    routes = _legacy_routes(names, from_the_start)
    channels = list({id(route[0]): route[0] for route in routes.values()}.values())
    subscription = _KnownSymbols(symbols, kinds, depth)
    last = 0
    for stretch in merged(names, lines):
        if not last:
            for channel in channels:
                channel.start(int(stretch.time_ns[0]))
        for row, line in enumerate(stretch.line.tolist()):
            route = routes.get(str(lines.destinations[line]))
            if route is None:
                continue
            last = int(stretch.time_ns[row])
            for channel in channels:
                deadline = channel.deadline()
                if deadline is not None and deadline <= last:
                    channel.tick(last)
                    yield from _take_legacy_events(channel, subscription)
            begin = int(stretch.offset[row])
            payload = stretch.buffer[begin : begin + int(stretch.length[row])].tobytes()
            channel, stream, feed = route
            channel.receive(stream, feed, payload, last)
            yield from _take_legacy_events(channel, subscription)
    for channel in channels:  # what is still missing is lost
        channel.tick(last + channel.settings.reorder_ns)
        yield from _take_legacy_events(channel, subscription)
    subscription.require_known(channels)


def _take_legacy_events(
    channel: LegacyFeedChannel, subscription: Subscription
) -> Iterator[LiveEvent]:
    channel.take_actions()  # all streams are read anyway
    if events := channel.take_events():
        subscription.on_events(channel, events)
        for item in subscription.take():
            assert isinstance(item, LiveEvent)  # nothing is missed, so that no book is sent again
            yield item


def _legacy_routes(names: Sequence[str], from_the_start: bool) -> dict[str, _LegacyRoute]:
    """Return the channels by destination; the captures are read once before."""
    # Imported here: the binary feed is followed without the lake and Arrow.
    from pregao.lake.ingest.protocol import ProtocolEvidence, destination_of
    from pregao.lake.ingest.protocols.legacy_channels import channel_of
    from pregao.lake.ingest.registry import PROTOCOLS

    legacy = PROTOCOLS["legacy"]
    seen: dict[str, ProtocolEvidence] = {}
    for name in names:
        with read_blocks(name) as reader:
            for block in reader:
                flows = [destination_of(flow) for flow in reader.flows]
                for flow, look in legacy.look(block, flows).items():
                    seen.setdefault(flow, ProtocolEvidence()).add(look)
    found: dict[str, tuple[int, Stream, str]] = {}
    counts: Counter[tuple[int, Stream]] = Counter()
    for flow, sighting in seen.items():
        stream = _LEGACY_STREAMS.get(legacy.stream_of(sighting.kinds))
        if stream is None or not sighting.channels:
            continue
        number = channel_of(flow)
        found[flow] = number, stream, feed_name(counts[number, stream])
        counts[number, stream] += 1
    channels = {
        number: LegacyFeedChannel(
            ChannelSettings(
                number, tuple(map(feed_name, range(feeds))), from_the_start=from_the_start,
                legacy=LegacyFeed(),
            )
        )
        for (number, stream), feeds in counts.items()
        if stream is Stream.INCREMENTAL
    }  # fmt: skip
    if not channels:
        raise UsageError(
            f"No incremental stream of the legacy feed in {', '.join(names)}; `pregao info` lists "
            "the streams that a capture contains."
        )
    return {
        flow: (channels[number], stream, feed)
        for flow, (number, stream, feed) in found.items()
        if number in channels
    }
