"""A book of a followed channel, to read: what is in it, and how far it can be trusted now."""

from __future__ import annotations

from dataclasses import dataclass

from pregao.book.depth import PriceDepthBook
from pregao.book.faults import State
from pregao.book.orders import OrderBook
from pregao.book.updates import Side
from pregao.book.views import Level, Order
from pregao.umdf.sequencing import Place


@dataclass(frozen=True, slots=True)
class ChannelBook:
    """A book as it is now; it goes on changing with the channel, its state does not."""

    security_id: int
    state: State
    place: Place | None
    """The last packet that was taken in when it was asked for; None before the first."""
    reason: str
    """A sentence about the state."""
    content: OrderBook | PriceDepthBook
    """The book itself, for all that it can answer. It is not to be changed."""

    @property
    def trusted(self) -> bool:
        """Does it equal the exchange's own, as of its place?"""
        return self.state in (State.VALID, State.EMPTY)

    def levels(self, side: Side, depth: int | None = None) -> list[Level]:
        """The best levels of a side, best first; all of them unless a depth is given."""
        return self.content.levels(side, depth)

    def orders(self, side: Side) -> list[Order]:
        """The orders of a side as they would trade, one by one; a book by prices has none."""
        return self.content.orders(side) if isinstance(self.content, OrderBook) else []

    @property
    def bids(self) -> list[Level]:
        """The levels to sell to, best first."""
        return self.content.levels(Side.BID)

    @property
    def asks(self) -> list[Level]:
        """The levels to buy from, best first."""
        return self.content.levels(Side.ASK)

    @property
    def best_bid(self) -> Level | None:
        """The best level to sell to."""
        return self.content.best_bid

    @property
    def best_ask(self) -> Level | None:
        """The best level to buy from."""
        return self.content.best_ask
