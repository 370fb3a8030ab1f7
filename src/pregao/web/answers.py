"""Requests of the page as calls: parameters are checked, answers are JSON, errors sentences."""

from __future__ import annotations

import logging
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from starlette.requests import HTTPConnection, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.websockets import WebSocket, WebSocketDisconnect

from pregao.documents import DocumentError, parse_json
from pregao.errors import PregaoError, UsageError
from pregao.web.budget import RETRY_S, Budget, BusyError
from pregao.web.wire import dumped

Answer = Callable[["Parameters"], Any]
_JSON = "application/json"
_MOST = (1 << 63) - 1
MAX_BODY_BYTES = 64 * 1024
_log = logging.getLogger(__name__)


class Parameters:
    """What was asked for, as texts and whole numbers; what is missing or wrong is a sentence."""

    def __init__(self, given: dict[str, Any]) -> None:
        self._given = given

    @staticmethod
    def of(request: HTTPConnection) -> Parameters:
        """Those in the address of a request."""
        return Parameters(dict(request.query_params))

    def text(self, name: str, default: str | None = None) -> str:
        """A text."""
        value = self._given.get(name, default)
        if not isinstance(value, str):
            raise UsageError(f"{name} is missing.")
        return value

    def whole(
        self, name: str, default: int | None = None, *, least: int = -_MOST, most: int = _MOST
    ) -> int:
        """A whole number between two."""
        value = self._given.get(name, default)
        if isinstance(value, str):
            try:
                value = int(value)
            except ValueError:
                raise UsageError(f"{name} takes a whole number.") from None
        if not isinstance(value, int) or isinstance(value, bool):
            raise UsageError(f"{name} is missing.")
        if not least <= value <= most:
            raise UsageError(f"{name} takes {least} to {most}.")
        return value


def answer(path: str, ask: Answer, budget: Budget) -> Route:
    """Return the route of a path that is answered with JSON; the work is done in threads."""

    async def respond(request: Request) -> Response:
        return await told(ask, Parameters.of(request), budget)

    return Route(path, respond, methods=["GET"])


def change(path: str, ask: Answer, budget: Budget) -> Route:
    """Return the route of a path that changes something; its parameters come as JSON."""

    async def respond(request: Request) -> Response:
        if request.headers.get("content-type", "").split(";")[0].strip() != _JSON:
            return problem("This takes JSON.", HTTPStatus.UNSUPPORTED_MEDIA_TYPE)
        body = await _body(request)
        if body is None:
            words = f"A request has at most {MAX_BODY_BYTES:,} bytes."
            return problem(words, HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        try:
            given = parse_table(body)
        except UsageError as error:
            return problem(str(error), HTTPStatus.BAD_REQUEST)
        return await told(ask, Parameters(given), budget)

    return Route(path, respond, methods=["POST"])


def parse_table(text: str | bytes | None) -> dict[str, Any]:
    """Return the table in a JSON text from a browser.

    Raises:
        UsageError: It is no JSON, too deep, or no table.
    """
    try:
        given = None if text is None else parse_json(text)
    except DocumentError as error:
        raise UsageError(f"This takes a table of JSON: {error}.") from None
    if not isinstance(given, dict):
        raise UsageError("This takes a table of JSON.")
    return given


async def received_text(socket: WebSocket) -> str | None:
    """Return the next message of a WebSocket; None if it is not a text.

    Raises:
        WebSocketDisconnect: It was closed.
    """
    message = await socket.receive()
    if message["type"] != "websocket.receive":
        raise WebSocketDisconnect(message.get("code") or 1005)
    text: str | None = message.get("text")
    return text


async def _body(request: Request) -> bytes | None:
    """Return what was sent; None if it is too much."""
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > MAX_BODY_BYTES:
            return None
    return body


async def told(ask: Answer, parameters: Parameters, budget: Budget) -> Response:
    """Return the answer to a request; an error is a sentence, never a stack trace."""
    try:
        data = await budget.run(lambda: dumped(ask(parameters)))
    except BusyError as error:
        busy = problem(str(error), HTTPStatus.SERVICE_UNAVAILABLE)
        busy.headers["retry-after"] = str(RETRY_S)
        return busy
    except PregaoError as error:
        return problem(str(error), HTTPStatus.BAD_REQUEST)
    except Exception as error:
        return failure(error)
    return Response(data, media_type=_JSON)


def failure(error: Exception) -> Response:
    """Log an error of ours, and return what the browser may know of it."""
    return problem(logged(error), HTTPStatus.INTERNAL_SERVER_ERROR)


def logged(error: Exception) -> str:
    """Log an error of ours with its stack trace, and return a sentence without it."""
    _log.error("A request of the page failed.", exc_info=error)
    return f"Something went wrong inside ({type(error).__name__}); the terminal says more."


def problem(sentence: str, status: HTTPStatus) -> Response:
    """Something that went wrong."""
    return Response(dumped({"error": sentence}), status.value, media_type=_JSON)
