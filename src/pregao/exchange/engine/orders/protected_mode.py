"""Protected mode: configurations of market protections, and the orders that the mode cancels.

The mode starts after the event in which a limit was reached, so that the count may be well above
the limit. Orders in the theoretical price of an auction are kept, and so are those of instruments
that accept no cancels; good-till, waiting stop and MOC orders are canceled only if so configured.
"""

from __future__ import annotations

from pregao.errors import UsageError
from pregao.exchange.engine.book.listing import Listing
from pregao.exchange.engine.book.market import Market
from pregao.exchange.engine.book.order_book import EngineOrder
from pregao.exchange.engine.matching.market_protection import Protection
from pregao.exchange.engine.model.enums import ExecRestatementReason
from pregao.exchange.engine.model.events import MarketItem
from pregao.exchange.engine.model.operations_commands import (
    RemoveProtection,
    SetDelta,
    SetProtection,
)
from pregao.exchange.engine.orders.order_cancel import publish_cancels, withdraw
from pregao.exchange.engine.orders.validation import GTC, GTD, MOC, check_cancel_state
from pregao.exchange.engine.phases.auction import participates
from pregao.exchange.engine.phases.trading_phases import AUCTIONS


def set_protection(market: Market, command: SetProtection, _now_ns: int) -> None:
    """Set or replace a configuration, which resets its counters."""
    limits = (
        command.new_order_fills,
        command.executions,
        command.traded_quantity,
        command.net_quantity,
        command.delta,
    )
    name = f"market protection {command.protection_id}"
    if all(limit is None for limit in limits):
        raise UsageError(f"{name} requires at least one limit")
    if command.interval_ns <= 0 or any(limit is not None and limit <= 0 for limit in limits):
        raise UsageError(f"{name} requires limits and an interval greater than zero")
    if not command.references:
        raise UsageError(f"{name} requires an instrument or asset to watch")
    named = [(reference.security_id, reference.asset) for reference in command.references]
    if len(set(named)) < len(named):
        raise UsageError(f"{name} has an instrument or asset twice")
    if any(bool(security_id) == bool(asset) for security_id, asset in named):
        raise UsageError(f"each reference of {name} must be either an instrument or an asset")
    _forget(market, command.protection_id)
    account = market.protections.setdefault((command.firm, command.account), [])
    account.append(Protection(command, market.order_id))


def remove_protection(market: Market, command: RemoveProtection, _now_ns: int) -> None:
    """Remove a configuration."""
    if not _forget(market, command.protection_id):
        raise UsageError(f"market protection {command.protection_id} does not exist")


def _forget(market: Market, protection_id: int) -> bool:
    for owner, found in market.protections.items():
        for protection in found:
            if protection.settings.protection_id == protection_id:
                found.remove(protection)
                if not found:
                    del market.protections[owner]
                return True
    return False


def set_delta(market: Market, command: SetDelta, _now_ns: int) -> None:
    """Set the delta with which protections count an instrument."""
    market.listing(command.security_id)
    market.deltas[command.security_id] = command.delta


def reset_all(market: Market) -> None:
    """Reset every configuration for a new trading day."""
    for found in market.protections.values():
        for protection in found:
            protection.reset()


def protect(market: Market, now_ns: int) -> None:
    """Start the protected mode where a limit was reached, and cancel the orders concerned."""
    reached, market.reached = market.reached, []
    orders: dict[int, EngineOrder] = {}
    for protection in reached:
        if protection.active:
            found = protection.leftovers
        else:
            protection.active = True
            found = _watched(market, protection)
        orders.update((order.order_id, order) for order in found if _may_go(market, order))
        protection.leftovers = []
    items: list[MarketItem] = []
    touched: dict[int, Listing] = {}
    for order in orders.values():
        listing = touched[order.security_id] = market.listings[order.security_id]
        withdraw(market, listing, order, items, now_ns)
        market.cancelled(order, now_ns, ExecRestatementReason.MARKET_MAKER_PROTECTION)
    if orders:
        market.touched.update(touched.keys() & market.implied_of.keys())
        market.triggered = [x for x in market.triggered if x.order_id not in orders]
    publish_cancels(market, touched.values(), items, now_ns)


def _watched(market: Market, protection: Protection) -> list[EngineOrder]:
    """Return the orders that a configuration cancels."""
    settings = protection.settings
    triggered = {order.order_id for order in market.triggered}

    def goes(order: EngineOrder) -> bool:
        if (order.firm, order.account) != (settings.firm, settings.account):
            return False
        if order.order_id <= protection.since:
            return False
        if not protection.watch(market.listings[order.security_id].instrument).cancels:
            return False
        if order.time_in_force in (GTC, GTD) and not settings.cancels_good_till:
            return False
        if order.time_in_force == MOC and not settings.cancels_at_close:
            return False
        # A stop order that was just triggered is already a limit order.
        waits = order.stop_px is not None and order.order_id not in triggered
        return settings.cancels_stops or not waits

    return [order for order in market.orders.values() if goes(order)]


def _may_go(market: Market, order: EngineOrder) -> bool:
    """Whether the states of the instrument and its auction allow an order to be canceled."""
    if order.order_id not in market.orders:
        return False
    listing = market.listings[order.security_id]
    if listing.window_ns is not None or check_cancel_state(listing.status) is not None:
        return False
    return not (
        listing.status in AUCTIONS and order.level is not None and participates(listing, order)
    )
