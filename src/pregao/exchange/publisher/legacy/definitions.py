"""Encoding of instruments as rows of SecurityList messages (002 §5.3.4, §8)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime

from pregao.clock import SECOND
from pregao.exchange.engine.model.enums import SecurityUpdateAction
from pregao.exchange.engine.model.instruments import (
    InstrAttribType,
    Instrument,
    MaturityMonthYear,
)
from pregao.exchange.publisher.legacy.entries import Values, decimal_of
from pregao.legacy.times import timestamp_digits

ROWS_PER_MESSAGE = 4
_RATIO = 10_000_000
_LATEST_S = int(datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC).timestamp())


def _day(value: date | None) -> int | None:
    return None if value is None else value.year * 10_000 + value.month * 100 + value.day


def _month(value: MaturityMonthYear | None) -> int | None:
    return None if value is None else value.year * 100 + value.month


def _number(value: int | None) -> int | None:
    return None if value is None else int(value)


def row_of(instrument: Instrument, action: SecurityUpdateAction, channel: int) -> Values:
    """Return the row of an instrument."""
    validity = min(instrument.security_validity_s, _LATEST_S)
    isin = instrument.isin_number
    lot_type, lot = instrument.lot_type, instrument.min_lot_size
    return {
        "Symbol": instrument.symbol,
        "SecurityID": instrument.security_id,
        "ApplIDs": [{"ApplID": str(channel)}],
        "SecurityAltIDs": [{"SecurityAltID": isin, "SecurityAltIDSource": "4"}] if isin else None,
        "Underlyings": [
            {"UnderlyingSymbol": each.symbol, "UnderlyingSecurityID": each.security_id}
            for each in instrument.underlyings
        ]
        or None,
        "ImpliedMarketIndicator": int(instrument.implied_market_indicator),
        "InstrAttrib": [
            {"InstAttribType": int(each.type), "InstAttribValue": str(int(each.value))}
            for each in instrument.attributes
            if each.type != InstrAttribType.TEST_INSTRUMENT  # only the binary feed has it
        ]
        or None,
        "Legs": [
            {
                "LegSymbol": leg.symbol,
                "LegSecurityID": leg.security_id,
                "LegRatioQty": leg.ratio_qty // _RATIO,
                "LegSecurityType": leg.security_type.name,
                "LegSide": int(leg.side),
            }
            for leg in instrument.legs
        ]
        or None,
        "SecurityUpdateAction": str(action),
        "Lots": [{"LotType": _number(lot_type), "MinLotSize": lot}] if lot else None,
        "MinPriceIncrement": decimal_of(instrument.min_price_increment, 8),
        "TickSizeDenominator": instrument.tick_size_denominator,
        "PriceDivisor": decimal_of(instrument.price_divisor, 8),
        "MinOrderQty": instrument.min_order_qty,
        "MaxOrderQty": instrument.max_order_qty,
        "MultiLegModel": _number(instrument.multi_leg_model),
        "MultiLegPriceMethod": _number(instrument.multi_leg_price_method),
        "Currency": instrument.currency,
        "SettlCurrency": instrument.settl_currency,
        "Product": int(instrument.product),
        "SecurityType": instrument.security_type.name,
        "SecuritySubType": str(instrument.security_sub_type),
        "SecurityStrategyType": instrument.security_strategy_type,
        "Asset": instrument.asset,
        "SecurityDesc": instrument.security_desc.encode("ascii", "replace").decode(),
        "NoShareIssued": instrument.no_shares_issued,
        "MaturityDate": _day(instrument.maturity_date),
        "MaturityMonthYear": _month(instrument.maturity_month_year),
        "StrikePrice": decimal_of(instrument.strike_price),
        "StrikeCurrency": instrument.strike_currency,
        "ExerciseStyle": _number(instrument.exercise_style),
        "PutOrCall": _number(instrument.put_or_call),
        "ContractMultiplier": decimal_of(instrument.contract_multiplier, 8),
        "ContractSettlMonth": _month(instrument.contract_settl_month),
        "CFICode": instrument.cfi_code,
        "CountryOfIssue": instrument.country_of_issue or "",
        "IssueDate": _day(instrument.issue_date) or 0,
        "DatedDate": _day(instrument.dated_date),
        "StartDate": _day(instrument.start_date),
        "EndDate": _day(instrument.end_date),
        "SettlType": None if instrument.settl_type is None else str(instrument.settl_type),
        "SettlDate": _day(instrument.settl_date),
        "SecurityValidityTimestamp": timestamp_digits(validity * SECOND),
        "MarketSegmentID": _text(instrument.market_segment_id),
        "GovernanceIndicator": _text(_number(instrument.governance_indicator)),
        "CorporateActionEventID": instrument.corporate_action_event_id,
        "SecurityGroup": instrument.security_group,
        "SecurityMatchType": instrument.security_match_type,
    }


def _text(value: int | None) -> str | None:
    return None if value is None else str(value)


def lists(
    instruments: Sequence[Instrument], action: SecurityUpdateAction, channel: int
) -> Iterator[Values]:
    """Yield the SecurityList messages of instruments; the last one has LastFragment."""
    total = len(instruments)
    for start in range(0, total, ROWS_PER_MESSAGE):
        batch = instruments[start : start + ROWS_PER_MESSAGE]
        yield {
            "TotNoRelatedSym": total,
            "LastFragment": "Y" if start + len(batch) == total else "N",
            "RelatedSym": [row_of(each, action, channel) for each in batch],
        }
