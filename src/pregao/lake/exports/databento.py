"""Databento's columns: market by order (MBO), and the ten best levels after each change (MBP-10).

Prices are in units of 1e-9; an undefined one is the largest integer. ``instrument_id`` is B3's
security ID, which has more digits than Databento's; ``publisher_id`` is 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pregao.arrays import Int64Array
from pregao.book.update_rows import NULL
from pregao.lake.books.replay_span import BookInstrument
from pregao.lake.exports.levels import ladders
from pregao.lake.exports.order_events import ChangeCause, FlowAction, OrderFlow

LAST, SNAPSHOT = 128, 32
"""Flags: the last row of an event; from a snapshot or recovery."""
UNDEFINED = (1 << 63) - 1
DEPTH = 10
_SCALE = 100_000
_MBO_TYPE, _MBP_TYPE = 160, 10
_SIDES = np.array(["B", "A", "N"])
_PRICE = pa.int64()
_HEAD = [("ts_recv", pa.int64()), ("ts_event", pa.int64()), ("rtype", pa.uint8()),
         ("publisher_id", pa.uint16()), ("instrument_id", pa.int64()), ("action", pa.string()),
         ("side", pa.string())]  # fmt: skip
_TAIL = [("flags", pa.uint8()), ("ts_in_delta", pa.int32()), ("sequence", pa.uint32())]
MBO_SCHEMA = pa.schema(
    [
        *_HEAD, ("price", _PRICE), ("size", pa.int64()), ("channel_id", pa.uint8()),
        ("order_id", pa.uint64()), *_TAIL, ("symbol", pa.string()),
    ]
)  # fmt: skip
MBP_SCHEMA = pa.schema(
    [
        *_HEAD, ("depth", pa.uint8()), ("price", _PRICE), ("size", pa.int64()), *_TAIL,
        *[
            (f"{side}_{part}_{level:02d}", kind)
            for level in range(DEPTH)
            for part, kind in (("px", _PRICE), ("sz", pa.int64()), ("ct", pa.uint32()))
            for side in ("bid", "ask")
        ],
        ("symbol", pa.string()),
    ]
)  # fmt: skip


def mbo_columns(flow: OrderFlow, instrument: BookInstrument) -> list[Any]:
    """Return MBO rows: A added, C canceled (by that size), M modified, T traded, F filled.

    A trade is a T; each fill of an order is an F and a C.
    """
    fills = _fills(flow)
    source = np.repeat(np.arange(len(flow)), 1 + fills)
    first = np.append(True, source[1:] != source[:-1])[: len(source)]
    of = flow.take(source)
    less = _lessened(of)
    action = _actions(of, less)
    filling = _fills(of) & first
    action[filling] = "F"
    size = np.where(less, of.old_size - of.size, of.size)
    last = of.last_of_event & np.append(source[1:] != source[:-1], True)[: len(source)]
    order_id = np.where(of.act == FlowAction.TRADE, 0, of.order_id)
    return [
        *_head(of, instrument, action, _MBO_TYPE),
        pa.array(_price(of.price)),
        pa.array(size),
        _same(instrument.channel, len(of), pa.uint8()),
        pa.array(order_id),
        *_tail(of, last),
        _same(instrument.symbol, len(of), pa.string()),
    ]


def mbp_columns(flow: OrderFlow, instrument: BookInstrument) -> list[Any]:
    """Return MBP-10 rows: trades, and every change of the ten best levels, with the levels after
    it.
    """
    flow = flow.priced()
    levels = ladders(flow, DEPTH)
    chosen = np.flatnonzero(levels.changed | (flow.act == FlowAction.TRADE))
    depth = _depth(flow, levels.price)[chosen]
    of = flow.take(chosen)
    less = _lessened(of)
    parts = {
        "px": _price(levels.price[:, chosen]),
        "sz": levels.size[:, chosen],
        "ct": levels.orders[:, chosen],
    }
    return [
        *_head(of, instrument, _actions(of, less), _MBP_TYPE),
        pa.array(depth),
        pa.array(_price(of.price)),
        pa.array(np.where(less, of.old_size - of.size, of.size)),
        *_tail(of, of.last_of_event),
        *[
            pa.array(np.ascontiguousarray(parts[part][side, :, level]))
            for level in range(DEPTH)
            for part in ("px", "sz", "ct")
            for side in range(2)
        ],
        _same(instrument.symbol, len(of), pa.string()),
    ]


def _fills(flow: OrderFlow) -> npt.NDArray[np.bool_]:
    by_trade = (flow.cause == ChangeCause.FILL) | (flow.cause == ChangeCause.AUCTION)
    fills: npt.NDArray[np.bool_] = by_trade & (flow.act != FlowAction.TRADE)
    return fills


def _lessened(flow: OrderFlow) -> npt.NDArray[np.bool_]:
    """Return the rows that only reduce an order."""
    smaller = (flow.act == FlowAction.CHANGE) & (flow.price == flow.old_price)
    smaller &= flow.size < flow.old_size
    less: npt.NDArray[np.bool_] = smaller | (flow.act == FlowAction.DELETE)
    return less


def _actions(flow: OrderFlow, less: npt.NDArray[np.bool_]) -> npt.NDArray[Any]:
    names = np.array(["A", "M", "C", "T"])[flow.act]
    names[less] = "C"
    return names


def _head(flow: OrderFlow, instrument: BookInstrument, action: Any, kind: int) -> Sequence[Any]:
    count = len(flow)
    return (
        pa.array(flow.capture_time),
        pa.array(flow.event_time),
        _same(kind, count, pa.uint8()),
        _same(0, count, pa.uint16()),
        _same(instrument.security_id, count, pa.int64()),
        pa.array(action),
        pa.array(_SIDES[flow.side]),
    )


def _tail(flow: OrderFlow, last: npt.NDArray[np.bool_]) -> Sequence[Any]:
    flags = np.where(last, LAST, 0) | np.where(flow.cause == ChangeCause.SNAPSHOT, SNAPSHOT, 0)
    late = np.clip(flow.capture_time - flow.sending_time, -(1 << 31), (1 << 31) - 1)
    return pa.array(flags), pa.array(late), pa.array(flow.sequence)


def _price(mantissa: Int64Array) -> Int64Array:
    return np.where(mantissa == NULL, UNDEFINED, mantissa * _SCALE)


def _same(value: Any, count: int, kind: Any) -> Any:
    return pa.nulls(count, kind) if value is None else pa.repeat(pa.scalar(value, kind), count)


def _depth(flow: OrderFlow, prices: Int64Array) -> Int64Array:
    """Return the level that each row changed: its level after the row, or else before."""
    side = np.minimum(flow.side, 1).astype(np.int64)
    rows = np.arange(len(flow))
    now = prices[side, rows] == flow.price[:, None]
    before = prices[side, np.maximum(rows - 1, 0)] == flow.price[:, None]
    found = np.where(now.any(axis=1), now.argmax(axis=1), before.argmax(axis=1))
    return np.where(flow.act == FlowAction.TRADE, 0, found)
