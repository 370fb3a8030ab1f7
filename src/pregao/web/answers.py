"""Requests of the page as calls: parameters are checked, answers are JSON, errors sentences."""

from __future__ import annotations

import json
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response
from starlette.routing import Route

from pregao.errors import PregaoError, UsageError
from pregao.web.wire import dumped

Answer = Callable[["Parameters"], Any]
_JSON = "application/json"
_MOST = (1 << 63) - 1
_LARGEST_BODY = 64 * 1024


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


def answer(path: str, ask: Answer) -> Route:
    """A path that is answered with JSON; the work is done beside the event loop."""

    async def respond(request: Request) -> Response:
        return await told(ask, Parameters.of(request))

    return Route(path, respond, methods=["GET"])


def change(path: str, ask: Answer) -> Route:
    """A path that changes something; what is wanted comes as JSON."""

    async def respond(request: Request) -> Response:
        if request.headers.get("content-type", "").split(";")[0].strip() != _JSON:
            return problem("This takes JSON.", HTTPStatus.UNSUPPORTED_MEDIA_TYPE)
        try:
            given = json.loads(await _body(request))
        except ValueError:
            given = None
        if not isinstance(given, dict):
            return problem("This takes a table of JSON.", HTTPStatus.BAD_REQUEST)
        return await told(ask, Parameters(given))

    return Route(path, respond, methods=["POST"])


async def _body(request: Request) -> bytes:
    """What was sent; too much of it is nothing that the page would send."""
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > _LARGEST_BODY:
            raise ValueError("too long")
    return body


async def told(ask: Answer, parameters: Parameters) -> Response:
    """What is answered; what cannot be done is a sentence."""
    try:
        data = await run_in_threadpool(ask, parameters)
    except PregaoError as error:
        return problem(str(error), HTTPStatus.BAD_REQUEST)
    return Response(dumped(data), media_type=_JSON)


def problem(sentence: str, status: HTTPStatus) -> Response:
    """Something that went wrong."""
    return Response(dumped({"error": sentence}), status.value, media_type=_JSON)
