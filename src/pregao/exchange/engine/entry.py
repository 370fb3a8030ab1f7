"""Order entry: new orders, cancels, mass cancels and crosses."""

from __future__ import annotations

from pregao.exchange.engine import rejects
from pregao.exchange.engine.auction import participates, publish_theoretical
from pregao.exchange.engine.checks import (
    FOK,
    GTC,
    GTD,
    IOC,
    LIMIT,
    MARKET_TO_LIMIT,
    MOA,
    MOC,
    check_cancel_state,
    check_order,
    check_price,
    check_state,
    protection_price,
)
from pregao.exchange.engine.commands import (
    CancelOrder,
    CrossSide,
    MassCancel,
    NewCross,
    NewOrder,
)
from pregao.exchange.engine.events import MarketItem
from pregao.exchange.engine.listing import Listing
from pregao.exchange.engine.market import Market
from pregao.exchange.engine.matching import Execution, execution_event, match, tradable_within
from pregao.exchange.engine.orders import BUY, Order, key_of
from pregao.exchange.engine.phases import FINAL_CLOSING_CALL, OPEN, call_auction
from pregao.exchange.engine.rejects import Reject
from pregao.exchange.engine.reports import MassCancelled
from pregao.exchange.engine.session_statistics import matched
from pregao.exchange.engine.terms import (
    AggressorSide,
    CxlRejResponseTo,
    Side,
    TimeInForce,
    TradeCondition,
)

_NEW = CxlRejResponseTo.NEW
_CANCEL = CxlRejResponseTo.CANCEL
_AGGRESSOR = {Side.BUY: AggressorSide.BUY, Side.SELL: AggressorSide.SELL}


def new_order(market: Market, command: NewOrder, now_ns: int) -> None:
    """Enter an order: check it, trade what can be traded, queue or cancel the rest."""
    security_id = command.security_id
    listing = market.listings.get(security_id)
    if listing is None:
        _refuse(market, command, rejects.UNKNOWN_INSTRUMENT, now_ns)
        return
    reject = check_order(
        listing,
        command.quantity,
        command.price,
        command.ord_type,
        command.time_in_force,
        command.max_floor,
        command.min_qty,
        command.expire_date,
        market.trade_date,
    )
    client = (command.session, security_id, command.cl_ord_id)
    if reject is None and client in market.by_client:
        reject = rejects.DUPLICATE_ORDER
    protection: int | None = None
    if reject is None and command.ord_type != LIMIT and command.time_in_force not in (MOA, MOC):
        protection = protection_price(listing, command.side)
        if protection is None:
            reject = rejects.NO_REFERENCE_PRICE
        elif command.ord_type == MARKET_TO_LIMIT and not tradable_within(
            listing, command.side, -key_of(command.side, protection), 1
        ):
            reject = rejects.NO_OPPOSITE_SIDE
    if reject is not None:
        _refuse(market, command, reject, now_ns)
        return

    market.order_id += 1
    market.secondary_id += 1
    order = Order(
        market.order_id,
        market.secondary_id,
        command.session,
        command.firm,
        command.cl_ord_id,
        security_id,
        command.side,
        command.price,
        command.quantity,
        command.ord_type,
        command.time_in_force,
        command.max_floor,
        command.min_qty,
        now_ns,
    )
    order.account = command.account
    order.investor_id = command.investor_id
    order.ord_tag_id = command.ord_tag_id
    order.expire_date = command.expire_date
    order.protection_price = protection
    market.orders[order.order_id] = order
    market.by_client[client] = order
    received = now_ns if command.received_ns is None else command.received_ns
    if order.time_in_force == MOC and listing.status != FINAL_CLOSING_CALL:
        market.accepted(order, now_ns, working=False)
        listing.waiting[order.order_id] = order
        return
    market.accepted(order, now_ns)
    if listing.status == OPEN:
        trade_or_queue(market, listing, order, received, now_ns, [])
        return
    items: list[MarketItem] = [market.put(listing, order, now_ns)]
    publish_theoretical(market, listing, items, now_ns)
    market.tell(items)


