"""A small HTTP server on localhost for health and metrics: GET only, everything bounded."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus

from pregao.errors import NetworkError

HOST = "127.0.0.1"
LOOPBACK_HOSTS = frozenset({HOST, "localhost", "[::1]"})
"""Names of localhost that are allowed in a request's Host header."""
_MAX_REQUEST = 8 * 1024
_MAX_CONNECTIONS = 32
IDLE_S = 5.0
"""Timeout in seconds for sending a request, for building a page, and for reading it."""
_START_S = 10.0
_log = logging.getLogger(__name__)


def names_this_machine(host: str) -> bool:
    """Whether the Host of a request is a loopback name or address, with or without a port.

    A browser can be made to resolve another site's name to localhost (DNS rebinding); then Host
    has that name.
    """
    name, _, port = host.rpartition(":") if not host.endswith("]") else (host, "", "")
    if not name:
        name, port = port, ""
    return name.lower() in LOOPBACK_HOSTS and (not port or (port.isascii() and port.isdigit()))


@dataclass(frozen=True, slots=True)
class Response:
    """Response to a request."""

    body: str
    status: HTTPStatus = HTTPStatus.OK
    content_type: str = "text/plain; charset=utf-8"


Page = Callable[[], Response]


class HttpServer:
    """Answers GET requests for a few pages from its own thread, until it is closed."""

    def __init__(self, port: int, pages: Mapping[str, Page], *, idle_s: float = IDLE_S) -> None:
        """Listen on ``port``; 0 chooses a free port, which the attribute ``port`` then has."""
        self.port = port
        self._idle_s = idle_s
        self._pages = dict(pages)
        self._open = 0
        self._loop = asyncio.new_event_loop()
        self._error: OSError | None = None
        self._late = False
        """Whether the constructor no longer waits for the start: then the thread ends."""
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pregao-http", daemon=True)
        self._thread.start()
        if not self._started.wait(_START_S):
            self._late = True
            if self._started.is_set():  # between the timeout and the line above
                with contextlib.suppress(RuntimeError):
                    self.close()
            raise NetworkError(
                f"Cannot serve HTTP on {HOST}:{port}: the server did not start in {_START_S:g} s; "
                "the host may be overloaded. Try again."
            )
        if self._error is not None:
            self._thread.join()
            why = self._error.strerror or str(self._error)
            raise NetworkError(f"Cannot serve HTTP on {HOST}:{port}: {why}.") from self._error

    def close(self) -> None:
        """Stop the server."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()

    def _run(self) -> None:
        loop = self._loop
        asyncio.set_event_loop(loop)
        try:
            server = loop.run_until_complete(
                asyncio.start_server(self._serve, HOST, self.port, limit=_MAX_REQUEST)
            )
            self.port = server.sockets[0].getsockname()[1]
            self._started.set()
            if not self._late:
                loop.run_forever()
            server.close()
            for task in asyncio.all_tasks(loop):
                task.cancel()
            loop.run_until_complete(asyncio.sleep(0))
        except (OSError, OverflowError) as error:
            self._error = error if isinstance(error, OSError) else OSError(0, str(error))
        finally:
            self._started.set()
            loop.run_until_complete(loop.shutdown_default_executor())
            loop.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open += 1
        try:
            if self._open > _MAX_CONNECTIONS:
                answer = Response("too many connections\n", HTTPStatus.SERVICE_UNAVAILABLE)
            else:
                answer = await self._answer(reader)
            writer.write(_bytes_of(answer))
            writer.close()
            await asyncio.wait_for(writer.wait_closed(), self._idle_s)
        except (TimeoutError, ConnectionError, asyncio.IncompleteReadError):
            # A peer that is gone, or too slow to send or read, gets no answer.
            writer.transport.abort()
        finally:
            self._open -= 1
            with contextlib.suppress(OSError):
                writer.close()

    async def _answer(self, reader: asyncio.StreamReader) -> Response:
        try:
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), self._idle_s)
        except asyncio.LimitOverrunError:
            return Response("the request is too long\n", HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        words = head.split(b"\r\n", 1)[0].split(b" ")
        if len(words) != 3 or not words[2].startswith(b"HTTP/1."):
            return Response("not an HTTP/1.x request\n", HTTPStatus.BAD_REQUEST)
        hosts = _hosts(head)
        if len(hosts) != 1 or not names_this_machine(hosts[0]):
            text = f"the request must name {HOST} or localhost as its Host\n"
            return Response(text, HTTPStatus.MISDIRECTED_REQUEST)
        if words[0] != b"GET":
            return Response("only GET is supported\n", HTTPStatus.METHOD_NOT_ALLOWED)
        path = words[1].split(b"?", 1)[0].decode("ascii", "replace")
        page = self._pages.get(path)
        if page is None:
            available = " ".join(sorted(self._pages))
            return Response(f"no such page; available: {available}\n", HTTPStatus.NOT_FOUND)
        built = asyncio.get_running_loop().run_in_executor(None, page)
        try:
            return await asyncio.wait_for(built, self._idle_s)
        except TimeoutError:
            return Response("the page took too long to build\n", HTTPStatus.GATEWAY_TIMEOUT)
        except Exception:
            _log.exception("Building the page %s failed.", path)
            return Response("internal error; see the log\n", HTTPStatus.INTERNAL_SERVER_ERROR)


def _hosts(head: bytes) -> list[str]:
    """Return the values of the Host headers of a request."""
    lines = (line.partition(b":") for line in head.split(b"\r\n")[1:])
    return [value.strip().decode("latin-1") for name, _, value in lines if name.lower() == b"host"]


def _bytes_of(answer: Response) -> bytes:
    body = answer.body.encode()
    head = (
        f"HTTP/1.1 {answer.status.value} {answer.status.phrase}\r\n"
        f"Content-Type: {answer.content_type}\r\n"
        f"Content-Length: {len(body)}\r\n"
        "Connection: close\r\n\r\n"
    )
    return head.encode() + body
