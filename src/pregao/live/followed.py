"""A channel and its lines as a feed handler knows them, and who hears what happens."""

from __future__ import annotations

import socket
from dataclasses import dataclass, field
from typing import Protocol

from pregao.clock import SECOND
from pregao.errors import NetworkError
from pregao.feed.channel import Channel
from pregao.feed.channel_events import Event
from pregao.feed.channel_settings import ChannelSettings
from pregao.feed.followed_channel import FollowedChannel
from pregao.feed.legacy_feed_channel import LegacyFeedChannel
from pregao.feed.pumped_channel import PumpedChannel
from pregao.live.config import Line
from pregao.live.failures import FailureLog
from pregao.live.latency import RecentDelays
from pregao.net import LineCounts, find_interface, receive_socket

_RECENT_NS = 10 * SECOND


class Listener(Protocol):
    """Hears what channels tell, in the handler's thread: it must be quick, and never wait."""

    def told(self, channel: FollowedChannel, events: list[Event]) -> None:
        """Something happened on a channel."""


@dataclass(slots=True)
class Followed:
    """A channel, and what is known of receiving it."""

    channel: FollowedChannel
    delays: RecentDelays = field(default_factory=lambda: RecentDelays(_RECENT_NS))
    """From sending to receiving, of the incremental stream."""
    failures: FailureLog = field(init=False)

    def __post_init__(self) -> None:
        self.failures = FailureLog(self.channel.settings.number)


def new_followed(settings: ChannelSettings, *, compiled: bool | None) -> Followed:
    """A channel of which nothing has come; unless ``compiled`` is False, with the pump."""
    if settings.legacy is not None:
        return Followed(LegacyFeedChannel(settings))
    return Followed(Channel(settings) if compiled is False else PumpedChannel(settings))


@dataclass(slots=True)
class Joined:
    """A line that is received."""

    number: int
    followed: Followed
    line: Line
    wanted: bool
    """Does the channel want it? If not, it is only recorded."""


@dataclass(frozen=True, slots=True)
class LineState:
    """A line, and what came on it."""

    line: Line
    joined: bool
    counts: LineCounts


def open_line(line: Line, buffer_bytes: int) -> socket.socket:
    """Listen to a line."""
    try:
        interface = None if line.interface is None else find_interface(line.interface)
        return receive_socket(
            line.address, interface=interface, source=line.source, buffer_bytes=buffer_bytes
        )
    except NetworkError as error:
        raise NetworkError(f"{line}: {error}") from error
