"""What every followed channel offers, whichever feed it comes by: the form that live parts know."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from pregao.feed.book_view import ChannelBook
from pregao.feed.channel_events import Event
from pregao.feed.channel_settings import Action, ChannelCounters, ChannelSettings, ChannelState
from pregao.umdf.phases import Phases
from pregao.umdf.sequencing import Place
from pregao.umdf.streams import Stream


class Listed(Protocol):
    """An instrument, as far as everyone needs it."""

    @property
    def security_id(self) -> int:
        """Its number."""

    @property
    def symbol(self) -> str:
        """Its symbol."""


class FollowedChannel(Protocol):
    """A channel: datagrams and a time in, events and actions out."""

    @property
    def settings(self) -> ChannelSettings:
        """What it was told beforehand."""

    @property
    def counters(self) -> ChannelCounters:
        """What happened so far."""

    @property
    def state(self) -> ChannelState:
        """How the channel is."""

    @property
    def place(self) -> Place | None:
        """The last packet that was taken in."""

    @property
    def instruments(self) -> Mapping[int, Listed]:
        """The instruments by their numbers."""

    @property
    def phases(self) -> Phases:
        """The phases of groups and the states of instruments."""

    @property
    def security_ids(self) -> Iterable[int]:
        """The instruments of which there is a book."""

    def statistics(self, security_id: int) -> Mapping[Any, Any]:
        """The statistics of an instrument."""

    def book(self, security_id: int) -> ChannelBook:
        """The book of an instrument, and how far it can be trusted."""

    def is_alive(self, feed: str) -> bool:
        """Has a feed brought something within the last heartbeats?"""

    def take_events(self) -> list[Event]:
        """What happened since it was asked last, in order."""

    def take_actions(self) -> list[Action]:
        """What the channel asks for since it was asked last, in order."""

    def want_events(self, *, wanted: bool) -> None:
        """Say whether anybody is to be told."""

    def start(self, now_ns: int) -> None:
        """Begin: asks for the streams that are needed."""

    def tick(self, now_ns: int) -> None:
        """Let time pass."""

    def restart(self, now_ns: int) -> None:
        """Rebuild everything from the recovery streams: processing a packet failed midway."""

    def deadline(self) -> int | None:
        """When `tick` is needed next; None while nothing is waited for."""

    def receive(
        self, stream: Stream, feed: str, payload: bytes, now_ns: int, received_ns: int | None = None
    ) -> None:
        """Take a datagram in."""
