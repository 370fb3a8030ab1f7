"""Ticks: the best levels of a book after each event that changed them."""

from __future__ import annotations

from dataclasses import dataclass

from pregao.book.base import BaseBook
from pregao.book.faults import BookFault, State
from pregao.book.updates import MessageKey, Side, Update
from pregao.book.views import BookLevel


@dataclass(frozen=True, slots=True)
class Tick:
    """The best levels after an event."""

    event: int
    key: MessageKey
    """The event's last message about this book."""
    state: State
    bids: tuple[BookLevel, ...]
    asks: tuple[BookLevel, ...]


class TickBuilder:
    """Follows one book through its updates and returns a tick when an event changed the top.

    An event ends when an update of another event arrives, or when the caller ends it; a change
    that is undone within an event makes no tick. A book that becomes stale or unconfirmed, or
    valid again, makes a tick too: readers must not mistake the last levels of an untrusted book
    for the market.
    """

    __slots__ = ("_event", "_key", "_last", "book", "depth")

    def __init__(self, book: BaseBook, depth: int) -> None:
        self.book = book
        self.depth = depth
        self._event: int | None = None
        self._key: MessageKey | None = None
        self._last: tuple[State | None, tuple[BookLevel, ...], tuple[BookLevel, ...]] = (
            None,
            (),
            (),
        )

    def apply(self, event: int, update: Update) -> tuple[Tick | None, BookFault | None]:
        """Apply an update; return the tick of the previous event, if due, and the fault."""
        tick = None if event == self._event else self.end_event()
        self._event = event
        self._key = update.key
        return tick, self.book.apply(update)

    def end_event(self) -> Tick | None:
        """End the current event; return its tick, if it changed the levels or their state."""
        event, key = self._event, self._key
        self._event = None
        if event is None or key is None:
            return None
        state = self.book.state
        bids = tuple(self.book.levels(Side.BID, self.depth))
        asks = tuple(self.book.levels(Side.ASK, self.depth))
        doubtful = state if state in (State.STALE, State.UNCONFIRMED) else None
        now = (doubtful, bids, asks)
        if now == self._last:
            return None
        self._last = now
        return Tick(event, key, state, bids, asks)
