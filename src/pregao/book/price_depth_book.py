"""Books by price of the legacy feed: the levels that the exchange shows, addressed by position.

With a market depth of 1 this is the legacy top of book. Levels below the depth drop out without a
message; the exchange sends them again when they are within the depth again.
"""

from __future__ import annotations

from collections.abc import Iterator

from pregao.book.base_book import BookLifecycle, raise_inconsistent
from pregao.book.state import FaultCode
from pregao.book.updates import (
    LevelAdded,
    LevelChanged,
    LevelDeleted,
    LevelOverlaid,
    LevelUpdate,
    SideCleared,
    SnapshotEnded,
    SnapshotLevel,
    TopRemoved,
)
from pregao.book.views import BookLevel
from pregao.units import Side


class PriceDepthBook(BookLifecycle):
    """A book by price with a given market depth; None shows all levels."""

    __slots__ = ("_sides", "market_depth")

    def __init__(self, market_depth: int | None) -> None:
        super().__init__()
        self.market_depth = market_depth
        self._wipe()

    def walk_levels(self, side: Side) -> Iterator[BookLevel]:
        """Return the levels of a side, best first."""
        return iter(self._sides[side])

    def _wipe(self) -> None:
        self._sides: tuple[list[BookLevel], list[BookLevel]] = ([], [])

    def _occupied(self) -> bool:
        return any(self._sides)

    def _counts(self) -> tuple[int, int]:
        return len(self._sides[Side.BID]), len(self._sides[Side.ASK])

    def _apply_part(self, update: LevelUpdate | SnapshotLevel | SnapshotEnded) -> None:
        if isinstance(update, SnapshotLevel):
            self._check_in_snapshot()
            rows = self._sides[update.side]
            position = len(rows) + 1 if update.position is None else update.position
            self._insert(update.side, position, BookLevel(update.price, update.size, update.orders))
            self.last_key = update.key
            return
        if isinstance(update, SnapshotEnded):
            self._end_snapshot(update)
            return
        self._check_not_in_snapshot()
        rows = self._sides[update.side]
        recovery = False
        match update:
            case LevelAdded():
                level = BookLevel(update.price, update.size, update.orders)
                self._insert(update.side, update.position, level)
                recovery = update.recovery
            case LevelChanged():
                self._change(update)
                recovery = update.recovery
            case LevelDeleted():
                self._check_position(update.side, update.position, len(rows))
                del rows[update.position - 1]
            case LevelOverlaid():
                if self.market_depth != 1:
                    raise_inconsistent(
                        FaultCode.OVERLAY_BELOW_TOP,
                        "overlay in a book with a market depth other than 1",
                    )
                rows[:] = [BookLevel(update.price, update.size, update.orders)]
                recovery = update.recovery
            case SideCleared():
                rows.clear()
            case TopRemoved():
                self._check_position(update.side, update.position, len(rows))
                del rows[: update.position]
        self._settle(update.key, update.rpt_seq, recovery=recovery)

    def _check_position(self, side: Side, position: int, last: int) -> None:
        if not 1 <= position <= last:
            raise_inconsistent(
                FaultCode.POSITION_BEYOND_END,
                f"level position {position} is out of range:"
                f" the {side.name.lower()} side has {len(self._sides[side])} levels",
            )

    def _insert(self, side: Side, position: int, level: BookLevel) -> None:
        rows = self._sides[side]
        last = len(rows) + 1
        if self.market_depth is not None:
            last = min(last, self.market_depth)
        self._check_position(side, position, last)
        rows.insert(position - 1, level)
        if self.market_depth is not None:
            del rows[self.market_depth :]

    def _change(self, update: LevelChanged) -> None:
        rows = self._sides[update.side]
        self._check_position(update.side, update.position, len(rows))
        price = rows[update.position - 1].price
        if update.price is not None and update.price != price:
            raise_inconsistent(
                FaultCode.WRONG_PRICE,
                f"position {update.position} has price {price}, not {update.price}",
            )
        rows[update.position - 1] = BookLevel(price, update.size, update.orders)
