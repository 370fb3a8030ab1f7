"""A channel and its lines in a feed handler, and the protocol of listeners."""

from __future__ import annotations

import logging
import socket
from dataclasses import dataclass, field
from pathlib import Path
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
from pregao.net.addresses import find_interface
from pregao.net.datagram_batch import LineCounts
from pregao.net.sockets import receive_socket
from pregao.schemas.registry import Registry
from pregao.umdf.packets import PacketDecoder

MAX_LOGGED_BYTES = 256
"""Maximum number of bytes of a packet that are logged."""
LOG_INTERVAL_NS = 10 * SECOND
"""Minimum time between two logged failures; those in between are counted."""

_log = logging.getLogger(__name__)


class FailureLog:
    """Logs failures of one channel at a bounded rate."""

    def __init__(self, channel: int) -> None:
        self._channel = channel
        self._last_ns: int | None = None
        self._unlogged = 0

    def add(self, error: Exception, payload: bytes | None, now_ns: int) -> None:
        """Log a failure, or count it if another one was logged within `LOG_INTERVAL_NS`."""
        if self._last_ns is not None and 0 <= now_ns - self._last_ns < LOG_INTERVAL_NS:
            self._unlogged += 1
            return
        before = f" {self._unlogged} earlier failures were not logged." if self._unlogged else ""
        self._last_ns, self._unlogged = now_ns, 0
        _log.error(
            "Channel %d: processing failed (%s); it counts as packet loss, and the books are "
            "rebuilt from snapshots. %s%s",
            self._channel, _described(error), _shown(payload), before,
        )  # fmt: skip


def _described(error: Exception) -> str:
    """Return an error and where it was raised, in one line."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = ""
    if trace is not None:
        where = f" in {Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}"
    return f"{type(error).__name__}: {str(error)[:200]!r}{where}"


def _shown(payload: bytes | None) -> str:
    if payload is None:
        return "It concerns no single packet."
    end = "" if len(payload) <= MAX_LOGGED_BYTES else " …"
    return f"Packet of {len(payload)} bytes: {payload[:MAX_LOGGED_BYTES].hex()}{end}"


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
