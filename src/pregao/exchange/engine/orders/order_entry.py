"""Order entry: check a new order, trade it as far as possible, and queue or cancel the rest."""

from __future__ import annotations

from pregao.exchange.engine.book.listing import Listing
from pregao.exchange.engine.book.market import Market
from pregao.exchange.engine.book.order_book import BUY, EngineOrder
from pregao.exchange.engine.matching.market_protection import check_protection, reset_protections
from pregao.exchange.engine.matching.matching import (
    Execution,
    execution_event,
    match,
    tradable_within,
)
from pregao.exchange.engine.matching.self_trade_prevention import check_investor, tradable_without
from pregao.exchange.engine.model import reject_codes
from pregao.exchange.engine.model.commands import NewOrder
from pregao.exchange.engine.model.enums import (
    AggressorSide,
    CxlRejResponseTo,
    ExecRestatementReason,
    OrderSide,
)
from pregao.exchange.engine.model.events import MarketItem
from pregao.exchange.engine.model.reject_codes import Reject
from pregao.exchange.engine.orders.hidden_orders import (
    enter_pegged,
    is_retail,
    match_retail,
    tradable_with_providers,
)
from pregao.exchange.engine.orders.validation import (
    DAY,
    FOK,
    HIDDEN,
    IOC,
    LIMIT,
    MARKET_TO_LIMIT,
    MOA,
    MOC,
    PEGGED,
    PROTECTED,
    check_order,
    check_protection_price,
    protection_price,
)
from pregao.exchange.engine.phases.auction import OSCILLATION, SELF_TRADE, publish_theoretical
from pregao.exchange.engine.phases.trading_phases import FINAL_CLOSING_CALL, OPEN, call_auction

_NEW = CxlRejResponseTo.NEW
_AGGRESSOR = {OrderSide.BUY: AggressorSide.BUY, OrderSide.SELL: AggressorSide.SELL}


