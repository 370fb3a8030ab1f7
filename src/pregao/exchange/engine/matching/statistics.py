"""Trades and session statistics: opening, high, low, last, volume, VWAP, count, net change.

Every trade counts in the volume; `pregao.umdf.phases` states which of them set the last price.
"""

from __future__ import annotations

from pregao.exchange.engine.book.listing import Listing, SessionStatistics, TradeParty, TradeRecord
from pregao.exchange.engine.book.market import Market, SpreadFill
from pregao.exchange.engine.book.order_book import BUY, EngineOrder
from pregao.exchange.engine.matching import price_bands
from pregao.exchange.engine.matching.give_ups import note_give_up
from pregao.exchange.engine.matching.market_protection import count_fill
from pregao.exchange.engine.model.enums import TradeCondition, TradingSession, TrdSubType
from pregao.exchange.engine.model.events import (
    ExecutionStatistics,
    HighPrice,
    LowPrice,
    MarketItem,
    OpeningPrice,
    Trade,
    TradeItem,
)
from pregao.umdf import phases

TRADE_ID_STEP = 10
"""Trade IDs of an instrument increase by ten, as in the specification's examples."""

_REGULAR = int(TradeCondition.REGULAR_TRADE)
_NOT_REGULAR = frozenset(
    {
        TrdSubType.MULTI_ASSET_TRADE,
        TrdSubType.LEG_TRADE,
        TrdSubType.RLP_TRADE,
        TrdSubType.MIDPOINT_TRADE,
    }
)
_LEG = TrdSubType.LEG_TRADE
_MIDPOINT = TrdSubType.MIDPOINT_TRADE
_OPENING = int(TradeCondition.OPENING_PRICE)
_CROSSED = int(TradeCondition.CROSSED)
_SAME_PRICE = int(TradeCondition.LAST_TRADE_AT_THE_SAME_PRICE)


def sets_last_price(trade: TradeItem) -> bool:
    """Whether this trade may set the last price."""
    return phases.sets_last_price(trade.trade_condition, trade.trd_sub_type)


def count_trade(statistics: SessionStatistics, price: int, quantity: int, condition: int) -> None:
    """Add a trade to the volume, the averages and the range."""
    statistics.volume += quantity
    statistics.notional += price * quantity
    if condition & _CROSSED:
        statistics.crossed_volume += quantity
        statistics.crossed_notional += price * quantity
    statistics.count += 1
    statistics.prices[price] += quantity
    if statistics.high is None or price > statistics.high:
        statistics.high = price
    if statistics.low is None or price < statistics.low:
        statistics.low = price


def matched(
    market: Market,
    listing: Listing,
    order: EngineOrder,
    resting: EngineOrder,
    quantity: int,
    price: int,
    opening: bool,
    now_ns: int,
    aggressor: bool = True,
    condition: int = 0,
    cross_id: int = 0,
    sub_type: TrdSubType | None = None,
) -> Trade:
    """Create a trade between two orders whose quantities are already reduced.

    ``order`` is the aggressor, if there is one; both owners get a report, the passive one first.
    """
    statistics = listing.statistics
    if sub_type is None or sub_type not in _NOT_REGULAR:
        condition |= _REGULAR
    if opening:
        condition |= _OPENING
    if price == statistics.last:
        condition |= _SAME_PRICE
    buyer, seller = (order, resting) if order.side == BUY else (resting, order)
    listing.trade_id += TRADE_ID_STEP
    trade = Trade(
        listing.security_id,
        listing.group.session,
        condition,
        price,
        quantity,
        listing.trade_id,
        buyer.firm or None,
        seller.firm or None,
        market.trade_day,
        sub_type,
        now_ns,
        order.implied or resting.implied,
    )
    count_trade(statistics, price, quantity, condition)
    if statistics.opening is None and sub_type is not _MIDPOINT:
        statistics.opening = price
        statistics.opening_id = trade.trade_id
    if sub_type is not _LEG:
        statistics.last = price
        listing.last_trade = trade
        waiting = listing.waiting
        if price >= waiting.buy_stop or price <= waiting.sell_stop:
            market.triggered.extend(waiting.reached(price))
            market.follows = True
    if listing.security_id in market.spreads:
        market.follows = True
        market.spread_fills.append(SpreadFill(listing.security_id, order, resting, quantity, price))
    market.filled(
        resting, quantity, price, trade.trade_id, order.firm or None, False, now_ns, cross_id
    )
    resting_party = _party(resting, market.exec_id, False)
    market.filled(
        order, quantity, price, trade.trade_id, resting.firm or None, aggressor, now_ns, cross_id
    )
    order_party = _party(order, market.exec_id, aggressor)
    if order is buyer:
        market.keep_trade(listing, TradeRecord(trade, order_party, resting_party))
    else:
        market.keep_trade(listing, TradeRecord(trade, resting_party, order_party))
    if listing.keeps_positions:
        market.positions.traded(resting, trade.trade_id, quantity)
        market.positions.traded(order, trade.trade_id, quantity)
    if market.give_up_links:
        note_give_up(market, resting, trade.trade_id, quantity)
        note_give_up(market, order, trade.trade_id, quantity)
    if market.protections:
        count_fill(market, listing, resting, quantity, now_ns)
        count_fill(market, listing, order, quantity, now_ns)
    return trade


