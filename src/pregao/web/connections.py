"""Connection limits of the page server: idle connections are closed.

Uvicorn limits neither how slowly a request arrives nor how slowly a response is read; this module
adds deadlines to its protocols. A connection may wait for its peer at most ``idle_s`` in each of
these stages: between requests, within the head of a request, within its body, before the first
message of a WebSocket, and while the peer does not read sent data.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

_log = logging.getLogger(__name__)
_SILENT = 1008


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of the connections of a page."""

    idle_s: float = 10.0
    """Maximum seconds that a connection waits for its peer."""
    max_connections: int = 128
    max_head_bytes: int = 32 * 1024
    """Maximum size of request line and headers."""
    max_message_bytes: int = 64 * 1024
    """Maximum size of a WebSocket message."""


class _Deadline:
    """A timer that calls `end` unless it is stopped in time."""

    def __init__(self, loop: asyncio.AbstractEventLoop, seconds: float, end: Callable[[], None]):
        self._loop, self._seconds, self._end = loop, seconds, end
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Start or restart the timer."""
        self.stop()
        self._timer = self._loop.call_later(self._seconds, self._end)

    def stop(self) -> None:
        """Stop the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def bounded_http(limits: Limits) -> type[H11Protocol]:
    """Return uvicorn's HTTP protocol with these limits."""

    class BoundedHttp(H11Protocol):
        def __init__(self, *arguments: Any, **named: Any) -> None:
            super().__init__(*arguments, **named)
            self._stage = ""
            self._waiting = _Deadline(self.loop, limits.idle_s, self._give_up)
            self._unread = _Deadline(self.loop, limits.idle_s, self._give_up)

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            if len(self.connections) > limits.max_connections:
                transport.abort()
            else:
                self._watch()

        def connection_lost(self, exc: Exception | None) -> None:
            self._waiting.stop()
            self._unread.stop()
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            try:
                super().data_received(data)
            except Exception:
                _log.exception("Invalid request; closing its connection.")
                self._give_up()
            else:
                self._watch()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            self._watch()

        def handle_websocket_upgrade(self, event: h11.Request) -> None:
            self._waiting.stop()
            self._unread.stop()
            self._stage = "upgraded"
            super().handle_websocket_upgrade(event)

        def pause_writing(self) -> None:
            self._unread.start()
            super().pause_writing()

        def resume_writing(self) -> None:
            self._unread.stop()
            super().resume_writing()

        def _watch(self) -> None:
            """Restart the deadline at each stage; there is none while a response is computed."""
            stage = self._current_stage()
            if stage == self._stage:
                return
            self._stage = stage
            if stage in ("answer", "upgraded"):
                self._waiting.stop()
            else:
                self._waiting.start()

        def _current_stage(self) -> str:
            if self._stage == "upgraded":
                return "upgraded"
            if self.transport.is_closing():
                return "closing"
            if self.conn.their_state is h11.SEND_BODY:
                return "body"
            if self.cycle is not None and not self.cycle.response_complete:
                return "answer"
            return "head" if self.conn.trailing_data[0] else "idle"

        def _give_up(self) -> None:
            self.transport.abort()

    return BoundedHttp


def bounded_websocket(limits: Limits) -> type[WebSocketsSansIOProtocol]:
    """Return uvicorn's WebSocket protocol with these limits; pings detect stalled messages."""

    class BoundedWebSocket(WebSocketsSansIOProtocol):
        def __init__(self, *arguments: Any, **named: Any) -> None:
            super().__init__(*arguments, **named)
            self.ping_interval = self.ping_timeout = limits.idle_s / 2
            self.close_timeout = limits.idle_s
            self._first = _Deadline(self.loop, limits.idle_s, self._no_message)
            self._unread = _Deadline(self.loop, limits.idle_s, self._give_up)

        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            super().connection_made(transport)
            self._first.start()

        def connection_lost(self, exc: Exception | None) -> None:
            self._first.stop()
            self._unread.stop()
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            try:
                super().data_received(data)
            except Exception:
                _log.exception("Invalid WebSocket data; closing the connection.")
                self._give_up()

        def send_receive_event_to_app(self) -> None:
            self._first.stop()
            super().send_receive_event_to_app()

        def keepalive_timeout(self) -> None:
            super().keepalive_timeout()
            self._give_up()

        def pause_writing(self) -> None:
            self._unread.start()
            super().pause_writing()

        def resume_writing(self) -> None:
            self._unread.stop()
            super().resume_writing()

        def _no_message(self) -> None:
            if self.handshake_complete and not self.close_sent:
                self.conn.fail(_SILENT, "no message received")
                self.transport.write(b"".join(self.conn.data_to_send()))
                self.close_sent = True
            self.transport.close()
            self._unread.start()

        def _give_up(self) -> None:
            self.transport.abort()

    return BoundedWebSocket
