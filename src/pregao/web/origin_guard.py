"""Access control of the page: only browsers on this machine that show the page and have its token.

Other users of this machine can connect to the page's port, other sites open in the browser can send
requests to localhost, and another host name can resolve to localhost (DNS rebinding). Therefore a
request must name localhost as its host, must have the page's origin if it has one, and must present
the token: first in the URL, afterwards in a cookie.

The token is random at each start, or read from a file that only its owner can read.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import html
import re
import secrets
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode

from pregao.errors import UsageError
from pregao.net.http import LOOPBACK_HOSTS, names_this_machine
from pregao.safe_io.private_files import SecretFileError, read_secret

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

HOSTS = LOOPBACK_HOSTS
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
_POLICY_VIOLATION = 1008
TOKEN = "token"  # noqa: S105 - the name of a parameter
_HOW_TO_OPEN = (
    "The page requires its token: open the URL that `pregao ui` printed in its terminal; "
    "it ends in ?token=…"
)
_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;margin:15vh auto;max-width:34em;padding:0 1em;"
    "color-scheme:light dark}"
)
_STYLE_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
_PLAIN_POLICY = (
    f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)

MIN_LENGTH, MAX_LENGTH = 22, 256
"""Length of a token in characters; 22 characters encode 128 bits."""
MAX_FILE_BYTES = 4096
_TOKEN = re.compile(rf"[A-Za-z0-9_-]{{{MIN_LENGTH},{MAX_LENGTH}}}")
_RANDOM_BYTES = 32


def refusal(host: str, origin: str | None, method: str) -> tuple[HTTPStatus, str] | None:
    """Return the status and reason for refusing a request; None if it is allowed."""
    if not names_this_machine(host):
        return HTTPStatus.MISDIRECTED_REQUEST, "This page is served on localhost only."
    if origin is not None and origin.lower() != f"http://{host.lower()}":
        return HTTPStatus.FORBIDDEN, "Requests from other sites are refused."
    if origin is None and method not in ("GET", "HEAD"):
        return HTTPStatus.FORBIDDEN, "Changes are accepted from the page itself only."
    return None


class OriginGuard:
    """Middleware that refuses requests without the token or of other origins, and sets a CSP."""

    def __init__(self, inner: Application, token: str, cookie: str) -> None:
        """``cookie`` is the name of the cookie, which pages on other ports receive too."""
        self._inner = inner
        self._token = token.encode()
        self._cookie = cookie

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward a request to the application, or refuse it."""
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
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        in_url = [value for name, value in query if name == TOKEN]
        authorized = any(map(self._is_token, [*in_url, *self._tokens(given)]))
        if scope["type"] == "websocket":
            if refused is not None or not authorized:
                await receive()
                reason = refused[1] if refused is not None else "The token is missing."
                await send({"type": "websocket.close", "code": _POLICY_VIOLATION, "reason": reason})
                return
            await self._inner(scope, receive, send)
        elif refused is not None:
            await _refuse(send, *refused)
        elif not authorized:
            await _refuse_without_token(scope, send)
        elif in_url and scope["method"] in ("GET", "HEAD"):
            rest = [(name, value) for name, value in query if name != TOKEN]
            await self._admit(scope, send, given, rest)
        else:
            await self._inner(scope, receive, _guarded(send, _POLICY.format(host=host)))

    def _is_token(self, text: str) -> bool:
        return hmac.compare_digest(text.encode("utf-8", "surrogateescape"), self._token)

    def _tokens(self, given: dict[str, list[str]]) -> Iterator[str]:
        """Yield the tokens in the headers of a request: cookies, and Authorization: Bearer."""
        for text in given.get("cookie", []):
            for one in text.split(";"):
                name, _, value = one.strip().partition("=")
                if name == self._cookie:
                    yield value
        for text in given.get("authorization", []):
            scheme, _, value = text.partition(" ")
            if scheme.lower() == "bearer":
                yield value.strip()

    async def _admit(
        self, scope: Scope, send: Send, given: dict[str, list[str]], query: list[tuple[str, str]]
    ) -> None:
        """Store the token in a cookie and redirect to the same URL without the token."""
        # One slash: a URL that starts with two would name another host.
        path = "/" + scope["raw_path"].decode("ascii", "replace").lstrip("/\\")
        target = f"{path}?{urlencode(query)}" if query else path
        cookie = f"{self._cookie}={self._token.decode()}; HttpOnly; SameSite=Strict; Path=/"
        headers = [(b"set-cookie", cookie.encode())]
        if given.get("sec-fetch-site") == ["cross-site"]:
            # After a redirect the browser would not send the SameSite cookie, as another site
            # started the navigation. A refresh from a page of ours sends it.
            headers.append((b"refresh", f"0; url={target}".encode()))
            await _page(send, HTTPStatus.OK, "Opening the page …", target, headers)
            return
        headers.append((b"location", target.encode()))
        await _page(send, HTTPStatus.SEE_OTHER, "Opening the page …", target, headers)


