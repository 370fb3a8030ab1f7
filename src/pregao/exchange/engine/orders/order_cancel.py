"""Cancellation of orders: single cancels, mass actions, and restatement on a new day.

A mass action cancels all of a session's orders that match its filters, as one event.

Good-till orders that a new day carries over are restated once per session and day. Only sessions of
schema version 6 and later get restatements (003 §7.1.9 knows none); the caller, which has the
sessions, knows which those are and when they are connected.
"""

from __future__ import annotations

from collections.abc import Iterable

from pregao.exchange.engine.book.listing import Listing
from pregao.exchange.engine.book.market import Market
from pregao.exchange.engine.book.order_book import EngineOrder
from pregao.exchange.engine.model import reject_codes
from pregao.exchange.engine.model.commands import CancelOrder, MassCancel, RestateOrders
from pregao.exchange.engine.model.enums import (
    CxlRejResponseTo,
    ExecRestatementReason,
    MassActionRejectReason,
    MassActionType,
    TimeInForce,
)
from pregao.exchange.engine.model.events import MarketItem
from pregao.exchange.engine.model.reject_codes import Reject
from pregao.exchange.engine.model.reports import MassCancelled
from pregao.exchange.engine.orders.validation import (
    GTC,
    GTD,
    MOA,
    check_auction_end,
    check_cancel_state,
    check_state,
)
from pregao.exchange.engine.phases.auction import check_bound, participates, publish_theoretical
from pregao.exchange.engine.phases.trading_phases import OPEN

_CANCEL = CxlRejResponseTo.CANCEL

_OPERATIONAL_ERROR = ExecRestatementReason.MASS_CANCEL_ORDER_DUE_TO_OPERATIONAL_ERROR_REQUEST

_ON_DISCONNECT = (
    ExecRestatementReason.CANCEL_ON_HARD_DISCONNECTION,
    ExecRestatementReason.CANCEL_ON_TERMINATE,
    ExecRestatementReason.CANCEL_ON_DISCONNECT_AND_TERMINATE,
)
"""Reasons of a mass cancel after the owner's session ended (003 §4.7)."""

_GOOD_TILL = (TimeInForce.GOOD_TILL_CANCEL, TimeInForce.GOOD_TILL_DATE)


def find_order(
    market: Market, session: int, security_id: int, order_id: int, orig_cl_ord_id: int
) -> EngineOrder | None:
    """Return the order that a request names, if it belongs to that session."""
    if order_id:
        order = market.orders.get(order_id)
        if order is None or order.session != session:
            return None
    else:
        listing = market.listings.get(security_id)
        if listing is None:
            return None
        order = market.by_client.get((session, listing.segment, orig_cl_ord_id))
    return order if order is not None and order.security_id == security_id else None


def cancel_order(market: Market, command: CancelOrder, now_ns: int) -> None:
    """Cancel one order at its owner's request."""
    listing = market.listings.get(command.security_id)
    order = find_order(
        market, command.session, command.security_id, command.order_id, command.orig_cl_ord_id
    )
    reject: Reject | None
    if listing is None:
        reject = reject_codes.UNKNOWN_INSTRUMENT
    elif order is None:
        reject = reject_codes.UNKNOWN_ORDER
    elif listing.status == OPEN:
        reject = None
    else:
        reject = check_auction_end(listing) or check_cancel_state(listing.status)
        if reject is None and command.reason is None:
            reject = check_bound(listing, order, order.price, 0)
    if reject is not None or listing is None or order is None:
        market.rejected(
            command.session,
            command.cl_ord_id,
            command.security_id,
            _CANCEL,
            reject or reject_codes.UNKNOWN_ORDER,
            now_ns,
            command.order_id,
            command.orig_cl_ord_id,
        )
        return
    items: list[MarketItem] = []
    withdraw(market, listing, order, items, now_ns)
    reason = command.reason
    if reason is not None:
        reason = ExecRestatementReason.ORDER_CANCELLED_DUE_TO_OPERATIONAL_ERROR
    market.cancelled(order, now_ns, reason, cl_ord_id=command.cl_ord_id)
    if items and listing.status != OPEN:
        refresh_auction(market, listing, items, now_ns)
    market.publish(items)


def withdraw(
    market: Market, listing: Listing, order: EngineOrder, items: list[MarketItem], now_ns: int
) -> None:
    """Remove an order from the book or from the waiting orders."""
    if order.level is None:
        listing.waiting.remove(order)
    else:
        items.append(market.remove_from_book(listing, order, now_ns))
    market.remove_from_indexes(order)


def refresh_auction(market: Market, listing: Listing, items: list[MarketItem], now_ns: int) -> None:
    """Update the theoretical price after the book changed, if an auction is running."""
    if check_state(listing.status) is None and listing.status != OPEN:
        publish_theoretical(market, listing, items, now_ns)


def publish_cancels(
    market: Market, listings: Iterable[Listing], items: list[MarketItem], now_ns: int
) -> None:
    """Publish the end of many orders as one event, and then the auctions that it changed.

    The event ends with its last deletion (000 §4.2.1): theoretical prices are separate events.
    """
    market.publish(items)
    for listing in listings:
        if listing.status != OPEN:
            prices: list[MarketItem] = []
            refresh_auction(market, listing, prices, now_ns)
            market.publish(prices)


def mass_cancel(market: Market, command: MassCancel, now_ns: int) -> None:
    """Cancel all of a session's orders that match the filters, as one event.

    GTC and GTD orders are kept, and so are orders of instruments that currently accept no cancels.
    Of the orders that take part in the theoretical price of an auction, those good for the auction
    are kept; when their owner has left, all of them.
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
    publish_cancels(market, touched.values(), items, now_ns)
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
    if (
        (order.time_in_force == MOA or command.reason in _ON_DISCONNECT)
        and order.level is not None
        and participates(listing, order)
    ):
        return False
    if command.reason != _OPERATIONAL_ERROR and check_bound(listing, order, order.price, 0):
        return False
    return listing.window_ns is None and check_cancel_state(listing.status) is None


def carry_over(market: Market) -> None:
    """Record the orders of earlier days when a day starts."""
    market.carried.clear()
    for order in market.orders.values():
        if order.time_in_force in _GOOD_TILL:
            market.carried.setdefault(order.session, []).append(order.order_id)


def restate_orders(market: Market, command: RestateOrders, now_ns: int) -> None:
    """Report to a session, once, its orders that the day carried over."""
    for order_id in market.carried.pop(command.session, ()):
        order = market.orders.get(order_id)
        if order is not None:
            reason = ExecRestatementReason.GT_RESTATEMENT
            market.modified(order, 0, now_ns, not order.waits, reason)
