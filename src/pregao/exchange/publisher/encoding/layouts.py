"""Mapping of event attributes to message fields."""

from __future__ import annotations

from typing import NamedTuple

from pregao.exchange.engine.model import events
from pregao.exchange.publisher.encoding.fields import FieldMapping


def _is(attribute: str, *fields: str) -> FieldMapping:
    return FieldMapping(fields, attribute)


def _fixed(attribute: str, scale: int, field: str) -> FieldMapping:
    return FieldMapping((field,), attribute, scale)


def _price(attribute: str, field: str) -> FieldMapping:
    return _fixed(attribute, 4, field)


class MessageLayout(NamedTuple):
    """Messages that can carry an event, in order of preference, and its field mappings."""

    messages: tuple[str, ...]
    columns: tuple[FieldMapping, ...]


_SECURITY_ID = _is("security_id", "securityID")
_SESSION = _is("trading_session", "tradingSessionID")
_TRADE_DATE = _is("trade_date", "tradeDate")
_ENTRY_PX = _price("price", "mDEntryPx")
_ENTRY_SIZE = _is("size", "mDEntrySize")
_ENTRY_TIME = _is("time_ns", "mDEntryTimestamp")
# Below version 15 these messages have mDEntryTimestamp (T10) instead of transactTime (T5).
_TRANSACT_TIME = _is("transact_time_ns", "transactTime", "mDEntryTimestamp")
_OPEN_TIME = _is("open_time_ns", "tradSesOpenTime")
_EVENT = _is("event", "securityTradingEvent")
_FLAG = _is("flag", "openCloseSettlFlag")

UPDATE_ACTION = "mDUpdateAction"
"""Written from ``deleted``, with the enumeration values of the version."""
_ACTION = _is("deleted", UPDATE_ACTION)
SUB_TYPE = "trdSubType"
"""Written as null if the version does not have the value."""

_TRADE = (
    _SECURITY_ID,
    _SESSION,
    _is("trade_condition", "tradeCondition"),
    _ENTRY_PX,
    _ENTRY_SIZE,
    _is("trade_id", "tradeID"),
    _is("buyer", "mDEntryBuyer"),
    _is("seller", "mDEntrySeller"),
    _TRADE_DATE,
    _is("trd_sub_type", SUB_TYPE),
)
_FORWARD = (
    _is("seller_days", "sellerDays"),
    _fixed("interest_rate", 4, "mDEntryInterestRate"),
)
_EXTREME = (_SECURITY_ID, _ACTION, _TRADE_DATE, _ENTRY_PX, _ENTRY_TIME)

