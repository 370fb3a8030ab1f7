"""The page served: a socket on this machine, and uvicorn behind it, in a thread of its own."""

from __future__ import annotations

import math
import socket
import threading
from types import TracebackType

import uvicorn

from pregao.errors import NetworkError
from pregao.net.http import HOST
from pregao.web.connections import Limits, bounded_http, bounded_websocket
from pregao.web.guards import TOKEN, Application, Guard
from pregao.web.tokens import new_token

_START_S = 20.0
_LOOK_S = 0.2


class PageServer:
    """Serves an application on loopback until it is closed."""

    def __init__(
        self,
        application: Application,
        port: int,
        *,
        token: str | None = None,
        limits: Limits | None = None,
    ) -> None:
        """``port`` 0 takes any that is free; ``port`` of the server tells which.

        Requests need the ``token``: without one a random one is made.
        """
        limits = limits or Limits()
        self.token = token or new_token()
        self._socket = _listen(port)
        self.port: int = self._socket.getsockname()[1]
        config = uvicorn.Config(
            Guard(application, self.token, f"pregao-{self.port}"),
            log_level="error",
            use_colors=False,  # a command escapes control characters, those of colours too
            access_log=False,
            server_header=False,
            http=bounded_http(limits),
            h11_max_incomplete_event_size=limits.max_head_bytes,
            timeout_keep_alive=math.ceil(limits.idle_s),
            ws=bounded_websocket(limits),
            ws_max_size=limits.max_message_bytes,
            ws_per_message_deflate=False,  # it never leaves this machine
            timeout_graceful_shutdown=1,
            lifespan="on",
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._run, name="pregao-page", daemon=True)
        self._thread.start()
        ended = threading.Event()
        for _ in range(int(_START_S / 0.01)):
            if self._server.started or not self._thread.is_alive():
                break
            ended.wait(0.01)
        if not self._server.started:
            self.close()
            raise NetworkError(f"The page could not be served at {HOST}:{self.port}.")

    @property
    def address(self) -> str:
        """Where the page is, without its token."""
        return f"http://{HOST}:{self.port}/"

    @property
    def url(self) -> str:
        """The address that opens the page: it holds the token."""
        return f"{self.address}?{TOKEN}={self.token}"

    def _run(self) -> None:
        self._server.run(sockets=[self._socket])

    def wait(self) -> None:
        """Until it is closed, or interrupted."""
        while self._thread.is_alive():
            self._thread.join(_LOOK_S)

    def close(self) -> None:
        """Stop serving."""
        self._server.should_exit = True
        self._thread.join()
        self._socket.close()

    def __enter__(self) -> PageServer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _listen(port: int) -> socket.socket:
    opened = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        opened.bind((HOST, port))
    except OSError as error:
        opened.close()
        why = error.strerror or str(error)
        raise NetworkError(
            f"{HOST}:{port} cannot be served: {why}. Choose another with --port."
        ) from error
    return opened
