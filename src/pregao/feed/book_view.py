"""Read-only view of a book of a followed channel, with its state."""

from __future__ import annotations

from dataclasses import dataclass

from pregao.book.price_depth_book import PriceDepthBook
from pregao.book.state import State
from pregao.book.order_book import OrderBook
from pregao.book.updates import Side
from pregao.book.views import BookLevel, BookOrder
from pregao.umdf.sequencing import PacketKey


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
        """Whether the book equals the exchange's own as of `place`."""
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
