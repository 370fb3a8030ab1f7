"""Statistics, bands and news that market operations set and publish."""

from __future__ import annotations

from pregao.errors import UsageError
from pregao.exchange.engine.bands import refresh
from pregao.exchange.engine.events import (
    ClosingPrice,
    MarketItem,
    News,
    OpenInterest,
    PriceBand,
    QuantityBand,
    SettlementPrice,
    Trade,
)
from pregao.exchange.engine.instruments import Product
from pregao.exchange.engine.listing import Band, Listing
from pregao.exchange.engine.market import Market, days
from pregao.exchange.engine.operations_commands import (
    AdjustLastTrade,
    PublishNews,
    SetClosingPrice,
    SetOpenInterest,
    SetPriceBand,
    SetQuantityBand,
    SetSettlementPrice,
)
from pregao.exchange.engine.terms import OpenCloseSettlFlag, PriceLimitType, PriceType
from pregao.exchange.engine.views import last_trade_price
from pregao.exchange.engine.withdrawal import refresh_auction


def set_closing_price(market: Market, command: SetClosingPrice, now_ns: int) -> None:
    """Publish a closing price, of the day or of the previous day."""
    listing = market.listing(command.security_id)
    last = command.last_trade_date
    closing = ClosingPrice(
        listing.security_id,
        command.price8,
        command.flag,
        None if last is None else days(last),
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
    settlement = SettlementPrice(
        listing.security_id,
        command.price,
        command.flag,
        price_type,
        command.settl_price_type,
        market.trade_day,
        now_ns,
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
    low, high = command.low, command.high
    if low is not None and high is not None and low > high:
        raise UsageError(
            f"the {command.band_type.name} band of {listing.instrument.symbol} has its low limit "
            "above its high limit"
        )
    limit_type = command.limit_type
    if limit_type is None:
        limit_type = PriceLimitType.PRICE_UNIT
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


def _set_reference(market: Market, listing: Listing, command: SetPriceBand, now_ns: int) -> None:
    """Set the reference price; for economic indicators, publish it as a band without a type."""
    if command.reference8 is None:
        raise UsageError(
            f"a band of {listing.instrument.symbol} requires a type or a reference price"
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
