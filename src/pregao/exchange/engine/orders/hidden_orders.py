"""Hidden orders: those of retail liquidity providers, and orders pegged to the midpoint.

A *retail liquidity provider's* order is for the retail customers of its own firm. It has no price:
it is pegged to the best price of its own side of the book, and improves on it if the spread is
wider than one tick. It is not in the book, and trades only with an incoming order of a retail
customer of its firm: before the book, but after the firm's other customers at the best price,
unless these have waived their priority.

*Pegged midpoint* orders trade with each other between bid and ask. The documents name the type but
state no rules for it; these are ours. An order trades, when it is entered or modified, with pegged
orders of the other side by time, at the middle of the best prices of the book, if the limits of
both allow it; what is left waits, hidden. Broker-only orders trade only with orders of the same
firm. The trades are block trades.
"""

from __future__ import annotations

from pregao.exchange.engine.book.listing import Listing
from pregao.exchange.engine.book.market import Market
from pregao.exchange.engine.book.order_book import BUY, EngineOrder
from pregao.exchange.engine.matching.matching import Execution, execution_event, match
from pregao.exchange.engine.matching.self_trade_prevention import tradable_without
from pregao.exchange.engine.matching.statistics import matched
from pregao.exchange.engine.model.enums import (
    AggressorSide,
    ExecRestatementReason,
    OrderSide,
    RoutingInstruction,
    TradeCondition,
    TrdSubType,
)
from pregao.exchange.engine.orders.validation import BROKER_ONLY, FOK, IOC
from pregao.exchange.engine.phases.trading_phases import OPEN
from pregao.units import PRICE_SCALE

RETAIL = RoutingInstruction.RETAIL_LIQUIDITY_TAKER
WAIVED = RoutingInstruction.WAIVED_PRIORITY


# --- Retail liquidity providers ---


def is_retail(listing: Listing, order: EngineOrder) -> bool:
    """Whether an incoming order could trade with a provider of its firm."""
    return order.routing == RETAIL and bool(_providers(listing, order))


def _providers(listing: Listing, order: EngineOrder) -> list[EngineOrder]:
    """Return the providers of an incoming order's firm on the other side, oldest first."""
    return listing.waiting.providers.get((3 - order.side, order.firm), [])


def pegged_price(listing: Listing, side: OrderSide) -> int | None:
    """Return the current price of a side's providers, or None without a price to peg to."""
    best = listing.side(side).best_price()
    if best is None:
        return None
    other = listing.opposite(side).best_price()
    tick = listing.tick
    better = max(listing.instrument.rlp_improvement or 0, tick)
    better -= better % tick
    if other is not None:
        # Never up to the other side: a spread of one tick allows no improvement.
        better = min(better, abs(other - best) - tick)
    return best + better if side == BUY else best - better


def tradable_with_providers(
    market: Market, listing: Listing, order: EngineOrder, limit_key: int
) -> int:
    """Return how much an incoming order could trade with the providers of its firm."""
    price = _price_for(listing, order, limit_key)
    if price is None:
        return 0
    ahead = _customers_ahead(listing, order, price)
    if order.investor_id and tradable_without(listing, order, limit_key, ahead) < ahead:
        return 0  # it ends at an order of its investor, before the providers
    total = sum(provider.leaves for provider in _providers(listing, order))
    return min(total, _allowance(market, listing))


def match_retail(
    market: Market,
    listing: Listing,
    order: EngineOrder,
    limit_key: int,
    execution: Execution,
    now_ns: int,
) -> None:
    """Trade a retail customer's order: with the book, its firm's providers, and the book again."""
    price = _price_for(listing, order, limit_key)
    if price is not None:
        ahead = _customers_ahead(listing, order, price)
        if ahead:
            match(market, listing, order, limit_key, execution, now_ns, ahead)
        if execution.must_stop or execution.blocked:
            return
        _trade(market, listing, order, price, execution, now_ns)
    match(market, listing, order, limit_key, execution, now_ns)


def _price_for(listing: Listing, order: EngineOrder, limit_key: int) -> int | None:
    """Return the providers' price if the order's limit and the auction band allow it, or None.

    In a user-defined spread the legs must allow it too.
    """
    side = OrderSide(3 - order.side)
    price = pegged_price(listing, side)
    if price is None or not listing.auction_low <= price <= listing.auction_high:
        return None
    if listing.strategy is not None and not listing.strategy.trades_at(price):
        return None
    key = price if side == BUY else -price
    return price if key >= limit_key else None


def _customers_ahead(listing: Listing, order: EngineOrder, price: int) -> int:
    """Return how much to trade in the book first: up to the firm's last customer within reach.

    Customers who have waived their priority do not hold back the providers.
    """
    opposite = listing.opposite(order.side)
    level = opposite.levels[opposite.keys[-1]]
    if level.price != price:
        return 0
    ahead = until = 0
    for resting in level:
        if ahead >= order.leaves:
            break
        ahead += resting.visible
        if resting.firm == order.firm and resting.routing != WAIVED:
            until = ahead
    return until


