"""A channel and its lines in a feed handler, and the protocol of listeners."""

from __future__ import annotations

import socket
from dataclasses import dataclass, field
from typing import Protocol

from pregao.clock import SECOND
from pregao.errors import NetworkError
from pregao.events import ChannelEvent
from pregao.feed.channel.channel import Channel
from pregao.feed.channel.channel_base import FeedChannel
from pregao.feed.channel.settings import ChannelSettings
from pregao.feed.fastpath.channel import FastChannel
from pregao.feed.legacy.channel import LegacyFeedChannel
from pregao.live.config import Line
from pregao.live.latency import RecentLatency
from pregao.live.packet_failures import FailureLog
from pregao.net.addresses import find_interface
from pregao.net.datagram_batch import LineCounts
from pregao.net.sockets import receive_socket
from pregao.schemas.registry import Registry
from pregao.umdf.packets import PacketDecoder

_RECENT_NS = 10 * SECOND


class EventListener(Protocol):
    """Receives events in the handler's thread: it must be quick and never block."""

    def on_events(self, channel: FeedChannel, events: list[ChannelEvent]) -> None:
        """Process events of a channel."""


@dataclass(slots=True)
class LiveChannel:
    """A channel with its reception latency and its failure log."""

    channel: FeedChannel
    delays: RecentLatency = field(default_factory=lambda: RecentLatency(_RECENT_NS))
    """Latency from sending to reception, of the incremental stream."""
    failures: FailureLog = field(init=False)

    def __post_init__(self) -> None:
        self.failures = FailureLog(self.channel.settings.number)


def new_live_channel(
    settings: ChannelSettings, *, compiled: bool | None, registry: Registry | None = None
) -> LiveChannel:
    """Return a new channel; a binary one uses the fast path unless ``compiled`` is False.

    Its messages are decoded with the schemas of the registry, or with the bundled ones.
    """
    if settings.legacy is not None:
        return LiveChannel(LegacyFeedChannel(settings))
    decoder = PacketDecoder(registry)
    if compiled is False:
        return LiveChannel(Channel(settings, decoder))
    return LiveChannel(FastChannel(settings, decoder))


@dataclass(slots=True)
class JoinedLine:
    """A line with an open socket."""

    number: int
    followed: LiveChannel
    line: Line
    wanted: bool
    """Whether the channel wants the line; if not, it is only recorded."""


@dataclass(frozen=True, slots=True)
class LineState:
    """A line, whether it is joined, and its counts."""

    line: Line
    joined: bool
    counts: LineCounts


def open_line(line: Line, buffer_bytes: int) -> socket.socket:
    """Open a socket that receives a line."""
    try:
        interface = None if line.interface is None else find_interface(line.interface)
        return receive_socket(
            line.address, interface=interface, source=line.source, buffer_bytes=buffer_bytes
        )
    except NetworkError as error:
        raise NetworkError(f"{line}: {error}") from error
