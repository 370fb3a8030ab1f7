"""The control endpoint: a line of JSON in, a line of JSON out, on this machine alone."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import socket
from typing import TYPE_CHECKING, Any, Final

from pregao.errors import NetworkError, PregaoError

if TYPE_CHECKING:
    from pregao.exchange.host.server import ExchangeServer

HOST: Final = "127.0.0.1"
_MOST_LINE: Final = 1024 * 1024
_PATIENCE_S: Final = 30.0


class ControlServer:
    """Answers requests of market operations."""

    def __init__(self, exchange: ExchangeServer) -> None:
        self._exchange = exchange
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()
        self.port = 0

    async def start(self, port: int) -> None:
        """Listen; port 0 takes any that is free."""
        try:
            self._server = await asyncio.start_server(self._serve, HOST, port, limit=_MOST_LINE)
        except OSError as error:
            raise cannot_listen(f"{HOST}:{port}", error) from error
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Answer no more."""
        if self._server is not None:
            self._server.close()
        for writer in list(self._open):
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        try:
            while line := await reader.readline():
                answer = self._answer(line)
                writer.write(json.dumps(answer).encode() + b"\n")
                await writer.drain()
                if "error" in answer and answer.get("ends"):
                    break  # whatever speaks to us here, it is not our command
        except (ConnectionError, ValueError, asyncio.IncompleteReadError):
            pass  # gone, or a line without end
        finally:
            self._open.discard(writer)
            with contextlib.suppress(OSError):
                writer.close()

    def _answer(self, line: bytes) -> dict[str, Any]:
        try:
            request = json.loads(line)
        except (ValueError, RecursionError):
            return {"error": "a request is a line of JSON", "ends": True}
        if not isinstance(request, dict):
            return {"error": "a request is a table of JSON with `do`", "ends": True}
        try:
            return self._exchange.control(request)
        except PregaoError as error:
            return {"error": str(error)}
        except (KeyError, TypeError, ValueError) as error:
            return {"error": f"the request makes no sense: {error}"}


def cannot_listen(address: object, error: OSError) -> NetworkError:
    """Why an address cannot be listened to, and what to do."""
    why = error.strerror or str(error)
    if error.errno == errno.EADDRINUSE:
        why = "another program listens there; stop it, or choose other ports in a --config"
    return NetworkError(f"{address} cannot be listened to: {why}.")


def ask(port: int, request: dict[str, Any]) -> dict[str, Any]:
    """Ask an exchange on this machine to do something; gives its answer."""
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
        told = json.loads(answer)
    except ValueError:
        told = None
    if not isinstance(told, dict):
        raise NetworkError(f"What answers at {HOST}:{port} is not an exchange of Pregão.")
    return told
