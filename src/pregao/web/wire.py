"""What the page is sent: JSON that JavaScript reads exactly.

Times are nanoseconds since midnight UTC of the day, and prices ten-thousandths: both are whole
numbers that a browser holds without rounding. Identifiers, which may be longer, are texts.
"""

from __future__ import annotations

import json
from datetime import date
from typing import Any

import numpy as np

from pregao.book.replay import FullBook
from pregao.book.rows import NULL, Numbers
from pregao.clock import SECOND
from pregao.lake.books import Moment

EPOCH = date(1970, 1, 1)
_DAY_NS = 86_400 * SECOND
LEVELS = 40
"""So many levels of a side are shown in full, ..."""
QUEUES = 12
"""... of so many every order, ..."""
MOST_IN_QUEUE = 24
"""... up to this one; how many there are more is told by the level."""


def dumped(data: Any) -> str:
    """JSON without spaces; what JSON has no word for is not sent."""
    return json.dumps(data, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def midnight_ns(day: date) -> int:
    """When a day begins, UTC."""
    return (day - EPOCH).days * _DAY_NS


def number(value: int) -> int | None:
    """A value of a column; None where there is none."""
    return None if value == NULL else int(value)


def moment_data(moment: Moment, levels: int = LEVELS) -> dict[str, Any]:
    """A book at a moment."""
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
        "last": moment.last_price,
        "volume": moment.trade_volume,
        "low": moment.low_limit_price,
        "high": moment.high_limit_price,
        "ends": since(moment.data_ends_ns),
        "current": moment.current,
        "sides": [side_data(book, side, base, levels) for side in (0, 1)],
    }


def side_data(book: FullBook, side: int, base: int, levels: int) -> dict[str, Any]:
    """A side: its best levels, the orders of the first of them in the order of the queue."""
    own = slice(*_ends(book, side))
    price, size = book.price[own], book.size[own]
    starts = level_starts(price)
    ends = np.append(starts, len(price))[1:]
    shown = slice(0, levels)
    sums = np.add.reduceat(size, starts) if len(starts) else size
    return {
        "orders": len(price),
        "size": int(size.sum()),
        "levels": [
            [number(at), total, count]
            for at, total, count in zip(
                price[starts[shown]].tolist(),
                sums[shown].tolist(),
                (ends - starts)[shown].tolist(),
                strict=True,
            )
        ],
        "queues": [
            _queue(book, own.start + begin, own.start + min(end, begin + MOST_IN_QUEUE), base)
            for begin, end in zip(starts[:QUEUES].tolist(), ends[:QUEUES].tolist(), strict=True)
        ],
    }


def _ends(book: FullBook, side: int) -> tuple[int, int]:
    """Where the orders of a side are: bids come first."""
    bids = int(np.searchsorted(book.side, 1))
    return (0, bids) if side == 0 else (bids, len(book.side))


def level_starts(price: Numbers) -> Numbers:
    """Where the levels begin among prices in the order of the queue."""
    changes: Numbers = np.flatnonzero(np.diff(price)) + 1
    return np.concatenate([[0], changes]).astype(np.int64) if len(price) else changes


def _queue(book: FullBook, begin: int, end: int, base: int) -> list[list[Any]]:
    """Orders: size, firm, since when, identifier."""
    own = slice(begin, end)
    return [
        [size, number(firm), None if since == NULL else since - base, str(order)]
        for size, firm, since, order in zip(
            book.size[own].tolist(),
            book.firm[own].tolist(),
            book.inserted[own].tolist(),
            book.order_id[own].tolist(),
            strict=True,
        )
    ]