def _refuse(market: Market, command: NewOrder, reject: Reject, now_ns: int) -> None:
    market.rejected(command.session, command.cl_ord_id, command.security_id, _NEW, reject, now_ns)


def trade_or_queue(
    market: Market,
    listing: Listing,
    order: Order,
    received_ns: int,
    now_ns: int,
    updates: list[MarketItem],
) -> None:
    """Bring an accepted order to the open book: trade, then queue or cancel what is left.

    ``updates`` holds what the event already did to the book (an order taken out to be changed).
    """
    price = order.price if order.price is not None else order.protection_price
    assert price is not None
    limit_key = -price if order.side == BUY else price
    opposite = listing.opposite(order.side)
    keys = opposite.keys
    if not keys or keys[-1] < limit_key:
        # Nothing to trade with: by far the most frequent case.
        rest(market, listing, order, updates, now_ns, None)
        market.tell(updates)
        return
    wanted = order.leaves if order.time_in_force == FOK else order.min_qty
    if wanted and tradable_within(listing, order.side, limit_key, wanted) < wanted:
        # Also a minimum that cannot be met ends the order at once.
        market.forget(order)
        market.cancelled(order, now_ns)
        market.tell(updates)
        return
    execution = match(market, listing, order, limit_key, now_ns)
    updates.extend(execution.updates)
    frozen = execution.blocked and order.leaves and order.time_in_force not in (IOC, FOK)
    if not frozen:
        rest(market, listing, order, updates, now_ns, execution)
    if execution.filled:
        execution_event(
            market, listing, execution, _AGGRESSOR[order.side], received_ns, now_ns, updates
        )
        updates = []
    if frozen:
        items: list[MarketItem] = [*updates, call_auction(market, listing, now_ns)]
        rest(market, listing, order, items, now_ns, execution)
        publish_theoretical(market, listing, items, now_ns)
        market.tell(items)
    elif not execution.filled:
        market.tell(updates)


def rest(
    market: Market,
    listing: Listing,
    order: Order,
    updates: list[MarketItem],
    now_ns: int,
    execution: Execution | None,
) -> None:
    """See to what is left of an order: queue it, or cancel it if it may not wait.

    A market order rests as a limit order, at its protection price or, with the leftover as
    limit, at the price of its last trade.
    """
    if not order.leaves:
        order.visible = 0
        market.forget(order)
        return
    if order.time_in_force in (IOC, FOK) or (order.min_qty and execution is None):
        market.forget(order)
        market.cancelled(order, now_ns)
        return
    if order.price is None:
        order.price = order.protection_price
        if order.ord_type == MARKET_TO_LIMIT and execution is not None and execution.filled:
            order.price = execution.last_px
        order.ord_type = LIMIT
    order.show()
    updates.append(market.put(listing, order, now_ns))


def find_order(
    market: Market, session: int, security_id: int, order_id: int, orig_cl_ord_id: int
) -> Order | None:
    """The resting order that a request names, if it belongs to that session."""
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
        reject = check_cancel_state(listing.status)
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
    market.cancelled(order, now_ns, cl_ord_id=command.cl_ord_id)
    if items and listing.status != OPEN:
        refresh_auction(market, listing, items, now_ns)
    market.tell(items)


def withdraw(
    market: Market, listing: Listing, order: Order, items: list[MarketItem], now_ns: int
) -> None:
    """Take a resting order out, of the book or of those that wait."""
    if order.level is None:
        del listing.waiting[order.order_id]
    else:
        items.append(market.take(listing, order, now_ns))
    market.forget(order)


def refresh_auction(market: Market, listing: Listing, items: list[MarketItem], now_ns: int) -> None:
    """After the book has changed: in an auction the theoretical price may have moved."""
    if check_state(listing.status) is None and listing.status != OPEN:
        publish_theoretical(market, listing, items, now_ns)


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


