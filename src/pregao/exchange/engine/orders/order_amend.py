"""Order modification: which changes keep an order's priority and which lose it.

A new price or stop price, more quantity, a minimum quantity, or a larger visible quantity cost the
order its priority: of an order in the book the feed shows a deletion and a new order; one that
waits gets a new secondary order ID and ranks after the others. Less quantity, another validity or
another account keep it. An order can become a stop or MOC order, which leaves the book, and such an
order can become one that enters it.
"""

from __future__ import annotations

from datetime import date

from pregao.exchange.engine.book.listing import Listing
from pregao.exchange.engine.book.market import Market
from pregao.exchange.engine.book.order_book import BUY, EngineOrder
from pregao.exchange.engine.matching.market_protection import reset_protections
from pregao.exchange.engine.matching.self_trade_prevention import check_investor
from pregao.exchange.engine.model import reject_codes
from pregao.exchange.engine.model.commands import ModifyOrder
from pregao.exchange.engine.model.enums import CxlRejResponseTo, OrdType, TimeInForce
from pregao.exchange.engine.model.events import ChangeOrderMbo, MarketItem
from pregao.exchange.engine.model.reject_codes import Reject
from pregao.exchange.engine.orders.hidden_orders import enter_pegged
from pregao.exchange.engine.orders.order_cancel import find_order, refresh_auction, withdraw
from pregao.exchange.engine.orders.order_entry import trade_or_queue
from pregao.exchange.engine.orders.validation import (
    DAY,
    FOK,
    GTD,
    HIDDEN,
    IOC,
    LIMIT,
    MOA,
    MOC,
    PEGGED,
    PRICED,
    PROTECTED,
    STOPS,
    check_order,
    check_protection_price,
    protection_price,
)
from pregao.exchange.engine.phases.auction import check_bound, publish_theoretical
from pregao.exchange.engine.phases.trading_phases import FINAL_CLOSING_CALL, OPEN
from pregao.records import record

_AUCTION_ONLY = (MOA, MOC)


@record
class _Terms:
    """Terms of the order after the modification."""

    quantity: int
    price: int | None
    ord_type: OrdType
    time_in_force: TimeInForce
    max_floor: int
    min_qty: int
    min_added: bool
    """Whether the request adds the minimum quantity, so that it must be met as on entry."""
    protection: int | None
    stop_px: int | None
    expire_date: date | None
    waits: bool
    """Whether the order is not in the book until it is triggered or the closing call starts."""


def modify_order(market: Market, command: ModifyOrder, now_ns: int) -> None:
    """Modify an order at its owner's request."""
    listing = market.listings.get(command.security_id)
    order = find_order(
        market, command.session, command.security_id, command.order_id, command.orig_cl_ord_id
    )
    if listing is None:
        _refuse(market, command, reject_codes.UNKNOWN_INSTRUMENT, now_ns)
        return
    if order is None:
        _refuse(market, command, reject_codes.UNKNOWN_ORDER, now_ns)
        return
    terms = _requested(listing, order, command)
    reject = _check(market, listing, order, command, terms)
    if reject is not None:
        _refuse(market, command, reject, now_ns)
        return
    if command.mm_protection_reset:
        account = order.account if command.account is None else command.account
        reset_protections(market, listing, order.firm, account)
    leaves = order.leaves + terms.quantity - order.quantity
    items: list[MarketItem] = []
    if leaves <= 0:
        # The requested total is already executed: nothing is left of the order.
        withdraw(market, listing, order, items, now_ns)
        market.cancelled(order, now_ns, cl_ord_id=command.cl_ord_id)
        refresh_auction(market, listing, items, now_ns)
        market.publish(items)
        return
    received = now_ns if command.received_ns is None else command.received_ns
    if terms.waits:
        _wait(market, listing, order, command, terms, leaves, items, now_ns)
    elif order.level is None and order.ord_type in HIDDEN:
        _change_hidden(market, listing, order, command, terms, leaves, received, now_ns)
    elif order.level is None:
        listing.waiting.activate(order)
        market.new_secondary_id(order)
        min_qty = terms.min_qty
        _requeue(market, listing, order, command, terms, leaves, items, received, now_ns, min_qty)
    elif _loses_position(order, terms, leaves):
        items.append(market.remove_from_book(listing, order, now_ns))
        if order.firm or not market.keeps_numbers:
            market.new_secondary_id(order)
        min_qty = terms.min_qty if terms.min_added else 0
        _requeue(market, listing, order, command, terms, leaves, items, received, now_ns, min_qty)
    else:
        _keep_position(market, listing, order, command, terms, leaves, items, now_ns)


