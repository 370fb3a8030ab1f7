"""Subscriptions: queues of events of some instruments, for consumers in other threads.

A consumer that is too slow never stalls the feed: its queue is dropped, and it then receives the
number of missed events and the current books.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from pregao.errors import UsageError
from pregao.events import (
    BookChanged,
    BookConfirmed,
    BookHealed,
    BookStale,
    BookUnconfirmed,
    ChannelEvent,
    InstrumentChanged,
)
from pregao.feed.channel.channel_base import FeedChannel
from pregao.live.handler import FeedHandler
from pregao.live.items import BookRefresh, ItemsMissed, LiveEvent, LiveItem, copy_of
from pregao.name_matching import folded

MAX_PENDING = 10_000
DEPTH = 5
_ABOUT_BOOKS = (BookChanged, BookConfirmed, BookHealed, BookStale, BookUnconfirmed)


class Subscription:
    """Queue of events of some instruments (or all).

    The handler's thread adds items, a consumer's thread takes them.
    """

    def __init__(
        self,
        symbols: Iterable[str] | None = None,
        *,
        kinds: tuple[type[ChannelEvent], ...] | None = None,
        depth: int = DEPTH,
        max_pending: int = MAX_PENDING,
        notify: Callable[[], None] | None = None,
    ) -> None:
        """Select events by ``kinds``; ``notify`` is called when there is something to take."""
        if max_pending < 1 or depth < 0:
            raise UsageError(
                "A subscription needs a queue of at least 1 event and a depth of at least 0, "
                f"was {max_pending} and {depth}."
            )
        self.symbols = None if symbols is None else frozenset(map(folded, symbols))
        self.missed = 0
        """Total number of dropped events."""
        self._kinds = kinds
        self._depth = depth
        self._max_pending = max_pending
        self._notify = notify
        self._lock = threading.Lock()
        self._waiting: list[LiveItem] = []
        self._overflowed = 0
        """Dropped events not yet reported to the consumer; until then the queue stays empty."""
        self._fresh = 0
        """Number of queued fresh books, which do not count against the capacity."""

    def matches(self, symbol: str | None, security_id: int) -> bool:
        """Whether the consumer subscribed to an instrument, by its symbol or its security ID."""
        wanted = self.symbols
        if wanted is None or symbol in wanted or str(security_id) in wanted:
            return True
        return symbol is not None and folded(symbol) in wanted

    # In the handler's thread

    def on_events(self, channel: FeedChannel, events: list[ChannelEvent]) -> None:
        """Queue the events that the consumer subscribed to."""
        number = channel.settings.number
        items: list[LiveItem] = []
        for event in events:
            security_id: int | None = getattr(event, "security_id", None)
            symbol = None
            if security_id is not None:
                symbol = _symbol(channel, security_id, event)
                if not self.matches(symbol, security_id):
                    continue
            if self._kinds is not None and not isinstance(event, self._kinds):
                continue
            book = None
            if security_id is not None and isinstance(event, _ABOUT_BOOKS):
                book = copy_of(channel, security_id, self._depth)
            items.append(LiveEvent(number, symbol, event, book))
        if items:
            self._keep(items)

    def _keep(self, found: list[LiveItem]) -> None:
        with self._lock:
            capacity = self._max_pending + self._fresh - len(self._waiting)
            if not self._overflowed and len(found) <= capacity:
                self._waiting += found
            else:
                for each in (*self._waiting, *found):
                    self._overflowed += each.count if isinstance(each, ItemsMissed) else 0
                    self._overflowed += isinstance(each, LiveEvent)
                    self.missed += isinstance(each, LiveEvent)
                self._waiting.clear()
                self._fresh = 0
        if self._notify is not None:
            self._notify()

    def begin(self, handler: FeedHandler) -> None:
        """Queue the current books and start listening.

        Called through `FeedHandler.call`.
        """
        self.refresh(handler)
        handler.add_listener(self)

    def refresh(self, handler: FeedHandler) -> None:
        """Queue the number of missed events and the current books.

        Called through `FeedHandler.call`.
        """
        fresh: list[LiveItem] = []
        for number, followed in handler.channels.items():
            for instrument in followed.channel.instruments.values():
                if self.matches(instrument.symbol, instrument.security_id):
                    book = copy_of(followed.channel, instrument.security_id, self._depth)
                    fresh.append(
                        BookRefresh(number, instrument.symbol, instrument.security_id, book)
                    )
        with self._lock:
            missed: list[LiveItem] = [ItemsMissed(self._overflowed)] if self._overflowed else []
            self._overflowed = 0
            self._waiting = missed + fresh
            self._fresh = len(self._waiting)
        if self._notify is not None:
            self._notify()

    # In the consumer's thread

    @property
    def overflowed(self) -> bool:
        """Whether events were dropped: the queue is empty until the handler calls `refresh`."""
        return self._overflowed > 0

    def take(self) -> list[LiveItem]:
        """Return the items queued since the last call, and clear the queue."""
        with self._lock:
            items, self._waiting = self._waiting, []
            self._fresh = 0
        return items


def _symbol(channel: FeedChannel, security_id: int, event: ChannelEvent) -> str | None:
    if isinstance(event, InstrumentChanged):
        return event.symbol
    instrument = channel.instruments.get(security_id)
    return None if instrument is None else instrument.symbol
