"""Mass action: all of a session's orders that pass some filters, cancelled as one event."""

from __future__ import annotations

from pregao.exchange.engine.auction import participates
from pregao.exchange.engine.checks import GTC, GTD, MOA, check_cancel_state
from pregao.exchange.engine.commands import MassCancel
from pregao.exchange.engine.events import MarketItem
from pregao.exchange.engine.listing import Listing
from pregao.exchange.engine.market import Market
from pregao.exchange.engine.orders import Order
from pregao.exchange.engine.phases import OPEN
from pregao.exchange.engine.reports import MassCancelled
from pregao.exchange.engine.withdrawal import refresh_auction, withdraw


def mass_cancel(market: Market, command: MassCancel, now_ns: int) -> None:
    """Cancel all of a session's orders that pass the filters, as one event.

    Orders good till cancelled or till a date stay, and so do those good for the auction that
    take part in its theoretical price; so do orders of instruments that take no cancels now.
    """
    chosen = [order for order in market.orders.values() if _is_meant(market, command, order)]
    items: list[MarketItem] = []
    touched: dict[int, Listing] = {}
    for order in chosen:
        listing = touched[order.security_id] = market.listings[order.security_id]
        withdraw(market, listing, order, items, now_ns)
        market.cancelled(order, now_ns, command.reason)
    for listing in touched.values():
        if listing.status != OPEN:
            refresh_auction(market, listing, items, now_ns)
    market.tell(items)
    market.exec_id += 1
    market.reports.append(
        MassCancelled(market.exec_id, command.session, command.cl_ord_id, len(chosen), now_ns)
    )


def _is_meant(market: Market, command: MassCancel, order: Order) -> bool:
    if order.session != command.session:
        return False
    if command.security_id is not None and order.security_id != command.security_id:
        return False
    if command.side is not None and order.side != command.side:
        return False
    if command.ord_tag_id and order.ord_tag_id != command.ord_tag_id:
        return False
    if order.time_in_force in (GTC, GTD):
        return False
    listing = market.listings[order.security_id]
    if order.time_in_force == MOA and participates(listing, order):
        return False
    return check_cancel_state(listing.status) is None