def new_order(market: Market, command: NewOrder, now_ns: int) -> None:
    """Enter an order: check it, trade what can be traded, queue or cancel the rest."""
    security_id = command.security_id
    listing = market.listings.get(security_id)
    if listing is None:
        _refuse(market, command, reject_codes.UNKNOWN_INSTRUMENT, now_ns)
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
        command.stop_px,
        command.routing_instruction,
    )
    if reject is None and command.investor_id:
        reject = check_investor(command.investor_id)
    if reject is None and market.protections and not command.mm_protection_reset:
        reject = check_protection(market, listing, command.firm, command.account)
    client = (command.session, listing.segment, command.cl_ord_id)
    if reject is None and client in market.by_client:
        reject = reject_codes.DUPLICATE_ORDER
    protection: int | None = None
    plain = command.ord_type is LIMIT
    if (
        not plain
        and reject is None
        and command.ord_type in PROTECTED
        and command.time_in_force not in (MOA, MOC)
    ):
        protection = protection_price(listing, command.side, command.stop_px)
        reject = check_protection_price(
            listing, command.side, command.ord_type, command.time_in_force, protection
        )
    if reject is not None:
        _refuse(market, command, reject, now_ns)
        return

    if command.mm_protection_reset:
        reset_protections(market, listing, command.firm, command.account)
    market.order_id += 1
    market.secondary_id += 1
    order = EngineOrder(
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
    order.prevention = command.self_trade_prevention
    order.routing = command.routing_instruction
    order.ord_tag_id = command.ord_tag_id
    order.segment = listing.segment
    order.expire_date = command.expire_date
    order.protection_price = protection
    market.orders[order.order_id] = order
    market.by_client[client] = order
    received = now_ns if command.received_ns is None else command.received_ns
    if command.stop_px is not None or (
        order.time_in_force is not DAY
        and order.time_in_force == MOC
        and listing.status != FINAL_CLOSING_CALL
    ):
        order.stop_px = command.stop_px
        market.report_accepted(order, now_ns, working=False)
        listing.waiting.add(order)
        return
    market.report_accepted(order, now_ns)
    if not plain and order.ord_type in HIDDEN:
        listing.waiting.add(order)
        if order.ord_type == PEGGED:
            enter_pegged(market, listing, order, received, now_ns, order.min_qty)
        return
    if listing.status == OPEN:
        trade_or_queue(market, listing, order, received, now_ns, [], order.min_qty)
        return
    items: list[MarketItem] = [market.add_to_book(listing, order, now_ns)]
    publish_theoretical(market, listing, items, now_ns)
    market.publish(items)


def _refuse(market: Market, command: NewOrder, reject: Reject, now_ns: int) -> None:
    market.rejected(command.session, command.cl_ord_id, command.security_id, _NEW, reject, now_ns)


def trade_or_queue(
    market: Market,
    listing: Listing,
    order: EngineOrder,
    received_ns: int,
    now_ns: int,
    updates: list[MarketItem],
    min_qty: int,
) -> None:
    """Execute an accepted order in the open book: trade, then queue or cancel what is left.

    ``updates`` has the book updates that the event already made (an order removed to be modified).
    An order that cannot trade ``min_qty`` now is canceled.
    """
    buys = order.side == BUY
    keys = listing.offers.keys if buys else listing.bids.keys
    if not keys or (keys[-1] < _limit_key(order) and not order.routing):
        # Nothing to trade with: by far the most frequent case.
        if min_qty:
            cancel(market, order, now_ns)
        else:
            _rest(market, listing, order, updates, now_ns)
        market.publish(updates)
        return
    execution = Execution(updates)
    execute(market, listing, order, execution, now_ns, min_qty)
    publish(market, listing, order, execution, received_ns, now_ns)


def _limit_key(order: EngineOrder) -> int:
    """Return the worst key of the opposite side that an order trades with."""
    price = order.price if order.price is not None else order.protection_price
    assert price is not None
    return -price if order.side == BUY else price


def execute(
    market: Market,
    listing: Listing,
    order: EngineOrder,
    execution: Execution,
    now_ns: int,
    min_qty: int,
) -> None:
    """Match an order within an event, then rest or cancel what is left of it.

    If the next trade would call an auction, the execution is ``blocked`` and the order is left
    unchanged.
    """
    limit_key = _limit_key(order)
    updates = execution.updates
    required = order.leaves if order.time_in_force == FOK else min_qty
    if required and _tradable(market, listing, order, limit_key, required) < required:
        # A minimum quantity that cannot be met cancels the order immediately, like FOK.
        cancel(market, order, now_ns)
        return
    cum_before = order.cum
    if order.routing and is_retail(listing, order):
        match_retail(market, listing, order, limit_key, execution, now_ns)
    else:
        match(market, listing, order, limit_key, execution, now_ns)
    if execution.must_stop:
        execution.must_stop = False
        execution.cancelled += order.leaves
        cancel(market, order, now_ns, ExecRestatementReason.SELF_TRADING_PREVENTION)
        return
    if execution.legs_closed:
        execution.legs_closed = False
        if order.leaves:
            cancel(market, order, now_ns, ExecRestatementReason.MARKET_OPTION)
        else:
            _rest(market, listing, order, updates, now_ns)
        return
    if execution.blocked:
        if order.leaves and order.time_in_force not in (IOC, FOK):
            return
        execution.blocked = False
    last_px = execution.last_px if order.cum > cum_before else None
    _rest(market, listing, order, updates, now_ns, last_px)


def _tradable(
    market: Market, listing: Listing, order: EngineOrder, limit_key: int, wanted: int
) -> int:
    """Return how much of the ``wanted`` quantity the order could trade now."""
    if order.investor_id:
        within = limit_key
        if listing.strategy is not None:
            within = listing.strategy.limit_key(order.side, limit_key)
        tradable = tradable_without(listing, order, within, wanted)
    else:
        tradable = tradable_within(listing, order.side, limit_key, wanted)
    if order.routing and is_retail(listing, order):
        tradable += tradable_with_providers(market, listing, order, limit_key)
    return tradable


def publish(
    market: Market,
    listing: Listing,
    order: EngineOrder,
    execution: Execution,
    received_ns: int,
    now_ns: int,
) -> None:
    """Publish the event of an execution; if it was blocked, call an auction.

    ``order`` is the last order executed: the one that calls the auction.
    """
    aggressor = _AGGRESSOR[order.side]
    frozen = execution.blocked
    reason = SELF_TRADE if execution.self_trade else OSCILLATION
    last_px = execution.last_px if execution.filled else None
    if execution.filled or not frozen:
        execution_event(market, listing, execution, aggressor, received_ns, now_ns)
        if not frozen:
            return
        execution = Execution()
    items: list[MarketItem] = [
        *execution.updates,
        call_auction(market, listing, reason, now_ns),
    ]
    _rest(market, listing, order, items, now_ns, last_px)
    listing.frozen_by = order
    publish_theoretical(market, listing, items, now_ns)
    market.publish(items)


def cancel(
    market: Market, order: EngineOrder, now_ns: int, reason: ExecRestatementReason | None = None
) -> None:
    """Cancel an order that is not in the book."""
    market.remove_from_indexes(order)
    market.cancelled(order, now_ns, reason)


def _rest(
    market: Market,
    listing: Listing,
    order: EngineOrder,
    updates: list[MarketItem],
    now_ns: int,
    last_px: int | None = None,
) -> None:
    """Queue what is left of an order, or cancel it if it may not rest.

    A market order rests as a limit order: at its protection price or, if its type is market with
    leftover as limit, at the price of its last trade.
    """
    if not order.leaves:
        order.visible = 0
        market.remove_from_indexes(order)
        return
    if order.time_in_force is not DAY and order.time_in_force in (IOC, FOK):
        cancel(market, order, now_ns)
        return
    if order.price is None:
        order.price = order.protection_price
        if order.ord_type == MARKET_TO_LIMIT and last_px is not None:
            order.price = last_px
        order.ord_type = LIMIT
    order.show()
    updates.append(market.add_to_book(listing, order, now_ns))
