"""Subscriptions: events of some instruments, kept for a consumer that takes them when it can.

A consumer that is too slow never stalls the feed: what it did not take is dropped, it is told how
much that was, and gets the books as they are when it is back.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from pregao.errors import UsageError
from pregao.feed.channel_events import (
    BookChanged,
    Confirmed,
    Event,
    Healed,
    InstrumentChanged,
    Stale,
    Unconfirmed,
)
from pregao.feed.followed_channel import FollowedChannel
from pregao.live.books import FreshBook, Item, LiveEvent, Missed, copy_of
from pregao.live.handler import FeedHandler
from pregao.names import folded

MOST_WAITING = 10_000
DEPTH = 5
_ABOUT_BOOKS = (BookChanged, Confirmed, Healed, Stale, Unconfirmed)


class Subscription:
    """What happens to some instruments (or all), until it is taken.

    The handler's thread offers, a consumer's thread takes.
    """

    def __init__(
        self,
        symbols: Iterable[str] | None = None,
        *,
        kinds: tuple[type[Event], ...] | None = None,
        depth: int = DEPTH,
        most_waiting: int = MOST_WAITING,
        notify: Callable[[], None] | None = None,
    ) -> None:
        """``kinds`` chooses events; ``notify`` is called when there is something to take."""
        if most_waiting < 1 or depth < 0:
            raise UsageError("A subscription keeps at least one event, and no negative depth.")
        self.symbols = None if symbols is None else frozenset(map(folded, symbols))
        self.missed = 0
        """Events that were dropped, in all."""
        self._kinds = kinds
        self._depth = depth
        self._most = most_waiting
        self._notify = notify
        self._lock = threading.Lock()
        self._waiting: list[Item] = []
        self._behind = 0
        """Events dropped that the consumer was not told of yet; nothing waits meanwhile."""
        self._fresh = 0
        """How many of those that wait are fresh books, for which there is always room."""

    def wants(self, symbol: str | None, security_id: int) -> bool:
        """Is the consumer to hear of an instrument? It may be named by its number too."""
        wanted = self.symbols
        if wanted is None or symbol in wanted or str(security_id) in wanted:
            return True
        return symbol is not None and folded(symbol) in wanted

    # In the handler's thread

    def told(self, channel: FollowedChannel, events: list[Event]) -> None:
        """Keep what the consumer wants to hear of."""
        number = channel.settings.number
        found: list[Item] = []
        for event in events:
            security_id: int | None = getattr(event, "security_id", None)
            symbol = None
            if security_id is not None:
                symbol = _symbol(channel, security_id, event)
                if not self.wants(symbol, security_id):
                    continue
            if self._kinds is not None and not isinstance(event, self._kinds):
                continue
            book = None
            if security_id is not None and isinstance(event, _ABOUT_BOOKS):
                book = copy_of(channel, security_id, self._depth)
            found.append(LiveEvent(number, symbol, event, book))
        if found:
            self._keep(found)

    def _keep(self, found: list[Item]) -> None:
        with self._lock:
            room = self._most + self._fresh - len(self._waiting)
            if not self._behind and len(found) <= room:
                self._waiting += found
            else:
                for each in (*self._waiting, *found):
                    self._behind += each.count if isinstance(each, Missed) else 0
                    self._behind += isinstance(each, LiveEvent)
                    self.missed += isinstance(each, LiveEvent)
                self._waiting.clear()
                self._fresh = 0
        if self._notify is not None:
            self._notify()

    def begin(self, handler: FeedHandler) -> None:
        """Begin with the books as they are; a question to the handler."""
        self.refresh(handler)
        handler.listen(self)

    def refresh(self, handler: FeedHandler) -> None:
        """Say what was missed, and give the books as they are; a question to the handler."""
        fresh: list[Item] = []
        for number, followed in handler.channels.items():
            for instrument in followed.channel.instruments.values():
                if self.wants(instrument.symbol, instrument.security_id):
                    book = copy_of(followed.channel, instrument.security_id, self._depth)
                    fresh.append(FreshBook(number, instrument.symbol, instrument.security_id, book))
        with self._lock:
            told: list[Item] = [Missed(self._behind)] if self._behind else []
            self._behind = 0
            self._waiting = told + fresh
            self._fresh = len(self._waiting)
        if self._notify is not None:
            self._notify()

    # In the consumer's thread

    @property
    def behind(self) -> bool:
        """Was something dropped? Then nothing waits, and the handler is to be asked to refresh."""
        return self._behind > 0

    def take(self) -> list[Item]:
        """What happened since it was taken last."""
        with self._lock:
            found, self._waiting = self._waiting, []
            self._fresh = 0
        return found


def _symbol(channel: FollowedChannel, security_id: int, event: Event) -> str | None:
    if isinstance(event, InstrumentChanged):
        return event.symbol
    instrument = channel.instruments.get(security_id)
    return None if instrument is None else instrument.symbol
