"""Commands of market operations: statistics, price bands, news, orders, books and channels.

They are not requests of members: an invalid one raises ``UsageError`` and changes nothing.
"""

from __future__ import annotations

from pregao.errors import UsageError
from pregao.exchange.engine.book.listing import Band, Listing
from pregao.exchange.engine.book.market import Market
from pregao.exchange.engine.book.order_book import BookSide, EngineOrder
from pregao.exchange.engine.book.snapshots import last_trade_price
from pregao.exchange.engine.matching.price_bands import refresh
from pregao.exchange.engine.model.enums import (
    ExecRestatementReason,
    OpenCloseSettlFlag,
    OrderSide,
    OrdType,
    PriceBandType,
    PriceLimitType,
    PriceType,
    TimeInForce,
)
from pregao.exchange.engine.model.events import (
    ChannelReset,
    ClosingPrice,
    EmptyBook,
    MarketItem,
    MassDeleteOrders,
    NewOrderMbo,
    News,
    OpenInterest,
    PriceBand,
    QuantityBand,
    SequenceReset,
    SettlementPrice,
    Trade,
)
from pregao.exchange.engine.model.instruments import Product
from pregao.exchange.engine.model.operations_commands import (
    MARKET_OPERATIONS,
    AdjustLastTrade,
    DeleteSide,
    EnterImplied,
    ExpelOrder,
    PublishNews,
    ResetBook,
    ResetChannel,
    ResetStream,
    SetClosingPrice,
    SetOpenInterest,
    SetPriceBand,
    SetQuantityBand,
    SetSettlementPrice,
)
from pregao.exchange.engine.orders.order_cancel import refresh_auction, withdraw
from pregao.units import day_number

_LAST_DAY = 65_534
"""The last day that 16 bits can state: the number after it means none."""
_LIMIT_TYPES = {
    PriceBandType.HARD_LIMIT: (PriceLimitType.PRICE_UNIT,),
    PriceBandType.STATIC_LIMITS: (PriceLimitType.PRICE_UNIT,),
    PriceBandType.REJECTION_BAND: (PriceLimitType.PRICE_UNIT, PriceLimitType.PERCENTAGE),
    PriceBandType.AUCTION_LIMITS: (PriceLimitType.PRICE_UNIT, PriceLimitType.PERCENTAGE),
}
"""Units that the limits of a band can have, by its type (000 §13.11.5)."""

# --- Statistics, bands and news ---


def set_closing_price(market: Market, command: SetClosingPrice, now_ns: int) -> None:
    """Publish a closing price, of the day or of the previous day."""
    listing = market.listing(command.security_id)
    last = command.last_trade_date
    closing = ClosingPrice(
        listing.security_id,
        command.price8,
        command.flag,
        None if last is None else day_number(last),
        market.trade_day,
        now_ns,
    )
    listing.shown[(ClosingPrice, command.flag)] = closing
    if command.flag == OpenCloseSettlFlag.ENTRY_FROM_PREVIOUS_BUSINESS_DAY:
        listing.previous_close8 = command.price8
    market.publish([closing], event=False)
    _reference_moved(market, listing, now_ns)


def set_settlement_price(market: Market, command: SetSettlementPrice, now_ns: int) -> None:
    """Publish a settlement price; a later one with the same flag replaces it."""
    listing = market.listing(command.security_id)
    price_type = command.price_type
    if price_type is None:
        price_type = listing.instrument.price_type or PriceType.FIXED_AMOUNT
    settl_day = None if command.settl_date is None else day_number(command.settl_date)
    if settl_day is not None and not 0 <= settl_day <= _LAST_DAY:
        raise UsageError(
            f"the settlement date must be from 1970-01-01 to 2149-06-05, was {command.settl_date}"
        )
    if settl_day is None and command.flag != OpenCloseSettlFlag.ENTRY_FROM_PREVIOUS_BUSINESS_DAY:
        settl_day = market.trade_day
    settlement = SettlementPrice(
        listing.security_id,
        command.price,
        command.flag,
        price_type,
        command.settl_price_type,
        market.trade_day,
        now_ns,
        settl_day,
    )
    listing.shown[(SettlementPrice, command.flag)] = settlement
    market.publish([settlement], event=False)


def set_open_interest(market: Market, command: SetOpenInterest, now_ns: int) -> None:
    """Publish the number of open contracts."""
    listing = market.listing(command.security_id)
    if command.quantity < 0:
        raise UsageError(f"the open interest must not be negative, was {command.quantity}")
    interest = OpenInterest(listing.security_id, command.quantity, market.trade_day, now_ns)
    listing.shown[OpenInterest] = interest
    market.publish([interest], event=False)


