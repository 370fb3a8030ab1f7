"""Trades by market operations: bust, manual entry, amendment, and the statistics after them.

They are not requests of members: an invalid one raises ``UsageError`` and changes nothing.
"""

from __future__ import annotations

from dataclasses import replace

from pregao.errors import UsageError
from pregao.exchange.engine.book.listing import Listing, TradeParty, TradeRecord
from pregao.exchange.engine.book.market import Market
from pregao.exchange.engine.matching.give_ups import drop_give_ups
from pregao.exchange.engine.matching.statistics import (
    TRADE_ID_STEP,
    clear_prices,
    count_trade,
    execution_statistics,
    opening_and_range,
    replace_trade,
    sets_last_price,
    trades_in_sequence,
    uncount_trade,
)
from pregao.exchange.engine.model.enums import OrderSide, TradeCondition, TrdSubType
from pregao.exchange.engine.model.events import (
    ForwardTrade,
    MarketItem,
    Trade,
    TradeBust,
    TradeItem,
)
from pregao.exchange.engine.model.operations_commands import AmendTrade, BustTrade, EnterTrade
from pregao.exchange.engine.model.reports import FillBusted
from pregao.exchange.engine.orders.order_cancel import refresh_auction

_BLOCK = frozenset({TrdSubType.MIDPOINT_TRADE, TrdSubType.BLOCK_BOOK_TRADE, TrdSubType.RFQ_TRADE})
_CASH_ONLY = frozenset({TrdSubType.MIDPOINT_TRADE, TrdSubType.MULTI_ASSET_TRADE})
_NEITHER_REGULAR_NOR_BLOCK = frozenset(
    {TrdSubType.MULTI_ASSET_TRADE, TrdSubType.LEG_TRADE, TrdSubType.RLP_TRADE}
)


def bust_trade(market: Market, command: BustTrade, now_ns: int) -> None:
    """Cancel a trade: recompute volume, average and count, and report it to the owners."""
    listing = market.listing(command.security_id)
    record = _record(listing, command.trade_id)
    trade = record.item
    del listing.trades[trade.trade_id]
    market.positions.resized(listing.security_id, trade.trade_id, 0)
    drop_give_ups(market, listing.security_id, trade.trade_id)
    uncount_trade(listing.statistics, trade)
    if not listing.statistics.count:
        clear_prices(listing)
    items: list[MarketItem] = [
        TradeBust(
            listing.security_id,
            trade.trading_session,
            trade.price,
            trade.size,
            trade.trade_id,
            trade.trade_date,
            now_ns,
            isinstance(trade, Trade) and trade.implied,
        )
    ]
    opening_and_range(market, listing, items, now_ns)
    items.append(execution_statistics(market, listing, now_ns))
    # The theoretical price depends on the last price.
    refresh_auction(market, listing, items, now_ns)
    market.publish(items)
    for party, side, contra in (
        (record.buyer, OrderSide.BUY, trade.seller),
        (record.seller, OrderSide.SELL, trade.buyer),
    ):
        if party is not None:
            _report_bust(market, party, side, contra, trade, now_ns)


def _report_bust(
    market: Market,
    party: TradeParty,
    side: OrderSide,
    contra: int | None,
    trade: TradeItem,
    now_ns: int,
) -> None:
    """Report a busted trade to one side: ``leaves`` does not grow, ``cum`` shrinks.

    The order of a spread in a leg existed only for the trade: nothing of it is left.
    """
    order = market.orders.get(party.order_id)
    leaves = cum = 0
    cl_ord_id, secondary = party.cl_ord_id, party.secondary_order_id
    if order is not None:
        cl_ord_id, secondary = order.cl_ord_id, order.secondary_order_id
        if not party.leg_of:
            order.cum -= trade.size
            leaves, cum = order.leaves, order.cum
    market.exec_id += 1
    market.reports.append(
        FillBusted(
            market.exec_id,
            party.exec_id,
            party.session,
            party.firm,
            cl_ord_id,
            party.order_id,
            secondary,
            trade.security_id,
            side,
            party.quantity,
            trade.size,
            trade.price,
            leaves,
            cum,
            trade.trade_id,
            contra,
            now_ns,
            party.aggressor,
            party.leg_of,
        )
    )


def enter_trade(market: Market, command: EnterTrade, now_ns: int) -> None:
    """Publish a trade made outside the book."""
    listing = market.listing(command.security_id)
    _check_trade(listing, command.price, command.quantity)
    forward = listing.instrument.is_forward
    if not forward and (command.seller_days is not None or command.interest_rate is not None):
        raise UsageError(
            f"{listing.instrument.symbol} is not a forward: it has no seller days or interest rate"
        )
    _check_sub_type(market, listing, command)
    condition = _condition(listing, command)
    listing.trade_id += TRADE_ID_STEP
    when = now_ns if command.transact_time_ns is None else command.transact_time_ns
    fields = (
        listing.security_id, listing.group.session, condition, command.price, command.quantity,
        listing.trade_id, command.buyer, command.seller, market.trade_day, command.trd_sub_type,
        when,
    )  # fmt: skip
    trade: TradeItem
    if forward:
        trade = ForwardTrade(*fields, command.seller_days, command.interest_rate)
    else:
        trade = Trade(*fields)
    _count(listing, trade)
    market.keep_trade(listing, TradeRecord(trade, None, None))
    _publish_trade(market, listing, trade, now_ns)


