"""Encoding of instruments as SecurityDefinition messages."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Any

from pregao.errors import EncodeError, SchemaError
from pregao.exchange.engine.model.enums import SecurityUpdateAction
from pregao.exchange.engine.model.instruments import Instrument, MaturityMonthYear
from pregao.exchange.publisher.encoding.fields import known_fields, rescale, template
from pregao.exchange.publisher.packet_writer import MAX_MESSAGE
from pregao.sbe.codec import SchemaCodec
from pregao.sbe.value_specs import ValueSpec, readings

_PRICE_DECIMALS = 4
_RATIO_DECIMALS = 7
_FIXED8_DECIMALS = 8


class DefinitionEncoder:
    """Writes definitions with SecurityDefinition_12, or _4 in versions without it."""

    def __init__(self, schema: SchemaCodec) -> None:
        codec = template(schema, "SecurityDefinition_12", "SecurityDefinition_4")
        if codec is None:
            raise SchemaError(
                f"schema version {schema.schema.version} has no SecurityDefinition message"
            )
        self._codec = codec
        self._known = known_fields(codec)
        self._groups = {
            group.name: {reading.name: reading for reading in readings(group)}
            for group in codec.message.groups
        }
        types = self._groups["noInstrAttribs"]["instrAttribType"].enum
        self._attributes = {each.value for each in types.members} if types is not None else set()

    def message(
        self,
        instrument: Instrument,
        action: SecurityUpdateAction,
        total: int,
        last_fragment: bool,
    ) -> bytes:
        """Return the message of a definition, one of ``total`` in the list."""
        values = {
            **_fields(instrument),
            **self._decimals(instrument),
            "securityUpdateAction": ord(action),
            "totNoRelatedSym": total,
            "lastFragment": int(last_fragment),
        }
        present = {name: value for name, value in values.items() if name in self._known}
        present.update(self._parts(instrument))
        try:
            message = self._codec.encode(present)
        except EncodeError as error:
            raise EncodeError(f"definition of {instrument.symbol}: {error}") from None
        if len(message) > MAX_MESSAGE:
            raise EncodeError(
                f"definition of {instrument.symbol} has {len(message)} bytes, and a packet fits "
                f"at most {MAX_MESSAGE}: reduce its legs or underlyings"
            )
        return message

    def _decimals(self, instrument: Instrument) -> dict[str, Decimal | None]:
        """Return the fixed-point fields with the decimals of the version."""
        values = {
            "minPriceIncrement": (instrument.min_price_increment, _FIXED8_DECIMALS),
            "strikePrice": (instrument.strike_price, _PRICE_DECIMALS),
            "contractMultiplier": (instrument.contract_multiplier, _FIXED8_DECIMALS),
            "priceDivisor": (instrument.price_divisor, _FIXED8_DECIMALS),
        }
        return {
            name: _decimal(mantissa, scale, self._known[name])
            for name, (mantissa, scale) in values.items()
        }

    def _parts(self, instrument: Instrument) -> dict[str, Any]:
        """Return the repeating groups and the description."""
        legs = self._groups["noLegs"]
        parts: dict[str, Any] = {
            "noUnderlyings": [
                {"underlyingSecurityID": each.security_id, "underlyingSymbol": each.symbol}
                for each in instrument.underlyings
            ],
            "noLegs": [
                {
                    "legSecurityID": leg.security_id,
                    "legRatioQty": _decimal(leg.ratio_qty, _RATIO_DECIMALS, legs["legRatioQty"]),
                    "legSecurityType": int(leg.security_type),
                    "legSide": int(leg.side),
                    "legSymbol": leg.symbol,
                }
                for leg in instrument.legs
            ],
            "noInstrAttribs": [
                {"instrAttribType": int(each.type), "instrAttribValue": int(each.value)}
                for each in instrument.attributes
                if int(each.type) in self._attributes
            ],
        }
        if instrument.security_desc:
            parts["securityDesc"] = instrument.security_desc
        return parts


def _decimal(mantissa: int | None, scale: int, reading: ValueSpec) -> Decimal | None:
    """Return a number with the decimals of its field; None if an optional field would round it."""
    if mantissa is None:
        return None
    rescaled = rescale(mantissa, scale, reading.scale)
    if rescale(rescaled, reading.scale, scale) != mantissa and not reading.required:
        return None
    return Decimal(rescaled).scaleb(-reading.scale)


def _month(maturity: MaturityMonthYear | None) -> dict[str, int | None] | None:
    if maturity is None:
        return None
    return {
        "year": maturity.year,
        "month": maturity.month,
        "day": maturity.day,
        "week": maturity.week,
    }


def _numbers(instrument: Instrument, names: Iterable[tuple[str, str]]) -> dict[str, int | None]:
    """Return codes and counts by field."""
    numbers: dict[str, int | None] = {}
    for field, attribute in names:
        value = getattr(instrument, attribute)
        numbers[field] = None if value is None else int(value)
    return numbers


_NUMBERS = (
    ("securityType", "security_type"),
    ("securitySubType", "security_sub_type"),
    ("securityValidityTimestamp", "security_validity_s"),
    ("noSharesIssued", "no_shares_issued"),
    ("clearingHouseID", "clearing_house_id"),
    ("minOrderQty", "min_order_qty"),
    ("maxOrderQty", "max_order_qty"),
    ("minLotSize", "min_lot_size"),
    ("minTradeVol", "min_trade_vol"),
    ("minCrossQty", "min_cross_qty"),
    ("corporateActionEventId", "corporate_action_event_id"),
    ("settlType", "settl_type"),
    ("lotType", "lot_type"),
    ("tickSizeDenominator", "tick_size_denominator"),
    ("product", "product"),
    ("exerciseStyle", "exercise_style"),
    ("putOrCall", "put_or_call"),
    ("optPayoutType", "opt_payout_type"),
    ("priceType", "price_type"),
    ("marketSegmentID", "market_segment_id"),
    ("governanceIndicator", "governance_indicator"),
    ("securityMatchType", "security_match_type"),
    ("multiLegModel", "multi_leg_model"),
    ("multiLegPriceMethod", "multi_leg_price_method"),
    ("impliedMarketIndicator", "implied_market_indicator"),
)


def _fields(instrument: Instrument) -> dict[str, Any]:
    """Return the block fields that are the same in all versions."""
    return {
        "securityID": instrument.security_id,
        "securityExchange": instrument.security_exchange,
        "securityIDSource": ord(instrument.security_id_source),
        "securityGroup": instrument.security_group,
        "symbol": instrument.symbol,
        "issueDate": instrument.issue_date,
        "maturityDate": instrument.maturity_date,
        "countryOfIssue": instrument.country_of_issue,
        "startDate": instrument.start_date,
        "endDate": instrument.end_date,
        "settlDate": instrument.settl_date,
        "datedDate": instrument.dated_date,
        "isinNumber": instrument.isin_number,
        "asset": instrument.asset,
        "cfiCode": instrument.cfi_code,
        "maturityMonthYear": _month(instrument.maturity_month_year),
        "contractSettlMonth": _month(instrument.contract_settl_month),
        "currency": instrument.currency,
        "strikeCurrency": instrument.strike_currency,
        "settlCurrency": instrument.settl_currency,
        "securityStrategyType": instrument.security_strategy_type,
        **_numbers(instrument, _NUMBERS),
    }
