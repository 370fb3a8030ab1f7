"""Spreads and their legs: implied orders from the legs' books, and leg trades of a spread.

An implied-in order of a spread represents orders of its legs at their best prices: an order that
trades with it trades with them. A trade between two orders of a user-defined spread is published in
the legs as well, at prices that add up to it: they trade only while all legs are open and have such
prices within their hard limits. Each instrument has a separate event.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pregao.exchange.engine.book.listing import Listing
from pregao.exchange.engine.book.market import Market, SpreadFill
from pregao.exchange.engine.book.order_book import BUY, BookSide, EngineOrder, LegOrder
from pregao.exchange.engine.matching.matching import Execution, execution_event, match
from pregao.exchange.engine.matching.price_bands import hard_limits
from pregao.exchange.engine.matching.statistics import matched
from pregao.exchange.engine.model.enums import (
    RATIO_SCALE,
    AggressorSide,
    OrderSide,
    OrdType,
    TimeInForce,
    TrdSubType,
)
from pregao.exchange.engine.model.events import ChangeOrderMbo, MarketItem
from pregao.exchange.engine.model.instruments import MultiLegModel
from pregao.exchange.engine.model.operations_commands import MARKET_OPERATIONS
from pregao.exchange.engine.orders.order_cancel import refresh_auction
from pregao.exchange.engine.phases.trading_phases import OPEN

_AGGRESSOR = {OrderSide.BUY: AggressorSide.BUY, OrderSide.SELL: AggressorSide.SELL}


class SpreadLeg(NamedTuple):
    """A leg of a spread: the side that a buyer of the spread takes in it, and its ratio."""

    listing: Listing
    side: OrderSide
    ratio: int

    @property
    def weight(self) -> int:
        """Signed ratio of its price in that of the spread."""
        return self.ratio if self.side == BUY else -self.ratio

    def side_for(self, side: OrderSide) -> OrderSide:
        """Return the side in this leg of a buyer or seller of the spread."""
        return side if self.side == BUY else OrderSide(3 - side)


class Spread:
    """A multileg instrument whose legs are listed, with the implied orders in its book."""

    __slots__ = ("implied", "legs", "listing")

    def __init__(self, listing: Listing, legs: tuple[SpreadLeg, ...]) -> None:
        self.listing = listing
        self.legs = legs
        self.implied: dict[OrderSide, EngineOrder] = {}

    @property
    def closed_leg(self) -> Listing | None:
        """First leg that is not open, or None: then no leg can trade."""
        return next((leg.listing for leg in self.legs if leg.listing.status != OPEN), None)

    def trades_at(self, price: int) -> bool:
        """Whether all legs can trade at prices that add up to this one."""
        return self.closed_leg is None and self.leg_prices(price) is not None

    def leg_prices(self, price: int) -> list[int] | None:
        """Return prices of the legs that add up to a price of the spread, or None."""
        return _leg_prices(self, price)

    def limit_key(self, side: OrderSide, limit_key: int) -> int:
        """Return the worst key of the opposite side that an order of this side can trade with.

        Prices at which the legs cannot trade end the walk, whatever follows them.
        """
        opposite = self.listing.opposite(side)
        for key in reversed(opposite.keys):
            price = opposite.levels[key].price
            if key < limit_key:
                break
            if price is not None and not self.trades_at(price):
                return key + 1
        return limit_key


def register(market: Market, listing: Listing) -> None:
    """Register a spread if its legs are listed and its ratios are integers."""
    instrument = listing.instrument
    legs = tuple(
        SpreadLeg(market.listings[leg.security_id], leg.side, leg.ratio_qty // RATIO_SCALE)
        for leg in instrument.legs
        if leg.security_id in market.listings and leg.ratio_qty % RATIO_SCALE == 0
    )
    if not legs or len(legs) < len(instrument.legs):
        return
    spread = market.spreads[listing.security_id] = Spread(listing, legs)
    if instrument.multi_leg_model == MultiLegModel.USER_DEFINED:
        listing.strategy = spread
    if instrument.implied_market_indicator:
        for security_id in (listing.security_id, *(leg.listing.security_id for leg in legs)):
            market.implied_of.setdefault(security_id, []).append(spread)


def unregister(market: Market, security_id: int, now_ns: int) -> None:
    """Remove a delisted spread, or the spreads with a delisted leg."""
    for spread in list(market.spreads.values()):
        security_ids = (
            spread.listing.security_id,
            *(leg.listing.security_id for leg in spread.legs),
        )
        if security_id in security_ids:
            items: list[MarketItem] = []
            for order in spread.implied.values():
                if order.order_id in market.orders:
                    items.append(market.remove_from_book(spread.listing, order, now_ns))
                    market.remove_from_indexes(order)
            market.publish(items)
            del market.spreads[spread.listing.security_id]
            spread.listing.strategy = None
            for found in market.implied_of.values():
                if spread in found:
                    found.remove(spread)


# Implied orders


def refresh_implied(market: Market, now_ns: int) -> None:
    """Refresh the implied orders of the spreads whose books or legs have changed."""
    touched, market.touched = market.touched, set()
    spreads = {
        spread.listing.security_id: spread
        for security_id in touched
        for spread in market.implied_of.get(security_id, ())
    }
    for spread in spreads.values():
        for side in (OrderSide.BUY, OrderSide.SELL):
            _refresh(market, spread, side, now_ns)


def _refresh(market: Market, spread: Spread, side: OrderSide, now_ns: int) -> None:
    """Update one implied order: in its position if possible, else by deletion and a new order."""
    order = spread.implied.get(side)
    if order is not None and order.order_id not in market.orders:
        # It was filled, or removed by market operations.
        order = None
        del spread.implied[side]
    derived = _derive(spread, side)
    items: list[MarketItem] = []
    listing = spread.listing
    if order is not None:
        if derived is not None and derived[0] == order.price and derived[1] <= order.leaves:
            _shrink(market, listing, order, derived[1], items, now_ns)
            market.publish(items)
            return
        items.append(market.remove_from_book(listing, order, now_ns))
        market.remove_from_indexes(order)
        del spread.implied[side]
    if derived is None:
        refresh_auction(market, listing, items, now_ns)
        market.publish(items)
        return
    price, quantity = derived
    order = spread.implied[side] = _new_implied(market, listing, side, price, quantity, now_ns)
    execution = Execution(items)
    match(market, listing, order, -price if side == BUY else price, execution, now_ns)
    if order.leaves and not execution.blocked:
        order.show()
        market.orders[order.order_id] = order
        execution.updates.append(market.add_to_book(listing, order, now_ns))
    execution_event(market, listing, execution, _AGGRESSOR[side], now_ns, now_ns)
    # The legs trade before another spread derives an order from the same leg orders.
    trade_legs(market, now_ns)
    if order.order_id not in market.orders:
        del spread.implied[side]


def _shrink(
    market: Market,
    listing: Listing,
    order: EngineOrder,
    quantity: int,
    items: list[MarketItem],
    now_ns: int,
) -> None:
    """Reduce an implied order; it keeps its position."""
    if quantity == order.leaves:
        return
    side = listing.side(order.side)
    before = order.visible
    side.resize(order, quantity)
    order.quantity -= before - quantity
    order.visible = quantity
    items.append(
        ChangeOrderMbo(
            order.security_id,
            order.side,
            order.price,
            quantity,
            before,
            order.secondary_order_id,
            None,
            order.insert_time_ns,
            now_ns,
            side.position(order) if market.track_positions else None,
            True,
        )
    )


def _derive(spread: Spread, side: OrderSide) -> tuple[int, int] | None:
    """Return the price and quantity that the legs imply for one side of a spread, or None."""
    listing = spread.listing
    if listing.status != OPEN:
        return None
    price = 0
    quantity: int | None = None
    for leg in spread.legs:
        best = None
        if leg.listing.status == OPEN:
            best = _best(leg.listing.side(leg.side_for(side)))
        if best is None or not _within_limits(leg.listing, best[0]):
            return None
        price += leg.weight * best[0]
        capacity = best[1] // leg.ratio
        quantity = capacity if quantity is None else min(quantity, capacity)
    assert quantity is not None
    quantity = quantity // listing.lot * listing.lot
    low = max(listing.reject_low, listing.auction_low)
    high = min(listing.reject_high, listing.auction_high)
    if not quantity or price % listing.tick or not low <= price <= high:
        return None
    return price, quantity


def _best(side: BookSide) -> tuple[int, int] | None:
    """Return the best price of a side and its visible quantity, without implied orders."""
    for key in reversed(side.keys):
        level = side.levels[key]
        shown = sum(order.visible for order in level if not order.implied)
        if level.price is not None and shown:
            return level.price, shown
    return None


def _within_limits(leg: Listing, price: int) -> bool:
    """Whether a leg can trade at a price without an auction: otherwise only the others would."""
    low, high = hard_limits(leg)
    return max(low, leg.auction_low) <= price <= min(high, leg.auction_high)


def _new_implied(
    market: Market, listing: Listing, side: OrderSide, price: int, quantity: int, now_ns: int
) -> EngineOrder:
    """Create an implied order: it has no owner, and no reports."""
    market.order_id += 1
    order = EngineOrder(
        market.order_id,
        0,
        MARKET_OPERATIONS,
        0,
        market.order_id,
        listing.security_id,
        side,
        price,
        quantity,
        OrdType.LIMIT,
        TimeInForce.DAY,
        0,
        0,
        now_ns,
    )
    order.implied = True
    market.new_secondary_id(order)
    return order


# Trades of spreads


def trade_legs(market: Market, now_ns: int) -> None:
    """Trade the legs of fills in spreads, one event per leg."""
    fills, market.spread_fills = market.spread_fills, []
    for fill in fills:
        spread = market.spreads.get(fill.security_id)
        if spread is None:
            continue
        user_defined = spread.listing.instrument.multi_leg_model == MultiLegModel.USER_DEFINED
        protections = market.protections
        if user_defined:
            # Neither user-defined spreads nor their legs count for market protections.
            market.protections = {}
        # Implied orders that market operations entered represent no leg orders.
        derived = spread.implied.values()
        if fill.order in derived:
            _trade_with_legs(market, spread, fill.resting, fill, now_ns)
        elif fill.resting in derived:
            _trade_with_legs(market, spread, fill.order, fill, now_ns)
        elif user_defined:
            _publish_legs(market, spread, fill, now_ns)
        market.protections = protections


def _trade_with_legs(
    market: Market, spread: Spread, owner: EngineOrder, fill: SpreadFill, now_ns: int
) -> None:
    """Trade the owner with the leg orders that an implied order represents, at their prices.

    A price improvement of the spread goes to the first leg that can absorb it.
    """
    best = {
        leg.listing.security_id: _best(leg.listing.opposite(leg.side_for(owner.side)))
        for leg in spread.legs
    }
    prices = {security_id: found[0] for security_id, found in best.items() if found is not None}
    assert len(prices) == len(spread.legs)
    improvement = fill.price - sum(
        leg.weight * prices[leg.listing.security_id] for leg in spread.legs
    )
    absorbing = _absorbing_leg(spread, prices, improvement) if improvement else None
    for leg in spread.legs:
        side = leg.side_for(owner.side)
        price = prices[leg.listing.security_id]
        execution = Execution()
        execution.sub_type = TrdSubType.LEG_TRADE
        if leg is absorbing:
            execution.price = price + improvement * leg.weight
        order = _leg_order(leg, owner, side, price, fill.quantity * leg.ratio, now_ns)
        limit_key = -price if side == BUY else price
        match(market, leg.listing, order, limit_key, execution, now_ns)
        execution_event(market, leg.listing, execution, _AGGRESSOR[side], now_ns, now_ns)
        market.touched.add(leg.listing.security_id)


def _absorbing_leg(spread: Spread, prices: dict[int, int], improvement: int) -> SpreadLeg | None:
    """Return the first leg of ratio 1 that stays within its limits, or else the first one."""
    legs = [leg for leg in spread.legs if leg.ratio == 1]
    for leg in legs:
        price = prices[leg.listing.security_id] + improvement * leg.weight
        if _within_limits(leg.listing, price):
            return leg
    return legs[0] if legs else None


def _publish_legs(market: Market, spread: Spread, fill: SpreadFill, now_ns: int) -> None:
    """Publish in the legs what two orders of a spread traded with each other."""
    prices = spread.leg_prices(fill.price)
    if prices is None:
        return  # of an order that market operations entered
    for leg, price in zip(spread.legs, prices, strict=True):
        quantity = fill.quantity * leg.ratio
        execution = Execution()
        execution.sub_type = TrdSubType.LEG_TRADE
        execution.filled = quantity
        execution.last_px = price
        parties = []
        for owner in (fill.order, fill.resting):
            side = leg.side_for(owner.side)
            party = _leg_order(leg, owner, side, price, quantity, now_ns)
            party.implied = False
            party.leaves = 0
            party.cum = quantity
            parties.append(party)
        order, resting = parties
        opening = leg.listing.statistics.opening is None
        execution.trades.append(
            matched(
                market,
                leg.listing,
                order,
                resting,
                quantity,
                price,
                opening,
                now_ns,
                sub_type=TrdSubType.LEG_TRADE,
            )
        )
        aggressor = _AGGRESSOR[order.side]
        execution_event(market, leg.listing, execution, aggressor, now_ns, now_ns)


def _leg_prices(spread: Spread, price: int) -> list[int] | None:
    """Return prices of the legs that add up to that of the spread, or None if there are none.

    Each leg is at its reference price, except the one with the smallest ratio, which absorbs the
    difference. If the difference is not divisible by its ratio, another leg moves by a few ticks.
    Legs move further where the hard limits of the absorbing one require it.
    """
    tick = spread.listing.tick
    prices: list[int] = []
    limits: list[tuple[int, int]] = []
    for leg in spread.legs:
        reference = leg.listing.reference_price()
        if reference is None:
            return None
        low, high = _ticks_within_limits(leg.listing)
        if low > high:
            return None
        prices.append(min(max(reference // leg.listing.tick, low), high))
        limits.append((low, high))
    weights = [leg.weight for leg in spread.legs]
    missing, rest = divmod(price, tick)
    if rest:
        return None
    missing -= sum(w * each for w, each in zip(weights, prices, strict=True))
    found = _absorb(weights, prices, limits, missing)
    return None if found is None else [each * tick for each in found]


def _ticks_within_limits(leg: Listing) -> tuple[int, int]:
    """Return the lowest and the highest price at which a leg can trade, in ticks."""
    low, high = hard_limits(leg)
    if not leg.instrument.allows_any_sign:
        low = max(low, 1)
    return -(-low // leg.tick), high // leg.tick


def _absorb(
    weights: Sequence[int],
    prices: Sequence[int],
    limits: Sequence[tuple[int, int]],
    missing: int,
) -> list[int] | None:
    """Move prices by ``missing`` in total, counted with their weights, or return None."""
    by_ratio = sorted(range(len(weights)), key=lambda index: (abs(weights[index]), -index))
    adjusted, *others = by_ratio
    weight = weights[adjusted]
    low, high = limits[adjusted]
    moved = list(prices)
    # What the adjusted leg cannot absorb within its limits is left to the others, in turn.
    bounds = sorted((weight * (low - prices[adjusted]), weight * (high - prices[adjusted])))
    for other in others:
        excess = missing - min(max(missing, bounds[0]), bounds[1])
        if not excess:
            break
        own = weights[other]
        steps = -(-abs(excess) // abs(own)) * (1 if (excess > 0) == (own > 0) else -1)
        at = min(max(moved[other] + steps, limits[other][0]), limits[other][1])
        missing -= own * (at - moved[other])
        moved[other] = at
    # A few ticks of another leg make the rest divisible by the ratio of the adjusted one.
    for other in others:
        for steps in _nearest(abs(weight)):
            rest = missing - weights[other] * steps
            if rest % weight:
                continue
            at, own = moved[adjusted] + rest // weight, moved[other] + steps
            if low <= at <= high and limits[other][0] <= own <= limits[other][1]:
                moved[adjusted], moved[other] = at, own
                return moved
    return None


def _nearest(count: int) -> list[int]:
    """Return numbers of ticks to try: upwards first, then downwards."""
    return [*range(count), *range(-1, -count, -1)]


def _leg_order(
    leg: SpreadLeg, owner: EngineOrder, side: OrderSide, price: int, quantity: int, now_ns: int
) -> EngineOrder:
    """Return the owner's order in a leg, which has the spread order's IDs and is never queued."""
    order = LegOrder(
        owner.order_id,
        owner.secondary_order_id,
        owner.session,
        owner.firm,
        owner.cl_ord_id,
        leg.listing.security_id,
        side,
        price,
        quantity,
        OrdType.LIMIT,
        TimeInForce.IMMEDIATE_OR_CANCEL,
        0,
        0,
        now_ns,
    )
    order.implied = True
    order.account = -1  # protections do not count legs
    order.owner_account = owner.account
    order.leg_of = owner.security_id
    return order
