"""Removal of orders: find the order that a request names, and cancel it."""

from __future__ import annotations

from pregao.exchange.engine import rejects
from pregao.exchange.engine.auction import publish_theoretical
from pregao.exchange.engine.auction_times import check_bound
from pregao.exchange.engine.checks import check_auction_end, check_cancel_state, check_state
from pregao.exchange.engine.events import MarketItem
from pregao.exchange.engine.listing import Listing
from pregao.exchange.engine.market import Market
from pregao.exchange.engine.member_commands import CancelOrder
from pregao.exchange.engine.orders import EngineOrder
from pregao.exchange.engine.phases import OPEN
from pregao.exchange.engine.rejects import Reject
from pregao.exchange.engine.terms import CxlRejResponseTo, ExecRestatementReason

_CANCEL = CxlRejResponseTo.CANCEL


def find_order(
    market: Market, session: int, security_id: int, order_id: int, orig_cl_ord_id: int
) -> EngineOrder | None:
    """Return the order that a request names, if it belongs to that session."""
    if order_id:
        order = market.orders.get(order_id)
        if order is None or order.session != session or order.security_id != security_id:
            return None
        return order
    return market.by_client.get((session, security_id, orig_cl_ord_id))


def cancel_order(market: Market, command: CancelOrder, now_ns: int) -> None:
    """Cancel one order at its owner's request."""
    listing = market.listings.get(command.security_id)
    order = find_order(
        market, command.session, command.security_id, command.order_id, command.orig_cl_ord_id
    )
    reject: Reject | None
    if listing is None:
        reject = rejects.UNKNOWN_INSTRUMENT
    elif order is None:
        reject = rejects.UNKNOWN_ORDER
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
            reject or rejects.UNKNOWN_ORDER,
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
    market.forget(order)


def refresh_auction(market: Market, listing: Listing, items: list[MarketItem], now_ns: int) -> None:
    """Update the theoretical price after the book changed, if an auction is running."""
    if check_state(listing.status) is None and listing.status != OPEN:
        publish_theoretical(market, listing, items, now_ns)
