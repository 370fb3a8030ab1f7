"""The events of a client for whoever iterates over them, and how far he may fall behind."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Sequence
from typing import Protocol

from pregao.entrypoint.events import ConnectionFailed, Event

ClientEvent = Event | ConnectionFailed


class EventSource(Protocol):
    """Where events come from."""

    def drop(self, subscription: Subscription) -> None:
        """Tell a subscription no more."""

    def caught_up(self) -> None:
        """Know that a subscription that was full is not any more."""


class Subscription(AsyncIterator[ClientEvent]):
    """The events of a client, one after the other, until it is closed."""

    def __init__(self, source: EventSource, most: int) -> None:
        self._source = source
        self._most = most
        self._waiting: deque[ClientEvent] = deque()
        self._news = asyncio.Event()
        self._over = False

    @property
    def full(self) -> bool:
        """Is the consumer too far behind?"""
        return len(self._waiting) >= self._most

    def put(self, events: Sequence[ClientEvent]) -> None:
        """Add events."""
        self._waiting.extend(events)
        if events:
            self._news.set()

    def end(self) -> None:
        """No more will come."""
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
