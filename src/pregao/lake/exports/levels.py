"""Best levels after every row of an order flow, and the halts of trading, for LOBSTER's files.

Levels come from the book's own replay; halts and resumptions have LOBSTER's values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from pregao.arrays import BoolArray, Int64Array
from pregao.book.replay import BookKind, Replay
from pregao.book.update_rows import NULL, UpdateKind, UpdateRows
from pregao.lake.analytics.run import analyse
from pregao.lake.books.replay_span import BookInstrument
from pregao.lake.exports.order_events import FlowAction, OrderFlow
from pregao.lake.storage.lake_store import LakeStore
from pregao.umdf.events import event_number
from pregao.umdf.phases import Status

_KINDS = np.array([UpdateKind.ADD, UpdateKind.CHANGE, UpdateKind.DELETE], np.uint8)

HALTED, QUOTING, TRADING = -1, 0, 1
"""LOBSTER's values in the price column: halt, orders accepted again, trading resumes."""
_CALL = Status.RESERVED.name
"""Orders are accepted, and trade at the end of the auction."""
_ENDS = frozenset({Status.CLOSE.name, Status.FINAL_CLOSING_CALL.name})


@dataclass(frozen=True, slots=True)
class LevelColumns:
    """Levels by side (bids, asks), row of the flow and level, the best first."""

    price: Int64Array
    """NULL where there is no level."""
    size: Int64Array
    orders: Int64Array
    changed: BoolArray
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


class Halt(NamedTuple):
    """Change of the trading state."""

    event_key: int
    """Event key of its message."""
    time_ns: int
    value: int


def halts_of(lake: LakeStore, instrument: BookInstrument) -> list[Halt]:
    """Return the halts of an instrument's day. Updates the table ``status`` first."""
    analyse(lake, dates=[instrument.date], tables=["status"])
    names = ["channel", "security_id", "status", "trades_continuously", "from_ns",
             "sequence_version", "sequence_number", "index_in_packet"]  # fmt: skip
    table = lake.delta("status").to_pyarrow_table(
        filters=[("date", "=", instrument.date), ("security_id", "=", instrument.security_id)],
        columns=names,
    )
    rows = [row for row in table.to_pylist() if row["channel"] == instrument.channel]
    return halts(sorted(rows, key=lambda row: (_event_key(row), row["from_ns"])))


def halts(rows: Iterable[Mapping[str, Any]]) -> list[Halt]:
    """Return the halts in ordered rows of the table: after the first trading, without the close.

    An auction called during the session halts trading and accepts orders at the same time.
    """
    found: list[Halt] = []
    trading, halted = False, False

    def add(row: Mapping[str, Any], value: int) -> None:
        found.append(Halt(_event_key(row), row["from_ns"], value))

    for row in rows:
        if row["trades_continuously"]:
            if halted:
                add(row, TRADING)
            trading, halted = True, False
        elif row["status"] in _ENDS:
            trading, halted = False, False
        elif trading or halted:
            if trading:
                add(row, HALTED)
            if row["status"] == _CALL:
                add(row, QUOTING)
            trading, halted = False, True
    return found


def _event_key(row: Mapping[str, Any]) -> int:
    key = (row[name] or 0 for name in ("sequence_version", "sequence_number", "index_in_packet"))
    return event_number(*key)
