"""NautilusTrader's instrument definitions: equities, futures and options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa

from pregao.clock import SECOND

VENUE = "B3"
EQUITY, FUTURE, OPTION = "Equity", "FuturesContract", "OptionContract"
_CLASSES = dict.fromkeys(("CS", "PS", "ETF", "ETFL", "UNIT", "DR", "BDR"), EQUITY)
_CLASSES |= {"FUT": FUTURE} | dict.fromkeys(("OPT", "FOPT", "INDEXOPT", "SOPT"), OPTION)
FOLDERS = {EQUITY: "equity", FUTURE: "futures_contract", OPTION: "option_contract"}
"""Folder of a catalog for the instruments of each class."""
_ASSETS = {
    "COMMODITY": "COMMODITY", "CORPORATE": "DEBT", "CURRENCY": "FX", "EQUITY": "EQUITY",
    "GOVERNMENT": "DEBT", "INDEX": "INDEX",
}  # fmt: skip
_OTHER_ASSET = "ALTERNATIVE"
_MARKET = ZoneInfo("America/Sao_Paulo")
_LATEST_S = 2**63 // SECOND
COLUMNS = (
    "security_id", "channel", "min_price_increment", "min_lot_size", "currency", "isin_number",
    "security_type", "asset", "product", "contract_multiplier", "issue_date", "maturity_date",
    "security_validity_timestamp_s", "strike_price", "put_or_call",
)  # fmt: skip
"""Columns read of the table ``instruments``."""


@dataclass(frozen=True, slots=True)
class InstrumentTerms:
    """Terms of an instrument in a catalog."""

    increment: str = "0.01"
    """Tick size of its price."""
    lot: int = 1
    currency: str = "BRL"
    isin: str | None = None
    kind: str | None = None
    """Its class; None if NautilusTrader has none for it, or it has no definition."""
    underlying: str = ""
    asset_class: str = _OTHER_ASSET
    multiplier: str = "1"
    begins_ns: int = 0
    ends_ns: int = 0
    strike: str = "0"
    right: str | None = None
    """CALL or PUT."""

    @property
    def precision(self) -> int:
        """Number of decimals of its prices."""
        return len(self.increment.partition(".")[2])


def terms_of(row: Mapping[str, Any]) -> InstrumentTerms:
    """Return the terms of a row of the table ``instruments``."""
    kind = _CLASSES.get(row["security_type"])
    if kind is OPTION and row["put_or_call"] is None:
        kind = None
    return InstrumentTerms(
        _plain(row["min_price_increment"] or Decimal("0.01")),
        int(row["min_lot_size"] or 1),
        row["currency"] or "BRL",
        row["isin_number"],
        kind,
        row["asset"] or "",
        _ASSETS.get(row["product"], _OTHER_ASSET),
        _plain(row["contract_multiplier"] or Decimal(1)),
        _midnight(row["issue_date"]),
        _end(row["security_validity_timestamp_s"], row["maturity_date"]),
        _plain(row["strike_price"] or Decimal(0)),
        row["put_or_call"],
    )


def instrument_table(name: str, symbol: str, terms: InstrumentTerms, when_ns: int) -> Any:
    """Return the single row of an instrument's file."""
    columns = {
        "id": _word(name, pa.int64()),
        "raw_symbol": _text(symbol),
        "currency": _word(terms.currency),
        "price_precision": pa.array([terms.precision], pa.uint8()),
        "price_increment": _word(terms.increment),
        "lot_size": _word(str(terms.lot)),
        **{name: _text("0") for name in ("margin_init", "margin_maint", "maker_fee", "taker_fee")},
        "info": pa.array([b"null"], pa.binary()),
        "ts_event": pa.array([when_ns], pa.uint64()),
        "ts_init": pa.array([when_ns], pa.uint64()),
    }
    if terms.kind == EQUITY:
        columns["isin"] = _text(terms.isin)
    else:
        columns |= {
            "underlying": _word(terms.underlying),
            "asset_class": _word(terms.asset_class, pa.int8()),
            "exchange": _word(VENUE),
            "size_precision": pa.array([0], pa.uint8()),
            "size_increment": _word("1"),
            "multiplier": _word(terms.multiplier),
            "activation_ns": pa.array([terms.begins_ns], pa.uint64()),
            "expiration_ns": pa.array([terms.ends_ns], pa.uint64()),
        }
    if terms.kind == OPTION:
        columns["option_kind"] = _word(terms.right, pa.int8())
        columns["strike_price"] = _word(terms.strike, pa.int64())
    return pa.table(columns).replace_schema_metadata({"class": terms.kind})


def _text(value: str | None) -> Any:
    return pa.array([value], pa.string())


def _word(value: str | None, index: Any = None) -> Any:
    return _text(value).cast(pa.dictionary(index or pa.int16(), pa.string()))


def _plain(value: Decimal) -> str:
    """Return a number without trailing zeros."""
    text = f"{value:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _midnight(day: date | None) -> int:
    if day is None:
        return 0
    return int(datetime.combine(day, time(), _MARKET).timestamp()) * SECOND


def _end(seconds: int | None, day: date | None) -> int:
    """Return the last time at which it trades; the day of expiry if unknown."""
    is_valid = seconds is not None and 0 < seconds < _LATEST_S
    return int(seconds) * SECOND if is_valid and seconds is not None else _midnight(day)
