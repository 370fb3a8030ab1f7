"""One connection of a client: bytes to and from a socket, and the time in between."""

from __future__ import annotations

import asyncio
import socket
from typing import Protocol


class LinkOwner(Protocol):
    """Whom a connection belongs to."""

    def opened(self, link: Link, gateway: int) -> None:
        """A connection is there."""

    def heard(self, data: bytes) -> None:
        """Bytes came."""

    def elapsed(self, *, reading: bool) -> None:
        """Time has passed."""

    def gone(self) -> bool:
        """The connection is gone; had it established the session?"""

    def writable(self, now: bool) -> None:
        """The gateway reads, or it does not keep up."""

    def due_s(self) -> float | None:
        """In how many seconds something is to be done if nothing happens before."""

    def handshake_s(self) -> float:
        """How long a connection may take until the session is established."""

    def output(self) -> tuple[bytes, bool]:
        """What is to be sent, and whether the connection is to be closed then."""

    @property
    def established(self) -> bool:
        """Can business messages be sent now?"""


class Link(asyncio.Protocol):
    """One connection."""

    def __init__(self, owner: LinkOwner, gateway: int) -> None:
        self._owner = owner
        self._gateway = gateway
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._soon = False
        self._loop = asyncio.get_running_loop()
        self._handshake: asyncio.TimerHandle | None = None
        self.ended: asyncio.Future[bool] = self._loop.create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin the handshake."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        raw = transport.get_extra_info("socket")
        if raw is not None:
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._handshake = self._loop.call_later(self._owner.handshake_s(), self._too_late)
        self._owner.opened(self, self._gateway)

    def data_received(self, data: bytes) -> None:
        """Pass on what came."""
        self._owner.heard(data)

    def connection_lost(self, _error: Exception | None) -> None:
        """Tell the owner, and who waits for the end."""
        for timer in (self._timer, self._handshake):
            if timer is not None:
                timer.cancel()
        self._transport = None
        held = self._owner.gone()
        if not self.ended.done():
            self.ended.set_result(held)

    def pause_writing(self) -> None:
        """Tell the owner that too much waits to be sent."""
        self._owner.writable(False)

    def resume_writing(self) -> None:
        """Tell the owner that it may send again."""
        self._owner.writable(True)

    def flush_soon(self) -> None:
        """Send what there is when this turn of the loop is over, in one write."""
        if not self._soon:
            self._soon = True
            self._loop.call_soon(self.flush)

    def flush(self) -> None:
        """Send what there is, and wait for what is due next."""
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
        """Wake earlier, if something is due before what the timer waits for."""
        due = self._owner.due_s()
        timer = self._timer
        if timer is None or due is None or self._loop.time() + due >= timer.when():
            return
        timer.cancel()
        self._timer = self._loop.call_later(due, self._due)

    def _due(self) -> None:
        self._timer = None
        if self._transport is not None:
            self._owner.elapsed(reading=self._transport.is_reading())

    def _too_late(self) -> None:
        if not self._owner.established:
            self.abort()

    def pause_reading(self) -> None:
        """Read no more for now."""
        if self._transport is not None and self._transport.is_reading():
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Read again."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def abort(self) -> None:
        """End the connection at once."""
        if self._transport is not None:
            self._transport.abort()
