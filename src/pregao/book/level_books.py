"""Cheaper books built from order messages: price levels without orders, top of book, ticks.

They need the past values in messages: the size before a change (from schema version 16 on), and
the price and size of a deleted order. Feeds without these values cannot be followed this way. Ticks
are the best levels of a book after each event that changed them.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from dataclasses import dataclass

from pregao.book.base_book import BaseBook, raise_inconsistent
from pregao.book.state import BookFault, FaultCode, State
from pregao.book.updates import (
    MessageKey,
    OrderAdded,
    OrderChanged,
    OrderDeleted,
    SnapshotOrder,
    Update,
)
from pregao.book.views import BookLevel, PriceRank, price_rank, ranked_price
from pregao.units import Side


class TopOfBook(BaseBook):
    """The best level of each side; after it is lost, the next best is searched on demand."""

    __slots__ = ("_best", "_totals")

    def __init__(self) -> None:
        super().__init__()
        self._wipe()

    def _wipe(self) -> None:
        # Totals of the orders by price.
        self._totals: tuple[dict[int | None, BookLevel], dict[int | None, BookLevel]] = ({}, {})
        self._best: list[PriceRank | None] = [None, None]

    def walk_levels(self, side: Side) -> Iterator[BookLevel]:
        """Yield the best level of a side, if there is one."""
        totals = self._totals[side]
        if not totals:
            return
        best = self._best[side]
        if best is None:
            best = self._best[side] = min(price_rank(side, price) for price in totals)
        yield totals[ranked_price(side, best)]

    def best_price(self, side: Side) -> int | None:
        """Return the best price of a side, ignoring orders without a price."""
        prices = [price for price in self._totals[side] if price is not None]
        if not prices:
            return None
        return max(prices) if side is Side.BID else min(prices)

    def _occupied(self) -> bool:
        return any(self._totals)

    def _counts(self) -> tuple[int, int]:
        bids, asks = (sum(lv.orders for lv in totals.values()) for totals in self._totals)
        return bids, asks

    def _opened(self, side: Side, price: int | None) -> None:
        """Update the best price after a level was added."""
        best = self._best[side]
        if best is not None or len(self._totals[side]) == 1:
            rank = price_rank(side, price)
            self._best[side] = rank if best is None else min(best, rank)

    def _closed(self, side: Side, price: int | None) -> None:
        """Update the best price after a level was removed."""
        if self._best[side] == price_rank(side, price):
            self._best[side] = None

    def _level(
        self, update: OrderChanged | OrderDeleted, size: int | None
    ) -> tuple[BookLevel, int]:
        if size is None:
            raise_inconsistent(
                FaultCode.NO_PREVIOUS_SIZE,
                "a book of levels needs the size before a change and the size of deleted orders",
            )
        level = self._totals[update.side].get(update.price)
        if level is None:
            raise_inconsistent(FaultCode.UNKNOWN_LEVEL, f"no orders at price {update.price}")
        return level, size

    def _put(self, side: Side, level: BookLevel) -> None:
        """Set the totals of a level, if they are possible."""
        if level.size < 0 or level.orders == 0 < level.size:
            raise_inconsistent(
                FaultCode.WRONG_PREVIOUS_SIZE,
                f"price {level.price} would have {level.orders} orders of size {level.size}",
            )
        totals = self._totals[side]
        if level.orders == 0:
            del totals[level.price]
            self._closed(side, level.price)
            return
        new = level.price not in totals
        totals[level.price] = level
        if new:
            self._opened(side, level.price)

    def _add(self, update: OrderAdded | SnapshotOrder) -> None:
        level = self._totals[update.side].get(update.price, BookLevel(update.price, 0, 0))
        self._put(update.side, BookLevel(update.price, level.size + update.size, level.orders + 1))

    def _change(self, update: OrderChanged) -> None:
        level, previous = self._level(update, update.previous_size)
        self._put(update.side, level._replace(size=level.size + update.size - previous))

    def _delete(self, update: OrderDeleted) -> None:
        level, size = self._level(update, update.size)
        self._put(update.side, BookLevel(level.price, level.size - size, level.orders - 1))

    def _clear(self, side: Side) -> None:
        self._totals[side].clear()
        self._best[side] = None

    def _remove_top(self, side: Side, position: int) -> None:
        raise_inconsistent(
            FaultCode.NO_ORDERS_KEPT,
            f"positions 1 to {position} of the {side.name.lower()} side were deleted, and a book of"
            " levels does not know their orders",
        )


class LevelsBook(TopOfBook):
    """All price levels, without orders."""

    __slots__ = ("_ladders",)

    def _wipe(self) -> None:
        super()._wipe()
        self._ladders: tuple[list[PriceRank], list[PriceRank]] = ([], [])

    def walk_levels(self, side: Side) -> Iterator[BookLevel]:
        """Yield the levels of a side, best first."""
        totals = self._totals[side]
        for rank in self._ladders[side]:
            yield totals[ranked_price(side, rank)]

    def best_price(self, side: Side) -> int | None:
        """Return the best price of a side, ignoring orders without a price."""
        return next((lv.price for lv in self.walk_levels(side) if lv.price is not None), None)

    def _opened(self, side: Side, price: int | None) -> None:
        insort(self._ladders[side], price_rank(side, price))

    def _closed(self, side: Side, price: int | None) -> None:
        ladder = self._ladders[side]
        del ladder[bisect_left(ladder, price_rank(side, price))]

    def _clear(self, side: Side) -> None:
        super()._clear(side)
        self._ladders[side].clear()


@dataclass(frozen=True, slots=True)
class Tick:
    """The best levels after an event."""

    event: int
    key: MessageKey
    """The event's last message about this book."""
    state: State
    bids: tuple[BookLevel, ...]
    asks: tuple[BookLevel, ...]


class TickBuilder:
    """Follows one book through its updates and returns a tick when an event changed the top.

    An event ends when an update of another event arrives, or when the caller ends it; a change
    that is undone within an event makes no tick. A book that becomes stale or unconfirmed, or
    valid again, makes a tick too: readers must not mistake the last levels of an untrusted book
    for the market.
    """

    __slots__ = ("_event", "_key", "_last", "book", "depth")

    def __init__(self, book: BaseBook, depth: int) -> None:
        self.book = book
        self.depth = depth
        self._event: int | None = None
        self._key: MessageKey | None = None
        self._last: tuple[State | None, tuple[BookLevel, ...], tuple[BookLevel, ...]] = (
            None,
            (),
            (),
        )

    def apply(self, event: int, update: Update) -> tuple[Tick | None, BookFault | None]:
        """Apply an update; return the tick of the previous event, if due, and the fault."""
        tick = None if event == self._event else self.end_event()
        self._event = event
        self._key = update.key
        return tick, self.book.apply(update)

    def end_event(self) -> Tick | None:
        """End the current event; return its tick, if it changed the levels or their state."""
        event, key = self._event, self._key
        self._event = None
        if event is None or key is None:
            return None
        state = self.book.state
        bids = tuple(self.book.levels(Side.BID, self.depth))
        asks = tuple(self.book.levels(Side.ASK, self.depth))
        doubtful = state if state in (State.STALE, State.UNCONFIRMED) else None
        now = (doubtful, bids, asks)
        if now == self._last:
            return None
        self._last = now
        return Tick(event, key, state, bids, asks)