def _check_sub_type(market: Market, listing: Listing, command: EnterTrade) -> None:
    """Reject sub types that the product or the conditions do not allow."""
    kind = command.trd_sub_type
    if kind is None:
        return
    name = f"a trade of {listing.instrument.symbol} cannot be {kind.name}"
    if kind in _BLOCK and command.crossed:
        raise UsageError(f"{name} and crossed: block trades cannot be crossed")
    if kind in _CASH_ONLY and (listing.derivative or listing.instrument.is_forward):
        raise UsageError(f"{name}: it is a derivative")
    if kind == TrdSubType.RLP_TRADE and listing.fixed_income:
        raise UsageError(f"{name}: fixed income has no retail liquidity providers")
    if kind == TrdSubType.LEG_TRADE and not any(
        leg.security_id == listing.security_id
        for other in market.listings.values()
        for leg in other.instrument.legs
    ):
        raise UsageError(f"{name}: the instrument is not a leg of any listed one")


def _condition(listing: Listing, command: EnterTrade) -> int:
    """Return the conditions of a manual trade, which `_check_sub_type` has checked."""
    condition = 0
    kind = command.trd_sub_type
    if kind in _BLOCK:
        condition |= TradeCondition.BLOCK_TRADE
    elif kind not in _NEITHER_REGULAR_NOR_BLOCK:
        condition |= TradeCondition.REGULAR_TRADE
    if command.crossed:
        condition |= TradeCondition.CROSSED
    if command.on_behalf:
        condition |= TradeCondition.TRADE_ON_BEHALF
    if command.out_of_sequence:
        return int(condition | TradeCondition.OUT_OF_SEQUENCE)
    if kind not in _BLOCK and listing.statistics.opening is None:
        condition |= TradeCondition.OPENING_PRICE
    if listing.statistics.last == command.price:
        condition |= TradeCondition.LAST_TRADE_AT_THE_SAME_PRICE
    return int(condition)


def _count(listing: Listing, trade: TradeItem) -> None:
    """Count a trade in the statistics."""
    statistics = listing.statistics
    count_trade(statistics, trade.price, trade.size, trade.trade_condition)
    if trade.trade_condition & TradeCondition.OPENING_PRICE:
        statistics.opening = trade.price
        statistics.opening_id = trade.trade_id
    if sets_last_price(trade):
        statistics.last = trade.price
        listing.last_trade = trade


def _publish_trade(market: Market, listing: Listing, trade: TradeItem, now_ns: int) -> None:
    """Publish a manual trade, without an execution summary before it."""
    items: list[MarketItem] = [trade]
    opening_and_range(market, listing, items, now_ns)
    items.append(execution_statistics(market, listing, now_ns))
    # The theoretical price depends on the last price.
    refresh_auction(market, listing, items, now_ns)
    market.publish(items)


def amend_trade(market: Market, command: AmendTrade, now_ns: int) -> None:
    """Correct a trade and publish it again under its trade ID.

    Unless it is the last trade it is out of sequence, so that it does not set the last price.
    """
    listing = market.listing(command.security_id)
    record = _record(listing, command.trade_id)
    old = record.item
    price = old.price if command.price is None else command.price
    size = old.size if command.quantity is None else command.quantity
    _check_trade(listing, price, size)
    new: TradeItem = replace(
        old,
        price=price,
        size=size,
        buyer=old.buyer if command.buyer is None else command.buyer,
        seller=old.seller if command.seller is None else command.seller,
        trade_condition=_amended_condition(listing, old, price),
        transact_time_ns=now_ns if command.transact_time_ns is None else command.transact_time_ns,
    )
    market.positions.resized(listing.security_id, old.trade_id, size)
    replace_trade(listing.statistics, old, new)
    listing.trades[old.trade_id] = TradeRecord(new, record.buyer, record.seller)
    for party in (record.buyer, record.seller):
        order = None if party is None or party.leg_of else market.orders.get(party.order_id)
        if order is not None:
            order.cum += size - old.size
    statistics = listing.statistics
    if statistics.opening_id == old.trade_id:
        statistics.opening = price
    if listing.last_trade == old:
        listing.last_trade = new
        statistics.last = price
    _publish_trade(market, listing, new, now_ns)


def _amended_condition(listing: Listing, old: TradeItem, price: int) -> int:
    """Return the conditions of an amended trade."""
    same_price = TradeCondition.LAST_TRADE_AT_THE_SAME_PRICE
    condition = old.trade_condition & ~same_price | TradeCondition.TRADE_ON_BEHALF
    if listing.last_trade != old:
        return int(condition | TradeCondition.OUT_OF_SEQUENCE)
    before = trades_in_sequence(listing)[:-1]
    if before and before[-1].price == price:
        condition |= same_price
    return int(condition)


def _check_trade(listing: Listing, price: int, quantity: int) -> None:
    if quantity <= 0:
        raise UsageError(f"the quantity of a trade must be greater than zero, was {quantity}")
    if price <= 0 and not listing.instrument.allows_any_sign:
        raise UsageError(
            f"the price of a trade of {listing.instrument.symbol} must be greater than zero"
        )


def _record(listing: Listing, trade_id: int) -> TradeRecord:
    """Return a trade that can still be busted or amended."""
    record = listing.trades.get(trade_id)
    if record is None:
        raise UsageError(
            f"{listing.instrument.symbol} has no trade {trade_id} on record today: "
            "it never existed, is already busted, or is older than the trades kept"
        )
    return record
