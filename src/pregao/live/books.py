"""Books and events as consumers get them: copies that stay as they are while the feed goes on."""

from __future__ import annotations

from dataclasses import dataclass

from pregao.book.faults import State
from pregao.book.updates import Side
from pregao.book.views import Level
from pregao.feed.channel_events import Event
from pregao.feed.followed_channel import FollowedChannel
from pregao.umdf.sequencing import Place


@dataclass(frozen=True, slots=True)
class BookCopy:
    """The best levels of a book at a place of its channel, and how far it can be trusted.

    Prices are whole numbers of ten-thousandths; None is the price of orders that go before all
    others (at auction, at market).
    """

    state: State
    reason: str
    place: Place | None
    bids: tuple[Level, ...]
    asks: tuple[Level, ...]

    @property
    def trusted(self) -> bool:
        """Does it equal the exchange's own, as of its place?"""
        return self.state in (State.VALID, State.EMPTY)

    @property
    def best_bid(self) -> Level | None:
        """The best level to sell to."""
        return self.bids[0] if self.bids else None

    @property
    def best_ask(self) -> Level | None:
        """The best level to buy from."""
        return self.asks[0] if self.asks else None


@dataclass(frozen=True, slots=True)
class LiveEvent:
    """Something that happened on a channel; with the book as it is then, if it is about one."""

    channel: int
    symbol: str | None
    event: Event
    book: BookCopy | None


@dataclass(frozen=True, slots=True)
class FreshBook:
    """A book as it is now, for a consumer that begins, or that has missed something."""

    channel: int
    symbol: str
    security_id: int
    book: BookCopy


@dataclass(frozen=True, slots=True)
class Missed:
    """So many events were not taken in time and are gone; fresh books follow."""

    count: int


Item = LiveEvent | FreshBook | Missed
"""What a consumer gets."""


def copy_of(channel: FollowedChannel, security_id: int, depth: int) -> BookCopy:
    """The best levels of a book."""
    book = channel.book(security_id)
    return BookCopy(
        book.state,
        book.reason,
        book.place,
        tuple(book.levels(Side.BID, depth)),
        tuple(book.levels(Side.ASK, depth)),
    )
