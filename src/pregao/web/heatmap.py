"""Heatmap of a book: the last tick of each time bin, as prices and sizes."""

from __future__ import annotations

from typing import Any

import numpy as np

from pregao.arrays import Int64Array
from pregao.book.rows import NULL
from pregao.lake.books.columns import integers

DEPTH = 10
"""Levels per side of a tick."""


def heatmap_columns(ticks: Any, times: Int64Array, first: list[dict[str, Any]]) -> list[Any]:
    """Return, for each time, the bids and asks valid then, as price, size, price, size, …

    ``ticks`` are the ticks of the time range, ``first`` the sides of the book before them. A bin
    without a new tick is None.
    """
    sent = integers(ticks["sending_time_ns"])
    order = np.argsort(sent, kind="stable")
    last = np.searchsorted(sent[order], times, side="right") - 1
    fresh = np.diff(last, prepend=-1) > 0
    chosen = order[last[fresh]]
    sides = [
        [integers(ticks[f"{side}_{part}_{level}"])[chosen]
         for level in range(1, DEPTH + 1) for part in ("price", "size")]
        for side in ("bid", "ask")
    ]  # fmt: skip
    changes = iter(zip(*(np.column_stack(side).tolist() for side in sides), strict=True))
    columns: list[Any] = []
    for new in fresh.tolist():
        if new:
            bids, asks = next(changes)
            columns.append([_there(bids), _there(asks)])
        else:
            columns.append(None if columns else [_levels(side) for side in first])
    return columns


def _there(values: list[int]) -> list[int]:
    """Return the levels that exist and have a price."""
    return [
        value
        for index in range(0, len(values), 2)
        if values[index] != NULL and values[index + 1] != NULL
        for value in values[index : index + 2]
    ]


def _levels(side: dict[str, Any]) -> list[int]:
    return [
        value
        for price, size, _ in side["levels"][:DEPTH]
        if price is not None
        for value in (price, size)
    ]
