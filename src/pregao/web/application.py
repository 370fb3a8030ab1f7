"""ASGI applications of the page: static files and API routes; `PageServer` guards them."""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from pregao.web.answers import problem
from pregao.web.budget import Budget
from pregao.web.guards import Application
from pregao.web.lake_routes import lake_routes

if TYPE_CHECKING:
    from pregao.web.exchange_panel import ExchangePanel
    from pregao.web.lake_market import LakeMarket
    from pregao.web.live_market import LiveMarket

STATIC = Path(__file__).parent / "static"


def lake_application(market: LakeMarket, budget: Budget | None = None) -> Application:
    """Return the page of a lake; ``budget`` limits concurrent reads of it."""
    return _application(lake_routes(market, budget or Budget()))


def live_application(
    market: LiveMarket, panel: ExchangePanel | None = None, budget: Budget | None = None
) -> Application:
    """Return the page of the live feed, with a panel of its exchange if given."""
    from pregao.web.live_routes import live_routes

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
