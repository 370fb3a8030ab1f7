"""A channel followed live, sans-I/O: datagrams and a time in, events and actions out."""

from __future__ import annotations

from pregao.feed.channel_events import Event
from pregao.feed.channel_settings import (
    Action,
    ChannelCounters,
    ChannelSettings,
    ChannelState,
    FeedCounters,
)
from pregao.umdf.streams import Stream


class Channel:
    """Follows one channel over its feeds: joins, synchronizes, survives loss, and tells."""

    def __init__(self, settings: ChannelSettings) -> None:
        self.settings = settings
        names = (*settings.feeds, *settings.backup)
        self.counters = ChannelCounters(feeds={name: FeedCounters() for name in names})
        self._events: list[Event] = []
        self._actions: list[Action] = []

    @property
    def state(self) -> ChannelState:
        """How the channel is."""
        return ChannelState.STARTING

    def start(self, now_ns: int) -> None:
        """Begin: asks for the streams that are needed."""

    def receive(
        self,
        stream: Stream,
        feed: str,
        payload: bytes,
        now_ns: int,
        received_ns: int | None = None,
    ) -> None:
        """Take a datagram in that came on a stream of a feed."""

    def tick(self, now_ns: int) -> None:
        """Let time pass: what is missing is given up, silence is noticed."""

    def deadline(self) -> int | None:
        """When `tick` is needed next; None while nothing is waited for."""
        return None

    def take_events(self) -> list[Event]:
        """What happened since it was asked last, in order."""
        events, self._events = self._events, []
        return events

    def take_actions(self) -> list[Action]:
        """What the channel asks for since it was asked last, in order."""
        actions, self._actions = self._actions, []
        return actions
