"""HTTP server of a page on localhost: uvicorn in a separate thread, static files and API routes.

`PageServer` guards the ASGI applications.
"""

from __future__ import annotations

import math
import socket
import threading
from collections.abc import Sequence
from http import HTTPStatus
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from pregao.errors import NetworkError
from pregao.net.http import HOST
from pregao.web.connections import Limits, bounded_http, bounded_websocket
from pregao.web.json_routes import Budget, problem
from pregao.web.lake_routes import lake_routes
from pregao.web.origin_guard import TOKEN, Application, OriginGuard, new_token

if TYPE_CHECKING:
    from pregao.web.exchange_panel import ExchangePanel
    from pregao.web.lake_market import LakeMarket
    from pregao.web.live_market import LiveMarket
import asyncio
from typing import TYPE_CHECKING, Any

from starlette.concurrency import run_in_threadpool
from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from pregao.errors import PregaoError, UsageError
from pregao.web import json_routes
from pregao.web.json_encoding import dumped
from pregao.web.json_routes import Answer, Parameters, parse_table, received_text
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


_START_TIMEOUT_S = 20.0
_POLL_S = 0.2

STATIC = Path(__file__).parent / "static"


class PageServer:
    """Server of an application on loopback, which runs until it is closed."""

    def __init__(
        self,
        application: Application,
        port: int,
        *,
        token: str | None = None,
        limits: Limits | None = None,
    ) -> None:
        """Start serving.

        Args:
            application: Application to serve.
            port: TCP port; 0 selects a free one, see the attribute ``port``.
            token: Token that requests must present; random if None.
            limits: Limits of connections.
        """
        limits = limits or Limits()
        self.token = token or new_token()
        self._socket = _listen(port)
        self.port: int = self._socket.getsockname()[1]
        config = uvicorn.Config(
            OriginGuard(application, self.token, f"pregao-{self.port}"),
            log_level="error",
            use_colors=False,  # commands escape control characters, including those of colors
            access_log=False,
            server_header=False,
            http=bounded_http(limits),
            h11_max_incomplete_event_size=limits.max_head_bytes,
            timeout_keep_alive=math.ceil(limits.idle_s),
            ws=bounded_websocket(limits),
            ws_max_size=limits.max_message_bytes,
            ws_per_message_deflate=False,  # loopback only: no need to compress
            timeout_graceful_shutdown=1,
            lifespan="on",
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._run, name="pregao-page", daemon=True)
        self._thread.start()
        pause = threading.Event()
        for _ in range(int(_START_TIMEOUT_S / 0.01)):
            if self._server.started or not self._thread.is_alive():
                break
            pause.wait(0.01)
        if not self._server.started:
            self.close()
            raise NetworkError(f"The page server did not start on {HOST}:{self.port}.")

    @property
    def address(self) -> str:
        """URL of the page without its token."""
        return f"http://{HOST}:{self.port}/"

    @property
    def url(self) -> str:
        """URL that opens the page, including the token."""
        return f"{self.address}?{TOKEN}={self.token}"

    def _run(self) -> None:
        self._server.run(sockets=[self._socket])

    def wait(self) -> None:
        """Block until the server is closed or interrupted."""
        while self._thread.is_alive():
            self._thread.join(_POLL_S)

    def close(self) -> None:
        """Stop serving."""
        self._server.should_exit = True
        self._thread.join()
        self._socket.close()

    def __enter__(self) -> PageServer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _listen(port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((HOST, port))
    except OSError as error:
        listener.close()
        reason = error.strerror or str(error)
        raise NetworkError(
            f"Cannot listen on {HOST}:{port}: {reason}. Choose another port with --port."
        ) from error
    return listener


def lake_application(market: LakeMarket, budget: Budget | None = None) -> Application:
    """Return the page of a lake; ``budget`` limits concurrent reads of it."""
    return _application(lake_routes(market, budget or Budget()))


def live_application(
    market: LiveMarket, panel: ExchangePanel | None = None, budget: Budget | None = None
) -> Application:
    """Return the page of the live feed, with a panel of its exchange if given."""
    from pregao.web.server import live_routes

    return _application(live_routes(market, panel, budget))


def _application(routes: Sequence[BaseRoute]) -> Application:
    async def index(_request: Request) -> Response:
        return FileResponse(STATIC / "index.html", media_type="text/html; charset=utf-8")

    async def failed(_request: Request, error: Exception) -> Response:
        message = f"Internal error ({type(error).__name__}); see the terminal of `pregao ui`."
        return problem(message, HTTPStatus.INTERNAL_SERVER_ERROR)  # the server logs it

    return Starlette(
        routes=[
            Route("/", index),
            *routes,
            Mount("/static", StaticFiles(directory=STATIC)),
        ],
        exception_handlers={Exception: failed},
    )
