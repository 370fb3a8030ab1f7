"""JSON format of the page, which JavaScript reads without loss.

Times are nanoseconds since midnight UTC of the day, and prices are in ten-thousandths: both are
integers that a browser represents exactly. Identifiers, which may be larger, are strings.
"""

from __future__ import annotations

import json
from datetime import date
from typing import Any

import numpy as np

from pregao.arrays import Int64Array
from pregao.book.replay import FullBook
from pregao.book.update_rows import NULL
from pregao.book.updates import Side
from pregao.book.views import BookLevel
from pregao.clock import SECOND
from pregao.lake.books.replay_span import HistoricalBook

EPOCH = date(1970, 1, 1)
_DAY_NS = 86_400 * SECOND
LEVELS = 40
"""Levels per side."""
QUEUES = 12
"""Best levels per side that include single orders."""
MAX_QUEUE_ORDERS = 24
"""Maximum number of orders per level; the level has the total count."""


def dumped(data: Any) -> str:
    """Return compact JSON; raise `ValueError` for NaN and infinities, which JSON lacks."""
    return json.dumps(data, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def midnight_ns(day: date) -> int:
    """Return midnight UTC of a day, in nanoseconds since 1970."""
    return (day - EPOCH).days * _DAY_NS


def number(value: int) -> int | None:
    """Return a value of a column, None if it is null."""
    return None if value == NULL else int(value)


def moment_data(moment: HistoricalBook, *, whole: bool = True) -> dict[str, Any]:
    """Return a book at a time; unless ``whole``, orders are reduced to their sizes."""
    base = midnight_ns(moment.instrument.date)

    def since(time: int | None) -> int | None:
        return None if time is None else time - base

    book = moment.book
    return {
        "at": since(moment.at_ns),
        "sent": since(moment.sending_time_ns),
        "version": moment.sequence_version,
        "number": moment.sequence_number,
        "count": moment.rpt_seq,
        "state": book.state.name.lower(),
        "reason": moment.reason,
        "last": moment.last_price,
        "volume": moment.trade_volume,
        "low": moment.low_limit_price,
        "high": moment.high_limit_price,
        "ends": since(moment.data_ends_ns),
        "current": moment.current,
        "sides": [side_data(book, side, base, whole=whole) for side in (0, 1)],
    }


def side_data(book: FullBook, side: int, base: int, *, whole: bool = True) -> dict[str, Any]:
    """Return a side: its best levels, and the orders of the first ones by priority."""
    if book.of_levels:
        return _levels_data(book.levels(Side(side)))
    own = slice(*_ends(book, side))
    price, size = book.price[own], book.size[own]
    starts = level_starts(price)
    ends = np.append(starts, len(price))[1:]
    sums = np.add.reduceat(size, starts) if len(starts) else size
    shown = slice(0, LEVELS)
    prices, counts = price[starts[shown]].tolist(), (ends - starts)[shown].tolist()
    return {
        "orders": len(price),
        "size": int(size.sum()),
        "levels": [
            [number(level_price), total, count]
            for level_price, total, count in zip(prices, sums[shown].tolist(), counts, strict=True)
        ],
        "queues": _queues(book, own.start + starts[:QUEUES], counts[:QUEUES], base, whole),
    }


def _levels_data(levels: list[BookLevel]) -> dict[str, Any]:
    """Return a side of a book by price level, whose orders are unknown."""
    return {
        "orders": sum(level.orders for level in levels),
        "size": sum(level.size for level in levels),
        "levels": [list(level) for level in levels[:LEVELS]],
        "queues": [],
    }


def _ends(book: FullBook, side: int) -> tuple[int, int]:
    """Return the index range of a side's orders; bids come first."""
    bids = int(np.searchsorted(book.side, 1))
    return (0, bids) if side == 0 else (bids, len(book.side))


def level_starts(price: Int64Array) -> Int64Array:
    """Return the index of the first order of each level, given prices in priority order."""
    changes: Int64Array = np.flatnonzero(np.diff(price)) + 1
    return np.concatenate([[0], changes]).astype(np.int64) if len(price) else changes


def _queues(
    book: FullBook, starts: Int64Array, counts: list[int], base: int, whole: bool
) -> list[list[Any]]:
    """Return the first orders of levels as size, firm, insert time and order ID, or as sizes."""
    lengths = [min(count, MAX_QUEUE_ORDERS) for count in counts]
    runs = [
        np.arange(start, start + length)
        for start, length in zip(starts.tolist(), lengths, strict=True)
    ]
    chosen = np.concatenate(runs) if runs else np.empty(0, np.int64)
    sizes = book.size[chosen].tolist()
    orders: list[Any] = sizes
    if whole:
        columns = (book.firm[chosen], book.inserted[chosen], book.order_id[chosen])
        orders = [
            [size, number(firm), None if since == NULL else since - base, str(order)]
            for size, firm, since, order in zip(
                sizes, *(column.tolist() for column in columns), strict=True
            )
        ]
    queues = []
    start = 0
    for length in lengths:
        queues.append(orders[start : start + length])
        start += length
    return queues