LAYOUTS: dict[type, MessageLayout] = {
    events.ExecutionSummary: MessageLayout(
        ("ExecutionSummary_55",),
        (
            _SECURITY_ID,
            _is("aggressor_side", "aggressorSide"),
            _price("last_px", "lastPx"),
            _is("fill_qty", "fillQty"),
            _is("traded_hidden_qty", "tradedHiddenQty"),
            _is("cxl_qty", "cxlQty"),
            _is("aggressor_time_ns", "aggressorTime"),
            _TRANSACT_TIME,
        ),
    ),
    events.Trade: MessageLayout(("Trade_53",), (*_TRADE, _TRANSACT_TIME)),
    events.ForwardTrade: MessageLayout(("ForwardTrade_54",), (*_TRADE, *_FORWARD, _TRANSACT_TIME)),
    events.LastTradePrice: MessageLayout(("LastTradePrice_27",), (*_TRADE, *_FORWARD, _ENTRY_TIME)),
    events.TradeBust: MessageLayout(
        ("TradeBust_57",),
        (
            _SECURITY_ID,
            _SESSION,
            _ENTRY_PX,
            _ENTRY_SIZE,
            _is("trade_id", "tradeID"),
            _TRADE_DATE,
            _TRANSACT_TIME,
        ),
    ),
    events.OpeningPrice: MessageLayout(
        ("OpeningPrice_15",),
        (
            _SECURITY_ID,
            _ACTION,
            _FLAG,
            _ENTRY_PX,
            _fixed("net_chg_prev_day8", 8, "netChgPrevDay"),
            _TRADE_DATE,
            _ENTRY_TIME,
        ),
    ),
    events.HighPrice: MessageLayout(("HighPrice_24",), _EXTREME),
    events.LowPrice: MessageLayout(("LowPrice_25",), _EXTREME),
    events.ExecutionStatistics: MessageLayout(
        ("ExecutionStatistics_56",),
        (
            _SECURITY_ID,
            _SESSION,
            _TRADE_DATE,
            _is("trade_volume", "tradeVolume"),
            _price("vwap_px", "vwapPx"),
            _fixed("net_chg_prev_day8", 8, "netChgPrevDay"),
            _is("number_of_trades", "numberOfTrades"),
            _ENTRY_TIME,
        ),
    ),
    events.TheoreticalOpeningPrice: MessageLayout(
        ("TheoreticalOpeningPrice_16",),
        (_SECURITY_ID, _ACTION, _TRADE_DATE, _ENTRY_PX, _ENTRY_SIZE, _ENTRY_TIME),
    ),
    events.AuctionImbalance: MessageLayout(
        ("AuctionImbalance_19",),
        (_SECURITY_ID, _ACTION, _is("condition", "imbalanceCondition"), _ENTRY_SIZE, _ENTRY_TIME),
    ),
    events.ClosingPrice: MessageLayout(
        ("ClosingPrice_17",),
        (
            _SECURITY_ID,
            _FLAG,
            _fixed("price8", 8, "mDEntryPx"),
            _is("last_trade_date", "lastTradeDate"),
            _TRADE_DATE,
            _ENTRY_TIME,
        ),
    ),
    events.SettlementPrice: MessageLayout(
        ("SettlementPrice_28",),
        (
            _SECURITY_ID,
            _TRADE_DATE,
            _ENTRY_PX,
            _ENTRY_TIME,
            _FLAG,
            _is("price_type", "priceType"),
            _is("settl_price_type", "settlPriceType"),
            _is("settl_date", "settlDate"),
        ),
    ),
    events.OpenInterest: MessageLayout(
        ("OpenInterest_29",), (_SECURITY_ID, _TRADE_DATE, _ENTRY_SIZE, _ENTRY_TIME)
    ),
    events.PriceBand: MessageLayout(
        ("PriceBand_22", "PriceBand_20"),
        (
            _SECURITY_ID,
            _is("band_type", "priceBandType"),
            _is("limit_type", "priceLimitType"),
            _is("midpoint", "priceBandMidpointPriceType"),
            _price("low", "lowLimitPrice"),
            _price("high", "highLimitPrice"),
            _fixed("reference8", 8, "tradingReferencePrice"),
            _ENTRY_TIME,
        ),
    ),
    events.QuantityBand: MessageLayout(
        ("QuantityBand_21",),
        (
            _SECURITY_ID,
            _is("avg_daily_traded_qty", "avgDailyTradedQty"),
            _is("max_trade_vol", "maxTradeVol"),
            _ENTRY_TIME,
        ),
    ),
    events.SecurityStatus: MessageLayout(
        ("SecurityStatus_3",),
        (
            _SECURITY_ID,
            _SESSION,
            _is("status", "securityTradingStatus"),
            _EVENT,
            _TRADE_DATE,
            _OPEN_TIME,
            _is("transact_time_ns", "transactTime"),
        ),
    ),
    events.SecurityGroupPhase: MessageLayout(
        ("SecurityGroupPhase_10",),
        (
            _is("group", "securityGroup"),
            _SESSION,
            _is("phase", "tradingSessionSubID"),
            _EVENT,
            _TRADE_DATE,
            _OPEN_TIME,
            _is("transact_time_ns", "transactTime"),
        ),
    ),
    events.EmptyBook: MessageLayout(("EmptyBook_9",), (_SECURITY_ID, _ENTRY_TIME)),
    events.ChannelReset: MessageLayout(("ChannelReset_11",), (_ENTRY_TIME,)),
}
"""Events whose message is written only from their attributes."""
