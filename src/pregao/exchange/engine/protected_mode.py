"""Market protections at work: configurations, and what the protected mode cancels.

The mode begins when the event in which a limit was reached has ended, which may be well above the
limit. Orders in the theoretical price of an auction stay, and so do those of instruments that take
no cancels; good-till, waiting stop and MOC orders go if the configuration says so.
"""

from __future__ import annotations

from pregao.errors import UsageError
from pregao.exchange.engine.auction import participates
from pregao.exchange.engine.checks import GTC, GTD, MOC, check_cancel_state
from pregao.exchange.engine.commands import RemoveProtection, SetDelta, SetProtection
from pregao.exchange.engine.events import MarketItem
from pregao.exchange.engine.listing import Listing
from pregao.exchange.engine.market import Market
from pregao.exchange.engine.orders import Order
from pregao.exchange.engine.phases import AUCTIONS
from pregao.exchange.engine.protections import Protection
from pregao.exchange.engine.terms import ExecRestatementReason
from pregao.exchange.engine.withdrawal import refresh_auction, withdraw


def set_protection(market: Market, command: SetProtection, _now_ns: int) -> None:
    """Set a configuration, or replace it: what it had counted is void."""
    limits = (
        command.new_order_fills,
        command.executions,
        command.traded_quantity,
        command.net_quantity,
        command.delta,
    )
    name = f"the market protection {command.protection_id}"
    if all(limit is None for limit in limits):
        raise UsageError(f"{name} needs at least one limit")
    if command.interval_ns <= 0 or any(limit is not None and limit <= 0 for limit in limits):
        raise UsageError(f"{name} needs limits and an interval above zero")
    if not command.references:
        raise UsageError(f"{name} needs an instrument or asset to watch")
    named = [(reference.security_id, reference.asset) for reference in command.references]
    if len(set(named)) < len(named):
        raise UsageError(f"{name} names an instrument or asset twice")
    if any(bool(number) == bool(asset) for number, asset in named):
        raise UsageError(f"each reference of {name} is either an instrument or an asset")
    _forget(market, command.protection_id)
    account = market.protections.setdefault((command.firm, command.account), [])
    account.append(Protection(command, market.order_id))


def remove_protection(market: Market, command: RemoveProtection, _now_ns: int) -> None:
    """Take a configuration away."""
    if not _forget(market, command.protection_id):
        raise UsageError(f"there is no market protection {command.protection_id}")


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
    """Set what a delta protection counts an instrument with."""
    market.listing(command.security_id)
    market.deltas[command.security_id] = command.delta


def reset_all(market: Market) -> None:
    """A new trading day: every configuration watches afresh."""
    for found in market.protections.values():
        for protection in found:
            protection.reset()


def protect(market: Market, now_ns: int) -> None:
    """Begin the protected mode where a limit was reached, and cancel what it cancels."""
    reached, market.reached = market.reached, []
    orders: dict[int, Order] = {}
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
    for listing in touched.values():
        refresh_auction(market, listing, items, now_ns)
    market.tell(items)


def _watched(market: Market, protection: Protection) -> list[Order]:
    """The orders that a configuration cancels, by their kind."""
    settings = protection.settings
    triggered = {order.order_id for order in market.triggered}

    def goes(order: Order) -> bool:
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
        # A stop order that was just triggered is a limit order already.
        waits = order.stop_px is not None and order.order_id not in triggered
        return settings.cancels_stops or not waits

    return [order for order in market.orders.values() if goes(order)]


def _may_go(market: Market, order: Order) -> bool:
    """Do the state of the instrument and its auction let an order be cancelled?"""
    if order.order_id not in market.orders:
        return False
    listing = market.listings[order.security_id]
    if listing.window_ns is not None or check_cancel_state(listing.status) is not None:
        return False
    return not (
        listing.status in AUCTIONS and order.level is not None and participates(listing, order)
    )
