"""HTTP requests of the page: checked parameters, JSON responses, errors as messages.

Concurrent work is limited: further requests wait, and too many are rejected.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, TypeVar

from starlette.concurrency import run_in_threadpool
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.websockets import WebSocket, WebSocketDisconnect

from pregao.errors import PregaoError, UsageError
from pregao.safe_io.documents import DocumentError, parse_json
from pregao.web.json_encoding import dumped

T = TypeVar("T")
RETRY_S = 1
"""Seconds after which to retry a rejected request."""
_JSON = "application/json"
_MAX_ROWS = (1 << 63) - 1
MAX_BODY_BYTES = 64 * 1024
_log = logging.getLogger(__name__)


class BusyError(PregaoError):
    """Too many requests are waiting."""


class Budget:
    """Runs blocking work in at most ``at_once`` threads, with at most ``max_waiting`` queued."""

    def __init__(self, at_once: int = 4, max_waiting: int = 32) -> None:
        self._free = asyncio.Semaphore(at_once)
        self._open = 0
        self._max_open = at_once + max_waiting

    async def run(self, work: Callable[..., T], *arguments: Any) -> T:
        """Run `work` in a thread once one is free, and return its result.

        Raises:
            BusyError: Too many calls are waiting; `work` was not run.
        """
        if self._open >= self._max_open:
            raise BusyError("Too many requests are waiting; try again in a second.")
        self._open += 1
        try:
            async with self._free:
                return await run_in_threadpool(work, *arguments)
        finally:
            self._open -= 1


Answer = Callable[["Parameters"], Any]


class Parameters:
    """Parameters of a request; a missing or invalid one raises `UsageError`."""

    def __init__(self, given: dict[str, Any]) -> None:
        self._given = given

    @staticmethod
    def from_request(request: HTTPConnection) -> Parameters:
        """Return the parameters in the query string of a request."""
        return Parameters(dict(request.query_params))

    def has(self, name: str) -> bool:
        """Whether the request has a parameter."""
        return name in self._given

    def text(self, name: str, default: str | None = None) -> str:
        """Return a string parameter."""
        value = self._given.get(name, default)
        if not isinstance(value, str):
            raise UsageError(f"{name} is missing; it must be a string.")
        return value

    def whole(
        self,
        name: str,
        default: int | None = None,
        *,
        minimum: int = -_MAX_ROWS,
        maximum: int = _MAX_ROWS,
    ) -> int:
        """Return an integer parameter from `minimum` to `maximum`."""
        value = self._given.get(name, default)
        if isinstance(value, str):
            try:
                value = int(value)
            except ValueError:
                raise UsageError(f"{name} must be an integer, was {str(value)[:60]!r}.") from None
        if not isinstance(value, int) or isinstance(value, bool):
            raise UsageError(f"{name} is missing; it must be an integer.")
        if not minimum <= value <= maximum:
            raise UsageError(f"{name} must be from {minimum} to {maximum}, was {str(value)[:60]}.")
        return value


def answer(path: str, ask: Answer, budget: Budget) -> Route:
    """Return a GET route that responds with JSON; `ask` runs in a thread."""

    async def respond(request: Request) -> Response:
        return await json_response(ask, Parameters.from_request(request), budget)

    return Route(path, respond, methods=["GET"])


def change(path: str, ask: Answer, budget: Budget) -> Route:
    """Return a POST route for a change, whose parameters are a JSON body."""

    async def respond(request: Request) -> Response:
        if request.headers.get("content-type", "").split(";")[0].strip() != _JSON:
            return problem(f"The content type must be {_JSON}.", HTTPStatus.UNSUPPORTED_MEDIA_TYPE)
        body = await _body(request)
        if body is None:
            message = f"The body of a request has at most {MAX_BODY_BYTES:,} bytes."
            return problem(message, HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        try:
            given = parse_table(body)
        except UsageError as error:
            return problem(str(error), HTTPStatus.BAD_REQUEST)
        return await json_response(ask, Parameters(given), budget)

    return Route(path, respond, methods=["POST"])


def parse_table(text: str | bytes | None) -> dict[str, Any]:
    """Parse a JSON object sent by a browser.

    Raises:
        UsageError: The text is not JSON, nested too deeply, or not an object.
    """
    try:
        given = None if text is None else parse_json(text)
    except DocumentError as error:
        raise UsageError(f"The request must be a JSON object: {error}.") from None
    if not isinstance(given, dict):
        raise UsageError("The request must be a JSON object.")
    return given


async def received_text(socket: WebSocket) -> str | None:
    """Return the next text message of a WebSocket; None for a binary one.

    Raises:
        WebSocketDisconnect: The WebSocket was closed.
    """
    message = await socket.receive()
    if message["type"] != "websocket.receive":
        raise WebSocketDisconnect(message.get("code") or 1005)
    text: str | None = message.get("text")
    return text


async def _body(request: Request) -> bytes | None:
    """Return the body of a request; None if it is too large."""
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > MAX_BODY_BYTES:
            return None
    return body


async def json_response(ask: Answer, parameters: Parameters, budget: Budget) -> Response:
    """Return the response to a request; an error is a message, never a stack trace."""
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
    """Log an internal error and return the response for the browser."""
    return problem(logged(error), HTTPStatus.INTERNAL_SERVER_ERROR)


def logged(error: Exception) -> str:
    """Log an internal error with its stack trace, and return a message without it."""
    _log.error("A request of the page failed.", exc_info=error)
    return f"Internal error ({type(error).__name__}); see the terminal of `pregao ui`."


def problem(sentence: str, status: HTTPStatus) -> Response:
    """Return an error response with a message."""
    return Response(dumped({"error": sentence}), status.value, media_type=_JSON)
