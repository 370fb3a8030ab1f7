"""Compares a rebuilt book with what a snapshot says it should be: equal, or exactly how not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from pregao.book.replay import FullBook
from pregao.book.updates import Side
from pregao.book.views import Level, Order


class DifferenceKind(Enum):
    """In what way an order or a level differs."""

    MISSING = "in the snapshot only"
    EXTRA = "in the rebuilt book only"
    CONTENT = "with other content"
    PLACE = "in another place"


@dataclass(frozen=True, slots=True)
class Difference:
    """One order or level that is not as it should be; places count from 1."""

    kind: DifferenceKind
    side: Side
    place: int
    """Where it stands in the snapshot, or in the rebuilt book if it is only there."""
    rebuilt: Order | Level | None
    snapshot: Order | Level | None

    def __str__(self) -> str:
        row = self.rebuilt if self.snapshot is None else self.snapshot
        assert row is not None
        what = f"order {row.order_id}" if isinstance(row, Order) else "level"
        text = f"{self.side.name.lower()} {what} at place {self.place}"
        if self.kind is not DifferenceKind.CONTENT or self.rebuilt is None or self.snapshot is None:
            return f"{text} is {self.kind.value}"
        parts = [
            f"{name} {here} instead of {there}"
            for name, here, there in zip(row._fields, self.rebuilt, self.snapshot, strict=True)
            if here != there
        ]
        return f"{text} has {', '.join(parts)}"


def compare_side(
    side: Side, rebuilt: Sequence[Order], snapshot: Sequence[Order]
) -> list[Difference]:
    """Every order of a side that differs; orders are the same if their numbers are.

    An order that others, missing or extra, moved up or down is not itself in another place.
    """
    if len({order.order_id for order in rebuilt}) < len(rebuilt) or any(
        order.order_id is None for order in (*rebuilt, *snapshot)
    ):
        return _compare_places(side, rebuilt, snapshot)
    ours = {order.order_id: order for order in rebuilt}
    theirs = {order.order_id: order for order in snapshot}
    found = [
        Difference(DifferenceKind.EXTRA, side, place, order, None)
        for place, order in enumerate(rebuilt, 1)
        if order.order_id not in theirs
    ]
    common = iter([order.order_id for order in rebuilt if order.order_id in theirs])
    for place, order in enumerate(snapshot, 1):
        mine = ours.get(order.order_id)
        if mine is None:
            found.append(Difference(DifferenceKind.MISSING, side, place, None, order))
            continue
        stands_here = next(common)
        if mine != order:
            found.append(Difference(DifferenceKind.CONTENT, side, place, mine, order))
        elif stands_here != order.order_id:
            found.append(Difference(DifferenceKind.PLACE, side, place, mine, order))
    return found


def _compare_places(
    side: Side, rebuilt: Sequence[Order | Level], snapshot: Sequence[Order | Level]
) -> list[Difference]:
    """Place by place, for levels and for orders without numbers of their own."""
    found = []
    for at in range(max(len(rebuilt), len(snapshot))):
        mine = rebuilt[at] if at < len(rebuilt) else None
        theirs = snapshot[at] if at < len(snapshot) else None
        if mine == theirs:
            continue
        kind = DifferenceKind.CONTENT
        if mine is None:
            kind = DifferenceKind.MISSING
        elif theirs is None:
            kind = DifferenceKind.EXTRA
        found.append(Difference(kind, side, at + 1, mine, theirs))
    return found


def compare_books(rebuilt: FullBook, snapshot: FullBook) -> list[Difference]:
    """Every order or level that differs between two full books; nothing if they are equal."""
    if rebuilt.of_levels or snapshot.of_levels:
        return [
            difference
            for side in Side
            for difference in _compare_places(side, rebuilt.levels(side), snapshot.levels(side))
        ]
    columns = ("side", "order_id", "price", "size", "firm", "inserted", "implied")
    if all(np.array_equal(getattr(rebuilt, name), getattr(snapshot, name)) for name in columns):
        return []
    return [
        difference
        for side in Side
        for difference in compare_side(side, rebuilt.orders(side), snapshot.orders(side))
    ]
