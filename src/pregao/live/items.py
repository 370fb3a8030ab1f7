"""Items that subscribers receive: events, and immutable copies of books."""

from __future__ import annotations

from dataclasses import dataclass

from pregao.book.levels import Level, levels
from pregao.book.state import State
from pregao.book.views import BookLevel
from pregao.events import ChannelEvent
from pregao.feed.channel.channel_base import FeedChannel
from pregao.notebook import book_text, ladder_html
from pregao.umdf.sequencing import PacketKey
from pregao.units import Side


@dataclass(frozen=True, slots=True)
class BookCopy:
    """The best levels of a book as of a packet of its channel, and the book's state.

    Levels keep mantissas of prices, and are converted when `bids` or `asks` are read. None is the
    price of orders that rank before all others (at auction, at market).
    """

    state: State
    reason: str
    packet_key: PacketKey | None
    bid_levels: tuple[BookLevel, ...]
    ask_levels: tuple[BookLevel, ...]

    @property
    def bids(self) -> tuple[Level, ...]:
        """The bid levels, best first, with decimal prices."""
        return levels(self.bid_levels)

    @property
    def asks(self) -> tuple[Level, ...]:
        """The ask levels, best first, with decimal prices."""
        return levels(self.ask_levels)

    def __repr__(self) -> str:
        return book_text(self.state.name.lower(), self.bids, self.asks)

    def _repr_html_(self) -> str:
        return ladder_html(self.state.name.lower(), self.bids, self.asks)

    @property
    def trusted(self) -> bool:
        """Whether the book equals the exchange's own as of `packet_key`."""
        return self.state in (State.VALID, State.EMPTY)

    @property
    def best_bid(self) -> Level | None:
        """The best bid level, or None."""
        return next(iter(levels(self.bid_levels[:1])), None)

    @property
    def best_ask(self) -> Level | None:
        """The best ask level, or None."""
        return next(iter(levels(self.ask_levels[:1])), None)


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
