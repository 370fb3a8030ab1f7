"""Price-depth and top-of-book sides aggregated from orders, and the changes of their levels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from sortedcontainers import SortedDict

from pregao.exchange.engine.orders import key_of
from pregao.exchange.engine.terms import OrderSide
from pregao.feed.legacy_meaning import CHANGE, DELETE, NEW, OVERLAY


class DepthLevel(NamedTuple):
    """A price level."""

    price: int | None
    size: int
    orders: int


class LevelChange(NamedTuple):
    """A change of a published level."""

    action: int
    position: int
    row: DepthLevel | None
    """The level; None if it is deleted."""


class DepthSide:
    """Price levels of a side, of which the first ``depth`` are published."""

    def __init__(self, side: OrderSide, depth: int) -> None:
        self._side = side
        self._depth = depth
        self._levels: SortedDict[int, DepthLevel] = SortedDict()
        """Levels by price key, best last."""
        self._shown: list[DepthLevel] = []

    @property
    def shown(self) -> list[DepthLevel]:
        """Published levels, best first."""
        return list(self._shown)

    def add(self, price: int | None, size: int, orders: int) -> Iterator[LevelChange]:
        """Add size and orders at a price (negative: remove); yield the changes to publish."""
        key = key_of(self._side, price)
        row = self._levels.get(key, DepthLevel(price, 0, 0))
        row = DepthLevel(price, row.size + size, row.orders + orders)
        if row.orders:
            self._levels[key] = row
        else:
            self._levels.pop(key, None)
        return self._update()

    def clear(self) -> None:
        """Remove all levels."""
        self._levels.clear()
        self._shown = []

    def _update(self) -> Iterator[LevelChange]:
        best = list(reversed(self._levels.values()[-self._depth :]))
        if self._depth == 1:
            yield from self._overlay(best)
            return
        shown = self._shown
        for position in range(len(shown), 0, -1):
            if key_of(self._side, shown[position - 1].price) not in self._levels:
                yield LevelChange(DELETE, position, None)
                del shown[position - 1]
        for position, row in enumerate(best, 1):
            if position > len(shown) or shown[position - 1].price != row.price:
                # Levels that drop off the bottom are not published (002 §9.2.1).
                yield LevelChange(NEW, position, row)
                shown.insert(position - 1, row)
                del shown[self._depth :]
            elif shown[position - 1] != row:
                yield LevelChange(CHANGE, position, row)
                shown[position - 1] = row

    def _overlay(self, best: list[DepthLevel]) -> Iterator[LevelChange]:
        """Yield the overlay of the top of a book (002 §9.2.2)."""
        if best == self._shown:
            return
        if best:
            yield LevelChange(OVERLAY, 1, best[0])
        else:
            yield LevelChange(DELETE, 1, None)
        self._shown = best
