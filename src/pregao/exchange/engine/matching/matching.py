"""Continuous trading: match an incoming order with the book, by price, then by priority."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import replace
from operator import itemgetter

from pregao.exchange.engine.book.listing import Listing
from pregao.exchange.engine.book.market import Market
from pregao.exchange.engine.book.order_book import BUY, BookSide, EngineOrder, key_of
from pregao.exchange.engine.matching.self_trade_prevention import SelfTradeAction, prevent
from pregao.exchange.engine.matching.statistics import (
    execution_statistics,
    matched,
    opening_and_range,
)
from pregao.exchange.engine.model.enums import AggressorSide, OrderSide, TrdSubType
from pregao.exchange.engine.model.events import (
    ChangeOrderMbo,
    DeleteOrderMbo,
    ExecutionSummary,
    MarketItem,
    NewOrderMbo,
)


class Execution:
    """Result of matching: trades, book updates and totals.

    Orders that enter the book in the same event share one.
    """

    __slots__ = (
        "blocked",
        "cancelled",
        "filled",
        "hidden",
        "last_px",
        "legs_closed",
        "must_stop",
        "prevented",
        "price",
        "ranks_before",
        "self_trade",
        "sub_type",
        "trades",
        "updates",
    )

    def __init__(self, updates: list[MarketItem] | None = None) -> None:
        self.trades: list[MarketItem] = []
        self.updates: list[MarketItem] = [] if updates is None else updates
        """Book updates, starting with those that the event made before matching."""
        self.prevented: list[MarketItem] = []
        """Resting orders canceled to prevent a self-trade: published before the trades."""
        self.sub_type: TrdSubType | None = None
        """Sub type of its trades, or None for regular ones."""
        self.price: int | None = None
        """Price of its trades if it is not that of the resting orders."""
        self.ranks_before: list[tuple[int, int]] | None = None
        """Ranks of the opposite side before matching, to recompute positions of updates."""
        self.cancelled = 0
        """Quantity canceled to prevent self-trades, of resting and incoming orders."""
        self.must_stop = False
        """Whether the incoming order must stop, because it would trade with its own investor."""
        self.legs_closed = False
        """Whether the legs of the user-defined spread cannot trade at the next price."""
        self.filled = 0
        """Quantity traded."""
        self.hidden = 0
        """Quantity traded against orders with a disclosed quantity."""
        self.last_px = 0
        """Price of the last trade."""
        self.blocked = False
        """Whether the next trade would call an auction: outside its band, or a self-trade."""
        self.self_trade = False
        """Whether the next trade would be a self-trade of an illiquid instrument."""


def tradable_within(listing: Listing, side: OrderSide, limit_key: int, enough: int) -> int:
    """Return the quantity that an order of this side could trade now, including hidden quantity.

    Levels are counted until they have ``enough``.
    """
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
    if listing.strategy is not None:
        limit_key = listing.strategy.limit_key(side, limit_key)
    return opposite.within(limit_key, enough)


def match(
    market: Market,
    listing: Listing,
    order: EngineOrder,
    limit_key: int,
    execution: Execution,
    now_ns: int,
    max_quantity: int | None = None,
) -> None:
    """Trade an incoming order with the opposite side as far as its limit and the band allow.

    ``max_quantity`` limits the quantity. Each trade is at the resting order's price. A fully
    displayed order leaves the book when it is filled; an iceberg is queued again at the end of its
    level with a new secondary order ID.
    """
    opposite = listing.opposite(order.side)
    investor = order.investor_id
    if market.track_positions and execution.ranks_before is None:
        # Of the first order already: a later one of the same execution may prevent a self-trade.
        execution.ranks_before = opposite.ranks()
    keys = opposite.keys
    levels = opposite.levels
    opening = listing.statistics.opening is None
    low, high = listing.auction_low, listing.auction_high
    trades, updates = execution.trades, execution.updates
    sub_type, fixed_price = execution.sub_type, execution.price
    strategy = listing.strategy
    leaves = order.leaves
    min_leaves = 0 if max_quantity is None or max_quantity > leaves else leaves - max_quantity
    while leaves > min_leaves and keys:
        key = keys[-1]  # the best level: worse levels have lower keys
        if key < limit_key:
            break
        level = levels[key]
        price = level.price
        resting = level.head
        # Orders without a price exist only in auctions.
        assert price is not None
        assert resting is not None
        if not low <= price <= high:
            execution.blocked = True
            break
        if (
            strategy is not None
            and not (order.implied or resting.implied)
            and not strategy.trades_at(price)
        ):
            execution.legs_closed = True
            break
        if investor and resting.investor_id == investor:
            prevented = execution.prevented
            verdict = prevent(market, listing, order, resting, limit_key, now_ns, prevented)
            if verdict is SelfTradeAction.CALLS_AUCTION:
                execution.blocked = execution.self_trade = True
                break
            if verdict is SelfTradeAction.NOT_IN_THIS_BOOK:
                investor = 0
            else:
                if resting.level is None:
                    execution.cancelled += resting.leaves
                if verdict is SelfTradeAction.INCOMING_ENDS:
                    execution.must_stop = True
                    break
                continue
        if fixed_price is not None:
            price = fixed_price
        visible = resting.visible
        remaining = leaves - min_leaves
        quantity = visible if visible < remaining else remaining
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
        trades.append(
            matched(
                market,
                listing,
                order,
                resting,
                quantity,
                price,
                opening,
                now_ns,
                sub_type=sub_type,
            )
        )
        consume(market, opposite, resting, quantity, now_ns, updates)


def consume(
    market: Market,
    side: BookSide,
    order: EngineOrder,
    quantity: int,
    now_ns: int,
    updates: list[MarketItem],
) -> None:
    """Update the book after a trade against a resting order's visible quantity."""
    position = side.position(order) if market.track_positions else None
    visible = order.visible
    if quantity < visible:
        order.visible = visible - quantity
        updates.append(ChangeOrderMbo(
            order.security_id, order.side, order.price, order.visible, visible,
            order.secondary_order_id, order.firm or None, order.insert_time_ns, now_ns, position,
            order.implied,
        ))  # fmt: skip
        return
    updates.append(
        DeleteOrderMbo(
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
        market.remove_from_indexes(order)
        return
    updates.append(replenish(market, side, order, now_ns))


def replenish(market: Market, side: BookSide, order: EngineOrder, now_ns: int) -> NewOrderMbo:
    """Show the next slice of an iceberg: a new secondary order ID, at the end of its level."""
    market.new_secondary_id(order)
    order.insert_time_ns = now_ns
    order.show()
    side.add(order)
    market.restated(order, now_ns)
    return NewOrderMbo(
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
) -> None:
    """Publish an execution as one event, in the order of the specification.

    Summary, orders canceled to prevent self-trades, trades, opening/high/low if they changed, book
    updates, statistics. Without a trade there are only the book updates.
    """
    if execution.prevented and execution.ranks_before is not None:
        _set_positions(execution, listing.opposite(OrderSide(aggressor)))
    if not execution.filled:
        market.publish(execution.prevented + execution.updates)
        return
    items: list[MarketItem] = [
        ExecutionSummary(
            listing.security_id,
            aggressor,
            execution.last_px,
            execution.filled,
            execution.hidden,
            execution.cancelled,
            received_ns,
            now_ns,
        )
    ]
    items.extend(execution.prevented)
    items.extend(execution.trades)
    opening_and_range(market, listing, items, now_ns)
    items.extend(execution.updates)
    items.append(execution_statistics(market, listing, now_ns))
    market.publish(items)


def _set_positions(execution: Execution, opposite: BookSide) -> None:
    """Recompute the positions of book updates, which are published in a different order."""
    ranks = execution.ranks_before
    assert ranks is not None
    side = opposite.side
    for items in (execution.prevented, execution.updates):
        for index, item in enumerate(items):
            if (
                not isinstance(item, NewOrderMbo | ChangeOrderMbo | DeleteOrderMbo)
                or item.side != side
            ):
                continue
            rank = (-key_of(side, item.price), item.secondary_order_id)
            if isinstance(item, NewOrderMbo):
                # At the end of its level: its secondary order ID may be an old one.
                position = bisect_right(ranks, rank[0], key=itemgetter(0))
                ranks.insert(position, rank)
            else:
                position = ranks.index(rank)
                if isinstance(item, DeleteOrderMbo):
                    del ranks[position]
            items[index] = replace(item, position=position + 1)
