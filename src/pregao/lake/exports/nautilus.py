"""NautilusTrader catalog: instruments, order book deltas and trades as the Parquet files it reads.

Prices and quantities have 128 bits and 16 decimals, as in its builds with high precision (those
published for Linux and macOS). Instruments are equities, futures and options.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pregao.arrays import Int64Array
from pregao.clock import SECOND
from pregao.lake.books.columns import prices
from pregao.lake.books.replay_span import BookInstrument
from pregao.lake.exports.order_events import ChangeCause, FlowAction, OrderFlow
from pregao.umdf.templates import NOT_OPTIONS, by_name
from pregao.units import MARKET_ZONE

VENUE = "B3"
EQUITY, FUTURE, OPTION = "Equity", "FuturesContract", "OptionContract"
_CLASSES = by_name(
    "SecurityType",
    {**dict.fromkeys((3, 5, 14), EQUITY), 8: FUTURE, **dict.fromkeys((6, 10, 12, 16), OPTION)},
) | dict.fromkeys(("ETFL", "UNIT", "DR", "BDR"), EQUITY)
"""Classes by security type; the legacy feed has more types of shares."""
FOLDERS = {EQUITY: "equity", FUTURE: "futures_contract", OPTION: "option_contract"}
"""Folder of a catalog for the instruments of each class."""
_ASSETS = by_name(
    "Product", {2: "COMMODITY", 3: "DEBT", 4: "FX", 5: "EQUITY", 6: "DEBT", 7: "INDEX"}
)
_OTHER_ASSET = "ALTERNATIVE"
_MARKET = ZoneInfo(MARKET_ZONE)
_LATEST_S = 2**63 // SECOND
COLUMNS = (
    "security_id", "channel", "min_price_increment", "min_lot_size", "currency", "isin_number",
    "security_type", "asset", "product", "contract_multiplier", "issue_date", "maturity_date",
    "security_validity_timestamp_s", "strike_price", "put_or_call", "security_sub_type",
)  # fmt: skip
"""Columns read of the table ``instruments``."""
_NOT_OPTIONS = frozenset(map(str, NOT_OPTIONS))

LAST, SNAPSHOT = 128, 32
_FIXED = pa.binary(16)
_DECIMAL = pa.decimal128(38, 16)


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
    sub_type = str(row["security_sub_type"])  # text on the legacy feed
    if kind is OPTION and (row["put_or_call"] is None or sub_type in _NOT_OPTIONS):
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
    """Return the begin of a day, 0 if unknown, within the times of NautilusTrader (from 1970)."""
    if day is None:
        return 0
    seconds = int(datetime.combine(day, time(), _MARKET).timestamp())
    return min(max(seconds, 0), _LATEST_S) * SECOND


def _end(seconds: int | None, day: date | None) -> int:
    """Return the last time at which it trades; the day of expiry if unknown."""
    is_valid = seconds is not None and 0 < seconds < _LATEST_S
    return int(seconds) * SECOND if is_valid and seconds is not None else _midnight(day)


def catalog_files(
    flow: OrderFlow, instrument: BookInstrument, terms: InstrumentTerms
) -> dict[str, bytes]:
    """Return the files of a catalog by their paths in its folder."""
    flow = flow.priced()
    if not len(flow):
        return {}
    orders = flow.take(np.flatnonzero(flow.act != FlowAction.TRADE))
    trades = flow.take(np.flatnonzero(flow.act == FlowAction.TRADE))
    name = f"{instrument.symbol or instrument.security_id}.{VENUE}"
    metadata = {
        "instrument_id": name, "price_precision": str(terms.precision), "size_precision": "0",
    }  # fmt: skip
    files = {}
    for kind, part, table in (
        ("order_book_delta", orders, _deltas(orders)),
        ("trade_tick", trades, _ticks(trades)),
    ):
        if len(part):
            span = f"{_stamp(int(_received(part)[0]))}_{_stamp(int(_received(part)[-1]))}"
            path = f"data/{kind}/{name}/{span}.parquet"
            files[path] = _parquet(table.replace_schema_metadata(metadata))
    if terms.kind is not None:
        seen = int(_received(flow)[0])
        path = f"data/{FOLDERS[terms.kind]}/{name}/{_stamp(seen)}_{_stamp(seen)}.parquet"
        symbol = instrument.symbol or str(instrument.security_id)
        files[path] = _parquet(instrument_table(name, symbol, terms, seen))
    return files


def _deltas(flow: OrderFlow) -> Any:
    flags = np.where(flow.last_of_event, LAST, 0)
    flags |= np.where(flow.cause == ChangeCause.SNAPSHOT, SNAPSHOT, 0)
    return _table(
        action=pa.array(np.array([1, 2, 3], np.uint8)[flow.act]),
        side=pa.array(flow.side + np.uint8(1)),
        price=_fixed(prices(flow.price)),
        size=_fixed(pa.array(np.where(flow.act == FlowAction.DELETE, flow.old_size, flow.size))),
        order_id=pa.array(flow.order_id.astype(np.uint64)),
        flags=pa.array(flags.astype(np.uint8)),
        sequence=pa.array(flow.sequence.astype(np.uint64)),
        **_times(flow),
    )


def _ticks(flow: OrderFlow) -> Any:
    return _table(
        price=_fixed(prices(flow.price)),
        size=_fixed(pa.array(flow.size)),
        aggressor_side=pa.array(np.array([1, 2, 0], np.uint8)[flow.side]),
        trade_id=pa.array(flow.order_id).cast(pa.string()),
        **_times(flow),
    )


def _table(**columns: Any) -> Any:
    schema = pa.schema([pa.field(name, each.type, False) for name, each in columns.items()])
    return pa.Table.from_arrays(list(columns.values()), schema=schema)


def _times(flow: OrderFlow) -> dict[str, Any]:
    return {
        "ts_event": pa.array(flow.event_time.astype(np.uint64)),
        "ts_init": pa.array(_received(flow).astype(np.uint64)),
    }


def _received(flow: OrderFlow) -> Int64Array:
    """Return the capture times, but not before the event times, in case the clocks disagree."""
    return np.maximum(flow.capture_time, flow.event_time)


def _fixed(column: Any) -> Any:
    """Return numbers as 16 bytes with 16 decimals."""
    decimals = column.cast(_DECIMAL)
    return pa.Array.from_buffers(_FIXED, len(decimals), [None, decimals.buffers()[1]])


def _stamp(nanoseconds: int) -> str:
    seconds, rest = divmod(nanoseconds, SECOND)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H-%M-%S}-{rest:09d}Z"


def _parquet(table: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink)
    return sink.getvalue()
