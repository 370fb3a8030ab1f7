"""Book updates as flat columns, for replay in bulk."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from enum import IntEnum
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from pregao.arrays import Int64Array, Uint8Array
from pregao.book.updates import (
    BookEmptied,
    BookReset,
    DepthUpdate,
    GapExcluded,
    GapPossible,
    LevelAdded,
    LevelChanged,
    LevelDeleted,
    LevelOverlaid,
    MessagesMissing,
    OrderAdded,
    OrderChanged,
    OrderDeleted,
    RebuildEnded,
    SideCleared,
    SnapshotEnded,
    SnapshotLevel,
    SnapshotOrder,
    SnapshotStarted,
    TopRemoved,
    Update,
)
from pregao.errors import UsageError
from pregao.units import Side

NULL: Final[int] = -(2**63)
"""Marks a missing value in every 64-bit column."""

_CODES = ("kind", "side", "flags")

IMPLIED: Final[int] = 1
RECOVERY: Final[int] = 2


class UpdateKind(IntEnum):
    """Kind of a row; the first five are the feed's update actions."""

    ADD = 0
    CHANGE = 1
    DELETE = 2
    CLEAR_SIDE = 3
    REMOVE_TOP = 4
    EMPTY = 5
    RESET = 6
    SNAPSHOT_BEGIN = 7
    SNAPSHOT_ORDER = 8
    SNAPSHOT_END = 9
    INTERRUPT = 10
    DOUBT = 11
    CONFIRM = 12
    SETTLE = 13
    """A snapshot equals the book: a refill has ended."""
    OVERLAY = 14
    """Only in books by price depth: replace the best level, whatever it was before."""


@dataclass(slots=True)
class UpdateColumns:
    """Values of book updates, one per row."""

    kind: Uint8Array
    side: Uint8Array
    flags: Uint8Array
    """Bits: IMPLIED, RECOVERY."""
    order_id: Int64Array
    """Order ID; in a row of a level, its number of orders."""
    price: Int64Array
    """Mantissa; NULL for an order without a price."""
    size: Int64Array
    """In SNAPSHOT_BEGIN: number of bids that follow, NULL if unknown."""
    previous: Int64Array
    """Size before a CHANGE or DELETE, NULL if unknown; in SNAPSHOT_BEGIN the number of asks."""
    position: Int64Array
    """Position on the side, from 1; in REMOVE_TOP the last one removed."""
    firm: Int64Array
    inserted: Int64Array
    """Insert time in nanoseconds."""

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.kind)

    def of_instruments(self, instrument: Int64Array, event: Int64Array) -> UpdateRows:
        """Return the rows with the instrument and event of each."""
        names = [column.name for column in fields(UpdateColumns)]
        own: dict[str, Any] = {name: getattr(self, name) for name in names}
        return UpdateRows(**own, instrument=instrument, event=event)


@dataclass(slots=True)
class UpdateRows(UpdateColumns):
    """Updates, one per row, grouped by instrument and in order within each instrument."""

    instrument: Int64Array
    event: Int64Array
    """Event of the channel that the row belongs to; an event may affect several instruments."""

    def __getitem__(self, part: slice) -> UpdateRows:
        """Return a slice of the rows, without a copy."""
        return UpdateRows(*(getattr(self, column.name)[part] for column in fields(self)))

    def check(self, *, levels: bool = False) -> None:
        """Raise UsageError for columns that a replay, of levels or orders, cannot read safely."""
        for column in fields(self):
            values: npt.NDArray[Any] = getattr(self, column.name)
            kind = np.uint8 if column.name in _CODES else np.int64
            if values.shape != self.kind.shape or values.ndim != 1 or values.dtype != kind:
                raise UsageError(
                    f"column {column.name} of book updates must be {np.dtype(kind)} and have"
                    f" {len(self.kind)} rows"
                )
        last = UpdateKind.OVERLAY if levels else UpdateKind.SETTLE
        if len(self) and (self.side.max() > max(Side) or self.kind.max() > last):
            raise UsageError("book updates contain an unknown side or kind")

    @staticmethod
    def empty(count: int) -> UpdateRows:
        """Return rows with every value missing, to be filled."""
        columns: dict[str, Any] = {
            column.name: np.full(count, NULL, np.int64) for column in fields(UpdateRows)
        }
        for name in _CODES:
            columns[name] = np.zeros(count, np.uint8)
        return UpdateRows(**columns)