def _requested(listing: Listing, order: EngineOrder, command: ModifyOrder) -> _Terms:
    """Return the terms of the request, completed from the current order."""
    ord_type = order.ord_type if command.ord_type is None else command.ord_type
    plain = ord_type is LIMIT
    price = command.price
    if price is None and (plain or ord_type in PRICED or ord_type == PEGGED):
        price = order.price
    max_floor = order.max_floor if command.max_floor is None else command.max_floor
    if command.max_floor is None and max_floor > command.quantity:
        max_floor = 0
    time_in_force = command.time_in_force
    if time_in_force is None:
        time_in_force = order.time_in_force
    stop_px = command.stop_px
    if stop_px is None and not plain and ord_type in STOPS:
        stop_px = order.stop_px
    protection = order.protection_price
    if not plain and ord_type in PROTECTED:
        protection = None
        if time_in_force not in _AUCTION_ONLY:
            protection = protection_price(listing, order.side, stop_px)
    expire_date = command.expire_date
    if expire_date is None and time_in_force is not DAY and time_in_force == GTD:
        expire_date = order.expire_date
    return _Terms(
        command.quantity,
        price,
        ord_type,
        time_in_force,
        max_floor,
        command.min_qty or order.min_qty,
        bool(command.min_qty) and not order.min_qty,
        protection,
        stop_px,
        expire_date,
        stop_px is not None or (time_in_force == MOC and listing.status != FINAL_CLOSING_CALL),
    )


def _check(
    market: Market, listing: Listing, order: EngineOrder, command: ModifyOrder, terms: _Terms
) -> Reject | None:
    """Return the reason to reject the request, or None."""
    reject = check_order(
        listing,
        terms.quantity,
        terms.price,
        terms.ord_type,
        terms.time_in_force,
        terms.max_floor,
        terms.min_qty if terms.min_added else 0,
        terms.expire_date,
        market.trade_date,
        terms.stop_px,
        order.routing if command.routing_instruction is None else command.routing_instruction,
        order.min_qty,
    )
    plain = terms.ord_type is LIMIT and order.ord_type is LIMIT
    if reject is None and not plain and (order.ord_type in HIDDEN or terms.ord_type in HIDDEN):
        reject = None if order.ord_type == terms.ord_type else reject_codes.TYPE_CHANGE_NOT_ACCEPTED
    if reject is None and command.investor_id:
        reject = check_investor(command.investor_id)
    if reject is None and listing.status != OPEN:
        # An order that leaves the book to wait leaves the auction as a canceled one does.
        leaves = 0 if terms.waits else order.leaves + terms.quantity - order.quantity
        reject = check_bound(listing, order, terms.price, leaves)
    if reject is not None:
        return reject
    if order.min_qty:
        if terms.min_qty != order.min_qty:
            return reject_codes.MINIMUM_KEPT
        if order.stop_px is not None and terms.min_qty > terms.quantity:
            return reject_codes.MINIMUM_INVALID
    if not plain and terms.ord_type in PROTECTED and terms.time_in_force not in _AUCTION_ONLY:
        reject = check_protection_price(
            listing, order.side, terms.ord_type, terms.time_in_force, terms.protection
        )
        if reject is not None:
            return reject
    other = market.by_client.get((order.session, order.segment, command.cl_ord_id))
    if other is not None and other is not order:
        return reject_codes.DUPLICATE_ORDER
    return None


def _loses_priority(order: EngineOrder, terms: _Terms, leaves: int) -> bool:
    """Whether the change costs the order its priority, in the book or among those that wait."""
    return (
        terms.price != order.price
        or leaves > order.leaves
        or terms.min_added
        or terms.stop_px != order.stop_px
    )


def _loses_position(order: EngineOrder, terms: _Terms, leaves: int) -> bool:
    """Whether the change costs an order in the book its queue position."""
    if _loses_priority(order, terms, leaves):
        return True
    if terms.time_in_force is not DAY and terms.time_in_force in (IOC, FOK):
        return True
    return terms.max_floor != order.max_floor and _shown(terms.max_floor, leaves) > order.visible


def _shown(max_floor: int, leaves: int) -> int:
    return max_floor if 0 < max_floor < leaves else leaves


