"""Following channels of the legacy feed through captures, like those of the binary feed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from string import ascii_uppercase

from pregao.api.legacy_captures import is_dump
from pregao.capture.block_reader import read_blocks
from pregao.errors import UsageError
from pregao.events import ChannelEvent
from pregao.feed.channel.settings import ChannelSettings, LegacyFeed
from pregao.feed.legacy.channel import LegacyFeedChannel
from pregao.lake.ingest.protocol import ProtocolEvidence, destination_of
from pregao.lake.ingest.registry import PROTOCOLS
from pregao.legacy.streams import LegacyStream
from pregao.live.items import LiveEvent
from pregao.live.capture_merge import merged
from pregao.live.subscriptions import Subscription
from pregao.umdf.streams import Stream
from pregao.umdf.survey.lines import LineTable

_STREAMS = {
    LegacyStream.INCREMENTAL.value: Stream.INCREMENTAL,
    LegacyStream.MARKET_RECOVERY.value: Stream.SNAPSHOT,
    LegacyStream.INSTRUMENT_DEFINITION.value: Stream.DEFINITION,
}
_ALL = 1 << 40
Route = tuple[LegacyFeedChannel, Stream, str]


def followed_legacy(
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
    routes = _routes(names, from_the_start)
    channels = list({id(route[0]): route[0] for route in routes.values()}.values())
    subscription = Subscription(symbols or None, kinds=kinds, depth=depth, max_pending=_ALL)
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
                    yield from _events(channel, subscription)
            begin = int(stretch.offset[row])
            payload = stretch.buffer[begin : begin + int(stretch.length[row])].tobytes()
            channel, stream, feed = route
            channel.receive(stream, feed, payload, last)
            yield from _events(channel, subscription)
    for channel in channels:  # what is still missing is lost
        channel.tick(last + channel.settings.reorder_ns)
        yield from _events(channel, subscription)


def _events(channel: LegacyFeedChannel, subscription: Subscription) -> Iterator[LiveEvent]:
    channel.take_actions()  # all streams are read anyway
    if events := channel.take_events():
        subscription.on_events(channel, events)
        for item in subscription.take():
            assert isinstance(item, LiveEvent)  # nothing is missed, so that no book is sent again
            yield item


def _routes(names: Sequence[str], from_the_start: bool) -> dict[str, Route]:
    """Return the channels by destination; the captures are read once before."""
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
        stream = _STREAMS.get(legacy.stream_of(sighting.kinds))
        if stream is None or not sighting.channels:
            continue
        (number,) = sighting.channels
        found[flow] = number, stream, ascii_uppercase[counts[number, stream]]
        counts[number, stream] += 1
    channels = {
        number: LegacyFeedChannel(
            ChannelSettings(
                number, tuple(ascii_uppercase[:feeds]), from_the_start=from_the_start,
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
