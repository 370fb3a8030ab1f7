"""The catalogue: the bundled one is valid, and every error names file, instrument and field."""

from __future__ import annotations

import json
from dataclasses import fields
from decimal import Decimal
from typing import Any

import pytest

from pregao.errors import UsageError
from pregao.exchange.engine.engine import MatchingEngine
from pregao.exchange.engine.model.enums import OrderSide
from pregao.exchange.engine.model.instrument_loader import (
    _FIELDS,
    bundled_catalogue,
    isin_check_digit,
    load_catalogue,
    parse_catalogue,
)
from pregao.exchange.engine.model.instruments import (
    ExerciseStyle,
    InstrAttribType,
    InstrAttribValue,
    Instrument,
    LotType,
    OptPayoutType,
    PutOrCall,
    SecurityType,
)
from tests.exchange.floor import DAY

SHARE: dict[str, Any] = {
    "security_id": 1,
    "symbol": "ACME3",
    "security_group": "01",
    "security_type": "CS",
    "security_sub_type": 1003,
    "product": "EQUITY",
    "asset": "ACME",
    "cfi_code": "ESVUFR",
    "min_price_increment": Decimal("0.01"),
}
FUTURE = {
    **SHARE,
    "security_id": 2,
    "symbol": "ACMF26",
    "security_type": "FUT",
    "maturity_date": "2026-12-01",
}
OPTION = {
    **SHARE,
    "security_id": 3,
    "symbol": "ACMEL20",
    "security_type": "OPT",
    "maturity_date": "2026-12-18",
    "strike_price": 20,
    "put_or_call": "CALL",
    "exercise_style": "AMERICAN",
    "underlyings": ["ACME3"],
}
SPREAD = {
    **SHARE,
    "security_id": 4,
    "symbol": "ACMSPREAD",
    "security_type": "MLEG",
    "legs": [{"symbol": "ACME3", "side": "SELL"}, {"symbol": "ACMF26", "side": "BUY", "ratio": 2}],
}
ALL = (SHARE, FUTURE, OPTION, SPREAD)


def parse(*tables: dict[str, Any], **kinds: dict[str, Any]) -> list[Instrument]:
    return parse_catalogue({"kind": kinds, "instrument": list(tables)}, "list.toml")


def test_bundled_catalogue_covers_the_listed_instruments():
    instruments = {instrument.symbol: instrument for instrument in bundled_catalogue()}
    assert 55 <= len(instruments) <= 70
    kinds = {instrument.security_type for instrument in instruments.values()}
    assert kinds >= {
        SecurityType.CS,
        SecurityType.PS,
        SecurityType.ETF,
        SecurityType.FUT,
        SecurityType.OPT,
        SecurityType.MLEG,
        SecurityType.FORWARD,
    }
    assert {instrument.lot_type for instrument in instruments.values()} >= {
        LotType.ROUND_LOT,
        LotType.ODD_LOT,
    }
    assert {PutOrCall.PUT, PutOrCall.CALL} <= {x.put_or_call for x in instruments.values()}
    assert {ExerciseStyle.EUROPEAN, ExerciseStyle.AMERICAN} <= {
        instrument.exercise_style for instrument in instruments.values()
    }
    assert instruments["PETR4"].isin_number == "BRPETRACNPR6"
    assert instruments["PETR4F"].max_order_qty == 99
    assert instruments["DI1F27"].tick == 50
    spread = instruments["DIIF27N27"]
    assert spread.implied_market_indicator
    assert spread.allows_any_sign
    assert [(leg.symbol, leg.side, leg.ratio_qty) for leg in spread.legs] == [
        ("DI1F27", OrderSide.SELL, 10_000_000),
        ("DI1N27", OrderSide.BUY, 10_000_000),
    ]
    assert all(leg.security_id == instruments[leg.symbol].security_id for leg in spread.legs)
    assert instruments["PETR4T"].is_forward
    assert instruments["PETRF360"].underlyings[0].symbol == "PETR4"


def test_bundled_catalogue_makes_a_market():
    engine = MatchingEngine(bundled_catalogue(), DAY)
    assert engine.instruments == bundled_catalogue()


def test_every_field_of_an_instrument_can_be_given():
    derived = {"attributes", "legs", "security_id_source", "underlyings"}
    assert set(_FIELDS) == {field.name for field in fields(Instrument)} - derived


def test_a_valid_catalogue_is_read_in_its_order():
    instruments = parse(*ALL)
    assert [instrument.symbol for instrument in instruments] == [table["symbol"] for table in ALL]
    assert instruments[0].min_price_increment == 1_000_000
    assert instruments[2].strike_price == 200_000
    assert instruments[3].legs[1].ratio_qty == 20_000_000


