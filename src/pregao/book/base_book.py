"""States of a book: empty, building, valid, stale; common to all kinds of books."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Final, NoReturn

from pregao.book.state import BookFault, FaultCode, InconsistentUpdateError, Origin, State
from pregao.book.updates import (
    BookEmptied,
    BookReset,
    GapExcluded,
    GapPossible,
    MessageKey,
    MessagesMissing,
    OrderAdded,
    OrderChanged,
    OrderDeleted,
    OrderUpdate,
    RebuildEnded,
    SideCleared,
    SnapshotEnded,
    SnapshotOrder,
    SnapshotStarted,
    TopRemoved,
    Update,
)
from pregao.book.views import LevelView
from pregao.units import Side

_OF_ORDERS: Final = (OrderAdded, OrderChanged, OrderDeleted)


def raise_inconsistent(code: FaultCode, detail: str) -> NoReturn:
    """Reject an update that contradicts the book."""
    raise InconsistentUpdateError(code, detail)


class BookLifecycle(LevelView):
    """State common to all books, and its changes by resets, snapshots and gaps.

    A stale book does not change: it skips order updates until it is emptied or a snapshot begins.
    """

    __slots__ = (
        "_building",
        "_doubted",
        "_expected",
        "_snapshot",
        "fault",
        "last_key",
        "last_rpt_seq",
        "origin",
        "skipped",
    )

    def __init__(self) -> None:
        self.fault: BookFault | None = None
        """The fault that made the book stale; None if it is not stale."""
        self.origin = Origin.START
        self.last_key: MessageKey | None = None
        """Key of the last message that the book applied."""
        self.last_rpt_seq: int | None = None
        self.skipped = 0
        """Number of updates skipped while the book was stale."""
        self._building = False
        self._doubted = False
        self._snapshot = False
        self._expected: tuple[int | None, int | None] = (None, None)

    @property
    def state(self) -> State:
        """State of the book."""
        if self.fault is not None:
            return State.STALE
        if self._doubted:
            return State.UNCONFIRMED
        if self._building:
            return State.BUILDING
        return State.VALID if self._occupied() else State.EMPTY

    @property
    def reason(self) -> str:
        """Explanation of the state."""
        if self.fault is not None:
            return f"stale: {self.fault}"
        if self._doubted:
            return "unconfirmed: missing packets may have contained updates of this book"
        if self._snapshot:
            return "being built from a snapshot"
        if self._building:
            return f"being refilled after {self.origin.value}"
        if self.origin is Origin.START:
            return Origin.START.value
        return f"built from {self.origin.value}"

    def apply(self, update: Any) -> BookFault | None:
        """Apply an update; return the fault if it makes the book stale."""
        match update:
            case BookEmptied():
                self._restart(Origin.EMPTY_BOOK, update.key)
            case BookReset():
                self._restart(Origin.CHANNEL_RESET, update.key)
            case MessagesMissing():
                return self.interrupt(update.key, update.reason)
            case GapPossible() | GapExcluded():
                self.doubt(doubted=isinstance(update, GapPossible))
            case RebuildEnded():
                self.agreed()
            case SnapshotStarted():
                self._begin_snapshot(update)
            case _ if self.fault is not None:
                self.skipped += 1
            case _:
                return self._try(update)
        return None

    def _try(self, update: Any) -> BookFault | None:
        try:
            self._apply_part(update)
        except InconsistentUpdateError as error:
            return self._break(BookFault(update.key, error.code, error.detail))
        return None

    @abstractmethod
    def _apply_part(self, update: Any) -> None:
        """Apply an update of orders or levels, or a part of a snapshot."""

    @abstractmethod
    def _occupied(self) -> bool:
        """Whether the book has any orders or levels."""

    @abstractmethod
    def _counts(self) -> tuple[int, int]:
        """Return the number of entries of each side, as a snapshot's totals count them."""

    @abstractmethod
    def _wipe(self) -> None:
        """Remove all orders and levels."""

    def interrupt(self, key: MessageKey, reason: str) -> BookFault | None:
        """Make the book stale because messages are missing before this one."""
        return self._break(BookFault(key, FaultCode.INTERRUPTED, reason))

    def doubt(self, *, doubted: bool) -> None:
        """Set whether packets are missing that may have contained updates of this book."""
        self._doubted = doubted

    def _break(self, fault: BookFault) -> BookFault | None:
        self._snapshot = self._building = False
        if self.fault is not None:
            return None
        self.fault = fault
        return fault

    def _restart(self, origin: Origin, key: MessageKey) -> None:
        self._wipe()
        self.fault = None
        self.origin = origin
        self.last_key = key
        self.last_rpt_seq = None
        self._building = self._snapshot = origin is Origin.SNAPSHOT

    def _begin_snapshot(self, update: SnapshotStarted) -> None:
        self._restart(Origin.SNAPSHOT, update.key)
        self.last_rpt_seq = update.last_rpt_seq
        self._expected = (update.bids, update.asks)

    def _check_in_snapshot(self) -> None:
        if not self._snapshot:
            raise_inconsistent(FaultCode.SNAPSHOT_NOT_BEGUN, "snapshot message outside a snapshot")

    def _end_snapshot(self, update: SnapshotEnded) -> None:
        self._check_in_snapshot()
        for expected, received, name in zip(
            self._expected, self._counts(), ("bids", "asks"), strict=True
        ):
            if expected is not None and expected != received:
                raise_inconsistent(
                    FaultCode.SNAPSHOT_INCOMPLETE,
                    f"the snapshot announced {expected} {name} but contained {received}",
                )
        self._building = self._snapshot = False
        self.last_key = update.key

    def _check_not_in_snapshot(self) -> None:
        if self._snapshot:
            raise_inconsistent(FaultCode.SNAPSHOT_INTERRUPTED, "update in the middle of a snapshot")

    def agreed(self) -> None:
        """End the refill after a snapshot equal to the book."""
        self._building = self._snapshot

    def _settle(self, key: MessageKey, rpt_seq: int | None, *, recovery: bool) -> None:
        self._building = recovery
        self.last_key = key
        if rpt_seq is not None:
            self.last_rpt_seq = rpt_seq


