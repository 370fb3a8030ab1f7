"""Views of an instrument at a moment: the ground truth for snapshots and rebuilt books."""

from __future__ import annotations

from pregao.exchange.engine.book.listing import Listing
from pregao.exchange.engine.book.market import Market
from pregao.exchange.engine.book.order_book import BookSide
from pregao.exchange.engine.model.enums import TradingStatus
from pregao.exchange.engine.model.events import (
    ForwardTrade,
    LastTradePrice,
    SecurityGroupPhase,
    SecurityStatus,
    Statistic,
    TradeItem,
)
from pregao.records import record
from pregao.umdf.phases import TradingEvent

_FOLLOWS = TradingEvent.SECURITY_REJOINS_SECURITY_GROUP_STATUS


@record
class BookEntry:
    """A visible order; ``price`` is None for orders without one."""

    price: int | None
    size: int
    secondary_order_id: int
    firm: int | None
    insert_time_ns: int
    implied: bool


@record
class BookView:
    """An instrument's orders in queue order, with everything last published about it.

    ``security_status`` is the one in snapshots: an instrument without its own status follows its
    group. ``ruling_status`` is the status in effect.
    """

    security_id: int
    bids: list[BookEntry]
    offers: list[BookEntry]
    statistics: list[Statistic]
    security_status: SecurityStatus
    ruling_status: TradingStatus


def shown_statistics(listing: Listing) -> list[Statistic]:
    """Return the statistics of an instrument for snapshots, including the last price."""
    statistics = list(listing.shown.values())
    if listing.last_trade is not None:
        statistics.append(last_trade_price(listing.last_trade))
    return statistics


def view(market: Market, listing: Listing) -> BookView:
    """Return the current view of an instrument."""
    own = listing.own_status
    group = listing.group
    status = SecurityStatus(
        listing.security_id,
        group.session,
        own,
        _FOLLOWS if own is None else TradingEvent.SECURITY_STATUS_CHANGE,
        market.trade_day,
        listing.open_time_ns if own is not None else group.open_time_ns,
        group.since_ns if listing.since_ns is None else listing.since_ns,
    )
    return BookView(
        listing.security_id,
        _entries(listing.bids),
        _entries(listing.offers),
        shown_statistics(listing),
        status,
        listing.status,
    )


def _entries(side: BookSide) -> list[BookEntry]:
    return [
        BookEntry(
            order.price,
            order.visible,
            order.secondary_order_id,
            order.firm or None,
            order.insert_time_ns,
            order.implied,
        )
        for order in side.orders()
    ]


def last_trade_price(trade: TradeItem) -> LastTradePrice:
    """Return a trade as the last price in snapshots."""
    return LastTradePrice(
        trade.security_id,
        trade.trading_session,
        trade.trade_condition,
        trade.price,
        trade.size,
        trade.trade_id,
        trade.buyer,
        trade.seller,
        trade.trade_date,
        trade.trd_sub_type,
        trade.transact_time_ns,
        *_particulars(trade),
    )


def _particulars(trade: TradeItem) -> tuple[int | None, int | None, bool]:
    """Return seller days, interest rate and the implied flag of a trade."""
    if isinstance(trade, ForwardTrade):
        return trade.seller_days, trade.interest_rate, False
    return None, None, trade.implied


def group_phases(market: Market) -> list[SecurityGroupPhase]:
    """Return the phase of every group."""
    return [
        SecurityGroupPhase(
            group.name,
            group.session,
            group.phase,
            None,
            market.trade_day,
            group.open_time_ns,
            group.since_ns,
        )
        for group in market.groups.values()
    ]