def _party(order: EngineOrder, exec_id: int, aggressor: bool) -> TradeParty:
    return TradeParty(
        order.session,
        order.firm,
        order.cl_ord_id,
        order.order_id,
        order.secondary_order_id,
        order.quantity,
        exec_id,
        aggressor,
        order.leg_of,
    )


def opening_and_range(
    market: Market, listing: Listing, items: list[MarketItem], now_ns: int
) -> None:
    """Append changes of the opening, high and low price, withdrawing those that no longer exist."""
    statistics = listing.statistics
    shown = listing.shown
    day = market.trade_day

    opening = shown.get(OpeningPrice)
    assert opening is None or isinstance(opening, OpeningPrice)
    if statistics.opening is None:
        if opening is not None:
            del shown[OpeningPrice]
            items.append(
                OpeningPrice(listing.security_id, opening.price, None, day, now_ns, deleted=True)
            )
    elif opening is None or opening.price != statistics.opening:
        opening = OpeningPrice(
            listing.security_id, statistics.opening, listing.net_change8(), day, now_ns
        )
        shown[OpeningPrice] = opening
        items.append(opening)

    high = shown.get(HighPrice)
    assert high is None or isinstance(high, HighPrice)
    if statistics.high is None:
        if high is not None:
            del shown[HighPrice]
            items.append(HighPrice(listing.security_id, high.price, day, now_ns, deleted=True))
    elif high is None or high.price != statistics.high:
        high = shown[HighPrice] = HighPrice(listing.security_id, statistics.high, day, now_ns)
        items.append(high)

    low = shown.get(LowPrice)
    assert low is None or isinstance(low, LowPrice)
    if statistics.low is None:
        if low is not None:
            del shown[LowPrice]
            items.append(LowPrice(listing.security_id, low.price, day, now_ns, deleted=True))
    elif low is None or low.price != statistics.low:
        low = shown[LowPrice] = LowPrice(listing.security_id, statistics.low, day, now_ns)
        items.append(low)


def execution_statistics(market: Market, listing: Listing, now_ns: int) -> ExecutionStatistics:
    """Return the statistics that close an event with trades, after refreshing relative bands."""
    if listing.bands_float:
        price_bands.refresh(listing)
    statistics = listing.statistics
    published = ExecutionStatistics(
        listing.security_id,
        listing.group.session,
        market.trade_day,
        statistics.volume,
        statistics.vwap(),
        listing.net_change8(),
        statistics.count,
        now_ns,
        statistics.vwap_without_crosses(),
    )
    listing.shown[ExecutionStatistics] = published
    return published


def uncount_trade(statistics: SessionStatistics, trade: TradeItem) -> None:
    """Remove a trade of this session from the volume, the averages and the count."""
    if trade.trade_id <= statistics.after_id:
        return
    statistics.volume -= trade.size
    statistics.notional -= trade.price * trade.size
    if trade.trade_condition & _CROSSED:
        statistics.crossed_volume -= trade.size
        statistics.crossed_notional -= trade.price * trade.size
    statistics.count -= 1


def replace_trade(statistics: SessionStatistics, old: TradeItem, new: TradeItem) -> None:
    """Count an amended trade of this session instead of the old one, in the range too."""
    if old.trade_id <= statistics.after_id:
        return
    uncount_trade(statistics, old)
    prices = statistics.prices
    prices[old.price] -= old.size
    if not prices[old.price]:
        del prices[old.price]
    count_trade(statistics, new.price, new.size, new.trade_condition)
    statistics.high = max(prices)
    statistics.low = min(prices)


def trades_in_sequence(listing: Listing) -> list[TradeItem]:
    """Return the kept trades of this session that could set the last price, in order."""
    after_id = listing.statistics.after_id
    return [
        kept.item
        for kept in listing.trades.values()
        if kept.item.trade_id > after_id and sets_last_price(kept.item)
    ]


def regular_close(listing: Listing) -> int | None:
    """Return the last price of today's regular session, its closing auction included.

    Trades of the after-market do not change it.
    """
    for kept in reversed(listing.trades.values()):
        trade = kept.item
        if trade.trading_session == TradingSession.REGULAR and sets_last_price(trade):
            return trade.price
    return None


def clear_prices(listing: Listing) -> None:
    """Clear the opening, the range and the last price: every trade of the session was busted.

    Until then a bust changes none of them (000 §19), not even if its trade set them.
    """
    statistics = listing.statistics
    statistics.opening = statistics.high = statistics.low = statistics.last = None
    statistics.opening_id = 0
    statistics.prices.clear()
    listing.last_trade = None
