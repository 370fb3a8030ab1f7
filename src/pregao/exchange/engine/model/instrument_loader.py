"""Loader of a catalog of instruments, from TOML or JSON, with every entry checked.

A catalog has ``[kind.NAME]`` tables of fields that instruments share, and ``[[instrument]]``
tables, each of which may be ``like`` a kind. Fields have the names of ``Instrument``; enumerations
are given by name, prices and sizes as decimals, legs and underlyings by symbol. An error is a
``UsageError`` with the file, the instrument and the field.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import date
from decimal import Decimal
from enum import IntEnum
from importlib import resources
from pathlib import Path
from typing import Any

from pregao.errors import UsageError
from pregao.exchange.engine.model.auction_rules import AuctionRules, parse_auction_rules
from pregao.exchange.engine.model.enums import (
    PRICE8_PER_PRICE,
    PRICE8_SCALE,
    RATIO_SCALE,
    OrderSide,
    PriceType,
)
from pregao.exchange.engine.model.instruments import (
    ExerciseStyle,
    GovernanceIndicator,
    InstrAttrib,
    InstrAttribType,
    InstrAttribValue,
    Instrument,
    Leg,
    LotType,
    MaturityMonthYear,
    MultiLegModel,
    MultiLegPriceMethod,
    OptPayoutType,
    Product,
    PutOrCall,
    SecurityType,
    Underlying,
)
from pregao.safe_io.documents import parse_toml, read_tables
from pregao.umdf.templates import NOT_OPTIONS
from pregao.units import PRICE_SCALE

_Parser = Callable[[object], object]

BUNDLED = "catalogue.toml"
"""File name of the bundled catalog."""


def bundled_catalogue() -> list[Instrument]:
    """Return the bundled instruments."""
    text = resources.files("pregao.exchange.engine.model").joinpath(BUNDLED).read_text("utf-8")
    return parse_catalogue(parse_toml(text, decimals=True), BUNDLED)


def load_catalogue(path: Path) -> list[Instrument]:
    """Load a catalog file: JSON if its name ends in ``.json``, else TOML."""
    return parse_catalogue(read_tables(path, decimals=True), str(path))


class _FieldError(Exception):
    """Invalid value of a field; the caller adds the field's name."""


def _text(length: int, exact: bool = False) -> _Parser:
    def parse(value: object) -> str:
        if not isinstance(value, str) or not value.isascii() or not value.isprintable():
            raise _FieldError(f"must be printable ASCII text, was {value!r}")
        if not value or len(value) > length or (exact and len(value) != length):
            raise _FieldError(
                f"must have {'' if exact else 'up to '}{length} characters, was {value!r}"
            )
        return value

    return parse


def _description(value: object) -> str:
    if not isinstance(value, str) or len(value.encode()) > 100:
        raise _FieldError(f"must be text of up to 100 bytes, was {value!r}")
    return value


