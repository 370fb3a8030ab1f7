"""TCP connections of clients: pass bytes to the host, and write back once per loop iteration."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, cast

from pregao.clock import SECOND, Clock
from pregao.entrypoint.gateway_connection import GatewayConnection
from pregao.exchange.host.host import ExchangeHost
from pregao.exchange.publisher.channels import OutgoingPacket

_READ_BYTES: Final = 32 * 1024
"""Maximum bytes read from one client at a time, which limits how long the others wait."""
_HIGH_WATER: Final = 256 * 1024
_LINGER_S: Final = 2.0
"""Time that a client has to read the last messages before the connection is aborted."""


class TrafficTap(Protocol):
    """Listener for the traffic of connections and of the feed."""

    def opened(self, line: GatewayTransport) -> None:
        """Handle a new connection."""

    def received(self, line: GatewayTransport, data: bytes, now_ns: int) -> None:
        """Handle bytes received from a client."""

    def sent(self, line: GatewayTransport, data: bytes, now_ns: int) -> None:
        """Handle bytes sent to a client."""

    def closed(self, line: GatewayTransport, now_ns: int) -> None:
        """Handle the end of a connection."""

    def published(self, datagrams: Sequence[OutgoingPacket]) -> None:
        """Handle datagrams sent on the feed."""

    def close(self) -> None:
        """Release resources: no further traffic follows."""


@dataclass(frozen=True, slots=True)
class GatewayListener:
    """Accepting side of a gateway: the state that all its connections share."""

    host: ExchangeHost
    gateway: int
    clock: Clock
    lines: dict[GatewayConnection, GatewayTransport]
    touched: Callable[[], None]
    failed: Callable[[Exception], None]
    """Called when the exchange itself fails: nothing more may be sent."""
    max_unread_bytes: int
    tap: TrafficTap | None = None


class GatewayTransport(asyncio.BufferedProtocol):
    """Connection of a client to a gateway."""

    def __init__(self, gate: GatewayListener) -> None:
        self._gate = gate
        self._host = gate.host
        self._clock = gate.clock
        self._tap = gate.tap
        self._buffer = bytearray(_READ_BYTES)
        self._view = memoryview(self._buffer)
        self._full = False
        self._timer: asyncio.TimerHandle | None = None
        self._armed_ns = 0
        self.too_slow = False
        """Whether the client was disconnected because it did not read."""

    # Callbacks of asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Register a new connection."""
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=_HIGH_WATER)
        self.peer: tuple[str, int] = transport.get_extra_info("peername")[:2]
        self.local_address: tuple[str, int] = transport.get_extra_info("sockname")[:2]
        self.opened_ns = self._clock()
        self.connection = self._host.connect(self._gate.gateway, self.opened_ns, self.peer[0])
        self._gate.lines[self.connection] = self
        if self._tap is not None:
            self._tap.opened(self)
        due = self.connection.next_due_ns
        assert due is not None
        self._arm(due)

    def get_buffer(self, _sizehint: int) -> memoryview:
        """Return the buffer for the next bytes."""
        return self._view

    def buffer_updated(self, nbytes: int) -> None:
        """Pass received bytes to the host."""
        data = bytes(self._view[:nbytes])
        now = self._clock()
        if self._tap is not None:
            self._tap.received(self, data, now)
        try:
            self._host.receive(self.connection, data, now)
        except Exception as error:
            self._gate.failed(error)
        self._gate.touched()

    def eof_received(self) -> bool:
        """Close the connection when the client stops sending."""
        return False

    def connection_lost(self, _exc: Exception | None) -> None:
        """Report the loss of the connection to the host."""
        if self._timer is not None:
            self._timer.cancel()
        self._gate.lines.pop(self.connection, None)
        if self._tap is not None:
            self._tap.closed(self, self._clock())
        try:
            self._host.lost(self.connection, self._clock())
        except Exception as error:
            self._gate.failed(error)
        self._gate.touched()

    def pause_writing(self) -> None:
        """Stop writing: the client does not keep up."""
        self._full = True

    def resume_writing(self) -> None:
        """Resume writing: the client has caught up."""
        self._full = False
        if self.connection.unfinished:
            self._host.talking.add(self.connection)
            self._gate.touched()

    # Calls of the server

    def flush(self) -> None:
        """Send pending output; the records it depends on must be on disk."""
        connection, transport = self.connection, self._transport
        data = connection.take_output()
        if transport.is_closing():
            return
        if data:
            transport.write(data)
            if self._tap is not None:
                self._tap.sent(self, data, self._clock())
        # Bytes queued after a retransmission are unread as well.
        unread = transport.get_write_buffer_size() + connection.waiting_bytes
        if unread > self._gate.max_unread_bytes:
            self.too_slow = True
            transport.abort()
            return
        due = connection.next_due_ns
        if due is not None and due < self._armed_ns:
            self._arm(due)
        if connection.closing:
            transport.close()
            asyncio.get_running_loop().call_later(_LINGER_S, transport.abort)
        elif connection.unfinished and not self._full:
            connection.continue_retransmission(self._clock())
            self._host.talking.add(connection)
            self._gate.touched()

    def drop(self) -> None:
        """Abort the connection, as when a gateway fails."""
        self._transport.abort()

    def _arm(self, due_ns: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._armed_ns = due_ns
        delay = max(0.0005, (due_ns - self._clock()) / SECOND)
        self._timer = asyncio.get_running_loop().call_later(delay, self._wake)

    def _wake(self) -> None:
        """Run the timer, unless its deadline has moved meanwhile."""
        now = self._clock()
        due = self.connection.next_due_ns
        if due is not None and due <= now:
            self._host.wake(self.connection, now)
            self._gate.touched()
            due = self.connection.next_due_ns
        if due is not None:
            self._arm(due)
