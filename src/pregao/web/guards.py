"""Who may ask the page: browsers on this machine that show the page itself, and nobody else.

A page of another site that a user has open can send requests to this machine, and a name of another
site can be made to mean this machine. So a request must name this machine as its host, and if it
says which page it comes from, that must be ours.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from http import HTTPStatus
from typing import Any

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

HOSTS = frozenset({"127.0.0.1", "localhost", "[::1]"})
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "font-src 'self'; connect-src 'self' ws://{host}; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
_HEADERS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
_CLOSED = 1008


def refusal(host: str, origin: str | None, method: str) -> tuple[HTTPStatus, str] | None:
    """Why a request is not answered; None if it is."""
    name, _, port = host.rpartition(":") if not host.endswith("]") else (host, "", "")
    if not name:
        name, port = port, ""
    if name.lower() not in HOSTS or (port and not port.isdigit()):
        return HTTPStatus.MISDIRECTED_REQUEST, "This page is served to this machine only."
    if origin is not None and origin.lower() != f"http://{host.lower()}":
        return HTTPStatus.FORBIDDEN, "Pages of other sites may not ask."
    if origin is None and method not in ("GET", "HEAD"):
        return HTTPStatus.FORBIDDEN, "What changes something is taken from the page alone."
    return None


class Guard:
    """Refuses what does not come from the page itself, and says what the page may load."""

    def __init__(self, inner: Application) -> None:
        self._inner = inner

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or refuse."""
        if scope["type"] == "lifespan":
            await self._inner(scope, receive, send)
            return
        given: dict[str, list[str]] = {}
        for name, value in scope["headers"]:
            given.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
        hosts, origins = given.get("host", []), given.get("origin", [])
        host = hosts[0] if len(hosts) == 1 else ""
        origin = ",".join(origins) if origins else None
        refused = refusal(host, origin, scope.get("method", "GET"))
        if scope["type"] == "websocket":
            if refused is not None:
                await receive()
                await send({"type": "websocket.close", "code": _CLOSED, "reason": refused[1]})
                return
            await self._inner(scope, receive, send)
            return
        if refused is not None:
            await _answer(send, *refused)
            return
        policy = _POLICY.format(host=host)

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = [
                    (name, value)
                    for name, value in message.get("headers", [])
                    if name.lower() != b"cache-control"
                ]
                headers.append((b"content-security-policy", policy.encode()))
                headers += [(name.encode(), value.encode()) for name, value in _HEADERS.items()]
                message["headers"] = headers
            await send(message)

        await self._inner(scope, receive, guarded)


async def _answer(send: Send, status: HTTPStatus, why: str) -> None:
    body = f"{why}\n".encode()
    headers = [
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"content-length", str(len(body)).encode()),
        (b"x-content-type-options", b"nosniff"),
    ]
    await send({"type": "http.response.start", "status": status.value, "headers": headers})
    await send({"type": "http.response.body", "body": body})
