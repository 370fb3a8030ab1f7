"""Cross orders: a deal between two investors of one session, registered as one trade."""

from __future__ import annotations

from pregao.exchange.engine.book.listing import Listing
from pregao.exchange.engine.book.market import Market
from pregao.exchange.engine.book.order_book import EngineOrder
from pregao.exchange.engine.matching.market_protection import check_protection
from pregao.exchange.engine.matching.matching import Execution, execution_event, match
from pregao.exchange.engine.matching.self_trade_prevention import self_trade_calls_auction
from pregao.exchange.engine.matching.statistics import matched
from pregao.exchange.engine.model import reject_codes
from pregao.exchange.engine.model.commands import CrossSide, NewCross
from pregao.exchange.engine.model.enums import (
    AggressorSide,
    CrossPrioritization,
    CrossType,
    CxlRejResponseTo,
    ExecRestatementReason,
    OrderSide,
    TimeInForce,
    TradeCondition,
    TrdSubType,
)
from pregao.exchange.engine.model.events import MarketItem
from pregao.exchange.engine.model.reject_codes import Reject
from pregao.exchange.engine.orders.validation import (
    LIMIT,
    check_auction_end,
    check_legs,
    check_price,
    check_quantity,
    check_state,
)
from pregao.exchange.engine.phases.auction import OSCILLATION, SELF_TRADE, publish_theoretical
from pregao.exchange.engine.phases.trading_phases import OPEN, call_auction

_NEW = CxlRejResponseTo.NEW


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
                reject or reject_codes.UNKNOWN_INSTRUMENT,
                now_ns,
            )
        return
    buyer = _cross_order(market, listing, command, OrderSide.BUY, command.buyer, now_ns)
    seller = _cross_order(market, listing, command, OrderSide.SELL, command.seller, now_ns)
    received = now_ns if command.received_ns is None else command.received_ns
    if command.cross_type == CrossType.CROSS_EXECUTED_AGAINST_BOOK_FROM_CLIENT:
        _sweep(market, listing, command, buyer, seller, received, now_ns)
        return
    reason = _auction_reason(market, listing, command)
    if reason is not None:
        # Both orders enter the auction that the cross calls.
        items: list[MarketItem] = [call_auction(market, listing, reason, now_ns)]
        for order in (buyer, seller):
            market.orders[order.order_id] = order
            market.by_client[(order.session, order.segment, order.cl_ord_id)] = order
            items.append(market.add_to_book(listing, order, now_ns))
        publish_theoretical(market, listing, items, now_ns)
        market.publish(items)
        return
    execution = Execution()
    _trade(market, listing, command, buyer, seller, execution, now_ns)
    execution_event(market, listing, execution, AggressorSide.NO_AGGRESSOR, received, now_ns)


def _auction_reason(market: Market, listing: Listing, command: NewCross) -> str | None:
    """Return why a cross calls an auction, or None."""
    if not listing.auction_low <= command.price <= listing.auction_high:
        return OSCILLATION
    if command.buyer.firm == command.seller.firm and self_trade_calls_auction(market, listing):
        return SELF_TRADE
    return None


def _trade(
    market: Market,
    listing: Listing,
    command: NewCross,
    buyer: EngineOrder,
    seller: EngineOrder,
    execution: Execution,
    now_ns: int,
) -> None:
    """Trade what both sides have left with each other, at the price of the cross."""
    quantity = min(buyer.leaves, seller.leaves)
    for order in (buyer, seller):
        order.leaves -= quantity
        order.visible = order.leaves
        order.cum += quantity
    execution.filled += quantity
    execution.last_px = command.price
    execution.trades.append(
        matched(
            market,
            listing,
            buyer,
            seller,
            quantity,
            command.price,
            listing.statistics.opening is None,
            now_ns,
            aggressor=False,
            condition=int(TradeCondition.CROSSED),
            cross_id=command.cross_id,
            sub_type=execution.sub_type,
        )
    )


