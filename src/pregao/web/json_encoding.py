"""JSON format of the page, which JavaScript reads without loss.

Times are nanoseconds since midnight UTC of the day, and prices are in ten-thousandths: both are
integers that a browser represents exactly. Identifiers, which may be larger, are strings.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from pregao.arrays import Int64Array
from pregao.book.replay import FullBook
from pregao.book.update_rows import NULL
from pregao.book.views import BookLevel, auction_levels
from pregao.lake.books.replay_span import HistoricalBook
from pregao.units import Side, midnight_ns

LEVELS = 40
"""Levels per side."""
QUEUES = 12
"""Best levels per side that include single orders."""
MAX_QUEUE_ORDERS = 24
"""Maximum number of orders per level; the level has the total count."""


AUCTION_LEVELS = 40
"""Levels per side of a crossed book, around its balance."""


def dumped(data: Any) -> str:
    """Return compact JSON; raise `ValueError` for NaN and infinities, which JSON lacks."""
    return json.dumps(data, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


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
        "auction": auction_of(book),
    }


def auction_of(book: FullBook) -> list[Any] | None:
    """Return `auction_data` of a full book."""
    if not is_crossed(book):
        return None
    return auction_data(*(_all_levels(book, side) for side in (0, 1)))


def auction_data(bids: Sequence[BookLevel], asks: Sequence[BookLevel]) -> list[Any] | None:
    """Return bids and asks near the balance of a crossed book, as price, size, …, and the balance.

    None if the book is not crossed: then its best levels are those near its trades.
    """
    found = auction_levels(bids, asks, AUCTION_LEVELS)
    if found is None:
        return None
    sides = [[value for level in side for value in level[:2]] for side in found[:2]]
    return [*sides, found.balance]


def is_crossed(book: FullBook) -> bool:
    """Whether the best bid of a full book is at or above its best ask."""
    best = []
    for side in (0, 1):
        prices = book.price[slice(*_ends(book, side))]
        best.append(prices[prices != NULL][:1])
    return all(len(one) for one in best) and bool(best[0][0] >= best[1][0])


def _all_levels(book: FullBook, side: int) -> list[BookLevel]:
    """Return the levels of a side from the columns of its orders."""
    if book.of_levels:
        return book.levels(Side(side))
    own = slice(*_ends(book, side))
    price, size = book.price[own], book.size[own]
    starts = level_starts(price)
    sums = np.add.reduceat(size, starts) if len(starts) else size
    counts = np.diff(np.append(starts, len(price)))
    return [
        BookLevel(number(each), total, count)
        for each, total, count in zip(
            price[starts].tolist(), sums.tolist(), counts.tolist(), strict=True
        )
    ]


def trade_bars(
    time: Int64Array,
    price: Int64Array,
    size: Int64Array,
    sets_last: Int64Array,
    length_ns: int,
    midnight: int,
    base: int = 0,
) -> list[list[Any]]:
    """Return the bars of trades as start, open, high, low, close and volume, as in ``bars``.

    Volume, high and low are of all trades; open and close of those that set the last price, None
    without any.

    Args:
        time: Times of the trades, which are in the order of their publication.
        price: Prices.
        size: Quantities.
        sets_last: Whether each trade set the last price.
        length_ns: Length of the bars.
        midnight: Time from which bars are counted.
        base: Time to subtract from the starts.
    """
    if not len(time):
        return []
    starts = time - (time - midnight) % length_ns
    order = np.argsort(starts, kind="stable")
    starts, price, size = starts[order], price[order], size[order]
    begins = np.concatenate([[0], np.flatnonzero(np.diff(starts)) + 1])
    place = np.arange(len(price))
    lasting = sets_last[order] != 0
    first = np.minimum.reduceat(np.where(lasting, place, len(price)), begins)
    last = np.maximum.reduceat(np.where(lasting, place, -1), begins)
    columns = (
        starts[begins] - base, np.where(last < 0, NULL, price[first % len(price)]),
        np.maximum.reduceat(price, begins), np.minimum.reduceat(price, begins),
        np.where(last < 0, NULL, price[last]), np.add.reduceat(size, begins),
    )  # fmt: skip
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return [[number(value) for value in row] for row in rows]


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
