"""Public market events: units of feed messages, one record per message.

A command's outcome has *units* in the order in which they happen. A unit with ``event`` set is one
event of the feed: only its last message has EndOfEvent. In any other unit each message is a
separate event and has EndOfEvent. Fields have the feed's names; the publisher assigns packet
numbers and ``rptSeq``. Prices are integers of 1e-4, those named ``…8`` of 1e-8; dates are days
since 1970; times are nanoseconds since 1970.
"""

from __future__ import annotations

from pregao.exchange.engine.model.enums import (
    AggressorSide,
    ImbalanceCondition,
    NewsSource,
    OpenCloseSettlFlag,
    OrderSide,
    PriceBandMidpoint,
    PriceBandType,
    PriceLimitType,
    PriceType,
    SecurityUpdateAction,
    SettlPriceType,
    TradingSession,
    TradingStatus,
    TrdSubType,
)
from pregao.exchange.engine.model.instruments import Instrument
from pregao.records import record
from pregao.umdf.phases import TradingEvent


@record
class ExecutionSummary:
    """ExecutionSummary_55: totals of an execution, before its trades; never the last message."""

    security_id: int
    aggressor_side: AggressorSide
    last_px: int
    fill_qty: int
    traded_hidden_qty: int
    cxl_qty: int
    aggressor_time_ns: int
    transact_time_ns: int


@record
class NewOrderMbo:
    """Order_MBO_50 with action NEW.

    ``price`` is None for orders without one (MOA, MOC). ``position`` is the 1-based position on the
    visible side right after this update, if positions are tracked; ``recovery`` marks orders sent
    again after an EmptyBook.
    """

    security_id: int
    side: OrderSide
    price: int | None
    size: int
    secondary_order_id: int
    firm: int | None
    insert_time_ns: int
    transact_time_ns: int
    position: int | None = None
    implied: bool = False
    recovery: bool = False


@record
class ChangeOrderMbo:
    """Order_MBO_50 with action CHANGE, which keeps the position; ``prev_size`` was shown before."""

    security_id: int
    side: OrderSide
    price: int | None
    size: int
    prev_size: int
    secondary_order_id: int
    firm: int | None
    insert_time_ns: int
    transact_time_ns: int
    position: int | None = None
    implied: bool = False


@record
class DeleteOrderMbo:
    """DeleteOrder_MBO_51: ``size`` was shown right before; ``matched`` means that it was executed.

    ``position`` is the 1-based position on the visible side right before this update.
    """

    security_id: int
    side: OrderSide
    price: int | None
    size: int
    secondary_order_id: int
    transact_time_ns: int
    position: int | None = None
    implied: bool = False
    matched: bool = False


@record
class MassDeleteOrders:
    """MassDeleteOrders_MBO_52 with action DELETE_THRU: deletes a complete side.

    ``count`` is the number of visible orders deleted; ``position`` is 1 if positions are tracked.
    """

    security_id: int
    side: OrderSide
    count: int
    transact_time_ns: int
    position: int | None = None


@record
class TradeFields:
    """Fields of messages of trades; ``trade_condition`` is the set of bits of TradeCondition."""

    security_id: int
    trading_session: TradingSession
    trade_condition: int
    price: int
    size: int
    trade_id: int
    buyer: int | None
    seller: int | None
    trade_date: int
    trd_sub_type: TrdSubType | None


@record
class Trade(TradeFields):
    """Trade_53."""

    transact_time_ns: int
    implied: bool = False


@record
class ForwardTrade(TradeFields):
    """ForwardTrade_54: a trade of a forward; ``interest_rate`` is an integer of 1e-4."""

    transact_time_ns: int
    seller_days: int | None = None
    interest_rate: int | None = None


@record
class TradeBust:
    """TradeBust_57."""

    security_id: int
    trading_session: TradingSession
    price: int
    size: int
    trade_id: int
    trade_date: int
    transact_time_ns: int
    implied: bool = False


@record
class LastTradePrice(TradeFields):
    """LastTradePrice_27: in snapshots, and rarely in the incremental stream."""

    time_ns: int
    seller_days: int | None = None
    interest_rate: int | None = None
    implied: bool = False


@record
class OpeningPrice:
    """OpeningPrice_15; ``deleted`` withdraws it (action DELETE)."""

    security_id: int
    price: int
    net_chg_prev_day8: int | None
    trade_date: int
    time_ns: int
    flag: OpenCloseSettlFlag = OpenCloseSettlFlag.DAILY
    deleted: bool = False


@record
class HighPrice:
    """HighPrice_24; ``deleted`` withdraws it."""

    security_id: int
    price: int
    trade_date: int
    time_ns: int
    deleted: bool = False