def _guarded(send: Send, policy: str) -> Send:
    """Wrap `send` to add the security headers to a response."""

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

    return guarded


async def _refuse_without_token(scope: Scope, send: Send) -> None:
    if scope["path"].startswith("/api/"):
        # An API request of the page, which shows the message.
        from pregao.web.json_encoding import dumped

        body = dumped({"error": _HOW_TO_OPEN}).encode()
        await _respond(
            _guarded(send, _PLAIN_POLICY), HTTPStatus.FORBIDDEN, b"application/json", body
        )
        return
    await _page(send, HTTPStatus.FORBIDDEN, _HOW_TO_OPEN, "/", [])


async def _page(
    send: Send, status: HTTPStatus, sentence: str, link: str, headers: list[tuple[bytes, bytes]]
) -> None:
    """Send a page with one message, which loads nothing."""
    # Navigation from another site does not send the cookie; a link on this page does.
    body = (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>Pregão</title>'
        f"<style>{_STYLE}</style><h1>Pregão</h1><p>{html.escape(sentence)}</p>"
        f'<p><a href="{html.escape(link)}">Try again</a></p></html>\n'
    ).encode()
    kind = b"text/html; charset=utf-8"
    await _respond(_guarded(send, _PLAIN_POLICY), status, kind, body, headers)


async def _refuse(send: Send, status: HTTPStatus, why: str) -> None:
    kind = b"text/plain; charset=utf-8"
    await _respond(_guarded(send, _PLAIN_POLICY), status, kind, f"{why}\n".encode())


async def _respond(
    send: Send,
    status: HTTPStatus,
    kind: bytes,
    body: bytes,
    headers: list[tuple[bytes, bytes]] | None = None,
) -> None:
    own = [(b"content-type", kind), (b"content-length", str(len(body)).encode())]
    start = {
        "type": "http.response.start",
        "status": status.value,
        "headers": own + (headers or []),
    }
    await send(start)
    await send({"type": "http.response.body", "body": body})


def new_token() -> str:
    """Return a token of 256 random bits."""
    return secrets.token_urlsafe(_RANDOM_BYTES)


def read_token(path: Path) -> str:
    """Return the token in a file, which must be regular, owned by us and private."""
    try:
        content = read_secret(path, MAX_FILE_BYTES)
    except SecretFileError as error:
        raise UsageError(f"--token-file {path} {error}.") from error
    text = content.decode("ascii", "replace").strip()
    if not _TOKEN.fullmatch(text):
        raise UsageError(
            f"--token-file {path} must contain one token of {MIN_LENGTH} to {MAX_LENGTH} letters, "
            "digits, - and _; `python -c 'import secrets; print(secrets.token_urlsafe(32))'` "
            "generates one."
        )
    return text