def test_kinds_provide_defaults_of_an_instrument():
    kind = {"currency": "USD", "trade_type_eligibility": ["ORDER_CROSS"], "gtd_gtc_eligible": True}
    plain, own = parse(
        {**SHARE, "like": "foreign"},
        {**FUTURE, "like": "foreign", "currency": "EUR", "gtd_gtc_eligible": False},
        foreign=kind,
    )
    assert (plain.currency, own.currency) == ("USD", "EUR")
    assert plain.allows(InstrAttribValue.ORDER_CROSS_ELIGIBLE)
    assert (plain.allows_good_till, own.allows_good_till) == (True, False)


def test_an_instrument_can_be_a_test_instrument():
    marked, plain = parse({**SHARE, "test_instrument": True}, {**FUTURE, "test_instrument": False})
    assert [(int(each.type), int(each.value)) for each in marked.attributes][-1] == (35, 1)
    assert InstrAttribType.TEST_INSTRUMENT not in {each.type for each in plain.attributes}


def test_a_payout_has_its_name_of_either_version():
    option = OptPayoutType["VANILLA_CASH_SETTLEMENT"]
    assert option is OptPayoutType.CAPPED
    names = ("CAPPED", "VANILLA_CASH_SETTLEMENT")
    found = [parse({**SHARE, "opt_payout_type": name})[0].opt_payout_type for name in names]
    assert found == [option, option]


def test_json_and_toml_are_equivalent(tmp_path):
    as_json = tmp_path / "list.json"
    as_json.write_text(
        json.dumps({"instrument": [{**SHARE, "min_price_increment": 0.01}]}), "utf-8"
    )
    as_toml = tmp_path / "list.toml"
    lines = [f"{key} = {json.dumps(value)}" for key, value in SHARE.items() if key[:3] != "min"]
    lines.append("min_price_increment = 0.01")
    as_toml.write_text("[[instrument]]\n" + "\n".join(lines), "utf-8")
    assert load_catalogue(as_json) == load_catalogue(as_toml) == parse(SHARE)