def none_if_null(value: int | np.int64) -> int | None:
    """Return None for NULL, else the value as an int."""
    return None if value == NULL else int(value)


def _null(value: int | None) -> int:
    return NULL if value is None else value


def _order(kind: UpdateKind, update: OrderAdded | OrderChanged | SnapshotOrder) -> dict[str, int]:
    recovery = False if isinstance(update, SnapshotOrder) else update.recovery
    previous = update.previous_size if isinstance(update, OrderChanged) else None
    return {
        "kind": kind,
        "side": update.side,
        "flags": IMPLIED * update.implied + RECOVERY * recovery,
        "order_id": _null(update.order_id),
        "price": _null(update.price),
        "size": update.size,
        "previous": _null(previous),
        "position": _null(update.position),
        "firm": _null(update.firm),
        "inserted": _null(update.insert_time_ns),
    }


def _level(
    kind: UpdateKind, update: LevelAdded | LevelChanged | LevelOverlaid | SnapshotLevel
) -> dict[str, int]:
    recovery = False if isinstance(update, SnapshotLevel) else update.recovery
    position = None if isinstance(update, LevelOverlaid) else update.position
    return {
        "kind": kind,
        "side": update.side,
        "flags": RECOVERY * recovery,
        "order_id": update.orders,
        "price": _null(update.price),
        "size": update.size,
        "position": _null(position),
    }


def row_of(update: Update | DepthUpdate) -> dict[str, int]:
    """Return the columns of one update that have a value."""
    match update:
        case LevelAdded():
            return _level(UpdateKind.ADD, update)
        case LevelChanged():
            return _level(UpdateKind.CHANGE, update)
        case LevelOverlaid():
            return _level(UpdateKind.OVERLAY, update)
        case SnapshotLevel():
            return _level(UpdateKind.SNAPSHOT_ORDER, update)
        case LevelDeleted():
            return {"kind": UpdateKind.DELETE, "side": update.side, "position": update.position}
        case OrderAdded():
            return _order(UpdateKind.ADD, update)
        case OrderChanged():
            return _order(UpdateKind.CHANGE, update)
        case SnapshotOrder():
            return _order(UpdateKind.SNAPSHOT_ORDER, update)
        case OrderDeleted():
            return {
                "kind": UpdateKind.DELETE,
                "side": update.side,
                "order_id": _null(update.order_id),
                "price": _null(update.price),
                "previous": _null(update.size),
                "position": _null(update.position),
            }
        case SideCleared():
            return {"kind": UpdateKind.CLEAR_SIDE, "side": update.side}
        case TopRemoved():
            return {"kind": UpdateKind.REMOVE_TOP, "side": update.side, "position": update.position}
        case SnapshotStarted():
            return {
                "kind": UpdateKind.SNAPSHOT_BEGIN,
                "size": _null(update.bids),
                "previous": _null(update.asks),
            }
        case SnapshotEnded():
            return {"kind": UpdateKind.SNAPSHOT_END}
        case BookEmptied():
            return {"kind": UpdateKind.EMPTY}
        case BookReset():
            return {"kind": UpdateKind.RESET}
        case MessagesMissing():
            return {"kind": UpdateKind.INTERRUPT}
        case GapPossible():
            return {"kind": UpdateKind.DOUBT}
        case GapExcluded():
            return {"kind": UpdateKind.CONFIRM}
        case RebuildEnded():
            return {"kind": UpdateKind.SETTLE}


def rows_of(updates: Iterable[tuple[int, int, Update | DepthUpdate]]) -> UpdateRows:
    """Convert (instrument, event, update) tuples to columns."""
    listed: Sequence[tuple[int, int, Update | DepthUpdate]] = list(updates)
    rows = UpdateRows.empty(len(listed))
    for at, (instrument, event, update) in enumerate(listed):
        rows.instrument[at] = instrument
        rows.event[at] = event
        for name, value in row_of(update).items():
            column: npt.NDArray[Any] = getattr(rows, name)
            column[at] = value
    return rows
