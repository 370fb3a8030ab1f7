"""Items that subscribers receive: events, and immutable copies of books."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from types import SimpleNamespace

from pregao.book.state import State
from pregao.book.views import BookLevel
from pregao.events import ChannelEvent
from pregao.feed.channel.channel_base import FeedChannel
from pregao.notebook import book_text, ladder_html
from pregao.umdf.sequencing import PacketKey
from pregao.units import Side, price_of


def _with_decimals(levels: Iterable[BookLevel]) -> list[SimpleNamespace]:
    """Return levels with decimal prices, to show them."""
    return [
        SimpleNamespace(
            price=price_of(price),
            size=size,
            orders=orders,
        )
        for price, size, orders in levels
    ]


@dataclass(frozen=True, slots=True)
class BookCopy:
    """The best levels of a book as of a packet of its channel, and the book's state.

    Prices are integers in ten-thousandths; None is the price of orders that rank before all others
    (at auction, at market).
    """

    state: State
    reason: str
    packet_key: PacketKey | None
    bids: tuple[BookLevel, ...]
    asks: tuple[BookLevel, ...]

    def __repr__(self) -> str:
        return book_text(self.state.name.lower(), *map(_with_decimals, (self.bids, self.asks)))

    def _repr_html_(self) -> str:
        sides = map(_with_decimals, (self.bids, self.asks))
        return ladder_html(self.state.name.lower(), *sides)

    @property
    def trusted(self) -> bool:
        """Whether the book equals the exchange's own as of `packet_key`."""
        return self.state in (State.VALID, State.EMPTY)

    @property
    def best_bid(self) -> BookLevel | None:
        """The best bid level, or None."""
        return self.bids[0] if self.bids else None

    @property
    def best_ask(self) -> BookLevel | None:
        """The best ask level, or None."""
        return self.asks[0] if self.asks else None


@dataclass(frozen=True, slots=True)
class LiveEvent:
    """An event of a channel, with a copy of the book at that time if it concerns one."""

    channel: int
    symbol: str | None
    event: ChannelEvent
    book: BookCopy | None


@dataclass(frozen=True, slots=True)
class BookRefresh:
    """The current book, for a new subscriber or after missed events."""

    channel: int
    symbol: str
    security_id: int
    book: BookCopy


@dataclass(frozen=True, slots=True)
class ItemsMissed:
    """The number of events dropped because the subscriber was too slow; fresh books follow."""

    count: int


LiveItem = LiveEvent | BookRefresh | ItemsMissed
"""An item that a subscriber receives."""


def copy_of(channel: FeedChannel, security_id: int, depth: int) -> BookCopy:
    """Return a copy of the best ``depth`` levels of a book."""
    book = channel.book(security_id)
    return BookCopy(
        book.state,
        book.reason,
        book.packet_key,
        tuple(book.levels(Side.BID, depth)),
        tuple(book.levels(Side.ASK, depth)),
    )
