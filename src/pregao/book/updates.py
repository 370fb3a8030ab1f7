"""Updates of a book as plain data: independent of wire formats, one per message or entry.

A price is an integer mantissa, or None for an order without a price (market on auction, on close).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from pregao.units import Side


class MessageKey(NamedTuple):
    """Position of a message in its stream; keys sort in stream order within a version."""

    sequence_version: int
    sequence_number: int
    index_in_packet: int = 0
    """Index of the message in its packet, from 0."""


class OrderAdded(NamedTuple):
    """An order entered the book."""

    key: MessageKey
    side: Side
    order_id: int | None
    """Public order ID (secondaryOrderID); None only in books by position."""
    price: int | None
    size: int
    position: int | None = None
    """Position on its side, from 1, where the feed sends it."""
    firm: int | None = None
    insert_time_ns: int | None = None
    implied: bool = False
    recovery: bool = False
    """Sent to rebuild the book after it was emptied, not because of a current event."""
    rpt_seq: int | None = None


class OrderChanged(NamedTuple):
    """An order was changed and kept its queue position, or moved to that of its new price."""

    key: MessageKey
    side: Side
    order_id: int | None
    price: int | None
    size: int
    previous_size: int | None = None
    """Size before the change, where the feed sends it."""
    position: int | None = None
    firm: int | None = None
    insert_time_ns: int | None = None
    implied: bool = False
    recovery: bool = False
    rpt_seq: int | None = None


class OrderDeleted(NamedTuple):
    """An order left the book."""

    key: MessageKey
    side: Side
    order_id: int | None
    price: int | None = None
    size: int | None = None
    """Size before the deletion; None where the feed does not send it."""
    position: int | None = None
    rpt_seq: int | None = None


@dataclass(frozen=True, slots=True)
class SideCleared:
    """All orders of a side were deleted together (DELETE_THRU)."""

    key: MessageKey
    side: Side
    rpt_seq: int | None = None


@dataclass(frozen=True, slots=True)
class TopRemoved:
    """The orders at positions 1 to ``position`` of a side were deleted (DELETE_FROM)."""

    key: MessageKey
    side: Side
    position: int
    rpt_seq: int | None = None


@dataclass(frozen=True, slots=True)
class BookEmptied:
    """The book was emptied, and will be filled again (EmptyBook)."""

    key: MessageKey


@dataclass(frozen=True, slots=True)
class BookReset:
    """Every book of the channel was emptied; each gets this update."""

    key: MessageKey


@dataclass(frozen=True, slots=True)
class SnapshotStarted:
    """A snapshot of this book begins; it replaces the previous content."""

    key: MessageKey
    bids: int | None = None
    """Number of bids that follow, where the feed sends it."""
    asks: int | None = None
    last_rpt_seq: int | None = None


class SnapshotOrder(NamedTuple):
    """An order of the current snapshot."""

    key: MessageKey
    side: Side
    order_id: int | None
    price: int | None
    size: int
    position: int | None = None
    firm: int | None = None
    insert_time_ns: int | None = None
    implied: bool = False


@dataclass(frozen=True, slots=True)
class SnapshotEnded:
    """The current snapshot is complete."""

    key: MessageKey


@dataclass(frozen=True, slots=True)
class MessagesMissing:
    """Messages of this book are missing before this point."""

    key: MessageKey
    reason: str = "messages are missing"


@dataclass(frozen=True, slots=True)
class GapPossible:
    """Packets are missing that may have contained updates of this book."""

    key: MessageKey


@dataclass(frozen=True, slots=True)
class GapExcluded:
    """No update of this book is missing, or the missing ones were recovered."""

    key: MessageKey


@dataclass(frozen=True, slots=True)
class RebuildEnded:
    """A snapshot equals this book: a refill has ended."""

    key: MessageKey


OrderUpdate = OrderAdded | OrderChanged | OrderDeleted | SideCleared | TopRemoved
"""Updates of orders."""

SnapshotUpdate = SnapshotStarted | SnapshotOrder | SnapshotEnded

Update = (
    OrderUpdate
    | SnapshotUpdate
    | BookEmptied
    | BookReset
    | MessagesMissing
    | GapPossible
    | GapExcluded
    | RebuildEnded
)
"""All updates of a book of orders."""


@dataclass(frozen=True, slots=True)
class LevelAdded:
    """Legacy feed: a price level was added at a position of its side."""

    key: MessageKey
    side: Side
    position: int
    price: int | None
    size: int
    orders: int
    rpt_seq: int | None = None
    recovery: bool = False


@dataclass(frozen=True, slots=True)
class LevelChanged:
    """Legacy feed: the level at a position has a new size or order count."""

    key: MessageKey
    side: Side
    position: int
    price: int | None
    size: int
    orders: int
    rpt_seq: int | None = None
    recovery: bool = False


@dataclass(frozen=True, slots=True)
class LevelDeleted:
    """Legacy feed: the level at a position was deleted."""

    key: MessageKey
    side: Side
    position: int
    rpt_seq: int | None = None


@dataclass(frozen=True, slots=True)
class LevelOverlaid:
    """Legacy feed, top of book only: replaces the best level, whatever it was before."""

    key: MessageKey
    side: Side
    price: int | None
    size: int
    orders: int
    rpt_seq: int | None = None
    recovery: bool = False


@dataclass(frozen=True, slots=True)
class SnapshotLevel:
    """A price level of the current snapshot of the legacy feed."""

    key: MessageKey
    side: Side
    price: int | None
    size: int
    orders: int
    position: int | None = None


LevelUpdate = LevelAdded | LevelChanged | LevelDeleted | LevelOverlaid | SideCleared | TopRemoved
"""Updates of the levels of a book by price."""

DepthUpdate = (
    LevelUpdate
    | SnapshotStarted
    | SnapshotLevel
    | SnapshotEnded
    | BookEmptied
    | BookReset
    | MessagesMissing
    | GapPossible
    | GapExcluded
    | RebuildEnded
)
"""All updates of a book by price of the legacy feed."""
