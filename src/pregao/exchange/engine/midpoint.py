"""Pegged midpoint orders: hidden orders that trade with each other between bid and ask.

The documents name the type but state no rules for it; these are ours. An order trades, when it is
entered or modified, with pegged orders of the other side by time, at the middle of the best prices
of the book, if the limits of both allow it; what is left waits, hidden. Broker-only orders trade
only with orders of the same firm. The trades are block trades.
"""

from __future__ import annotations

from pregao.exchange.engine.checks import BROKER_ONLY, FOK, IOC
from pregao.exchange.engine.listing import Listing
from pregao.exchange.engine.market import Market
from pregao.exchange.engine.matching import Execution, execution_event
from pregao.exchange.engine.orders import BUY, EngineOrder
from pregao.exchange.engine.phases import OPEN
from pregao.exchange.engine.session_statistics import matched
from pregao.exchange.engine.terms import (
    AggressorSide,
    ExecRestatementReason,
    OrderSide,
    TradeCondition,
    TrdSubType,
)


def middle(listing: Listing) -> int | None:
    """Return the middle of the best prices in continuous trading, rounded down to 1e-4."""
    bid, ask = listing.bids.best_price(), listing.offers.best_price()
    if listing.status != OPEN or bid is None or ask is None:
        return None
    price = (bid + ask) // 2
    return price if listing.auction_low <= price <= listing.auction_high else None


def enter_pegged(
    market: Market, listing: Listing, order: EngineOrder, received_ns: int, now_ns: int
) -> None:
    """Trade a waiting pegged order with the other side, then keep or cancel the rest."""
    price = middle(listing)
    counterparts = [] if price is None else _counterparts(listing, order, price)
    tradable = sum(other.leaves for other in counterparts)
    required = order.leaves if order.time_in_force == FOK else min(order.min_qty, order.leaves)
    if tradable < required:
        reason = None
        if order.min_qty:
            reason = ExecRestatementReason.CANCEL_MINIMUM_QTY_BLOCK
        _end(market, listing, order)
        market.cancelled(order, now_ns, reason)
        return
    execution = Execution()
    for other in counterparts:
        if not order.leaves or price is None:
            break
        _trade(market, listing, order, other, price, execution, now_ns)
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


def _trade(
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
    market.forget(order)
