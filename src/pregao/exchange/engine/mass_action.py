"""Mass action: cancel all of a session's orders that match the filters, as one event."""

from __future__ import annotations

from pregao.exchange.engine.auction import participates
from pregao.exchange.engine.auction_times import check_bound
from pregao.exchange.engine.checks import GTC, GTD, MOA, check_cancel_state
from pregao.exchange.engine.events import MarketItem
from pregao.exchange.engine.listing import Listing
from pregao.exchange.engine.market import Market
from pregao.exchange.engine.member_commands import MassCancel
from pregao.exchange.engine.orders import EngineOrder
from pregao.exchange.engine.phases import OPEN
from pregao.exchange.engine.reports import MassCancelled
from pregao.exchange.engine.terms import (
    ExecRestatementReason,
    MassActionRejectReason,
    MassActionType,
)
from pregao.exchange.engine.withdrawal import refresh_auction, withdraw

_OPERATIONAL_ERROR = ExecRestatementReason.MASS_CANCEL_ORDER_DUE_TO_OPERATIONAL_ERROR


def mass_cancel(market: Market, command: MassCancel, now_ns: int) -> None:
    """Cancel all of a session's orders that match the filters, as one event.

    GTC and GTD orders are kept, and so are orders good for the auction that take part in its
    theoretical price, and orders of instruments that currently accept no cancels.
    """
    market.exec_id += 1
    report_id = market.exec_id
    refusal = _refusal(command)
    if refusal is not None:
        reason, text = refusal
        market.reports.append(
            MassCancelled(report_id, command.session, command.cl_ord_id, 0, now_ns, reason, text)
        )
        return
    chosen = [order for order in market.orders.values() if _is_meant(market, command, order)]
    items: list[MarketItem] = []
    touched: dict[int, Listing] = {}
    for order in chosen:
        listing = touched[order.security_id] = market.listings[order.security_id]
        withdraw(market, listing, order, items, now_ns)
        own = order.session == command.session
        market.cancelled(
            order,
            now_ns,
            _reason(command, own),
            mass_action_id=report_id,
            requested_by=0 if own else command.session,
        )
    for listing in touched.values():
        if listing.status != OPEN:
            refresh_auction(market, listing, items, now_ns)
    market.publish(items)
    market.reports.append(
        MassCancelled(report_id, command.session, command.cl_ord_id, len(chosen), now_ns)
    )


def _refusal(command: MassCancel) -> tuple[MassActionRejectReason, str] | None:
    """Return why a mass action is rejected, or None."""
    if command.action != MassActionType.CANCEL_ORDERS:
        return (
            MassActionRejectReason.MASS_ACTION_NOT_SUPPORTED,
            f"Only CANCEL_ORDERS is supported, not {command.action.name}",
        )
    if command.on_behalf and not command.investor_id:
        return (
            MassActionRejectReason.OTHER,
            "Canceling orders of other sessions requires an investor",
        )
    return None


def _reason(command: MassCancel, own: bool) -> ExecRestatementReason:
    """Return the reason that the owner of a canceled order gets."""
    by_mistake = command.reason == _OPERATIONAL_ERROR
    if own:
        if by_mistake:
            return ExecRestatementReason.MASS_CANCEL_ORDER_DUE_TO_OPERATIONAL_ERROR_EFFECTIVE
        return command.reason
    if by_mistake:
        return ExecRestatementReason.MASS_CANCEL_ON_BEHALF_DUE_TO_OPERATIONAL_ERROR_EFFECTIVE
    return ExecRestatementReason.MASS_CANCEL_ON_BEHALF


def _is_meant(market: Market, command: MassCancel, order: EngineOrder) -> bool:
    if order.session != command.session and not (command.on_behalf and order.firm == command.firm):
        return False
    if command.security_id is not None and order.security_id != command.security_id:
        return False
    if command.side is not None and order.side != command.side:
        return False
    if command.ord_tag_id and order.ord_tag_id != command.ord_tag_id:
        return False
    if command.investor_id and order.investor_id != command.investor_id:
        return False
    listing = market.listings[order.security_id]
    if command.asset and listing.instrument.asset != command.asset:
        return False
    if command.segment not in (None, listing.instrument.market_segment_id):
        return False
    if order.time_in_force in (GTC, GTD):
        return False
    if order.time_in_force == MOA and participates(listing, order):
        return False
    if command.reason != _OPERATIONAL_ERROR and check_bound(listing, order, order.price, 0):
        return False
    return listing.window_ns is None and check_cancel_state(listing.status) is None
