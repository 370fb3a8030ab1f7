"""Follow the feed from a program: ``async for`` over the events of selected instruments.

::

    async for item in Live("live.toml", symbols=["PETR4"]):
        match item:
            case LiveEvent(event=BookChanged(), book=book): ...

The feed is followed in a separate thread. A program that is too slow receives `ItemsMissed` and
fresh books; it never delays the feed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from types import TracebackType

from pregao.errors import PregaoError
from pregao.events import ChannelEvent
from pregao.live.config import LiveConfig, read_config
from pregao.live.handler import FeedHandler
from pregao.live.health import FeedReport, report
from pregao.live.items import LiveItem
from pregao.live.recorder import Recorder
from pregao.live.subscriptions import DEPTH, MAX_PENDING, Subscription


class Live:
    """The feed of a configuration, followed while it is iterated or entered.

    Events that change a book carry a copy of its best levels. Each loop over it is a separate
    subscription.
    """

    def __init__(
        self,
        config: str | Path | LiveConfig,
        *,
        symbols: Iterable[str] | None = None,
        kinds: tuple[type[ChannelEvent], ...] | None = None,
        depth: int = DEPTH,
        max_pending: int = MAX_PENDING,
        recorder: Recorder | None = None,
        spin: bool | None = None,
    ) -> None:
        """Accept a path or a parsed configuration; without ``symbols``, follow all instruments."""
        self._config = config if isinstance(config, LiveConfig) else read_config(config)
        self._symbols = None if symbols is None else frozenset(symbols)
        self._kinds = kinds
        self._depth = depth
        self._max_pending = max_pending
        self._recorder = recorder
        self._spin = spin
        self._handler: FeedHandler | None = None
        self._users = 0

    async def __aenter__(self) -> Live:
        self._begin()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._end()

    def _begin(self) -> FeedHandler:
        self._users += 1
        if self._handler is None:
            self._handler = FeedHandler(self._config, recorder=self._recorder, spin=self._spin)
            self._handler.start()
        return self._handler

    async def _end(self) -> None:
        self._users -= 1
        if self._users == 0 and self._handler is not None:
            handler, self._handler = self._handler, None
            await asyncio.to_thread(handler.stop)

    async def report(self) -> FeedReport:
        """Return a health report; raises `PregaoError` if the feed is not running."""
        if self._handler is None:
            raise PregaoError("The feed is not running: enter it with `async with` first.")
        return await asyncio.to_thread(self._handler.call, report)

    def __aiter__(self) -> AsyncIterator[LiveItem]:
        return self._items()

    async def _items(self) -> AsyncIterator[LiveItem]:
        loop = asyncio.get_running_loop()
        pending = asyncio.Event()

        def notify() -> None:
            if not pending.is_set():
                loop.call_soon_threadsafe(pending.set)

        subscription = Subscription(
            self._symbols,
            kinds=self._kinds,
            depth=self._depth,
            max_pending=self._max_pending,
            notify=notify,
        )
        handler = self._begin()
        try:
            await asyncio.to_thread(handler.call, subscription.begin)
            while True:
                for item in subscription.take():
                    yield item
                if subscription.overflowed:
                    await asyncio.to_thread(handler.call, subscription.refresh)
                    continue
                if handler.failure is not None:
                    raise handler.failure
                await _until(pending)
        finally:
            handler.remove_listener(subscription)
            await self._end()


async def _until(there: asyncio.Event) -> None:
    """Wait for items, at most one second, so that the caller notices a failed feed."""
    try:
        await asyncio.wait_for(there.wait(), 1.0)
    except TimeoutError:
        return
    there.clear()
