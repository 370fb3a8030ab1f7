"""Start and end of a trading day: orders that expire, statistics that restart."""

from __future__ import annotations

from pregao.errors import UsageError
from pregao.exchange.engine.book.market import Market
from pregao.exchange.engine.book.order_book import EngineOrder
from pregao.exchange.engine.matching.statistics import regular_close
from pregao.exchange.engine.model.enums import PRICE8_PER_PRICE, OpenCloseSettlFlag, TimeInForce
from pregao.exchange.engine.model.events import ClosingPrice, MarketItem
from pregao.exchange.engine.model.operations_commands import EndDay, StartDay
from pregao.exchange.engine.phases.auction import publish_theoretical
from pregao.exchange.engine.phases.trading_phases import AUCTIONS, phase_message, reset_statistics


def end_day(market: Market, _command: EndDay, now_ns: int) -> None:
    """Expire the orders whose validity ends with the day, one event per instrument."""
    for listing in market.listings.values():
        ending = [
            order
            for side in (listing.bids, listing.offers)
            for order in side
            if _ends_today(market, order)
        ]
        items: list[MarketItem] = [
            market.remove_from_book(listing, order, now_ns) for order in ending
        ]
        for order in listing.waiting:
            if _ends_today(market, order):
                listing.waiting.remove(order)
                ending.append(order)
        if items and listing.status in AUCTIONS:
            publish_theoretical(market, listing, items, now_ns)
        market.expire(ending, now_ns)
        market.publish(items)


def _ends_today(market: Market, order: EngineOrder) -> bool:
    if order.implied or order.time_in_force == TimeInForce.GOOD_TILL_CANCEL:
        return False
    if order.time_in_force == TimeInForce.GOOD_TILL_DATE:
        return order.expire_date is None or order.expire_date <= market.trade_date
    return True


def start_day(market: Market, command: StartDay, now_ns: int) -> None:
    """Start a trading day: reset statistics and trade IDs, and publish previous closes.

    Ends the previous day if it was not ended. The previous close is the day's closing price if one
    was published, else the last price of its regular session, else the last trade.
    """
    if command.trade_date < market.trade_date:
        raise UsageError(
            f"the trading day {command.trade_date} is before the current one ({market.trade_date})"
        )
    if command.trade_date > market.trade_date:
        end_day(market, EndDay(), now_ns)
    market.set_trade_date(command.trade_date)
    for listing in market.listings.values():
        closing = listing.shown.pop((ClosingPrice, OpenCloseSettlFlag.DAILY), None)
        if isinstance(closing, ClosingPrice):
            listing.previous_close8 = closing.price8
        elif (last := regular_close(listing)) is not None or (
            last := listing.statistics.last
        ) is not None:
            listing.previous_close8 = last * PRICE8_PER_PRICE
        reset_statistics(listing)
        listing.trades.clear()
        listing.trade_id = 0
    market.kept_trades.clear()
    market.last_trade_ids.clear()
    for group in market.groups.values():
        market.publish([phase_message(market, group, True, now_ns)], event=False)
    closes: list[MarketItem] = []
    flag = OpenCloseSettlFlag.ENTRY_FROM_PREVIOUS_BUSINESS_DAY
    for listing in market.listings.values():
        if listing.previous_close8 is not None:
            close = ClosingPrice(
                listing.security_id,
                listing.previous_close8,
                flag,
                None,
                market.trade_day,
                now_ns,
            )
            listing.shown[(ClosingPrice, flag)] = close
            closes.append(close)
    market.publish(closes, event=False)
    for listing in market.listings.values():
        if listing.status in AUCTIONS:
            items: list[MarketItem] = []
            publish_theoretical(market, listing, items, now_ns)
            market.publish(items)
