"""Interface of followed channels, common to all feeds, and the read-only views of their books."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from pregao.book.order_book import OrderBook
from pregao.book.price_depth_book import PriceDepthBook
from pregao.book.state import State
from pregao.book.views import BookLevel, BookOrder
from pregao.events import ChannelEvent
from pregao.feed.channel.settings import (
    ChannelCounters,
    ChannelSettings,
    ChannelState,
    StreamAction,
)
from pregao.umdf.phases import Phases
from pregao.umdf.sequencing import PacketKey
from pregao.umdf.streams import Stream
from pregao.units import Side


@dataclass(frozen=True, slots=True)
class ChannelBook:
    """A view of a book: its content changes with the channel, its state does not."""

    security_id: int
    state: State
    packet_key: PacketKey | None
    """The last packet applied when the view was created; None before the first."""
    reason: str
    """Explains the state."""
    content: OrderBook | PriceDepthBook
    """The book itself, for all of its queries. It must not be changed."""

    @property
    def trusted(self) -> bool:
        """Whether the book equals the exchange's own as of `packet_key`."""
        return self.state in (State.VALID, State.EMPTY)

    def levels(self, side: Side, depth: int | None = None) -> list[BookLevel]:
        """Return the best levels of a side, best first; all of them without ``depth``."""
        return self.content.levels(side, depth)

    def orders(self, side: Side) -> list[BookOrder]:
        """Return the orders of a side in trading order; a price-level book has none."""
        return self.content.orders(side) if isinstance(self.content, OrderBook) else []

    @property
    def bids(self) -> list[BookLevel]:
        """Bid levels, best first."""
        return self.content.levels(Side.BID)

    @property
    def asks(self) -> list[BookLevel]:
        """Ask levels, best first."""
        return self.content.levels(Side.ASK)

    @property
    def best_bid(self) -> BookLevel | None:
        """The best bid level, or None."""
        return self.content.best_bid

    @property
    def best_ask(self) -> BookLevel | None:
        """The best ask level, or None."""
        return self.content.best_ask


class InstrumentInfo(Protocol):
    """The common fields of an instrument."""

    @property
    def security_id(self) -> int:
        """Its security ID."""

    @property
    def symbol(self) -> str:
        """Its symbol."""


class FeedChannel(Protocol):
    """A channel: datagrams and times in, events and actions out."""

    @property
    def settings(self) -> ChannelSettings:
        """Settings of the channel."""

    @property
    def counters(self) -> ChannelCounters:
        """Counters since the start."""

    @property
    def state(self) -> ChannelState:
        """State of the channel."""

    @property
    def last_packet(self) -> PacketKey | None:
        """The last packet applied."""

    @property
    def instruments(self) -> Mapping[int, InstrumentInfo]:
        """Instruments by security ID."""

    @property
    def phases(self) -> Phases:
        """Phases of groups and states of instruments."""

    @property
    def security_ids(self) -> Iterable[int]:
        """Instruments that have a book."""

    def statistics(self, security_id: int) -> Mapping[Any, Any]:
        """Return the statistics of an instrument."""

    def book(self, security_id: int) -> ChannelBook:
        """Return the book of an instrument and its state."""

    def is_alive(self, feed: str) -> bool:
        """Whether anything arrived on the feed within the last heartbeats."""

    def take_events(self) -> list[ChannelEvent]:
        """Return the events since the last call, in order."""

    def take_actions(self) -> list[StreamAction]:
        """Return the requested actions since the last call, in order."""

    def enable_events(self, *, enabled: bool) -> None:
        """Enable or disable events."""

    def start(self, now_ns: int) -> None:
        """Start: request the streams that are needed."""

    def tick(self, now_ns: int) -> None:
        """Advance the clock."""

    def restart(self, now_ns: int) -> None:
        """Rebuild everything from the recovery streams: processing a packet failed midway."""

    def deadline(self) -> int | None:
        """Return when `tick` must be called next; None while nothing is pending."""

    def receive(
        self, stream: Stream, feed: str, payload: bytes, now_ns: int, received_ns: int | None = None
    ) -> None:
        """Process a datagram."""
