"""NautilusTrader catalog: order book deltas and trades as the Parquet files it reads.

Prices and quantities have 128 bits and 16 decimals, as in its builds with high precision (those
published for Linux and macOS).
"""

from __future__ import annotations

import io
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pregao.clock import SECOND
from pregao.feed.columns import Numbers
from pregao.lake.books.columns import prices
from pregao.lake.books.span import BookInstrument
from pregao.lake.exports.acts import ChangeCause, FlowAction, OrderFlow
from pregao.lake.exports.nautilus_instruments import (
    FOLDERS,
    VENUE,
    InstrumentTerms,
    instrument_table,
)

LAST, SNAPSHOT = 128, 32
_FIXED = pa.binary(16)
_DECIMAL = pa.decimal128(38, 16)


def catalogue_files(
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


def _received(flow: OrderFlow) -> Numbers:
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