def _sweep(
    market: Market,
    listing: Listing,
    command: NewCross,
    buyer: EngineOrder,
    seller: EngineOrder,
    received_ns: int,
    now_ns: int,
) -> None:
    """Send the prioritized side to the book, then cross what it has left with the other side.

    If the book still has a better price than the cross, nothing is crossed. The rest is canceled.
    """
    first, second = buyer, seller
    if command.prioritization == CrossPrioritization.SELL_SIDE_IS_PRIORITIZED:
        first, second = seller, buyer
    execution = Execution()
    execution.sub_type = TrdSubType.SWEEP_TRADE
    limit_key = -command.price if first is buyer else command.price
    match(market, listing, first, limit_key, execution, now_ns, command.max_sweep_qty)
    if first.leaves and _better_in_book(listing, command.price) is None:
        _trade(market, listing, command, buyer, seller, execution, now_ns)
    side = AggressorSide(int(first.side))
    execution_event(market, listing, execution, side, received_ns, now_ns)
    for order in (first, second):
        if order.leaves:
            market.cancelled(order, now_ns, ExecRestatementReason.CANCEL_REMAINING_FROM_SWEEP_CROSS)


def _better_in_book(listing: Listing, price: int) -> Reject | None:
    """Return the reject if the book has a better price than the cross, or None."""
    bid, offer = listing.bids.best_price(), listing.offers.best_price()
    if (bid is not None and bid > price) or (offer is not None and offer < price):
        return reject_codes.CROSS_THROUGH_BOOK
    return None


def _cross_order(
    market: Market,
    listing: Listing,
    command: NewCross,
    side: OrderSide,
    party: CrossSide,
    now_ns: int,
) -> EngineOrder:
    """Create and accept one of the two orders of a cross."""
    market.order_id += 1
    market.secondary_id += 1
    order = EngineOrder(
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
    order.segment = listing.segment
    market.report_accepted(order, now_ns, cross_id=command.cross_id)
    return order


def _check_type(market: Market, listing: Listing, command: NewCross) -> Reject | None:
    """Return the reason to reject a cross of its type, given the book, or None."""
    if command.cross_type == CrossType.ALL_OR_NONE_CROSS:
        return _better_in_book(listing, command.price)
    if command.cross_type != CrossType.CROSS_EXECUTED_AGAINST_BOOK_FROM_CLIENT:
        return reject_codes.CROSS_TYPE_NOT_ACCEPTED.because(command.cross_type.name)
    if command.prioritization == CrossPrioritization.NONE:
        return reject_codes.CROSS_WITHOUT_PRIORITY
    if (reason := _auction_reason(market, listing, command)) is not None:
        return reject_codes.CROSS_TYPE_NOT_ACCEPTED.because(f"it calls an auction ({reason})")
    max_sweep = command.max_sweep_qty
    if max_sweep is not None and not 0 < max_sweep <= command.quantity:
        return reject_codes.SWEEP_INVALID
    return None


def _check_cross(market: Market, listing: Listing | None, command: NewCross) -> Reject | None:
    """Return the reason to reject a cross, or None."""
    if listing is None:
        return reject_codes.UNKNOWN_INSTRUMENT
    if listing.status != OPEN:
        closing = check_auction_end(listing)
        return closing or check_state(listing.status) or reject_codes.CROSS_NOT_OPEN
    if not listing.takes_orders:
        return reject_codes.NOT_TRADED_IN_BOOK.because(listing.instrument.symbol)
    if (reject := check_legs(listing, command.price)) is not None:
        return reject
    if not listing.takes_crosses:
        return reject_codes.CROSS_NOT_ELIGIBLE
    quantity = command.quantity
    if (reject := check_quantity(listing, quantity)) is not None:
        return reject
    if quantity < (listing.instrument.min_cross_qty or 0):
        return reject_codes.CROSS_TOO_SMALL
    if (reject := check_price(listing, command.price)) is not None:
        return reject
    for side in (command.buyer, command.seller):
        if (reject := check_protection(market, listing, side.firm, side.account)) is not None:
            return reject
    if (reject := _check_type(market, listing, command)) is not None:
        return reject
    if command.buyer.cl_ord_id == command.seller.cl_ord_id or any(
        (command.session, listing.segment, side.cl_ord_id) in market.by_client
        for side in (command.buyer, command.seller)
    ):
        return reject_codes.DUPLICATE_ORDER
    return None