def new_cross(market: Market, command: NewCross, now_ns: int) -> None:
    """Register a cross: one trade between two orders that never rest in the book."""
    listing = market.listings.get(command.security_id)
    reject = _check_cross(market, listing, command)
    if reject is not None or listing is None:
        for side in (command.buyer, command.seller):
            market.rejected(
                command.session,
                side.cl_ord_id,
                command.security_id,
                _NEW,
                reject or rejects.UNKNOWN_INSTRUMENT,
                now_ns,
            )
        return
    buyer = _cross_order(market, command, Side.BUY, command.buyer, now_ns)
    seller = _cross_order(market, command, Side.SELL, command.seller, now_ns)
    if not listing.auction_low <= command.price <= listing.auction_high:
        # Both orders go to the auction that the cross calls.
        items: list[MarketItem] = [call_auction(market, listing, now_ns)]
        for order in (buyer, seller):
            market.orders[order.order_id] = order
            market.by_client[(order.session, order.security_id, order.cl_ord_id)] = order
            items.append(market.put(listing, order, now_ns))
        publish_theoretical(market, listing, items, now_ns)
        market.tell(items)
        return
    for order in (buyer, seller):
        order.leaves = order.visible = 0
        order.cum = command.quantity
    execution = Execution()
    execution.filled = command.quantity
    execution.last_px = command.price
    execution.trades.append(
        matched(
            market,
            listing,
            buyer,
            seller,
            command.quantity,
            command.price,
            listing.statistics.opening is None,
            now_ns,
            aggressor=False,
            condition=int(TradeCondition.CROSSED),
            cross_id=command.cross_id,
        )
    )
    received = now_ns if command.received_ns is None else command.received_ns
    execution_event(market, listing, execution, AggressorSide.NO_AGGRESSOR, received, now_ns, [])


def _cross_order(
    market: Market, command: NewCross, side: Side, party: CrossSide, now_ns: int
) -> Order:
    """Make and accept one of the two orders of a cross."""
    market.order_id += 1
    market.secondary_id += 1
    order = Order(
        market.order_id,
        market.secondary_id,
        command.session,
        party.firm,
        party.cl_ord_id,
        command.security_id,
        side,
        command.price,
        command.quantity,
        LIMIT,
        TimeInForce.DAY,
        0,
        0,
        now_ns,
    )
    order.account = party.account
    market.accepted(order, now_ns, cross_id=command.cross_id)
    return order


def _check_cross(market: Market, listing: Listing | None, command: NewCross) -> Reject | None:
    """What is wrong with a cross, or None."""
    if listing is None:
        return rejects.UNKNOWN_INSTRUMENT
    if listing.status != OPEN:
        return check_state(listing.status) or rejects.CROSS_NOT_OPEN
    if not listing.takes_orders:
        return rejects.NOT_TRADED_IN_BOOK.because(listing.instrument.symbol)
    if not listing.takes_crosses:
        return rejects.CROSS_NOT_ELIGIBLE
    quantity = command.quantity
    if not listing.min_qty <= quantity:
        return rejects.QUANTITY_OUTSIDE_RANGE.because(f"{quantity} is below {listing.min_qty}")
    if quantity % listing.lot:
        return rejects.QUANTITY_OFF_LOT.because(f"{quantity} is not a multiple of {listing.lot}")
    if quantity < (listing.instrument.min_cross_qty or 0):
        return rejects.CROSS_TOO_SMALL
    if (reject := check_price(listing, command.price)) is not None:
        return reject
    bid, offer = listing.bids.best_price(), listing.offers.best_price()
    if (bid is not None and bid > command.price) or (offer is not None and offer < command.price):
        return rejects.CROSS_THROUGH_BOOK
    if command.buyer.cl_ord_id == command.seller.cl_ord_id or any(
        (command.session, command.security_id, side.cl_ord_id) in market.by_client
        for side in (command.buyer, command.seller)
    ):
        return rejects.DUPLICATE_ORDER
    return None