class BaseBook(BookLifecycle):
    """Base of books that are built from order updates."""

    __slots__ = ("check_sizes",)

    def __init__(self, *, check_sizes: bool = True) -> None:
        super().__init__()
        self.check_sizes = check_sizes
        """Whether the size or price before an update, if the feed sends it, must match the book."""

    def apply(self, update: Update) -> BookFault | None:
        """Apply an update; return the fault if it makes the book stale."""
        if self.fault is None and isinstance(update, _OF_ORDERS):
            return self._try(update)  # the most frequent case
        return super().apply(update)

    def _apply_part(self, update: OrderUpdate | SnapshotOrder | SnapshotEnded) -> None:
        if isinstance(update, SnapshotOrder):
            self._check_in_snapshot()
            self._add(update)
            self.last_key = update.key
            return
        if isinstance(update, SnapshotEnded):
            self._end_snapshot(update)
            return
        self._check_not_in_snapshot()
        recovery = False
        match update:
            case OrderAdded():
                self._add(update)
                recovery = update.recovery
            case OrderChanged():
                self._change(update)
                recovery = update.recovery
            case OrderDeleted():
                self._delete(update)
            case SideCleared():
                self._clear(update.side)
            case TopRemoved():
                self._remove_top(update.side, update.position)
        self._settle(update.key, update.rpt_seq, recovery=recovery)

    @abstractmethod
    def _add(self, update: OrderAdded | SnapshotOrder) -> None:
        """Add an order, or raise MisfitError and change nothing, like the methods below."""

    @abstractmethod
    def _change(self, update: OrderChanged) -> None:
        """Change an order."""

    @abstractmethod
    def _delete(self, update: OrderDeleted) -> None:
        """Remove an order."""

    @abstractmethod
    def _clear(self, side: Side) -> None:
        """Remove all orders of a side."""

    @abstractmethod
    def _remove_top(self, side: Side, position: int) -> None:
        """Remove the orders at positions 1 to ``position``."""
