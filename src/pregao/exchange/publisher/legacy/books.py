"""Book entries of the legacy feed: orders with their position, or price levels (002 §9).

Price-depth and top-of-book sides are aggregated from orders; changes of their levels are published.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from sortedcontainers import SortedDict

from pregao.exchange.engine.book.order_book import key_of
from pregao.exchange.engine.model.enums import OrderSide
from pregao.exchange.engine.model.events import (
    ChangeOrderMbo,
    DeleteOrderMbo,
    MassDeleteOrders,
    NewOrderMbo,
)
from pregao.exchange.publisher.encoding.orders import OrderItem
from pregao.exchange.publisher.legacy.entries import Values, at, decimal_of
from pregao.exchange.publisher.published_state import PublishedChannel, PublishedInstrument
from pregao.feed.legacy.book_updates import (
    CHANGE,
    DELETE,
    DELETE_THRU,
    IMPLIED,
    NEW,
    OVERLAY,
    RETRANSMITTED,
)
from pregao.legacy.times import date_digits, time_digits

BookItem = NewOrderMbo | ChangeOrderMbo | DeleteOrderMbo | MassDeleteOrders
"""Events that change a book."""
_TYPES = {OrderSide.BUY: "0", OrderSide.SELL: "1"}
_FIRMS = {OrderSide.BUY: "MDEntryBuyer", OrderSide.SELL: "MDEntrySeller"}


class DepthLevel(NamedTuple):
    """A price level."""

    price: int | None
    size: int
    orders: int


class LevelChange(NamedTuple):
    """A change of a published level."""

    action: int
    position: int
    row: DepthLevel | None
    """The level; None if it is deleted."""


class DepthSide:
    """Price levels of a side, of which the first ``depth`` are published."""

    def __init__(self, side: OrderSide, depth: int) -> None:
        self._side = side
        self._depth = depth
        self._levels: SortedDict[int, DepthLevel] = SortedDict()
        """Levels by price key, best last."""
        self._shown: list[DepthLevel] = []

    @property
    def shown(self) -> list[DepthLevel]:
        """Published levels, best first."""
        return list(self._shown)

    def add(self, price: int | None, size: int, orders: int) -> Iterator[LevelChange]:
        """Add size and orders at a price (negative: remove); yield the changes to publish."""
        key = key_of(self._side, price)
        row = self._levels.get(key, DepthLevel(price, 0, 0))
        row = DepthLevel(price, row.size + size, row.orders + orders)
        if row.orders:
            self._levels[key] = row
        else:
            self._levels.pop(key, None)
        return self._update()

    def clear(self) -> None:
        """Remove all levels."""
        self._levels.clear()
        self._shown = []

    def _update(self) -> Iterator[LevelChange]:
        best = list(reversed(self._levels.values()[-self._depth :]))
        if self._depth == 1:
            yield from self._overlay(best)
            return
        shown = self._shown
        for position in range(len(shown), 0, -1):
            if key_of(self._side, shown[position - 1].price) not in self._levels:
                yield LevelChange(DELETE, position, None)
                del shown[position - 1]
        for position, row in enumerate(best, 1):
            if position > len(shown) or shown[position - 1].price != row.price:
                # Levels that drop off the bottom are not published (002 §9.2.1).
                yield LevelChange(NEW, position, row)
                shown.insert(position - 1, row)
                del shown[self._depth :]
            elif shown[position - 1] != row:
                yield LevelChange(CHANGE, position, row)
                shown[position - 1] = row

    def _overlay(self, best: list[DepthLevel]) -> Iterator[LevelChange]:
        """Yield the overlay of the top of a book (002 §9.2.2)."""
        if best == self._shown:
            return
        if best:
            yield LevelChange(OVERLAY, 1, best[0])
        else:
            yield LevelChange(DELETE, 1, None)
        self._shown = best


def _quote_condition(order: OrderItem, recovery: bool) -> str | None:
    conditions = [IMPLIED] if order.implied else []
    if recovery:
        conditions.append(RETRANSMITTED)
    return " ".join(conditions) or None


def order_values(order: OrderItem, position: int, *, recovery: bool = False) -> Values:
    """Return the fields of an order at a position."""
    return {
        "MDEntryType": _TYPES[order.side],
        "MDEntryPositionNo": position,
        "MDEntryPx": decimal_of(order.price),
        "MDEntrySize": order.size,
        "OrderID": str(order.secondary_order_id),
        _FIRMS[order.side]: None if order.firm is None else str(order.firm),
        "QuoteCondition": _quote_condition(order, recovery),
        "MDInsertDate": date_digits(order.insert_time_ns),
        "MDInsertTime": time_digits(order.insert_time_ns),
    }


def level_values(side: OrderSide, row: DepthLevel, position: int) -> Values:
    """Return the fields of a price level at a position."""
    return {
        "MDEntryType": _TYPES[side],
        "MDEntryPositionNo": position,
        "MDEntryPx": decimal_of(row.price),
        "MDEntrySize": row.size,
        "NumberOfOrders": row.orders,
    }


class OrderBooks:
    """Books by order depth: every order is published with its position."""

    market_depth: int | None = None

    def __init__(self, state: PublishedChannel) -> None:
        self._state = state

    def entries(self, item: BookItem) -> list[Values]:
        """Apply a change to the published book and return its entries."""
        side = self._state.instruments[item.security_id].side(item.side)
        ranked = side.ranked
        assert ranked is not None
        when = at(item.transact_time_ns)
        match item:
            case NewOrderMbo():
                side.orders[item.secondary_order_id] = item
                values = order_values(item, ranked.add(item), recovery=item.recovery)
                return [{"MDUpdateAction": NEW, **values, **when}]
            case ChangeOrderMbo():
                side.orders[item.secondary_order_id] = item
                values = order_values(item, ranked.position(item))
                return [{"MDUpdateAction": CHANGE, **values, **when}]
            case DeleteOrderMbo():
                side.orders.pop(item.secondary_order_id, None)
                return [_deleted(item.side, DELETE, ranked.remove(item)) | when]
            case MassDeleteOrders():
                side.clear()
                return [_deleted(item.side, DELETE_THRU, 1) | when]

    def empty(self, security_ids: Iterable[int]) -> None:
        """Do nothing: the published state already has no orders."""

    def snapshot(self, instrument: PublishedInstrument) -> Iterator[Values]:
        """Yield the entries of a book in a snapshot."""
        for published in (instrument.bids, instrument.offers):
            for position, order in enumerate(published.in_order(), 1):
                yield order_values(order, position)


class PriceBooks:
    """Books by price depth, or only their top, aggregated from orders."""

    def __init__(self, state: PublishedChannel, market_depth: int) -> None:
        self.market_depth: int | None = market_depth
        self._depth = market_depth
        self._state = state
        self._sides: dict[tuple[int, OrderSide], DepthSide] = {}

    def _side(self, security_id: int, side: OrderSide) -> DepthSide:
        found = self._sides.get((security_id, side))
        if found is None:
            found = self._sides[security_id, side] = DepthSide(side, self._depth)
        return found

    def entries(self, item: BookItem) -> list[Values]:
        """Apply a change to the published book and its levels, and return its entries."""
        orders = self._state.instruments[item.security_id].side(item.side).orders
        levels = self._side(item.security_id, item.side)
        when = at(item.transact_time_ns)
        changes: list[LevelChange] = []
        recovery = False
        match item:
            case NewOrderMbo():
                orders[item.secondary_order_id] = item
                changes += levels.add(item.price, item.size, 1)
                recovery = item.recovery
            case ChangeOrderMbo():
                before = orders[item.secondary_order_id]
                orders[item.secondary_order_id] = item
                if before.price == item.price:
                    changes += levels.add(item.price, item.size - before.size, 0)
                else:
                    changes += levels.add(before.price, -before.size, -1)
                    changes += levels.add(item.price, item.size, 1)
            case DeleteOrderMbo():
                removed = orders.pop(item.secondary_order_id, None)
                if removed is not None:
                    changes += levels.add(removed.price, -removed.size, -1)
            case MassDeleteOrders():
                orders.clear()
                levels.clear()
                return [_deleted(item.side, DELETE_THRU, 1) | when]
        book_entries = []
        for action, position, row in changes:
            if row is None:
                book_entries.append(_deleted(item.side, action, position) | when)
            else:
                values = level_values(item.side, row, position)
                values["QuoteCondition"] = RETRANSMITTED if recovery else None
                book_entries.append({"MDUpdateAction": action, **values, **when})
        return book_entries

    def empty(self, security_ids: Iterable[int]) -> None:
        """Remove the levels of emptied books."""
        for security_id in security_ids:
            for side in _TYPES:
                self._side(security_id, side).clear()

    def snapshot(self, instrument: PublishedInstrument) -> Iterator[Values]:
        """Yield the levels of a book in a snapshot."""
        for side in _TYPES:
            for position, row in enumerate(self._side(instrument.security_id, side).shown, 1):
                yield level_values(side, row, position)


def _deleted(side: OrderSide, action: int, position: int) -> Values:
    return {
        "MDUpdateAction": action,
        "MDEntryType": _TYPES[side],
        "MDEntryPositionNo": position,
    }