def set_price_band(market: Market, command: SetPriceBand, now_ns: int) -> None:
    """Set the reference price, or a band of one type, keeping the others."""
    listing = market.listing(command.security_id)
    if command.band_type is None:
        _set_reference(market, listing, command, now_ns)
        return
    low, high, limit_type = command.low, command.high, command.limit_type
    if limit_type is None:
        limit_type = PriceLimitType.PRICE_UNIT
    if (reason := _band_fault(command.band_type, limit_type, command)) is not None:
        raise UsageError(
            f"the {command.band_type.name} band of {listing.instrument.symbol} {reason}"
        )
    assert low is not None
    assert high is not None
    listing.bands[command.band_type] = Band(limit_type, command.midpoint, low, high)
    refresh(listing)
    band = PriceBand(
        listing.security_id,
        command.band_type,
        limit_type,
        command.midpoint,
        low,
        high,
        None,
        now_ns,
    )
    listing.shown[(PriceBand, command.band_type)] = band
    market.publish([band], event=False)


def _band_fault(
    kind: PriceBandType, limit_type: PriceLimitType, command: SetPriceBand
) -> str | None:
    """Return what a band of this type must not have or lacks (000 §13.11.5), or None."""
    allowed = _LIMIT_TYPES[kind]
    if limit_type not in allowed:
        names = " or ".join(each.name for each in allowed)
        return f"must have limits in {names}, was {limit_type.name}"
    if limit_type == PriceLimitType.PERCENTAGE:
        if command.midpoint is None:
            return "has limits in percent, which require a midpoint"
    elif command.midpoint is not None:
        return "has limits in prices, which have no midpoint"
    if command.reference8 is not None:
        return "must not have a reference price, which is set without a type"
    if command.low is None or command.high is None:
        return "requires both its low and its high limit"
    if command.low > command.high:
        return "has its low limit above its high limit"
    return None


def _set_reference(market: Market, listing: Listing, command: SetPriceBand, now_ns: int) -> None:
    """Set the reference price; for economic indicators, publish it as a band without a type."""
    if command.reference8 is None:
        raise UsageError(
            f"a band of {listing.instrument.symbol} requires a type or a reference price"
        )
    if not command.low is command.high is command.midpoint is None:
        raise UsageError(
            f"the reference price of {listing.instrument.symbol} has neither limits nor a midpoint"
        )
    listing.reference8 = command.reference8
    if listing.instrument.product == Product.ECONOMIC_INDICATOR:
        reference = command.reference8
        band = PriceBand(listing.security_id, None, None, None, None, None, reference, now_ns)
        listing.shown[(PriceBand, None)] = band
        market.publish([band], event=False)
    _reference_moved(market, listing, now_ns)


def _reference_moved(market: Market, listing: Listing, now_ns: int) -> None:
    """Recompute bands and the theoretical price after their reference changed."""
    refresh(listing)
    items: list[MarketItem] = []
    refresh_auction(market, listing, items, now_ns)
    market.publish(items)


def set_quantity_band(market: Market, command: SetQuantityBand, now_ns: int) -> None:
    """Set the maximum quantity of an order; derivatives have neither an average nor a limit."""
    listing = market.listing(command.security_id)
    if listing.derivative and (command.avg_daily_traded_qty or command.max_trade_vol):
        raise UsageError(
            f"{listing.instrument.symbol} is a derivative: the average and maximum of its "
            "quantity band must be 0"
        )
    listing.volume_limit = command.max_trade_vol or None
    band = QuantityBand(
        listing.security_id, command.avg_daily_traded_qty, command.max_trade_vol, now_ns
    )
    listing.shown[QuantityBand] = band
    market.publish([band], event=False)


def adjust_last_trade(market: Market, command: AdjustLastTrade, now_ns: int) -> None:
    """Correct the last price after a failure; the message has no trade condition."""
    listing = market.listing(command.security_id)
    last = Trade(
        listing.security_id,
        listing.group.session,
        0,
        command.price,
        command.quantity,
        listing.trade_id,
        None,
        None,
        market.trade_day,
        None,
        now_ns,
    )
    listing.last_trade = last
    listing.statistics.last = command.price
    market.publish([last_trade_price(last)], event=False)
    _reference_moved(market, listing, now_ns)


def publish_news(market: Market, command: PublishNews, now_ns: int) -> None:
    """Publish news."""
    if command.security_id is not None:
        market.listing(command.security_id)
    news = News(
        command.security_id,
        command.source,
        command.language,
        command.news_id,
        now_ns,
        command.headline,
        command.text,
        command.url,
    )
    market.publish([news], event=False)


# --- Orders, books and channels ---


