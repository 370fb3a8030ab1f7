"""API routes of the lake page, and the WebSocket of its replay."""

from __future__ import annotations

from typing import Any

from starlette.routing import BaseRoute, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from pregao.clock import MILLISECOND, SECOND
from pregao.errors import PregaoError, UsageError
from pregao.units import parse_day
from pregao.web import json_routes
from pregao.web.json_encoding import dumped
from pregao.web.json_routes import Answer, Budget, Parameters, parse_table, received_text
from pregao.web.lake_instrument import TAPE, LakeInstrument
from pregao.web.lake_market import LakeMarket

KINDS = ("trade", "gap", "phase")
_DAYS_NS = 4 * 86_400 * SECOND
_MAX_COLUMNS = 1_000
_MAX_FRAMES = 240
_MAX_REQUEST = 4_096


def lake_routes(market: LakeMarket, budget: Budget) -> list[BaseRoute]:
    """Return the routes of a page that shows a lake."""

    def answer(path: str, ask: Answer) -> BaseRoute:
        return json_routes.answer(path, ask, budget)

    def own(given: Parameters) -> LakeInstrument:
        day = parse_day(given.text("day"), "day")
        channel = given.whole("channel", minimum=0, maximum=255)
        return market.instrument(day, channel, given.whole("id", minimum=0))

    def at(given: Parameters, name: str = "at") -> int:
        return given.whole(name, minimum=-_DAYS_NS, maximum=_DAYS_NS)

    def span(given: Parameters) -> tuple[int, int]:
        begin, end = at(given, "from"), at(given, "to")
        if begin >= end:
            raise UsageError(f"from ({begin}) must be before to ({end}).")
        return begin, end

    def jump(given: Parameters) -> dict[str, Any]:
        kind = given.text("kind")
        if kind not in KINDS:
            raise UsageError(f"kind must be one of {', '.join(KINDS)}; was {kind[:60]!r}.")
        forward = given.text("direction", "next") == "next"
        return {"at": own(given).jump(kind, at(given), forward)}

    def heatmap(given: Parameters) -> dict[str, Any]:
        columns = given.whole("columns", 240, minimum=1, maximum=_MAX_COLUMNS)
        return own(given).heatmap(*span(given), columns)

    def bars(given: Parameters) -> list[Any]:
        limits = (at(given, name) if given.has(name) else None for name in ("at", "since"))
        return own(given).bars(given.text("interval", "1m"), *limits)

    async def replay(socket: WebSocket) -> None:
        """Send books and trades of consecutive time ranges, each on request.

        The page requests ranges ahead of the one it shows, and so controls the lookahead.
        """
        await socket.accept()
        try:
            while True:
                text = await received_text(socket)
                await socket.send_text(await stretch(text))
        except WebSocketDisconnect:
            return

    async def stretch(text: str | None) -> str:
        wanted: dict[str, Any] = {}
        try:
            wanted = _request(text)
            return await budget.run(_stretch, wanted)
        except PregaoError as error:
            message = str(error)
        except Exception as error:
            message = json_routes.logged(error)
        return dumped({"request": wanted.get("request"), "error": message})

    def _stretch(wanted: dict[str, Any]) -> str:
        given = Parameters(wanted)
        begin, end = span(given)
        step = given.whole("step", minimum=MILLISECOND // 10, maximum=3600 * SECOND)
        if (end - begin) // step > _MAX_FRAMES:
            raise UsageError(
                f"At most {_MAX_FRAMES} books per request, was {(end - begin) // step}: use a "
                "larger step or a shorter range."
            )
        instrument = own(given)
        return dumped(
            {
                "request": wanted.get("request"),
                "from": begin,
                "to": end,
                "frames": instrument.frames(begin, end, step),
                "trades": instrument.trades_between(begin, end),
            }
        )

    return [
        answer("/api/about", lambda _given: market.about()),
        answer(
            "/api/instruments",
            lambda given: market.search(parse_day(given.text("day"), "day"), given.text("q", "")),
        ),
        answer("/api/instrument", lambda given: own(given).about),
        answer("/api/book", lambda given: own(given).book(at(given))),
        answer(
            "/api/trades",
            lambda given: own(given).tape(
                at(given), given.whole("limit", 60, minimum=1, maximum=TAPE)
            ),
        ),
        answer("/api/jump", jump),
        answer("/api/heatmap", heatmap),
        answer("/api/bars", bars),
        answer("/api/auctions", lambda given: own(given).auctions),
        answer("/api/health", lambda given: market.health(parse_day(given.text("day"), "day"))),
        answer("/api/news", lambda given: market.news(parse_day(given.text("day"), "day"))),
        answer(
            "/api/latency",
            lambda given: market.latency(
                parse_day(given.text("day"), "day"), given.whole("channel", minimum=0, maximum=255)
            ),
        ),
        WebSocketRoute("/ws/replay", replay),
    ]


def _request(text: str | None) -> dict[str, Any]:
    if text is not None and len(text) > _MAX_REQUEST:
        raise UsageError(f"A request has at most {_MAX_REQUEST:,} characters, was {len(text):,}.")
    return parse_table(text)
