"""Subscriptions to the events of a client, with a bound on unread events."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Sequence
from typing import Protocol

from pregao.entrypoint.events import ConnectionFailed, SessionEvent

ClientEvent = SessionEvent | ConnectionFailed


class EventSource(Protocol):
    """Publisher of events."""

    def drop(self, subscription: ClientSubscription) -> None:
        """Stop delivering events to a subscription."""

    def caught_up(self) -> None:
        """Handle that a subscription is no longer full."""


class ClientSubscription(AsyncIterator[ClientEvent]):
    """An asynchronous iterator over the events of a client, until it is closed."""

    def __init__(self, source: EventSource, max_events: int) -> None:
        self._source = source
        self._max_events = max_events
        self._waiting: deque[ClientEvent] = deque()
        self._news = asyncio.Event()
        self._over = False

    @property
    def full(self) -> bool:
        """Whether the number of unread events has reached the limit."""
        return len(self._waiting) >= self._max_events

    def put(self, events: Sequence[ClientEvent]) -> None:
        """Add events."""
        self._waiting.extend(events)
        if events:
            self._news.set()

    def end(self) -> None:
        """End the iteration after the events already added."""
        self._over = True
        self._news.set()
        self._source.drop(self)

    async def __anext__(self) -> ClientEvent:
        while not self._waiting:
            if self._over:
                raise StopAsyncIteration
            self._news.clear()
            await self._news.wait()
        was_full = self.full
        event = self._waiting.popleft()
        if was_full:
            self._source.caught_up()
        return event
