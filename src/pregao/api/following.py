"""Channels followed through captures as they are live: the same machine tells the same events."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from string import ascii_uppercase

import numpy as np

from pregao.api.capture import read
from pregao.api.values import listed
from pregao.capture import read_blocks
from pregao.errors import UsageError
from pregao.feed import Channel, ChannelSettings
from pregao.feed.channel_events import Event
from pregao.live.books import LiveEvent
from pregao.live.merging import merged
from pregao.live.subscriptions import DEPTH, Subscription
from pregao.schemas import Registry
from pregao.umdf.bulk import walk
from pregao.umdf.streams import Stream
from pregao.umdf.survey import LineNumbers, Lines

_FEEDS = ascii_uppercase
_ALL = 1 << 40
_FOLLOWED = (Stream.INCREMENTAL, Stream.SNAPSHOT, Stream.DEFINITION)


def follow(
    *captures: str | os.PathLike[str],
    snapshot: str | os.PathLike[str] | Iterable[str] | None = None,
    definition: str | os.PathLike[str] | Iterable[str] | None = None,
    symbol: str | Iterable[str] | None = None,
    kinds: tuple[type[Event], ...] | None = None,
    depth: int = DEPTH,
    from_the_start: bool = False,
) -> Iterator[LiveEvent]:
    """What happens on the channels in captures, in the order of time: the events of `Live`.

    Captures are files, folders or patterns, of feed A, feed B, or all lines together; what each
    destination carries is found out, and incremental lines of one channel are its feeds. Snapshots
    and definitions may be among them or named on their own. Gaps heal from snapshots as they do
    live. ``symbol`` and ``kinds`` choose events, ``depth`` the levels of the books that come along.
    ``from_the_start`` says that the first packets are the first of the day, so that books need no
    snapshot. Memory is bounded, whatever the size of the captures.
    """
    names: Sequence[str] = read(*captures, *_paths(snapshot), *_paths(definition)).names
    wanted = listed(symbol)
    return _followed(names, wanted, kinds, depth, from_the_start)


def _paths(
    named: str | os.PathLike[str] | Iterable[str] | None,
) -> list[str | os.PathLike[str]]:
    if named is None:
        return []
    return [named] if isinstance(named, str | os.PathLike) else list(named)


def _followed(
    names: Sequence[str],
    symbols: tuple[str, ...],
    kinds: tuple[type[Event], ...] | None,
    depth: int,
    from_the_start: bool,
) -> Iterator[LiveEvent]:
    lines = Lines()
    routes = _routes(names, lines, from_the_start)
    channels = list({id(channel): channel for channel, *_ in routes.values()}.values())
    told = Subscription(symbols or None, kinds=kinds, depth=depth, most_waiting=_ALL)
    last = 0
    for when, line, payload in _datagrams(names, lines):
        if not last:
            for channel in channels:
                channel.start(when)
        last = when
        moved = [channel for channel in channels if _is_due(channel, when)]
        for channel in moved:
            channel.tick(when)
        route = routes.get((line, payload[0])) if payload else None
        if route is not None:
            channel, stream, feed = route
            channel.receive(stream, feed, payload, when, when)
            moved.append(channel)
        yield from _events(moved, told)
    for channel in channels:  # what is still missing then does not come any more
        channel.tick(last + channel.settings.reorder_ns)
    yield from _events(channels, told)


def _is_due(channel: Channel, when_ns: int) -> bool:
    deadline = channel.deadline()
    return deadline is not None and deadline <= when_ns


def _events(channels: Iterable[Channel], told: Subscription) -> Iterator[LiveEvent]:
    """What the channels tell now, with the books as they are now."""
    for channel in channels:
        channel.take_actions()  # every stream comes anyway
        if events := channel.take_events():
            told.told(channel, events)
    for item in told.take():
        assert isinstance(item, LiveEvent)  # it misses nothing, so that no book is told anew
        yield item


def _datagrams(names: Sequence[str], lines: Lines) -> Iterator[tuple[int, int, bytes]]:
    """Every datagram in the order of time: when it was captured, its line, its bytes."""
    for stretch in merged(names, lines):
        data = stretch.buffer.tobytes()
        ends = (stretch.offset + stretch.length).tolist()
        rows = zip(
            stretch.time_ns.tolist(),
            stretch.line.tolist(),
            stretch.offset.tolist(),
            ends,
            strict=True,
        )
        for when, line, start, end in rows:
            yield when, line, data[start:end]


def _routes(
    names: Sequence[str], lines: Lines, from_the_start: bool
) -> dict[tuple[int, int], tuple[Channel, Stream, str]]:
    """What carries what, by line and channel number: read once before anything is followed."""
    seen: dict[tuple[int, int], None] = {}
    for name in names:
        with read_blocks(name) as reader:
            numbers = LineNumbers(lines, reader.flows)
            for block in reader:
                walked = walk(block.buffer, block.offset, block.length)
                own = numbers.of(block.flow)
                lines.add(own, walked)
                sound = walked.message_count > 0
                pairs = np.unique((own[sound].astype(np.int64) << 8) | walked.channel[sound])
                seen.update(dict.fromkeys((pair >> 8, pair & 0xFF) for pair in pairs.tolist()))
    streams = lines.streams(Registry.bundled())
    feeds: dict[tuple[int, int], tuple[Stream, str]] = {}
    counts: Counter[tuple[int, Stream]] = Counter()
    for line, number in seen:
        stream = streams[line]
        if stream in _FOLLOWED:
            feeds[line, number] = stream, _FEEDS[counts[number, stream] % len(_FEEDS)]
            counts[number, stream] += 1
    channels = {
        number: Channel(
            ChannelSettings(number, tuple(_FEEDS[:lanes]), from_the_start=from_the_start)
        )
        for (number, stream), lanes in counts.items()
        if stream is Stream.INCREMENTAL
    }
    if not channels:
        raise UsageError(
            f"There is no incremental stream of Binary UMDF in {', '.join(names)}: "
            "`pregao info` tells what there is."
        )
    return {
        (line, number): (channels[number], stream, feed)
        for (line, number), (stream, feed) in feeds.items()
        if number in channels
    }
