"""Compares a rebuilt book with a snapshot, and lists every difference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from pregao.book.replay import FullBook
from pregao.book.views import BookLevel, BookOrder
from pregao.units import Side


class DifferenceKind(Enum):
    """Kind of a difference of an order or a level."""

    MISSING = "in the snapshot only"
    EXTRA = "in the rebuilt book only"
    CONTENT = "with different content"
    POSITION = "at another position"


@dataclass(frozen=True, slots=True)
class Difference:
    """One order or level that differs; positions count from 1."""

    kind: DifferenceKind
    side: Side
    position: int
    """Position in the snapshot, or in the rebuilt book if it is only there."""
    rebuilt: BookOrder | BookLevel | None
    snapshot: BookOrder | BookLevel | None

    def __str__(self) -> str:
        row = self.rebuilt if self.snapshot is None else self.snapshot
        assert row is not None
        subject = f"order {row.order_id}" if isinstance(row, BookOrder) else "level"
        text = f"{self.side.name.lower()} {subject} at position {self.position}"
        if self.kind is not DifferenceKind.CONTENT or self.rebuilt is None or self.snapshot is None:
            return f"{text} is {self.kind.value}"
        parts = [
            f"{name} {ours} instead of {theirs}"
            for name, ours, theirs in zip(row._fields, self.rebuilt, self.snapshot, strict=True)
            if ours != theirs
        ]
        return f"{text} has {', '.join(parts)}"


def compare_side(
    side: Side, rebuilt: Sequence[BookOrder], snapshot: Sequence[BookOrder]
) -> list[Difference]:
    """Return every order of a side that differs; orders are matched by ID.

    An order that moved only because others are missing or extra is not at another position.
    """
    if len({order.order_id for order in rebuilt}) < len(rebuilt) or any(
        order.order_id is None for order in (*rebuilt, *snapshot)
    ):
        return _compare_positions(side, rebuilt, snapshot)
    ours = {order.order_id: order for order in rebuilt}
    theirs = {order.order_id: order for order in snapshot}
    differences = [
        Difference(DifferenceKind.EXTRA, side, position, order, None)
        for position, order in enumerate(rebuilt, 1)
        if order.order_id not in theirs
    ]
    common = iter([order.order_id for order in rebuilt if order.order_id in theirs])
    for position, order in enumerate(snapshot, 1):
        mine = ours.get(order.order_id)
        if mine is None:
            differences.append(Difference(DifferenceKind.MISSING, side, position, None, order))
            continue
        expected_id = next(common)
        if mine != order:
            differences.append(Difference(DifferenceKind.CONTENT, side, position, mine, order))
        elif expected_id != order.order_id:
            differences.append(Difference(DifferenceKind.POSITION, side, position, mine, order))
    return differences


def _compare_positions(
    side: Side, rebuilt: Sequence[BookOrder | BookLevel], snapshot: Sequence[BookOrder | BookLevel]
) -> list[Difference]:
    """Compare position by position, for levels and for orders without unique IDs."""
    differences = []
    for index in range(max(len(rebuilt), len(snapshot))):
        mine = rebuilt[index] if index < len(rebuilt) else None
        theirs = snapshot[index] if index < len(snapshot) else None
        if mine == theirs:
            continue
        kind = DifferenceKind.CONTENT
        if mine is None:
            kind = DifferenceKind.MISSING
        elif theirs is None:
            kind = DifferenceKind.EXTRA
        differences.append(Difference(kind, side, index + 1, mine, theirs))
    return differences


def compare_books(rebuilt: FullBook, snapshot: FullBook) -> list[Difference]:
    """Return every order or level that differs between two full books; empty if equal."""
    if rebuilt.of_levels or snapshot.of_levels:
        return [
            difference
            for side in Side
            for difference in _compare_positions(side, rebuilt.levels(side), snapshot.levels(side))
        ]
    columns = ("side", "order_id", "price", "size", "firm", "inserted", "implied")
    if all(np.array_equal(getattr(rebuilt, name), getattr(snapshot, name)) for name in columns):
        return []
    return [
        difference
        for side in Side
        for difference in compare_side(side, rebuilt.orders(side), snapshot.orders(side))
    ]
