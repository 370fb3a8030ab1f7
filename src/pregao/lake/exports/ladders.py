"""Best levels after every row of a flow, by the book's own replay."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pregao.book.replay import BookKind, Replay
from pregao.book.update_rows import NULL, UpdateKind, UpdateRows
from pregao.feed.columns import Flags, Numbers
from pregao.lake.exports.acts import FlowAction, OrderFlow

_KINDS = np.array([UpdateKind.ADD, UpdateKind.CHANGE, UpdateKind.DELETE], np.uint8)


@dataclass(frozen=True, slots=True)
class LevelColumns:
    """Levels by side (bids, asks), row of the flow and level, the best first."""

    price: Numbers
    """NULL where there is no level."""
    size: Numbers
    orders: Numbers
    changed: Flags
    """Whether the row changed any of the levels."""


def ladders(flow: OrderFlow, depth: int) -> LevelColumns:
    """Return the levels after each row of a flow of orders with prices."""
    chosen = np.flatnonzero(flow.act != FlowAction.TRADE)
    rows = UpdateRows.empty(len(chosen))
    rows.instrument[:] = 1
    rows.event[:] = np.arange(len(chosen))  # one event per row, so that each can have a tick
    rows.kind[:] = _KINDS[flow.act[chosen]]
    rows.side[:] = flow.side[chosen]
    rows.order_id[:] = flow.order_id[chosen]
    rows.price[:] = flow.price[chosen]
    rows.size[:] = flow.size[chosen]
    rows.previous[:] = NULL
    ticks = Replay(BookKind.PRIORITY, depth, check_sizes=False).run(rows).ticks
    changed = np.zeros(len(flow), np.bool_)
    changed[chosen[ticks.row]] = True
    # A row that changed nothing shows the levels of the previous one; before the first, none.
    at = np.cumsum(changed)
    shape = (2, 1, depth)
    exists = np.concatenate([np.zeros(shape, np.int32), ticks.orders], axis=1)[:, at] > 0
    price = np.concatenate([np.full(shape, NULL), ticks.price], axis=1)[:, at]
    size = np.concatenate([np.zeros(shape, np.int64), ticks.size], axis=1)[:, at]
    orders = np.concatenate([np.zeros(shape, np.int32), ticks.orders], axis=1)[:, at]
    return LevelColumns(
        np.where(exists, price, NULL),
        np.where(exists, size, 0),
        np.where(exists, orders, 0).astype(np.int64),
        changed,
    )
