"""LOBSTER's pair of files: one message per row, and the book after each message.

Neither has a header. Times are seconds after midnight in the given zone, prices are
ten-thousandths, absent levels have price ±9999999999 and size 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime, time
from typing import Any, BinaryIO
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.csv

from pregao.arrays import Int64Array
from pregao.book.update_rows import NULL
from pregao.clock import SECOND
from pregao.lake.analytics.order_histories import NO_SIDE
from pregao.lake.exports.levels import Halt, ladders
from pregao.lake.exports.order_events import ChangeCause, FlowAction, OrderFlow

SUBMISSION, REDUCTION, DELETION, EXECUTION, HIDDEN, CROSS, HALT = range(1, 8)
NO_PRICE = 9_999_999_999
_NEVER = np.iinfo(np.int64).max


def file_names(symbol: str, day: date, flow: OrderFlow, depth: int, zone: str) -> tuple[str, str]:
    """Return LOBSTER's names of the message and book files."""
    begin, end = (
        int(each) // 1_000_000 for each in _after_midnight(flow.event_time[[0, -1]], day, zone)
    )
    stem = f"{symbol}_{day.isoformat()}_{begin}_{end}"
    return f"{stem}_message_{depth}.csv", f"{stem}_orderbook_{depth}.csv"


def write_lobster(
    flow: OrderFlow,
    day: date,
    depth: int,
    zone: str,
    messages: BinaryIO,
    books: BinaryIO,
    halts: Sequence[Halt] = (),
) -> int:
    """Write both files. Returns the number of rows of each."""
    flow = flow.priced()
    if not len(flow):
        return 0  # LOBSTER has no orders without a price: both files are empty
    levels = ladders(flow, depth)
    kept = np.flatnonzero(_published(flow))
    # LOBSTER has no message for another price or a larger size: write a deletion and an entry.
    replaced = (flow.act[kept] == FlowAction.CHANGE) & (
        (flow.price[kept] != flow.old_price[kept]) | (flow.size[kept] > flow.old_size[kept])
    )
    source = np.repeat(kept, 1 + replaced)
    removes = np.append(source[1:] == source[:-1], False)[: len(source)]
    enters = np.append(False, source[1:] == source[:-1])[: len(source)]
    of = flow.take(source)
    kind = np.where(
        of.act == FlowAction.ADD, SUBMISSION, np.where(of.act == FlowAction.DELETE, DELETION, 0)
    )
    kind = np.where((of.act == FlowAction.CHANGE) & (kind == 0), REDUCTION, kind)
    kind = np.where((of.cause == ChangeCause.FILL) & (of.act != FlowAction.ADD), EXECUTION, kind)
    kind = np.where((of.cause == ChangeCause.AUCTION) & (of.act != FlowAction.ADD), CROSS, kind)
    kind = np.where(of.act == FlowAction.TRADE, np.where(of.off_book, CROSS, HIDDEN), kind)
    kind = np.where(removes, DELETION, np.where(enters, SUBMISSION, kind))
    less = (of.act == FlowAction.CHANGE) | (of.act == FlowAction.DELETE)
    size = np.where(less, of.old_size - of.size, of.size)
    size = np.where(removes, of.old_size, np.where(enters, of.size, size))
    price = np.where(removes, of.old_price, of.price)
    # The side of a trade is the aggressor's; LOBSTER's is that of the resting order.
    direction = np.array([1, -1, 0])[of.side]
    direction = np.where(of.act == FlowAction.TRADE, -direction, direction)
    number = np.where(of.act == FlowAction.TRADE, 0, of.order_id)
    at, times, values = _placed(halts, of)
    # A halt has the book of the previous message.
    source = np.insert(source, at, source[at - 1])
    times = np.maximum.accumulate(np.insert(of.event_time, at, times))
    table = [
        _seconds(_after_midnight(times, day, zone)),
        pa.array(np.insert(kind, at, HALT)),
        pa.array(np.insert(number, at, 0)),
        pa.array(np.insert(size, at, 0)),
        pa.array(np.insert(price, at, values)),
        pa.array(np.insert(direction, at, -1)),
    ]
    _write(table, messages)
    columns = []
    for level in range(depth):
        for side, empty in ((1, NO_PRICE), (0, -NO_PRICE)):
            own = levels.price[side, source, level]
            columns.append(pa.array(np.where(own == NULL, empty, own)))
            columns.append(pa.array(levels.size[side, source, level]))
    _write(columns, books)
    return len(source)


def _placed(halts: Sequence[Halt], of: OrderFlow) -> tuple[Int64Array, Int64Array, Int64Array]:
    """Return the index, time and value of each halt among the messages; none before the first."""
    event_key, time_ns, value = np.array(list(halts), np.int64).reshape(-1, len(Halt._fields)).T
    at = np.searchsorted(of.event_key, event_key, side="right")
    own = at > 0
    following = np.append(of.event_time, _NEVER)[at]
    return at[own], np.minimum(time_ns, following)[own], value[own]


def _published(flow: OrderFlow) -> Any:
    """Return the rows with a LOBSTER message: of trades, only those without a visible order.

    Trades with visible orders appear as executions of these.
    """
    fills = ((flow.cause == ChangeCause.FILL) | (flow.cause == ChangeCause.AUCTION)) & (
        flow.act != FlowAction.TRADE
    )
    event = np.append(0, np.cumsum(flow.last_of_event)[:-1])
    count = int(event[-1]) + 1
    filled = np.where(fills, flow.old_size - flow.size, 0)
    visible = np.bincount(event, weights=filled, minlength=count)
    hidden = flow.off_book | ((flow.side != NO_SIDE) & (visible[event] == 0))
    return (flow.act != FlowAction.TRADE) | hidden


def _after_midnight(times: Int64Array, day: date, zone: str) -> Int64Array:
    midnight = datetime.combine(day, time(), ZoneInfo(zone))
    return times - int(midnight.timestamp()) * SECOND


def _seconds(nanoseconds: Int64Array) -> Any:
    """Return seconds with nine decimals."""
    kind = pa.decimal128(18, 9)
    raw = np.ascontiguousarray(nanoseconds)
    words = np.empty((len(raw), 2), np.int64)
    words[:, 0], words[:, 1] = raw, raw >> 63
    return pa.Array.from_buffers(kind, len(raw), [None, pa.py_buffer(words)]).cast(pa.string())


def _write(columns: list[Any], sink: BinaryIO) -> None:
    options = pyarrow.csv.WriteOptions(include_header=False, quoting_style="none")
    names = [str(number) for number in range(len(columns))]
    pyarrow.csv.write_csv(pa.table(columns, names=names), sink, options)
