"""Encoding of statistics and trades as entries of the legacy feed (002 §10)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any, Final

from pregao.clock import DAY
from pregao.exchange.engine.model.enums import (
    ImbalanceCondition,
    OpenCloseSettlFlag,
    PriceBandType,
    TradeCondition,
    TrdSubType,
)
from pregao.exchange.engine.model.events import (
    AuctionImbalance,
    ClosingPrice,
    ExecutionStatistics,
    ForwardTrade,
    HighPrice,
    LastTradePrice,
    LowPrice,
    OpeningPrice,
    OpenInterest,
    PriceBand,
    SettlementPrice,
    TheoreticalOpeningPrice,
    Trade,
    TradeBust,
)
from pregao.feed.legacy.book_updates import BAND_TYPES, DELETE, EXCHANGE_LAST, NEW
from pregao.legacy.times import date_digits, time_digits

Values = dict[str, Any]
"""An entry or a message: values by field name."""

_CONDITIONS: Final = {
    TradeCondition.OPENING_PRICE: "R",
    TradeCondition.CROSSED: "X",
    TradeCondition.LAST_TRADE_AT_THE_SAME_PRICE: "L",
}


_BANDS: Final = {PriceBandType[name]: str(code) for code, name in BAND_TYPES.items()}


def decimal_of(mantissa: int | None, decimals: int = 4) -> Decimal | None:
    """Return a price for FAST: without trailing zeros, but with at least two decimals."""
    if mantissa is None:
        return None
    while decimals > 2 and mantissa % 10 == 0:
        mantissa, decimals = mantissa // 10, decimals - 1
    return Decimal(mantissa).scaleb(-decimals)


def day_digits(day: int) -> int:
    """Return a day (number since 1970) in the format of the wire."""
    return date_digits(day * DAY)


def at(time_ns: int) -> Values:
    """Return the date and time fields of an entry."""
    return {"MDEntryDate": date_digits(time_ns), "MDEntryTime": time_digits(time_ns)}


def _text(number: int | None) -> str | None:
    return None if number is None else str(number)


def _trade(item: Trade | ForwardTrade) -> list[Values]:
    conditions = [mark for bit, mark in _CONDITIONS.items() if item.trade_condition & bit]
    if item.trd_sub_type == TrdSubType.MULTI_ASSET_TRADE:
        conditions.append("3")
    entry = {
        "MDUpdateAction": NEW,
        "MDEntryType": "2",
        "MDEntryPx": decimal_of(item.price),
        "MDEntrySize": item.size,
        "TradeID": str(item.trade_id),
        "MDEntryBuyer": _text(item.buyer),
        "MDEntrySeller": _text(item.seller),
        "TradeCondition": " ".join(conditions) or None,
        **at(item.transact_time_ns),
    }
    if isinstance(item, ForwardTrade):
        entry["SellerDays"] = item.seller_days
        entry["MDEntryInterestRate"] = decimal_of(item.interest_rate)
    return [entry]


def _bust(item: TradeBust) -> list[Values]:
    return [
        {
            "MDUpdateAction": DELETE,
            "MDEntryType": "2",
            "MDEntryPx": decimal_of(item.price),
            "TradeID": str(item.trade_id),
            **at(item.transact_time_ns),
        }
    ]


def _last_trade(item: LastTradePrice) -> list[Values]:
    return [
        {
            "MDUpdateAction": NEW,
            "MDEntryType": "2",
            "MDEntryPx": decimal_of(item.price),
            "TradeCondition": EXCHANGE_LAST,
            **at(item.time_ns),
        }
    ]


def _price(kind: str) -> Callable[[Any], list[Values]]:
    """Return a writer of an entry whose price can be deleted."""

    def entries(item: Any) -> list[Values]:
        return [
            {
                "MDUpdateAction": DELETE if item.deleted else NEW,
                "MDEntryType": kind,
                "MDEntryPx": decimal_of(item.price),
                **at(item.time_ns),
            }
        ]

    return entries


def _opening(item: OpeningPrice) -> list[Values]:
    (entry,) = _price("4")(item)
    entry["NetChgPrevDay"] = decimal_of(item.net_chg_prev_day8, 8)
    return [entry]


def _theoretical(item: TheoreticalOpeningPrice) -> list[Values]:
    (entry,) = _price("4")(item)
    entry["OpenCloseSettlFlag"] = int(OpenCloseSettlFlag.THEORETICAL_PRICE)
    entry["MDEntrySize"] = None if item.deleted else item.size
    if item.deleted:
        entry["MDEntryPx"] = None
    return [entry]


def _imbalance(item: AuctionImbalance) -> list[Values]:
    side = {ImbalanceCondition.MORE_BUYERS: "P", ImbalanceCondition.MORE_SELLERS: "Q"}
    return [
        {
            "MDUpdateAction": DELETE if item.deleted else NEW,
            "MDEntryType": "A",
            "MDEntrySize": item.size,
            "TradeCondition": side.get(item.condition),
            **at(item.time_ns),
        }
    ]


def _execution_statistics(item: ExecutionStatistics) -> list[Values]:
    """Return two entries: volume with number of trades, and the average price without crosses."""
    volume = {
        "MDUpdateAction": NEW,
        "MDEntryType": "B",
        "MDEntrySize": item.number_of_trades,
        "TradeVolume": item.trade_volume,
        **at(item.time_ns),
    }
    if item.vwap_without_crosses is None:
        return [volume]
    weighted = {
        "MDUpdateAction": NEW,
        "MDEntryType": "9",
        "MDEntryPx": decimal_of(item.vwap_without_crosses),
        "NetChgPrevDay": decimal_of(item.net_chg_prev_day8, 8),
        **at(item.time_ns),
    }
    return [volume, weighted]


def withdrawn_average(before: object, now: ExecutionStatistics) -> list[Values]:
    """Return the entry that deletes the average price, if no trade is left that counts in it."""
    if not isinstance(before, ExecutionStatistics) or now.vwap_without_crosses is not None:
        return []
    if before.vwap_without_crosses is None:
        return []
    price = decimal_of(before.vwap_without_crosses)
    entry = {"MDUpdateAction": DELETE, "MDEntryType": "9", "MDEntryPx": price}
    return [{**entry, **at(now.time_ns)}]


def _closing(item: ClosingPrice) -> list[Values]:
    last = item.last_trade_date
    return [
        {
            "MDUpdateAction": NEW,
            "MDEntryType": "5",
            "MDEntryPx": decimal_of(item.price8, 8),
            "OpenCloseSettlFlag": int(item.flag),
            "LastTradeDate": None if last is None else day_digits(last),
            **at(item.time_ns),
        }
    ]


def _settlement(item: SettlementPrice) -> list[Values]:
    return [
        {
            "MDUpdateAction": NEW,
            "MDEntryType": "6",
            "MDEntryPx": decimal_of(item.price),
            "OpenCloseSettlFlag": int(item.flag),
            "SettlPriceType": int(item.settl_price_type),
            "PriceType": None if item.price_type is None else str(int(item.price_type)),
            **at(item.time_ns),
        }
    ]


def _open_interest(item: OpenInterest) -> list[Values]:
    return [
        {
            "MDUpdateAction": NEW,
            "MDEntryType": "C",
            "MDEntrySize": item.size,
            **at(item.time_ns),
        }
    ]


def _price_band(item: PriceBand) -> list[Values]:
    """Return the entry of a band; none if 002 has no code for its type."""
    kind, limit, midpoint = item.band_type, item.limit_type, item.midpoint
    if kind is not None and kind not in _BANDS:
        return []
    return [
        {
            "MDUpdateAction": NEW,
            "MDEntryType": "g",
            "PriceBandType": None if kind is None else _BANDS[kind],
            "PriceLimitType": None if limit is None else int(limit),
            "PriceBandMidpointPriceType": None if midpoint is None else int(midpoint),
            "LowLimitPrice": decimal_of(item.low),
            "HighLimitPrice": decimal_of(item.high),
            "TradingReferencePrice": decimal_of(item.reference8, 8),
            **at(item.time_ns),
        }
    ]


ENTRIES: Final[dict[type, Callable[[Any], list[Values]]]] = {
    Trade: _trade,
    ForwardTrade: _trade,
    TradeBust: _bust,
    LastTradePrice: _last_trade,
    OpeningPrice: _opening,
    TheoreticalOpeningPrice: _theoretical,
    AuctionImbalance: _imbalance,
    HighPrice: _price("7"),
    LowPrice: _price("8"),
    ExecutionStatistics: _execution_statistics,
    ClosingPrice: _closing,
    SettlementPrice: _settlement,
    OpenInterest: _open_interest,
    PriceBand: _price_band,
}
"""Entry writers by event type. Other events of the binary feed (ExecutionSummary, QuantityBand, and
bands of static limits) have no entry in 002."""


def oscillation(statistics: Mapping[object, Any]) -> PriceBand | None:
    """Return the oscillation tunnel: the hard limits and the reference price in one band.

    The binary feed has a message for each; here they share a block, and it replaces the last one.
    """
    limits: PriceBand | None = statistics.get((PriceBand, PriceBandType.HARD_LIMIT))
    reference: PriceBand | None = statistics.get((PriceBand, None))
    if limits is None or reference is None:
        return limits or reference
    later = max(limits.time_ns, reference.time_ns)
    joined: PriceBand = replace(limits, reference8=reference.reference8, time_ns=later)
    return joined


OSCILLATION: Final = (PriceBandType.HARD_LIMIT, None)
"""Types of the bands that `oscillation` joins."""
