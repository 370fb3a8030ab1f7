"""The control endpoint: a line of JSON in, a line of JSON out, on this machine alone."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import hmac
import json
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pregao.documents import DocumentError, parse_json
from pregao.errors import NetworkError, PregaoError, UsageError
from pregao.exchange.host.control_token import read_token, remove_token, token_path, write_token

if TYPE_CHECKING:
    from pregao.exchange.host.server import ExchangeServer

HOST: Final = "127.0.0.1"
MAX_LINE_BYTES: Final = 1024 * 1024
MAX_CONNECTIONS: Final = 64
IDLE_S: Final = 10.0
"""A connection that has not sent a whole request for so long ends."""
_PATIENCE_S: Final = 30.0


class ControlServer:
    """Answers requests of market operations that come with the right token."""

    def __init__(
        self, exchange: ExchangeServer, token: Path | None = None, *, idle_s: float = IDLE_S
    ) -> None:
        """``token`` is the file of the token; by default that of `token_path`."""
        self._exchange = exchange
        self._path = token
        self._idle_s = idle_s
        self._token = ""
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()
        self.port = 0

    async def start(self, port: int) -> None:
        """Listen; port 0 takes any that is free."""
        try:
            self._server = await asyncio.start_server(self._serve, HOST, port, limit=MAX_LINE_BYTES)
        except OSError as error:
            raise cannot_listen(f"{HOST}:{port}", error) from error
        self.port = self._server.sockets[0].getsockname()[1]
        self._path = token_path(self.port) if self._path is None else self._path
        self._token = write_token(self._path)

    async def close(self) -> None:
        """Answer no more."""
        if self._server is not None:
            self._server.close()
        for writer in list(self._open):
            writer.close()
        if self._path is not None and self._token:
            remove_token(self._path, self._token)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._open) >= MAX_CONNECTIONS:
            writer.close()
            return
        self._open.add(writer)
        try:
            while line := await asyncio.wait_for(reader.readline(), self._idle_s):
                answer = self._answer(line)
                ends = answer.pop("ends", False)
                writer.write(json.dumps(answer).encode() + b"\n")
                await asyncio.wait_for(writer.drain(), self._idle_s)
                if ends:
                    break  # whatever speaks to us here, it is not our command
        except (ConnectionError, ValueError, TimeoutError, asyncio.IncompleteReadError):
            pass  # gone, silent, or a line without end
        finally:
            self._open.discard(writer)
            with contextlib.suppress(OSError):
                writer.close()

    def _answer(self, line: bytes) -> dict[str, Any]:
        try:
            request = parse_json(line)
        except DocumentError:
            return {"error": "a request is a line of JSON", "ends": True}
        if not isinstance(request, dict):
            return {"error": "a request is a table of JSON with `do`", "ends": True}
        token = request.pop("token", None)
        given = token.encode("utf-8", "replace") if isinstance(token, str) else b""
        if not hmac.compare_digest(given, self._token.encode()):
            return {"error": "the token is missing or wrong", "ends": True}
        try:
            return self._exchange.control(request)
        except PregaoError as error:
            return {"error": str(error)}
        except Exception as error:
            self._exchange.host.faults.note("a control request", error, line)
            return {"error": f"the request could not be carried out: {error}"}


def cannot_listen(address: object, error: OSError) -> NetworkError:
    """Why an address cannot be listened to, and what to do."""
    why = error.strerror or str(error)
    if error.errno == errno.EADDRINUSE:
        why = "another program listens there; stop it, or choose other ports in a --config"
    return NetworkError(f"{address} cannot be listened to: {why}.")


def ask(port: int, request: dict[str, Any], token: Path | None = None) -> dict[str, Any]:
    """Ask an exchange on this machine to do something; gives its answer.

    ``token`` is the file of its token; by default that of `token_path`.
    """
    path = token_path(port) if token is None else token
    try:
        secret = read_token(path)
    except UsageError as error:
        raise NetworkError(
            f"No exchange answers at {HOST}:{port}; `pregao exchange` starts one. {error}"
        ) from error
    request = {**request, "token": secret}
    try:
        with socket.create_connection((HOST, port), timeout=_PATIENCE_S) as line:
            line.sendall(json.dumps(request).encode() + b"\n")
            with line.makefile("rb") as answers:
                answer = answers.readline()
    except OSError as error:
        why = error.strerror or str(error)
        raise NetworkError(
            f"No exchange answers at {HOST}:{port} ({why}); `pregao exchange` starts one."
        ) from error
    try:
        told = parse_json(answer)
    except DocumentError:
        told = None
    if not isinstance(told, dict):
        raise NetworkError(f"What answers at {HOST}:{port} is not an exchange of Pregão.")
    return told
