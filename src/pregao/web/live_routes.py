"""What the page may ask of the live feed and of the exchange behind it, and what it is pushed."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from starlette.concurrency import run_in_threadpool
from starlette.routing import BaseRoute, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from pregao.errors import PregaoError, UsageError
from pregao.web import answers
from pregao.web.answers import Answer, Parameters, parse_table, received_text
from pregao.web.budget import Budget
from pregao.web.live_market import LiveMarket
from pregao.web.wire import dumped

if TYPE_CHECKING:
    from pregao.web.exchange_panel import ExchangePanel

_PUSH_S = 0.05
"""A book that changed is sent so soon; more often than that nobody sees."""
_HEALTH_S = 1.0
_UNREADABLE = 1007
_REASON = 120
"""Characters of the reason with which a WebSocket is closed."""


def live_routes(
    market: LiveMarket, panel: ExchangePanel | None, budget: Budget | None = None
) -> list[BaseRoute]:
    """Return the paths of a page that shows the live feed."""
    # An order may wait for the exchange: it does not keep others from looking.
    looking, operating = budget or Budget(), Budget(4, 16)

    def answer(path: str, ask: Answer) -> BaseRoute:
        return answers.answer(path, ask, looking)

    def own(given: Parameters) -> tuple[int, int]:
        return given.whole("channel", least=0, most=255), given.whole("id", least=0)

    async def push(socket: WebSocket) -> None:
        """Send an instrument when it changed, and once a second how the feed is."""
        await socket.accept()
        watched: dict[str, tuple[int, int]] = {}
        sending = asyncio.create_task(_push(market, socket, watched))
        try:
            while True:
                wanted = parse_table(await received_text(socket))
                try:
                    watched["own"] = own(Parameters(wanted))
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
            answers.answer("/api/exchange", lambda _given: panel.status(), operating),
            answers.change("/api/exchange/do", panel.do, operating),
            answers.change("/api/exchange/order", panel.order, operating),
        ]
    return routes


async def _push(market: LiveMarket, socket: WebSocket, watched: dict[str, tuple[int, int]]) -> None:
    before: Any = None
    health_due = 0.0
    loop = asyncio.get_running_loop()
    while True:
        began = loop.time()
        told: dict[str, Any] = {}
        try:
            own = watched.get("own")  # another may be wanted before the answer is there
            if own is not None:
                view = await run_in_threadpool(market.view, *own)
                key = None if view is None else (own, *_key(view))
                if view is not None and key != before:
                    told["book"] = view
                    told["id"] = str(own[1])
                before = key
            if began >= health_due:
                told["health"] = await run_in_threadpool(market.health)
                health_due = began + _HEALTH_S
        except (PregaoError, TimeoutError) as error:
            told["error"] = str(error) or "The feed handler does not answer."
            health_due = began + _HEALTH_S
        if told:
            await socket.send_text(dumped(told))
        await asyncio.sleep(max(0.0, began + _PUSH_S - loop.time()))


def _key(view: dict[str, Any]) -> tuple[Any, ...]:
    """What tells a view from the one before: not the time, which always goes on."""
    trades = view["trades"]
    return (
        view["state"], view["status"], view["last"], view["volume"], view["sides"],
        len(trades), trades[-1] if trades else None,
        sum(trade[4] is not None for trade in trades),
    )  # fmt: skip