def _update(order: EngineOrder, command: ModifyOrder, terms: _Terms, leaves: int) -> None:
    """Apply the new terms to the order."""
    order.quantity = terms.quantity
    order.leaves = leaves
    order.price = terms.price
    order.ord_type = terms.ord_type
    order.time_in_force = terms.time_in_force
    order.max_floor = terms.max_floor
    order.min_qty = terms.min_qty
    order.protection_price = terms.protection
    order.stop_px = terms.stop_px
    order.expire_date = terms.expire_date
    if command.ord_tag_id is not None:
        order.ord_tag_id = command.ord_tag_id
    if command.account is not None:
        order.account = command.account
    if command.investor_id is not None:
        order.investor_id = command.investor_id
    if command.self_trade_prevention is not None:
        order.prevention = command.self_trade_prevention
    if command.routing_instruction is not None:
        order.routing = command.routing_instruction


def _requeue(
    market: Market,
    listing: Listing,
    order: EngineOrder,
    command: ModifyOrder,
    terms: _Terms,
    leaves: int,
    items: list[MarketItem],
    received_ns: int,
    now_ns: int,
    min_qty: int,
) -> None:
    """Enter an order that was removed from the book, or waited, as if it were new."""
    _update(order, command, terms, leaves)
    order.insert_time_ns = now_ns
    order.show()
    _report(market, order, command, now_ns)
    if listing.status == OPEN:
        trade_or_queue(market, listing, order, received_ns, now_ns, items, min_qty)
        return
    items.append(market.add_to_book(listing, order, now_ns))
    publish_theoretical(market, listing, items, now_ns)
    market.publish(items)


def _wait(
    market: Market,
    listing: Listing,
    order: EngineOrder,
    command: ModifyOrder,
    terms: _Terms,
    leaves: int,
    items: list[MarketItem],
    now_ns: int,
) -> None:
    """Keep the order out of the book until it is triggered or the closing call starts."""
    if order.level is None:
        listing.waiting.remove(order)
    else:
        items.append(market.remove_from_book(listing, order, now_ns))
    if _loses_priority(order, terms, leaves):
        market.new_secondary_id(order)
    _update(order, command, terms, leaves)
    order.show()
    listing.waiting.add(order)
    _report(market, order, command, now_ns, working=False)
    refresh_auction(market, listing, items, now_ns)
    market.publish(items)


def _change_hidden(
    market: Market,
    listing: Listing,
    order: EngineOrder,
    command: ModifyOrder,
    terms: _Terms,
    leaves: int,
    received_ns: int,
    now_ns: int,
) -> None:
    """Modify a hidden order, which trades at once if it is pegged."""
    if _loses_priority(order, terms, leaves):
        listing.waiting.remove(order)
        market.new_secondary_id(order)
        listing.waiting.add(order)
    _update(order, command, terms, leaves)
    order.show()
    _report(market, order, command, now_ns)
    if order.ord_type == PEGGED:
        min_qty = terms.min_qty if terms.min_added else 0
        enter_pegged(market, listing, order, received_ns, now_ns, min_qty)


def _keep_position(
    market: Market,
    listing: Listing,
    order: EngineOrder,
    command: ModifyOrder,
    terms: _Terms,
    leaves: int,
    items: list[MarketItem],
    now_ns: int,
) -> None:
    """Modify the order in its queue position; the feed only shows a smaller visible quantity."""
    side = listing.bids if order.side == BUY else listing.offers
    side.resize(order, leaves)
    visible = order.visible
    _update(order, command, terms, leaves)
    order.visible = min(visible, _shown(order.max_floor, leaves))
    _report(market, order, command, now_ns)
    if order.visible != visible:
        items.append(ChangeOrderMbo(
            order.security_id, order.side, order.price, order.visible, visible,
            order.secondary_order_id, order.firm or None, order.insert_time_ns, now_ns,
            side.position(order) if market.track_positions else None, order.implied,
        ))  # fmt: skip
    if listing.status != OPEN:
        refresh_auction(market, listing, items, now_ns)
    market.publish(items)


def _report(
    market: Market, order: EngineOrder, command: ModifyOrder, now_ns: int, working: bool = True
) -> None:
    """Report to the owner; from now on the request's ClOrdID identifies the order."""
    before, new = order.cl_ord_id, command.cl_ord_id
    by_client, session, segment = market.by_client, order.session, order.segment
    del by_client[session, segment, before]
    order.cl_ord_id = new
    by_client[session, segment, new] = order
    market.modified(order, before, now_ns, working)


def _refuse(market: Market, command: ModifyOrder, reject: Reject, now_ns: int) -> None:
    market.rejected(
        command.session,
        command.cl_ord_id,
        command.security_id,
        CxlRejResponseTo.REPLACE,
        reject,
        now_ns,
        command.order_id,
        command.orig_cl_ord_id,
    )
