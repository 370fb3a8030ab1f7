"""State of a book, origin of its content, and the faults that make it stale."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, IntEnum

from pregao.book.updates import MessageKey


class State(IntEnum):
    """State of a book: whether it can be trusted."""

    EMPTY = 0
    """The book is known to have no orders."""
    BUILDING = 1
    """A snapshot or a recovery is filling the book."""
    VALID = 2
    STALE = 3
    """A message was missed or inconsistent: frozen until emptied or rebuilt by a snapshot."""
    UNCONFIRMED = 4
    """Packets are missing, and they may have contained updates of this book."""


class Origin(Enum):
    """Event from which the content of a book was built."""

    START = "empty before the first message"
    EMPTY_BOOK = "an EmptyBook"
    CHANNEL_RESET = "a ChannelReset"
    SNAPSHOT = "a snapshot"


class FaultCode(IntEnum):
    """Kinds of inconsistent updates and gaps that make a book stale."""

    UNKNOWN_ORDER = 1
    DUPLICATE_ORDER = 2
    WRONG_SIDE = 3
    WRONG_PREVIOUS_SIZE = 4
    WRONG_PRICE = 5
    NO_ORDER_ID = 6
    POSITION_MISSING = 7
    POSITION_BEYOND_END = 8
    OTHER_ORDER_AT_POSITION = 9
    SNAPSHOT_INTERRUPTED = 10
    SNAPSHOT_NOT_BEGUN = 11
    SNAPSHOT_INCOMPLETE = 12
    INTERRUPTED = 13
    UNKNOWN_LEVEL = 14
    NO_PREVIOUS_SIZE = 15
    NO_ORDERS_KEPT = 16
    OVERLAY_BELOW_TOP = 17


@dataclass(frozen=True, slots=True)
class BookFault:
    """Why a book became stale: the message, the kind of fault, and an explanation."""

    key: MessageKey
    code: FaultCode
    detail: str

    def __str__(self) -> str:
        version, number, index = self.key
        return f"{self.detail} (message {index} of packet {number}, sequence version {version})"


class InconsistentUpdateError(Exception):
    """Raised inside a book, before it changes anything; the book turns it into a Fault."""

    def __init__(self, code: FaultCode, detail: str) -> None:
        self.code = code
        self.detail = detail
        super().__init__(detail)
