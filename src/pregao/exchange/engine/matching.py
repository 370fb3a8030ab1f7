"""Continuous trading: an incoming order against the book, by price and then by priority."""

from __future__ import annotations

from pregao.exchange.engine.events import (
    ExecutionSummary,
    MarketItem,
    OrderAdded,
    OrderChanged,
    OrderDeleted,
)
from pregao.exchange.engine.listing import Listing
from pregao.exchange.engine.market import Market
from pregao.exchange.engine.orders import BUY, BookSide, Order
from pregao.exchange.engine.session_statistics import (
    execution_statistics,
    matched,
    opening_and_range,
)
from pregao.exchange.engine.terms import AggressorSide, Side


class Execution:
    """What came of matching one order: trades, what became of the book, and the sums."""

    __slots__ = ("blocked", "filled", "hidden", "last_px", "trades", "updates")

    def __init__(self) -> None:
        self.trades: list[MarketItem] = []
        self.updates: list[MarketItem] = []
        self.filled = 0
        self.hidden = 0
        """Quantity traded against orders that do not show all they have."""
        self.last_px = 0
        self.blocked = False
        """The next trade would leave the auction band."""


def tradable_within(listing: Listing, side: Side, limit_key: int, enough: int) -> int:
    """How much an order of this side could trade at once, hidden quantities included."""
    opposite = listing.opposite(side)
    best = opposite.best_price()
    if best is None:
        return 0
    if side == BUY:
        if best < listing.auction_low:
            return 0
        limit_key = max(limit_key, -listing.auction_high)
    else:
        if best > listing.auction_high:
            return 0
        limit_key = max(limit_key, listing.auction_low)
    return opposite.within(limit_key, enough)


def match(market: Market, listing: Listing, order: Order, limit_key: int, now_ns: int) -> Execution:
    """Trade an incoming order with the other side as far as its limit and the band allow.

    Each trade is at the resting order's price. An order fully shown leaves the book when it is
    filled; an iceberg comes back at the end of its level under a new number.
    """
    execution = Execution()
    opposite = listing.opposite(order.side)
    keys = opposite.keys
    levels = opposite.levels
    opening = listing.statistics.opening is None
    low, high = listing.auction_low, listing.auction_high
    trades, updates = execution.trades, execution.updates
    leaves = order.leaves
    while leaves and keys:
        key = keys[-1]
        if key < limit_key:
            break
        level = levels[key]
        price = level.price
        resting = level.head
        # Orders without a price live only in auctions.
        assert price is not None
        assert resting is not None
        if not low <= price <= high:
            execution.blocked = True
            break
        visible = resting.visible
        quantity = visible if visible < leaves else leaves
        leaves -= quantity
        order.leaves = leaves
        order.cum += quantity
        resting.leaves -= quantity
        resting.cum += quantity
        level.quantity -= quantity
        execution.filled += quantity
        execution.last_px = price
        if resting.max_floor:
            execution.hidden += quantity
        trades.append(matched(market, listing, order, resting, quantity, price, opening, now_ns))
        consume(market, opposite, resting, quantity, now_ns, updates)
    return execution


def consume(
    market: Market,
    side: BookSide,
    order: Order,
    quantity: int,
    now_ns: int,
    updates: list[MarketItem],
) -> None:
    """Show in the book what a trade took of a resting order's visible quantity."""
    position = side.position(order) if market.track_positions else None
    visible = order.visible
    if quantity < visible:
        order.visible = visible - quantity
        updates.append(
            OrderChanged(
                order.security_id,
                order.side,
                order.price,
                order.visible,
                visible,
                order.secondary_order_id,
                order.firm or None,
                order.insert_time_ns,
                now_ns,
                position,
                order.implied,
            )
        )
        return
    updates.append(
        OrderDeleted(
            order.security_id,
            order.side,
            order.price,
            visible,
            order.secondary_order_id,
            now_ns,
            position,
            order.implied,
            True,
        )
    )
    side.remove(order)
    if not order.leaves:
        order.visible = 0
        market.forget(order)
        return
    updates.append(replenish(market, side, order, now_ns))


def replenish(market: Market, side: BookSide, order: Order, now_ns: int) -> OrderAdded:
    """Show the next slice of an iceberg: a new number, at the end of its price."""
    market.new_secondary_id(order)
    order.insert_time_ns = now_ns
    order.show()
    side.add(order)
    market.restated(order, now_ns)
    return OrderAdded(
        order.security_id,
        order.side,
        order.price,
        order.visible,
        order.secondary_order_id,
        order.firm or None,
        now_ns,
        now_ns,
        side.position(order) if market.track_positions else None,
        order.implied,
    )


def execution_event(
    market: Market,
    listing: Listing,
    execution: Execution,
    aggressor: AggressorSide,
    received_ns: int,
    now_ns: int,
    updates: list[MarketItem],
) -> None:
    """Publish an execution as one event, in the order that the specification gives.

    Summary, trades, opening/high/low where they changed, book updates, statistics.
    """
    items: list[MarketItem] = [
        ExecutionSummary(
            listing.security_id,
            aggressor,
            execution.last_px,
            execution.filled,
            execution.hidden,
            0,
            received_ns,
            now_ns,
        )
    ]
    items.extend(execution.trades)
    opening_and_range(market, listing, items, now_ns)
    items.extend(updates)
    items.append(execution_statistics(market, listing, now_ns))
    market.tell(items)