@record
class LowPrice:
    """LowPrice_25; ``deleted`` withdraws it."""

    security_id: int
    price: int
    trade_date: int
    time_ns: int
    deleted: bool = False


@record
class ExecutionStatistics:
    """ExecutionStatistics_56: volume, VWAP, net change and count of the session."""

    security_id: int
    trading_session: TradingSession
    trade_date: int
    trade_volume: int
    vwap_px: int | None
    net_chg_prev_day8: int | None
    number_of_trades: int
    time_ns: int
    vwap_without_crosses: int | None = None
    """Average price on the legacy feed (002 §7)."""


@record
class TheoreticalOpeningPrice:
    """TheoreticalOpeningPrice_16; ``deleted`` withdraws it."""

    security_id: int
    price: int | None
    size: int | None
    trade_date: int
    time_ns: int
    deleted: bool = False


@record
class AuctionImbalance:
    """AuctionImbalance_19; ``deleted`` withdraws it."""

    security_id: int
    condition: ImbalanceCondition
    size: int | None
    time_ns: int
    deleted: bool = False


@record
class ClosingPrice:
    """ClosingPrice_17."""

    security_id: int
    price8: int
    flag: OpenCloseSettlFlag
    last_trade_date: int | None
    trade_date: int
    time_ns: int


@record
class SettlementPrice:
    """SettlementPrice_28."""

    security_id: int
    price: int
    flag: OpenCloseSettlFlag
    price_type: PriceType | None
    settl_price_type: SettlPriceType
    trade_date: int
    time_ns: int
    settl_date: int | None = None
    """Day to which the price belongs; only from schema version 17 on."""


@record
class OpenInterest:
    """OpenInterest_29."""

    security_id: int
    size: int
    trade_date: int
    time_ns: int


@record
class PriceBand:
    """PriceBand_22 (20 at schema version 7); without a type it is the reference price."""

    security_id: int
    band_type: PriceBandType | None
    limit_type: PriceLimitType | None
    midpoint: PriceBandMidpoint | None
    low: int | None
    high: int | None
    reference8: int | None
    time_ns: int


@record
class QuantityBand:
    """QuantityBand_21."""

    security_id: int
    avg_daily_traded_qty: int | None
    max_trade_vol: int | None
    time_ns: int


@record
class SecurityStatus:
    """SecurityStatus_3; in snapshots a ``status`` of None means that the group's phase applies."""

    security_id: int
    trading_session: TradingSession
    status: TradingStatus | None
    event: TradingEvent | None
    trade_date: int
    open_time_ns: int | None
    transact_time_ns: int


@record
class SecurityGroupPhase:
    """SecurityGroupPhase_10."""

    group: str
    trading_session: TradingSession
    phase: TradingStatus
    event: TradingEvent | None
    trade_date: int
    open_time_ns: int | None
    transact_time_ns: int


@record
class EmptyBook:
    """EmptyBook_9: the book is sent again after it; ``rptSeq`` restarts."""

    security_id: int
    time_ns: int
    recovery: bool = True


@record
class ChannelReset:
    """ChannelReset_11."""

    channel: int
    time_ns: int
    recovery: bool = True


@record
class SequenceReset:
    """SequenceReset_1 in a channel's incremental stream, which starts a new sequence version."""

    channel: int


@record
class News:
    """Complete News_5; the publisher splits long texts into parts."""

    security_id: int | None
    source: NewsSource
    language: str | None
    news_id: int | None
    orig_time_ns: int
    headline: str
    text: str
    url: str


@record
class SecurityDefinition:
    """SecurityDefinition_12 in the incremental stream."""

    action: SecurityUpdateAction
    instrument: Instrument
    time_ns: int


TradeItem = Trade | ForwardTrade
"""A trade of either kind."""

Statistic = (
    OpeningPrice
    | TheoreticalOpeningPrice
    | ClosingPrice
    | AuctionImbalance
    | PriceBand
    | QuantityBand
    | HighPrice
    | LowPrice
    | LastTradePrice
    | ExecutionStatistics
    | SettlementPrice
    | OpenInterest
)
"""A statistic of an instrument in snapshots, next to its orders and status."""

MarketItem = (
    ExecutionSummary
    | NewOrderMbo
    | ChangeOrderMbo
    | DeleteOrderMbo
    | MassDeleteOrders
    | Trade
    | ForwardTrade
    | TradeBust
    | Statistic
    | SecurityStatus
    | SecurityGroupPhase
    | EmptyBook
    | ChannelReset
    | SequenceReset
    | News
    | SecurityDefinition
)
"""One message of the incremental stream."""


@record
class MarketEvent:
    """A unit of the feed: one event, or messages that are separate events."""

    items: list[MarketItem]
    event: bool = True
