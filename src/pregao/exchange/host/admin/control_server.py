"""Control endpoint on localhost: one line of JSON per request and per answer.

The exchange writes a new token at each start, to a file that only its owner can read; every process
that can read the file may operate the exchange.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import hmac
import json
import os
import secrets
import socket
import stat
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pregao.errors import NetworkError, PregaoError, UsageError
from pregao.safe_io.documents import DocumentError, parse_json
from pregao.safe_io.private_files import SecretFileError, read_secret

if TYPE_CHECKING:
    from pregao.exchange.host.server import ExchangeServer

TOKEN_VARIABLE: Final = "PREGAO_CONTROL_TOKEN"  # noqa: S105
_TOKEN_BYTES: Final = 32
_MAX_TOKEN_FILE_BYTES: Final = 256

HOST: Final = "127.0.0.1"
MAX_LINE_BYTES: Final = 1024 * 1024
MAX_CONNECTIONS: Final = 64
IDLE_S: Final = 10.0
"""Time after which a connection without a complete request is closed."""
_ANSWER_TIMEOUT_S: Final = 30.0


def token_path(port: int) -> Path:
    """Return the default path of the token of the exchange at a control port."""
    if named := os.environ.get(TOKEN_VARIABLE):
        return Path(named)
    state = os.environ.get("XDG_STATE_HOME")
    base = Path(state) if state else Path.home() / ".local" / "state"
    return base / "pregao" / f"control-{port}.token"


def write_token(path: Path) -> str:
    """Write a new token to a new file of mode 0600, replacing the file of an earlier start."""
    token = secrets.token_urlsafe(_TOKEN_BYTES)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with suppress(FileNotFoundError):
            if not stat.S_ISREG(path.lstat().st_mode):
                raise UsageError(
                    f"{path}: the control token cannot be written: not a regular file."
                )
            path.unlink()
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(path, flags, 0o600), "w") as file:
            file.write(token)
    except OSError as error:
        raise UsageError(
            f"{path}: the control token cannot be written: {error.strerror}; set {TOKEN_VARIABLE} "
            "to a file in a folder that you can write to."
        ) from error
    return token


def remove_token(path: Path, token: str) -> None:
    """Remove the file, unless another exchange has written its own token there."""
    with suppress(OSError, UsageError):
        if read_token(path) == token:
            path.unlink()


def read_token(path: Path) -> str:
    """Return the token of a file that no other user can access."""
    try:
        content = read_secret(path, _MAX_TOKEN_FILE_BYTES)
    except SecretFileError as error:
        advice = "restart the exchange, which writes a new token"
        if not error.opened:
            advice = (
                "check that an exchange is running and that you are the user who started it, or "
                f"set {TOKEN_VARIABLE} to another file"
            )
        raise UsageError(f"{path}: the control token {error}; {advice}.") from error
    return content.decode("ascii", "replace").strip()


class ControlServer:
    """Answers requests of market operations that carry the right token."""

    def __init__(
        self, exchange: ExchangeServer, token: Path | None = None, *, idle_s: float = IDLE_S
    ) -> None:
        """Create a server; ``token`` is the file of the token, by default `token_path`."""
        self._exchange = exchange
        self._path = token
        self._idle_s = idle_s
        self._token = ""
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()
        self.port = 0

    async def start(self, port: int) -> None:
        """Listen on a port; 0 chooses a free one."""
        try:
            self._server = await asyncio.start_server(self._serve, HOST, port, limit=MAX_LINE_BYTES)
        except OSError as error:
            raise cannot_listen(f"{HOST}:{port}", error) from error
        self.port = self._server.sockets[0].getsockname()[1]
        self._path = token_path(self.port) if self._path is None else self._path
        self._token = write_token(self._path)

    async def close(self) -> None:
        """Stop listening, close the connections and remove the token."""
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
                    break  # the peer is not our command
        except (ConnectionError, ValueError, TimeoutError, asyncio.IncompleteReadError):
            pass  # the peer is gone or silent, or its line is too long
        finally:
            self._open.discard(writer)
            with contextlib.suppress(OSError):
                writer.close()

    def _answer(self, line: bytes) -> dict[str, Any]:
        try:
            request = parse_json(line)
        except DocumentError:
            return {"error": "invalid request: it must be one line of JSON", "ends": True}
        if not isinstance(request, dict):
            return {"error": "invalid request: it must be a JSON object with `do`", "ends": True}
        token = request.pop("token", None)
        given = token.encode("utf-8", "replace") if isinstance(token, str) else b""
        if not hmac.compare_digest(given, self._token.encode()):
            return {"error": "the token is missing or wrong", "ends": True}
        try:
            return self._exchange.control(request)
        except PregaoError as error:
            return {"error": str(error)}
        except Exception as error:
            self._exchange.host.faults.note("control request", error, line)
            return {"error": f"the request failed: {error}"}


def cannot_listen(address: object, error: OSError) -> NetworkError:
    """Return an error that states why listening on an address failed, and what to do."""
    why = error.strerror or str(error)
    if error.errno == errno.EADDRINUSE:
        why = "the port is in use; stop the other program, or choose other ports in a --config"
    return NetworkError(f"Cannot listen on {address}: {why}.")


def send_request(port: int, request: dict[str, Any], token: Path | None = None) -> dict[str, Any]:
    """Send a control request to an exchange on localhost and return its answer.

    ``token`` is the file of its token, by default `token_path`.
    """
    path = token_path(port) if token is None else token
    try:
        secret = read_token(path)
    except UsageError as error:
        raise NetworkError(
            f"No exchange answers at {HOST}:{port}; start one with `pregao exchange`. {error}"
        ) from error
    request = {**request, "token": secret}
    try:
        with socket.create_connection((HOST, port), timeout=_ANSWER_TIMEOUT_S) as line:
            line.sendall(json.dumps(request).encode() + b"\n")
            with line.makefile("rb") as answers:
                answer = answers.readline()
    except OSError as error:
        why = error.strerror or str(error)
        raise NetworkError(
            f"No exchange answers at {HOST}:{port} ({why}); start one with `pregao exchange`."
        ) from error
    try:
        reply = parse_json(answer)
    except DocumentError:
        reply = None
    if not isinstance(reply, dict):
        raise NetworkError(f"The server at {HOST}:{port} is not an exchange of Pregão.")
    return reply
