"""API routes of the live page: the feed, its exchange, and the WebSocket that pushes updates."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from starlette.concurrency import run_in_threadpool
from starlette.routing import BaseRoute, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from pregao.errors import PregaoError, UsageError
from pregao.web import json_routes
from pregao.web.json_encoding import dumped
from pregao.web.json_routes import Answer, Budget, Parameters, parse_table, received_text
from pregao.web.live_market import LiveMarket

if TYPE_CHECKING:
    from pregao.web.exchange_panel import ExchangePanel

_PUSH_S = 0.05
"""Minimum interval between updates of a book; more frequent ones would not be visible."""
_HEALTH_S = 1.0
_UNREADABLE = 1007
_REASON = 120
"""Maximum characters of a WebSocket close reason."""


def live_routes(
    market: LiveMarket, panel: ExchangePanel | None, budget: Budget | None = None
) -> list[BaseRoute]:
    """Return the routes of a page that shows the live feed."""
    # Separate budgets: orders that wait for the exchange must not block reads.
    reading, operating = budget or Budget(), Budget(4, 16)

    def answer(path: str, ask: Answer) -> BaseRoute:
        return json_routes.answer(path, ask, reading)

    def own(given: Parameters) -> tuple[int, int]:
        return given.whole("channel", minimum=0, maximum=255), given.whole("id", minimum=0)

    async def push(socket: WebSocket) -> None:
        """Push the watched instrument when it changes, and feed health once per second."""
        await socket.accept()
        watched: dict[str, tuple[int, int]] = {}
        sending = asyncio.create_task(_push(market, socket, watched))
        try:
            while True:
                request = parse_table(await received_text(socket))
                try:
                    watched["own"] = own(Parameters(request))
                except PregaoError:
                    watched.pop("own", None)
        except UsageError as error:
            sending.cancel()
            await socket.close(_UNREADABLE, str(error)[:_REASON])
        except WebSocketDisconnect:
            pass
        finally:
            sending.cancel()

    about = {"exchange": panel is not None}
    routes: list[BaseRoute] = [
        answer("/api/about", lambda _given: market.about() | about),
        answer("/api/instruments", lambda given: market.search(given.text("q", ""))),
        answer("/api/instrument", lambda given: market.instrument(*own(given))),
        answer("/api/book", lambda given: market.view(*own(given))),
        answer("/api/bars", lambda given: market.bars(*own(given), given.text("interval", "1m"))),
        answer("/api/latency", lambda _given: market.latency()),
        answer("/api/auctions", lambda given: market.auctions(*own(given))),
        answer("/api/health", lambda _given: market.health()),
        answer("/api/news", lambda _given: market.news()),
        WebSocketRoute("/ws/live", push),
    ]
    if panel is not None:
        routes += [
            json_routes.answer("/api/exchange", lambda _given: panel.status(), operating),
            json_routes.change("/api/exchange/do", panel.do, operating),
            json_routes.change("/api/exchange/order", panel.order, operating),
        ]
    return routes


async def _push(market: LiveMarket, socket: WebSocket, watched: dict[str, tuple[int, int]]) -> None:
    before: Any = None
    health_due = 0.0
    loop = asyncio.get_running_loop()
    while True:
        started = loop.time()
        update: dict[str, Any] = {}
        try:
            instrument = watched.get("own")  # may change before the answer arrives
            if instrument is not None:
                view = await run_in_threadpool(market.view, *instrument)
                key = None if view is None else (instrument, *_key(view))
                if view is not None and key != before:
                    update["book"] = view
                    update["id"] = str(instrument[1])
                before = key
            if started >= health_due:
                update["health"] = await run_in_threadpool(market.health)
                health_due = started + _HEALTH_S
        except (PregaoError, TimeoutError) as error:
            update["error"] = str(error) or "The feed handler does not respond."
            health_due = started + _HEALTH_S
        if update:
            await socket.send_text(dumped(update))
        await asyncio.sleep(max(0.0, started + _PUSH_S - loop.time()))


def _key(view: dict[str, Any]) -> tuple[Any, ...]:
    """Return what identifies a change of a view; excludes the time, which always advances."""
    trades = view["trades"]
    return (
        view["state"], view["status"], view["last"], view["volume"], view["sides"],
        len(trades), trades[-1] if trades else None,
        sum(trade[4] is not None for trade in trades),
    )  # fmt: skip