def _integer(minimum: int, maximum: int = 2**63 - 1) -> _Parser:
    def parse(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise _FieldError(f"must be an integer, was {value!r}")
        if not minimum <= value <= maximum:
            raise _FieldError(f"must be from {minimum} to {maximum}, was {value}")
        return value

    return parse


def _decimal(scale: int, above_zero: bool = False) -> _Parser:
    def parse(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int | Decimal):
            raise _FieldError(f"must be a decimal number, was {value!r}")
        exact = Decimal(value)
        # The exponent is checked first: a product of extremes overflows or loses digits.
        if not exact.is_finite() or exact.adjusted() > 18 or abs(exact) * scale >= 10**18:
            raise _FieldError(f"{value} is too large")
        if exact and exact.adjusted() < -18:
            raise _FieldError(f"{value} has more decimals than can be published")
        scaled = exact * scale
        if scaled != int(scaled):
            raise _FieldError(f"{value} has more decimals than can be published")
        if above_zero and scaled <= 0:
            raise _FieldError(f"must be greater than zero, was {value}")
        return int(scaled)

    return parse


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise _FieldError(f"must be true or false, was {value!r}")
    return value


def _date(value: object) -> date:
    if isinstance(value, str):
        try:
            return date.fromisoformat(value)
        except ValueError as fault:
            raise _FieldError(f"must be a date such as 2026-06-30, was {value!r}") from fault
    if type(value) is not date:
        raise _FieldError(f"must be a date such as 2026-06-30, was {value!r}")
    return value


def _month(value: object) -> MaturityMonthYear:
    found = re.fullmatch(r"(\d{4})-(\d{2})(?:-(\d{2}))?", value) if isinstance(value, str) else None
    if found is not None:
        with suppress(ValueError):
            first = date(int(found[1]), int(found[2]), int(found[3] or 1))
            return MaturityMonthYear(first.year, first.month, first.day if found[3] else None)
    raise _FieldError(f"must be a month such as 2026-06 or a day of it, was {value!r}")


def _named(kind: type[IntEnum]) -> _Parser:
    def parse(value: object) -> IntEnum:
        if not isinstance(value, str) or value not in kind.__members__:
            raise _FieldError(f"must be one of {', '.join(kind.__members__)}, was {value!r}")
        return kind[value]

    return parse


def isin_check_digit(stem: str) -> int:
    """Return the twelfth character of an ISIN from the first eleven (ISO 6166)."""
    digits = "".join(str(int(character, 36)) for character in stem)
    total = 0
    for index, digit in enumerate(reversed(digits)):
        value = int(digit) * (2 if index % 2 == 0 else 1)
        total += value // 10 + value % 10
    return -total % 10


def _isin(value: object) -> str:
    if not isinstance(value, str) or not re.fullmatch(r"[A-Z]{2}[A-Z0-9]{9}[0-9]", value):
        raise _FieldError(f"must be an ISIN, was {value!r}")
    digit = isin_check_digit(value[:11])
    if value[11] != str(digit):
        raise _FieldError(f"{value} has a wrong check digit: it must be {digit}")
    return value


def _cfi(value: object) -> str:
    if not isinstance(value, str) or not re.fullmatch(r"[A-Z]{6}", value):
        raise _FieldError(f"must be a CFI code of six capital letters, was {value!r}")
    return value


def _auction(value: object) -> AuctionRules:
    try:
        return parse_auction_rules(value)
    except ValueError as fault:
        raise _FieldError(str(fault)) from fault


_ELIGIBILITIES = {
    "ELECTRONIC_MATCH": InstrAttribValue.ELECTRONIC_MATCH_OR_GTD_GTC_ELIGIBLE,
    "ORDER_CROSS": InstrAttribValue.ORDER_CROSS_ELIGIBLE,
    "BLOCK_TRADE": InstrAttribValue.BLOCK_TRADE_ELIGIBLE,
    "RFQ_FOR_CROSS": InstrAttribValue.FLAG_RFQ_FOR_CROSS_ELIGIBLE,
    "NEGOTIATED_QUOTE": InstrAttribValue.NEGOTIATED_QUOTE_ELIGIBLE,
}


def _eligibility(value: object) -> tuple[InstrAttrib, ...]:
    if not isinstance(value, list) or any(
        not isinstance(name, str) or name not in _ELIGIBILITIES for name in value
    ):
        raise _FieldError(f"must be a list of {', '.join(_ELIGIBILITIES)}, was {value!r}")
    kind = InstrAttribType.TRADE_TYPE_ELIGIBILITY
    return tuple(InstrAttrib(kind, _ELIGIBILITIES[name]) for name in value)


_QUANTITY = _integer(1)
_FIELDS: dict[str, _Parser] = {
    "security_id": _integer(1),
    "symbol": _text(20),
    "security_group": _text(3),
    "security_type": _named(SecurityType),
    "security_sub_type": _integer(0, 65_535),
    "product": _named(Product),
    "asset": _text(6),
    "cfi_code": _cfi,
    "min_price_increment": _decimal(PRICE8_SCALE),
    "security_exchange": _text(4),
    "currency": _text(3, exact=True),
    "strike_currency": _text(3, exact=True),
    "settl_currency": _text(3, exact=True),
    "strike_price": _decimal(PRICE_SCALE, above_zero=True),
    "contract_multiplier": _decimal(PRICE8_SCALE, above_zero=True),
    "price_divisor": _decimal(PRICE8_SCALE, above_zero=True),
    "security_validity_s": _integer(0),
    "no_shares_issued": _QUANTITY,
    "clearing_house_id": _QUANTITY,
    "min_order_qty": _QUANTITY,
    "max_order_qty": _QUANTITY,
    "min_lot_size": _QUANTITY,
    "min_trade_vol": _QUANTITY,
    "min_cross_qty": _QUANTITY,
    "corporate_action_event_id": _integer(1, 2**32 - 1),
    "issue_date": _date,
    "maturity_date": _date,
    "country_of_issue": _text(2, exact=True),
    "start_date": _date,
    "end_date": _date,
    "settl_type": _integer(0, 65_534),
    "settl_date": _date,
    "dated_date": _date,
    "isin_number": _isin,
    "maturity_month_year": _month,
    "contract_settl_month": _month,
    "security_strategy_type": _text(3),
    "lot_type": _named(LotType),
    "tick_size_denominator": _integer(0, 8),
    "exercise_style": _named(ExerciseStyle),
    "put_or_call": _named(PutOrCall),
    "opt_payout_type": _named(OptPayoutType),
    "price_type": _named(PriceType),
    "market_segment_id": _integer(1, 255),
    "governance_indicator": _named(GovernanceIndicator),
    "security_match_type": _integer(0, 254),
    "multi_leg_model": _named(MultiLegModel),
    "multi_leg_price_method": _named(MultiLegPriceMethod),
    "implied_market_indicator": _flag,
    "security_desc": _description,
    "channel": _integer(0, 255),
    "previous_close": _decimal(PRICE8_SCALE),
    "protection_offset": _decimal(PRICE_SCALE, above_zero=True),
    "rlp_improvement": _decimal(PRICE_SCALE, above_zero=True),
    "auction": _auction,
}
"""Parser of each field; the fields below refer to other instruments or set several fields."""

_REFERENCES = frozenset(
    {"like", "legs", "underlyings", "trade_type_eligibility", "gtd_gtc_eligible", "test_instrument"}
)
_REQUIRED = (
    "security_id",
    "symbol",
    "security_group",
    "security_type",
    "security_sub_type",
    "product",
    "asset",
    "cfi_code",
    "min_price_increment",
)


class _Entry:
    """One instrument of a catalog while it is parsed."""

    def __init__(self, source: str, number: int, raw: Mapping[str, Any]) -> None:
        self.raw = raw
        symbol = raw.get("symbol")
        self.name = f"{source}: instrument {symbol if isinstance(symbol, str) else f'#{number}'}"

    def fault(self, field: str, reason: str) -> UsageError:
        """Return an error with the file, the instrument and the field."""
        return UsageError(f"{self.name}, field {field}: {reason}")

    def parse(self, field: str, parser: _Parser) -> Any:
        """Parse one field."""
        try:
            return parser(self.raw[field])
        except _FieldError as fault:
            raise self.fault(field, str(fault)) from fault


def parse_catalogue(document: Mapping[str, Any], source: str) -> list[Instrument]:
    """Parse the instruments of a catalog document, in its order."""
    entries = _entries(document, source)
    known: dict[str, tuple[int, SecurityType]] = {}
    symbols: dict[int, str] = {}
    simple: list[dict[str, Any]] = []
    for entry in entries:
        values = _simple_fields(entry)
        symbol, security_id = values["symbol"], values["security_id"]
        if symbol in known:
            raise entry.fault("symbol", "used by two instruments")
        if security_id in symbols:
            raise entry.fault("security_id", f"already used by {symbols[security_id]}")
        known[symbol] = (security_id, values["security_type"])
        symbols[security_id] = symbol
        simple.append(values)
    instruments = []
    for entry, values in zip(entries, simple, strict=True):
        values["legs"] = _legs(entry, known)
        values["underlyings"] = _underlyings(entry, known)
        values["attributes"] = _attributes(entry)
        instrument = Instrument(**values)
        _check(entry, instrument)
        instruments.append(instrument)
    return instruments


def _entries(document: Mapping[str, Any], source: str) -> list[_Entry]:
    """Return the instruments of a document, each merged with the fields of its kind."""
    unknown = set(document) - {"kind", "instrument"}
    if unknown:
        raise UsageError(
            f"{source}: unknown key {sorted(unknown)[0]!r}; choose from kind, instrument"
        )
    kinds = document.get("kind", {})
    tables = document.get("instrument", [])
    if not isinstance(kinds, dict) or not all(isinstance(kind, dict) for kind in kinds.values()):
        raise UsageError(f"{source}: kinds must be tables of fields such as [kind.share]")
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise UsageError(f"{source}: instruments must be a list of tables such as [[instrument]]")
    if not tables:
        raise UsageError(f"{source}: the catalog has no instrument; add an [[instrument]] table")
    entries = []
    for number, table in enumerate(tables, 1):
        entry = _Entry(source, number, table)
        like = table.get("like")
        if like is not None:
            if not isinstance(like, str) or like not in kinds:
                raise entry.fault(
                    "like", f"unknown kind {like!r}; define it as a [kind.NAME] table"
                )
            entry.raw = {**kinds[like], **table}
        entries.append(entry)
    return entries


def _simple_fields(entry: _Entry) -> dict[str, Any]:
    """Parse all fields that depend only on their own value."""
    for field in entry.raw:
        if field not in _FIELDS and field not in _REFERENCES:
            raise entry.fault(field, "unknown field")
    for field in _REQUIRED:
        if field not in entry.raw:
            raise entry.fault(field, "required field is missing")
    return {
        field: entry.parse(field, parser) for field, parser in _FIELDS.items() if field in entry.raw
    }


def _legs(entry: _Entry, known: Mapping[str, tuple[int, SecurityType]]) -> tuple[Leg, ...]:
    """Parse the legs: tables of symbol, side and, unless it is 1, ratio."""
    tables = entry.raw.get("legs", [])
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise entry.fault("legs", "must be a list of tables with a symbol and a side")
    legs = []
    for table in tables:
        unknown = set(table) - {"symbol", "side", "ratio"}
        if unknown:
            raise entry.fault(
                "legs",
                f"unknown field {sorted(unknown)[0]!r} of a leg; choose from symbol, side, ratio",
            )
        security_id, security_type = _known(entry, "legs", table.get("symbol"), known)
        try:
            side = _named(OrderSide)(table.get("side"))
            ratio = _decimal(RATIO_SCALE, above_zero=True)(table.get("ratio", 1))
        except _FieldError as fault:
            raise entry.fault("legs", str(fault)) from fault
        assert isinstance(side, OrderSide)
        assert isinstance(ratio, int)
        legs.append(Leg(security_id, table["symbol"], ratio, security_type, side))
    return tuple(legs)


def _underlyings(
    entry: _Entry, known: Mapping[str, tuple[int, SecurityType]]
) -> tuple[Underlying, ...]:
    """Parse the underlyings: a list of symbols."""
    symbols = entry.raw.get("underlyings", [])
    if not isinstance(symbols, list):
        raise entry.fault("underlyings", "must be a list of symbols")
    return tuple(
        Underlying(_known(entry, "underlyings", symbol, known)[0], symbol) for symbol in symbols
    )


def _known(
    entry: _Entry, field: str, symbol: object, known: Mapping[str, tuple[int, SecurityType]]
) -> tuple[int, SecurityType]:
    """Return the ID and type of a leg or underlying."""
    if not isinstance(symbol, str) or symbol not in known:
        raise entry.fault(field, f"the catalog has no instrument {symbol!r}")
    if symbol == entry.raw["symbol"]:
        raise entry.fault(field, "an instrument cannot refer to itself")
    return known[symbol]


def _attributes(entry: _Entry) -> tuple[InstrAttrib, ...]:
    """Parse the eligibilities of the instrument."""
    attributes: tuple[InstrAttrib, ...] = ()
    if "trade_type_eligibility" in entry.raw:
        attributes = entry.parse("trade_type_eligibility", _eligibility)
    if "gtd_gtc_eligible" in entry.raw and entry.parse("gtd_gtc_eligible", _flag):
        eligible = InstrAttribValue.ELECTRONIC_MATCH_OR_GTD_GTC_ELIGIBLE
        attributes += (InstrAttrib(InstrAttribType.GTD_GTC_ELIGIBILITY, eligible),)
    if "test_instrument" in entry.raw and entry.parse("test_instrument", _flag):
        # Its value has the number, and so the name, of the eligibilities.
        yes = InstrAttribValue.ELECTRONIC_MATCH_OR_GTD_GTC_ELIGIBLE
        attributes += (InstrAttrib(InstrAttribType.TEST_INSTRUMENT, yes),)
    return attributes


_OPTIONS = frozenset(
    {SecurityType.OPT, SecurityType.INDEXOPT, SecurityType.FOPT, SecurityType.SOPT}
)
_TRADED_NOWHERE = frozenset({SecurityType.INDEX})


def _check(entry: _Entry, instrument: Instrument) -> None:
    """Check the fields against each other."""
    for field, reason in (*_size_faults(instrument), *_kind_faults(instrument)):
        raise entry.fault(field, reason)


def _size_faults(instrument: Instrument) -> Sequence[tuple[str, str]]:
    """Return the errors in ticks, lots and quantities."""
    faults = []
    tick = instrument.min_price_increment
    if tick <= 0 and instrument.security_type not in _TRADED_NOWHERE:
        faults.append(("min_price_increment", "the tick must be greater than zero"))
    if tick % PRICE8_PER_PRICE:
        faults.append(
            ("min_price_increment", "prices have 4 decimals: the tick must not have more")
        )
    lot = instrument.lot
    minimum, maximum = instrument.min_order_qty or 1, instrument.max_order_qty
    if minimum % lot:
        faults.append(("min_order_qty", f"must be a multiple of the lot size {lot}"))
    if maximum is not None and maximum < minimum:
        faults.append(("max_order_qty", "must not be below min_order_qty"))
    if instrument.strike_price is not None and instrument.put_or_call is None:
        faults.append(("strike_price", "requires put_or_call"))
    close = instrument.previous_close
    if close is not None and close <= 0 and not instrument.allows_any_sign:
        faults.append(("previous_close", "must be greater than zero"))
    return faults


def _kind_faults(instrument: Instrument) -> Sequence[tuple[str, str]]:
    """Return the fields that an instrument of its type lacks or must not have."""
    faults = []
    kind = instrument.security_type
    if instrument.put_or_call is not None and instrument.strike_price is None:
        faults.append(("put_or_call", "an option requires a strike_price"))
    if kind in _OPTIONS and instrument.security_sub_type not in NOT_OPTIONS:
        if instrument.put_or_call is None:
            faults.append(("put_or_call", "an option must be PUT or CALL"))
        if not instrument.underlyings:
            faults.append(("underlyings", "an option requires an underlying"))
        if instrument.exercise_style is None:
            faults.append(("exercise_style", "an option must be EUROPEAN or AMERICAN"))
    elif instrument.put_or_call is not None:
        faults.append(("put_or_call", f"a {kind.name} is not an option"))
    if (kind in _OPTIONS or kind == SecurityType.FUT) and instrument.maturity_date is None:
        faults.append(("maturity_date", f"a {kind.name} requires a maturity date"))
    if instrument.maturity_date is not None and instrument.maturity_date < instrument.issue_date:
        faults.append(("maturity_date", "must not be before issue_date"))
    if (kind == SecurityType.MLEG) != bool(instrument.legs):
        faults.append(("legs", "an MLEG instrument requires legs, and no other type has them"))
    if instrument.legs and len({leg.security_id for leg in instrument.legs}) < 2:
        faults.append(("legs", "a multileg instrument must have at least two different legs"))
    if instrument.implied_market_indicator and not instrument.legs:
        faults.append(
            ("implied_market_indicator", "only instruments with legs can have implied orders")
        )
    if instrument.is_forward and not instrument.underlyings:
        faults.append(("underlyings", "a forward requires an underlying"))
    return faults
