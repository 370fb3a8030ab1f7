"""What can happen to a book, in plain data: no wire format, one update per message or entry.

A price is an integer mantissa, or None for an order that has none (market on auction, on close).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple


class Side(IntEnum):
    """A side of a book."""

    BID = 0
    ASK = 1

    @property
    def other(self) -> Side:
        """The side that this one trades against."""
        return Side.ASK if self is Side.BID else Side.BID


class MessageKey(NamedTuple):
    """Where in its stream a message stands; keys order as the messages do within a version."""

    sequence_version: int
    sequence_number: int
    index_in_packet: int = 0
    """Which message of the packet it is, from 0."""


class OrderAdded(NamedTuple):
    """An order entered the book."""

    key: MessageKey
    side: Side
    order_id: int | None
    """The public number (secondaryOrderID); only books by position do without."""
    price: int | None
    size: int
    position: int | None = None
    """The place on its side, from 1, where the feed gives it."""
    firm: int | None = None
    insert_time_ns: int | None = None
    implied: bool = False
    recovery: bool = False
    """Sent to rebuild the book after it was emptied, not because something happened now."""
    rpt_seq: int | None = None


class OrderChanged(NamedTuple):
    """An order got another size and kept its place, or the place that its new price gives it."""

    key: MessageKey
    side: Side
    order_id: int | None
    price: int | None
    size: int
    previous_size: int | None = None
    """The size before the change, where the feed gives it."""
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
    """What was left of it just before; None where the feed does not tell."""
    position: int | None = None
    rpt_seq: int | None = None


@dataclass(frozen=True, slots=True)
class SideCleared:
    """All orders of a side left the book at once (DELETE_THRU)."""

    key: MessageKey
    side: Side
    rpt_seq: int | None = None


@dataclass(frozen=True, slots=True)
class TopRemoved:
    """The places 1 to ``position`` of a side left the book at once (DELETE_FROM)."""

    key: MessageKey
    side: Side
    position: int
    rpt_seq: int | None = None


@dataclass(frozen=True, slots=True)
class BookEmptied:
    """The book was emptied, to be filled anew (EmptyBook)."""

    key: MessageKey


@dataclass(frozen=True, slots=True)
class ChannelReset:
    """Every book of the channel was emptied; each gets this update."""

    key: MessageKey


@dataclass(frozen=True, slots=True)
class SnapshotBegun:
    """A snapshot of this book begins: what stood in the book no longer counts."""

    key: MessageKey
    bids: int | None = None
    """How many orders will follow, where the feed tells."""
    asks: int | None = None
    last_rpt_seq: int | None = None


class SnapshotOrder(NamedTuple):
    """An order of the running snapshot."""

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
    """The running snapshot is complete."""

    key: MessageKey


@dataclass(frozen=True, slots=True)
class Interrupted:
    """Messages of this book are missing before this point."""

    key: MessageKey
    reason: str = "messages are missing"


@dataclass(frozen=True, slots=True)
class Doubted:
    """Packets are missing that may have been about this book."""

    key: MessageKey


@dataclass(frozen=True, slots=True)
class Confirmed:
    """Nothing about this book was missing, or it was made up for."""

    key: MessageKey


@dataclass(frozen=True, slots=True)
class Settled:
    """A snapshot equals this book: what fills it again has ended."""

    key: MessageKey


OrderUpdate = OrderAdded | OrderChanged | OrderDeleted | SideCleared | TopRemoved
"""What changes orders."""

SnapshotUpdate = SnapshotBegun | SnapshotOrder | SnapshotEnded

Update = (
    OrderUpdate
    | SnapshotUpdate
    | BookEmptied
    | ChannelReset
    | Interrupted
    | Doubted
    | Confirmed
    | Settled
)
"""All that a book of orders understands."""


@dataclass(frozen=True, slots=True)
class LevelAdded:
    """The legacy feed: a price level appeared at a place of its side."""

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
    """The legacy feed: the level at a place has another size or number of orders."""

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
    """The legacy feed: the level at a place is gone."""

    key: MessageKey
    side: Side
    position: int
    rpt_seq: int | None = None


@dataclass(frozen=True, slots=True)
class LevelOverlaid:
    """The legacy feed, top of book only: this is the best level now, whatever it was before."""

    key: MessageKey
    side: Side
    price: int | None
    size: int
    orders: int
    rpt_seq: int | None = None
    recovery: bool = False


@dataclass(frozen=True, slots=True)
class SnapshotLevel:
    """A price level of the running snapshot of the legacy feed."""

    key: MessageKey
    side: Side
    price: int | None
    size: int
    orders: int
    position: int | None = None


LevelUpdate = LevelAdded | LevelChanged | LevelDeleted | LevelOverlaid | SideCleared | TopRemoved
"""What changes the levels of a book by price."""

DepthUpdate = (
    LevelUpdate
    | SnapshotBegun
    | SnapshotLevel
    | SnapshotEnded
    | BookEmptied
    | ChannelReset
    | Interrupted
    | Doubted
    | Confirmed
    | Settled
)
"""All that a book by price of the legacy feed understands."""