@pytest.mark.parametrize(
    ("symbol", "change", "field", "reason"),
    [
        ("ACME3", {"security_id": 0}, "security_id", "must be from 1"),
        ("ACME3", {"security_id": "x"}, "security_id", "must be an integer"),
        ("ACME3", {"min_price_increment": 0}, "min_price_increment", "greater than zero"),
        ("ACME3", {"min_price_increment": Decimal("0.00001")}, "min_price_increment", "4 decimals"),
        ("ACME3", {"min_price_increment": Decimal("1e-9")}, "min_price_increment", "decimals"),
        ("ACME3", {"min_price_increment": Decimal("1e30")}, "min_price_increment", "too large"),
        ("ACME3", {"min_lot_size": -100}, "min_lot_size", "must be from 1"),
        ("ACME3", {"min_lot_size": 100, "min_order_qty": 50}, "min_order_qty", "multiple"),
        ("ACME3", {"min_order_qty": 9, "max_order_qty": 8}, "max_order_qty", "below"),
        ("ACME3", {"strike_price": 20}, "strike_price", "put_or_call"),
        ("ACME3", {"put_or_call": "CALL", "strike_price": 1}, "put_or_call", "not an option"),
        ("ACME3", {"isin_number": "BRPETRACNPR5"}, "isin_number", "must be 6"),
        ("ACME3", {"isin_number": "petr"}, "isin_number", "must be an ISIN"),
        ("ACME3", {"cfi_code": "ESV"}, "cfi_code", "six capital letters"),
        ("ACME3", {"currency": "REAL"}, "currency", "3 characters"),
        ("ACME3", {"security_group": ""}, "security_group", "3 characters"),
        ("ACME3", {"security_type": "STOCK"}, "security_type", "must be one of CASH"),
        ("ACME3", {"issue_date": "soon"}, "issue_date", "must be a date"),
        ("ACME3", {"issue_date": 20260101}, "issue_date", "must be a date"),
        ("ACME3", {"maturity_month_year": "2026-13"}, "maturity_month_year", "must be a month"),
        ("ACME3", {"maturity_month_year": "0000-01"}, "maturity_month_year", "must be a month"),
        ("ACME3", {"maturity_month_year": "2026-06-45"}, "maturity_month_year", "or a day of it"),
        ("ACME3", {"maturity_month_year": "2026-06-31"}, "maturity_month_year", "or a day of it"),
        ("ACME3", {"maturity_month_year": "2026-06-00"}, "maturity_month_year", "or a day of it"),
        ("ACME3", {"implied_market_indicator": 1}, "implied_market_indicator", "true or false"),
        ("ACME3", {"implied_market_indicator": True}, "implied_market_indicator", "legs"),
        (
            "ACME3",
            {"trade_type_eligibility": ["ALL"]},
            "trade_type_eligibility",
            "must be a list of",
        ),
        ("ACME3", {"previous_close": -1}, "previous_close", "greater than zero"),
        ("ACME3", {"security_desc": 5}, "security_desc", "must be text"),
        ("ACME3", {"colour": "red"}, "colour", "unknown field"),
        ("ACME3", {"like": "share"}, "like", "unknown kind"),
        ("ACMF26", {"security_id": 1}, "security_id", "already used by ACME3"),
        ("ACMF26", {"maturity_date": "1999-01-01"}, "maturity_date", "before issue_date"),
        ("ACMEL20", {"strike_price": None}, "put_or_call", "requires a strike_price"),
        ("ACMEL20", {"put_or_call": None}, "strike_price", "requires put_or_call"),
        ("ACMEL20", {"exercise_style": None}, "exercise_style", "EUROPEAN or AMERICAN"),
        ("ACMEL20", {"security_sub_type": 90}, "put_or_call", "not an option"),
        ("ACMEL20", {"security_sub_type": 140}, "put_or_call", "not an option"),
        ("ACMEL20", {"security_sub_type": 141}, "put_or_call", "not an option"),
        ("ACMEL20", {"maturity_date": None}, "maturity_date", "requires a maturity"),
        ("ACMEL20", {"underlyings": ["GONE3"]}, "underlyings", "no instrument 'GONE3'"),
        ("ACMEL20", {"underlyings": ["ACMEL20"]}, "underlyings", "itself"),
        ("ACMEL20", {"underlyings": []}, "underlyings", "requires an underlying"),
        ("ACMEL20", {"underlyings": "ACME3"}, "underlyings", "list of symbols"),
        ("ACMSPREAD", {"legs": []}, "legs", "requires legs"),
        ("ACMSPREAD", {"legs": [{"symbol": "GONE3", "side": "BUY"}]}, "legs", "no instrument"),
        ("ACMSPREAD", {"legs": [{"symbol": "ACME3"}]}, "legs", "must be one of BUY, SELL"),
        ("ACMSPREAD", {"legs": [{"symbol": "ACME3", "side": "BUY", "x": 1}]}, "legs", "unknown"),
        (
            "ACMSPREAD",
            {"legs": [{"symbol": "ACME3", "side": "BUY", "ratio": 0}] * 2},
            "legs",
            "greater than zero",
        ),
        ("ACMSPREAD", {"legs": [{"symbol": "ACME3", "side": "BUY"}] * 2}, "legs", "two different"),
        ("ACMSPREAD", {"legs": "ACME3"}, "legs", "list of tables"),
        ("ACMSPREAD", {"security_type": "CS"}, "legs", "MLEG instrument requires legs"),
    ],
)
def test_an_error_names_the_file_the_instrument_and_the_field(symbol, change, field, reason):
    tables = []
    for table in ALL:
        changed = {**table, **change} if table["symbol"] == symbol else table
        tables.append({key: value for key, value in changed.items() if value is not None})
    with pytest.raises(UsageError, match=f"^list.toml: instrument {symbol}, field {field}: ") as x:
        parse(*tables)
    assert reason in str(x.value)


@pytest.mark.parametrize("field", ["security_id", "security_group", "min_price_increment"])
def test_a_missing_field_is_named(field):
    with pytest.raises(UsageError, match=rf"ACME3, field {field}: required field is missing"):
        parse({key: value for key, value in SHARE.items() if key != field})


def test_two_instruments_cannot_share_a_symbol():
    with pytest.raises(UsageError, match="ACME3, field symbol: used by two"):
        parse(SHARE, {**FUTURE, "symbol": "ACME3"})


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        ({}, "no instrument"),
        ({"instrument": {}}, "list of tables"),
        ({"instrument": [3]}, "list of tables"),
        ({"instrument": [SHARE], "kind": {"share": 3}}, "tables of fields"),
        ({"instrument": [SHARE], "market": {}}, "unknown key 'market'"),
    ],
)
def test_a_document_that_is_no_catalogue_is_refused(document, reason):
    with pytest.raises(UsageError, match=reason):
        parse_catalogue(document, "list.toml")


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(UsageError, match=r"none\.toml: there is no such file"):
        load_catalogue(tmp_path / "none.toml")
    broken = tmp_path / "broken.toml"
    broken.write_text("[[instrument", "utf-8")
    with pytest.raises(UsageError, match=r"broken\.toml: is not valid TOML"):
        load_catalogue(broken)
    listed = tmp_path / "list.json"
    listed.write_text("[]", "utf-8")
    with pytest.raises(UsageError, match="must contain a table"):
        load_catalogue(listed)


@pytest.mark.parametrize("isin", ["US0378331005", "BRVALEACNOR0", "GB0002634946"])
def test_isin_check_digit(isin):
    assert isin_check_digit(isin[:11]) == int(isin[11])
