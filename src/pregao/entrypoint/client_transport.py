"""TCP transport of a client: bytes to and from a socket, and timers."""

from __future__ import annotations

import asyncio
import socket
from typing import Protocol


class TransportOwner(Protocol):
    """Receiver of the events of a connection."""

    def on_connected(self, link: ClientTransport, gateway: int) -> None:
        """Handle a new connection."""

    def on_data(self, data: bytes) -> None:
        """Handle received bytes."""

    def on_timer(self, *, reading: bool) -> None:
        """Handle the expiry of the timer."""

    def on_disconnected(self) -> bool:
        """Handle the end of the connection. Returns whether it had established the session."""

    def writable(self, now: bool) -> None:
        """Handle a change of the write buffer: writable, or above its high-water mark."""

    def due_s(self) -> float | None:
        """Return the seconds until the next timer is due, or None."""

    def handshake_s(self) -> float:
        """Return the time allowed for establishing the session, in seconds."""

    def output(self) -> tuple[bytes, bool]:
        """Return the bytes to send, and whether to close the connection after them."""

    @property
    def established(self) -> bool:
        """Whether business messages can be sent now."""


class ClientTransport(asyncio.Protocol):
    """One TCP connection of a client."""

    def __init__(self, owner: TransportOwner, gateway: int) -> None:
        self._owner = owner
        self._gateway = gateway
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._soon = False
        self._loop = asyncio.get_running_loop()
        self._handshake: asyncio.TimerHandle | None = None
        self.ended: asyncio.Future[bool] = self._loop.create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the handshake."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        raw = transport.get_extra_info("socket")
        if raw is not None:
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._handshake = self._loop.call_later(self._owner.handshake_s(), self._too_late)
        self._owner.on_connected(self, self._gateway)

    def data_received(self, data: bytes) -> None:
        """Pass received bytes to the owner."""
        self._owner.on_data(data)

    def connection_lost(self, _error: Exception | None) -> None:
        """Notify the owner, and set the result of `ended`."""
        for timer in (self._timer, self._handshake):
            if timer is not None:
                timer.cancel()
        self._transport = None
        held = self._owner.on_disconnected()
        if not self.ended.done():
            self.ended.set_result(held)

    def pause_writing(self) -> None:
        """Notify the owner that the write buffer is full."""
        self._owner.writable(False)

    def resume_writing(self) -> None:
        """Notify the owner that it may write again."""
        self._owner.writable(True)

    def flush_soon(self) -> None:
        """Send pending output in one write at the end of this event loop iteration."""
        if not self._soon:
            self._soon = True
            self._loop.call_soon(self.flush)

    def flush(self) -> None:
        """Send pending output, and arm the timer."""
        self._soon = False
        if self._transport is None:
            return
        data, closing = self._owner.output()
        if data:
            self._transport.write(data)
        if closing:
            self._transport.close()
        elif self._timer is None:
            due = self._owner.due_s()
            if due is not None:
                self._timer = self._loop.call_later(due, self._due)

    def rearm(self) -> None:
        """Arm the timer earlier, if something is due before it."""
        due = self._owner.due_s()
        timer = self._timer
        if timer is None or due is None or self._loop.time() + due >= timer.when():
            return
        timer.cancel()
        self._timer = self._loop.call_later(due, self._due)

    def _due(self) -> None:
        self._timer = None
        if self._transport is not None:
            self._owner.on_timer(reading=self._transport.is_reading())

    def _too_late(self) -> None:
        if not self._owner.established:
            self.abort()

    def pause_reading(self) -> None:
        """Pause reading."""
        if self._transport is not None and self._transport.is_reading():
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Resume reading."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def abort(self) -> None:
        """Abort the connection immediately."""
        if self._transport is not None:
            self._transport.abort()
