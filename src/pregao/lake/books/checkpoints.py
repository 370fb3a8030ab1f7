"""Checkpoints: after which rows the full book is stored, and in which form."""

from __future__ import annotations

from collections.abc import Sequence as Several
from typing import Any

import numpy as np
import pyarrow as pa

from pregao.arrays import Int64Array, Uint8Array
from pregao.book.replay import FullBook
from pregao.book.state import State
from pregao.book.update_rows import NULL
from pregao.feed.replay.statistics import last_before
from pregao.lake.books.columns import booleans, integers, nulled, prices
from pregao.lake.books.schemas import LEVEL, ORDER, SIDE_LEVELS, SIDE_ORDERS
from pregao.lake.storage.parquet import stored_type

UPDATES = 50_000
"""Maximum number of updates between checkpoints, which keeps every replay short."""

REASONS: list[str | None] = ["interval", "phase", "updates", "end"]
INTERVAL, PHASE, BY_UPDATES, END = range(4)


def checkpoint_rows(
    rank: Int64Array,
    message_serial: Int64Array,
    sending: Int64Array,
    interval_ns: int,
    change_rank: Int64Array,
    change_serial: Int64Array,
    updates_before: int,
    finish: bool,
) -> tuple[Int64Array, Uint8Array]:
    """Return the rows after which there is a checkpoint, and the reason of each.

    Takes the rows' instruments, message serials and times, and the message serials of phase
    changes. The last row of each instrument has a checkpoint, unless more rows of the last
    instrument will follow.
    """
    count = len(rank)
    if not count:
        return np.empty(0, np.int64), np.empty(0, np.uint8)
    last = np.append(rank[1:] != rank[:-1], True)
    reason = np.full(count, 255, np.uint8)
    first = np.concatenate([[0], np.flatnonzero(last)[:-1] + 1])
    number = np.arange(count) - np.repeat(first, np.diff(np.append(first, count))) + 1
    reason[(number + updates_before) % UPDATES == 0] = BY_UPDATES
    bucket = sending // interval_ns
    reason[np.flatnonzero(bucket[1:] != bucket[:-1])] = INTERVAL
    # The book at the time of the phase change: after the last message before it.
    found = last_before(rank, message_serial, change_rank, change_serial - 1)
    reason[found[found >= 0]] = PHASE
    reason[last] = END
    if not finish:
        reason[-1] = INTERVAL
    chosen = np.flatnonzero(reason != 255)
    return chosen, reason[chosen]


def side_lists(books: Several[FullBook]) -> dict[str, Any]:
    """Return the side columns of several books of one kind: lists of orders, or of levels."""
    names = SIDE_LEVELS if books and books[0].of_levels else SIDE_ORDERS
    return {name: _lists(books, side, names) for side, name in enumerate(names)}


def _lists(books: Several[FullBook], side: int, names: tuple[str, str]) -> Any:
    chosen = [book.side == side for book in books]
    counts = [int(own.sum()) for own in chosen]
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)

    def joined(name: str, kind: Any) -> Any:
        parts = [getattr(book, name)[own] for book, own in zip(books, chosen, strict=True)]
        return np.concatenate(parts) if parts else np.empty(0, kind)

    if names is SIDE_LEVELS:
        levels = [
            prices(joined("price", np.int64)),
            nulled(joined("size", np.int64)),
            nulled(joined("level_orders", np.int64)),
        ]
        return _listed(offsets, levels, LEVEL)
    orders = [
        nulled(joined("order_id", np.int64)),
        prices(joined("price", np.int64)),
        nulled(joined("size", np.int64)),
        nulled(joined("firm", np.int64)),
        nulled(joined("inserted", np.int64)),
        pa.array(joined("implied", np.uint8).astype(np.bool_)),
    ]
    return _listed(offsets, orders, ORDER)


def _listed(offsets: Any, members: list[Any], kind: Any) -> Any:
    struct = pa.StructArray.from_arrays(members, fields=list(stored_type(kind)))
    lists = pa.list_(pa.field("element", struct.type))
    return pa.ListArray.from_arrays(pa.array(offsets), struct, type=lists)


def levels_book_of(bids: Any, asks: Any, state: State) -> FullBook:
    """Return a price-depth book from the side lists of a checkpoint, as arrays of levels."""
    sides = (bids, asks)
    price, size, orders = (
        np.concatenate([integers(side.field(name)) for side in sides])
        for name in ("price", "size", "orders")
    )
    side = np.repeat(np.array([0, 1], np.uint8), [len(bids), len(asks)])
    unknown = np.full(len(side), NULL, np.int64)
    none = np.zeros(len(side), np.uint8)
    return FullBook(-1, state, side, unknown, price, size, unknown, unknown, none, orders)


def book_of(bids: Any, asks: Any, state: State) -> FullBook:
    """Return a book from the side lists of a checkpoint, as arrays of orders."""
    sides = (bids, asks)
    columns: dict[str, Any] = {
        name: np.concatenate([integers(side.field(member)) for side in sides])
        for name, member in (
            ("order_id", "order_id"),
            ("price", "price"),
            ("size", "size"),
            ("firm", "firm"),
            ("inserted", "insert_time_ns"),
        )
    }
    implied = np.concatenate([booleans(side.field("implied")) for side in sides])
    side = np.repeat(np.array([0, 1], np.uint8), [len(bids), len(asks)])
    return FullBook(-1, state, side, **columns, implied=implied.astype(np.uint8))
