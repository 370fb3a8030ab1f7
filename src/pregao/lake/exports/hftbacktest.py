"""hftbacktest's array of events (``np.load(file)["data"]``), by order (L3) or by level (L2)."""

from __future__ import annotations

from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from pregao.arrays import Int64Array
from pregao.lake.analytics.order_histories import NO_SIDE
from pregao.lake.exports.order_events import ChangeCause, FlowAction, OrderFlow

PRICE_UNIT = 10_000
EVENT = np.dtype(
    [
        ("ev", "<u8"), ("exch_ts", "<i8"), ("local_ts", "<i8"), ("px", "<f8"), ("qty", "<f8"),
        ("order_id", "<u8"), ("ival", "<i8"), ("fval", "<f8"),
    ],
    align=True,
)  # fmt: skip
DEPTH_EVENT, TRADE_EVENT = 1, 2
ADD_ORDER, CANCEL_ORDER, MODIFY_ORDER, FILL_ORDER = 10, 11, 12, 13
_BOTH_SIDES = (1 << 31) | (1 << 30)
_SIDE_BITS = np.array([1 << 29, 1 << 28, 0], np.uint64)


def orders_array(flow: OrderFlow) -> npt.NDArray[Any]:
    """Return events by order: entries, changes, cancellations, fills and the trades of the book."""
    flow = _of_the_book(flow)
    filled = ((flow.cause == ChangeCause.FILL) | (flow.cause == ChangeCause.AUCTION)) & (
        flow.act != FlowAction.TRADE
    )
    source = np.repeat(np.arange(len(flow)), 1 + filled)
    first = np.append(True, source[1:] != source[:-1])[: len(source)]
    of = flow.take(source)
    kind = np.array([ADD_ORDER, MODIFY_ORDER, CANCEL_ORDER, TRADE_EVENT])[of.act]
    filling = filled[source] & first
    kind = np.where(filling, FILL_ORDER, kind)
    size = np.where(filling, of.old_size - of.size, of.size)
    size = np.where((kind == CANCEL_ORDER), of.old_size, size)
    order_id = np.where(of.act == FlowAction.TRADE, 0, of.order_id)
    return _events(of, kind, of.side, of.price, size, order_id)


def levels_array(flow: OrderFlow) -> npt.NDArray[Any]:
    """Return events by level: the quantity of each changed price, and the trades of the book."""
    flow = _of_the_book(flow)
    moved = (flow.act == FlowAction.CHANGE) & (flow.price != flow.old_price)
    source = np.repeat(np.arange(len(flow)), 1 + moved)
    leaves = np.append(source[1:] == source[:-1], False)[: len(source)]
    of = flow.take(source)
    trades = of.act == FlowAction.TRADE
    enters = moved[source] & ~leaves
    price = np.where(leaves, of.old_price, of.price)
    old = np.where((of.act == FlowAction.ADD) | enters, 0, of.old_size)
    new = np.where(leaves, 0, of.size)
    size = np.where(trades, of.size, 0)
    changes = np.flatnonzero(~trades)
    size[changes] = _totals(of.side[changes], price[changes], (new - old)[changes])
    kind = np.where(trades, TRADE_EVENT, DEPTH_EVENT)
    return _events(of, kind, of.side, price, size, np.zeros(len(of), np.int64))


def write_npz(events: npt.NDArray[Any], sink: BinaryIO) -> int:
    """Write an array in hftbacktest's format. Returns the number of events."""
    np.savez_compressed(sink, data=events)
    return len(events)


def _of_the_book(flow: OrderFlow) -> OrderFlow:
    """Return the rows that a backtest may fill by: no crosses, blocks, forwards, late reports."""
    flow = flow.priced()
    trades = flow.act == FlowAction.TRADE
    return flow.take(np.flatnonzero(~trades | (~flow.off_book & (flow.side != NO_SIDE))))


def _totals(side: Any, price: Int64Array, change: Int64Array) -> Int64Array:
    """Return the quantity of each row's level after it."""
    order = np.lexsort((np.arange(len(price)), price, side))
    sums = np.cumsum(change[order])
    level = np.append(
        True, (price[order][1:] != price[order][:-1]) | (side[order][1:] != side[order][:-1])
    )[: len(order)]
    begins = np.flatnonzero(level)
    base = np.repeat(sums[begins] - change[order][begins], np.diff(np.append(begins, len(order))))
    totals = np.empty(len(order), np.int64)
    totals[order] = sums - base
    return totals


def _events(
    flow: OrderFlow,
    kind: Int64Array,
    side: Any,
    price: Int64Array,
    size: Int64Array,
    order_id: Int64Array,
) -> npt.NDArray[Any]:
    events = np.zeros(len(flow), EVENT)
    events["ev"] = kind.astype(np.uint64) | _SIDE_BITS[side] | np.uint64(_BOTH_SIDES)
    events["exch_ts"] = flow.event_time
    # Clocks may disagree: an event captured before its event time counts as captured then.
    events["local_ts"] = np.maximum(flow.capture_time, flow.event_time)
    events["px"] = price / PRICE_UNIT
    events["qty"] = size
    events["order_id"] = order_id
    return events