def _allowance(market: Market, listing: Listing) -> int:
    """Return how much providers may still trade: a share of the volume, this trade included."""
    share = market.rlp_share
    statistics = listing.statistics
    if share is None:
        return 1 << 62
    available = share * statistics.volume - PRICE_SCALE * statistics.provided
    return max(available, 0) // (PRICE_SCALE - share)


def _trade(
    market: Market,
    listing: Listing,
    order: EngineOrder,
    price: int,
    execution: Execution,
    now_ns: int,
) -> None:
    """Trade with the firm's providers, oldest first."""
    opening = listing.statistics.opening is None
    for provider in list(_providers(listing, order)):
        quantity = min(order.leaves, provider.leaves, _allowance(market, listing))
        if not quantity:
            return
        for party in (order, provider):
            party.leaves -= quantity
            party.cum += quantity
        execution.filled += quantity
        execution.hidden += quantity
        execution.last_px = price
        listing.statistics.provided += quantity
        execution.trades.append(
            matched(
                market,
                listing,
                order,
                provider,
                quantity,
                price,
                opening,
                now_ns,
                sub_type=TrdSubType.RLP_TRADE,
            )
        )
        provider.visible = provider.leaves
        if not provider.leaves:
            listing.waiting.remove(provider)
            market.remove_from_indexes(provider)


# --- Pegged midpoint orders ---


def middle(listing: Listing) -> int | None:
    """Return the middle of the best prices in continuous trading, rounded down to 1e-4."""
    bid, ask = listing.bids.best_price(), listing.offers.best_price()
    if listing.status != OPEN or bid is None or ask is None:
        return None
    price = (bid + ask) // 2
    return price if listing.auction_low <= price <= listing.auction_high else None


def enter_pegged(
    market: Market,
    listing: Listing,
    order: EngineOrder,
    received_ns: int,
    now_ns: int,
    min_qty: int,
) -> None:
    """Trade a waiting pegged order with the other side, then keep or cancel the rest.

    An order that cannot trade ``min_qty`` now is canceled.
    """
    price = middle(listing)
    counterparts = [] if price is None else _counterparts(listing, order, price)
    tradable = sum(other.leaves for other in counterparts)
    required = order.leaves if order.time_in_force == FOK else min(min_qty, order.leaves)
    if tradable < required:
        reason = None
        if min_qty:
            reason = ExecRestatementReason.CANCEL_MINIMUM_QTY_BLOCK
        _end(market, listing, order)
        market.cancelled(order, now_ns, reason)
        return
    execution = Execution()
    for other in counterparts:
        if not order.leaves or price is None:
            break
        _trade_at_midpoint(market, listing, order, other, price, execution, now_ns)
    if not order.leaves:
        _end(market, listing, order)
    elif order.time_in_force in (IOC, FOK):
        _end(market, listing, order)
        market.cancelled(order, now_ns)
    if execution.filled:
        side = AggressorSide(int(order.side))
        execution_event(market, listing, execution, side, received_ns, now_ns)


def _counterparts(listing: Listing, order: EngineOrder, price: int) -> list[EngineOrder]:
    """Return the pegged orders that an order can trade with at a price, oldest first."""
    if not _allows(order, price):
        return []
    return [
        other
        for other in listing.waiting.pegged.get(OrderSide(3 - order.side), ())
        if _allows(other, price)
        and (other.firm == order.firm or BROKER_ONLY not in (order.routing, other.routing))
    ]


def _allows(order: EngineOrder, price: int) -> bool:
    """Whether an order's limit, if any, allows a trade at a price."""
    if order.price is None:
        return True
    return price <= order.price if order.side == BUY else price >= order.price


def _trade_at_midpoint(
    market: Market,
    listing: Listing,
    order: EngineOrder,
    other: EngineOrder,
    price: int,
    execution: Execution,
    now_ns: int,
) -> None:
    quantity = min(order.leaves, other.leaves)
    for party in (order, other):
        party.leaves -= quantity
        party.cum += quantity
        party.visible = party.leaves
    execution.filled += quantity
    execution.hidden += quantity
    execution.last_px = price
    execution.trades.append(
        matched(
            market,
            listing,
            order,
            other,
            quantity,
            price,
            False,
            now_ns,
            condition=int(TradeCondition.BLOCK_TRADE),
            sub_type=TrdSubType.MIDPOINT_TRADE,
        )
    )
    if not other.leaves:
        _end(market, listing, other)


def _end(market: Market, listing: Listing, order: EngineOrder) -> None:
    """Remove an order that no longer waits."""
    listing.waiting.remove(order)
    market.remove_from_indexes(order)