def expel_order(market: Market, command: ExpelOrder, now_ns: int) -> None:
    """Cancel an order by decision of the exchange."""
    order = market.orders.get(command.order_id)
    if order is None:
        raise UsageError(f"no active order has the ID {command.order_id}")
    listing = market.listings[order.security_id]
    items: list[MarketItem] = []
    withdraw(market, listing, order, items, now_ns)
    market.cancelled(order, now_ns, command.reason)
    refresh_auction(market, listing, items, now_ns)
    market.publish(items)


def delete_side(market: Market, command: DeleteSide, now_ns: int) -> None:
    """Cancel all orders on one side of a book with a single message."""
    listing = market.listing(command.security_id)
    items: list[MarketItem] = []
    clear_side(market, listing, listing.side(command.side), items, now_ns)
    refresh_auction(market, listing, items, now_ns)
    market.publish(items)


def clear_side(
    market: Market, listing: Listing, side: BookSide, items: list[MarketItem], now_ns: int
) -> None:
    """Empty a side and report the cancellations to the owners."""
    orders = side.clear()
    if not orders:
        return
    items.append(
        MassDeleteOrders(
            listing.security_id,
            side.side,
            len(orders),
            now_ns,
            1 if market.track_positions else None,
        )
    )
    for order in orders:
        market.remove_from_indexes(order)
        market.cancelled(order, now_ns, ExecRestatementReason.MARKET_OPTION)


def enter_implied(market: Market, command: EnterImplied, now_ns: int) -> None:
    """Queue a synthetic order after the ordinary ones at its price."""
    listing = market.listing(command.security_id)
    symbol = listing.instrument.symbol
    if not listing.instrument.implied_market_indicator:
        raise UsageError(f"{symbol} is not eligible for implied orders")
    if command.quantity <= 0 or command.price % listing.tick:
        raise UsageError(
            f"an implied order of {symbol} requires a quantity greater than zero and a price "
            f"that is a multiple of its tick"
        )
    best = listing.opposite(command.side).best_price()
    if best is not None and (
        best <= command.price if command.side == OrderSide.BUY else best >= command.price
    ):
        raise UsageError(f"an implied order of {symbol} must not cross the book")
    market.order_id += 1
    order = EngineOrder(
        market.order_id,
        0,
        MARKET_OPERATIONS,
        0,
        market.order_id,
        listing.security_id,
        command.side,
        command.price,
        command.quantity,
        OrdType.LIMIT,
        TimeInForce.DAY,
        0,
        0,
        now_ns,
    )
    order.implied = True
    order.segment = listing.segment
    market.new_secondary_id(order)
    market.orders[order.order_id] = order
    market.by_client[(order.session, order.segment, order.cl_ord_id)] = order
    market.report_accepted(order, now_ns)
    items: list[MarketItem] = [market.add_to_book(listing, order, now_ns)]
    refresh_auction(market, listing, items, now_ns)
    market.publish(items)


def reset_book(market: Market, command: ResetBook, now_ns: int) -> None:
    """Republish a book."""
    _republish_book(market, market.listing(command.security_id), now_ns)


def reset_channel(market: Market, command: ResetChannel, now_ns: int) -> None:
    """Republish all books of a channel after a ChannelReset; statistics are kept."""
    listings = _channel(market, command.channel)
    market.publish([ChannelReset(command.channel, now_ns)], event=False)
    for listing in listings:
        if listing.bids.count or listing.offers.count:
            _republish_book(market, listing, now_ns)


def reset_stream(market: Market, command: ResetStream, now_ns: int) -> None:
    """Restart the incremental stream of a channel and republish its books."""
    listings = _channel(market, command.channel)
    market.publish([SequenceReset(command.channel)], event=False)
    for listing in listings:
        if listing.bids.count or listing.offers.count:
            _republish_book(market, listing, now_ns)


def _channel(market: Market, channel: int) -> list[Listing]:
    listings = [
        listing for listing in market.listings.values() if listing.instrument.channel == channel
    ]
    if not listings:
        known = ", ".join(
            str(number)
            for number in sorted({x.instrument.channel for x in market.listings.values()})
        )
        raise UsageError(f"no instrument is on channel {channel}; choose from {known}")
    return listings


def _republish_book(market: Market, listing: Listing, now_ns: int) -> None:
    """Publish EmptyBook, then every order as a recovery message."""
    items: list[MarketItem] = [EmptyBook(listing.security_id, now_ns)]
    for side in (listing.bids, listing.offers):
        items.extend(
            NewOrderMbo(
                order.security_id,
                order.side,
                order.price,
                order.visible,
                order.secondary_order_id,
                order.firm or None,
                order.insert_time_ns,
                now_ns,
                position if market.track_positions else None,
                order.implied,
                True,
            )
            for position, order in enumerate(side, 1)
        )
    market.publish(items)
