"""TCP recovery of the legacy feed over asyncio: a client, and a server for tests and simulation.

The protocol is in `pregao.legacy.recovery`; this module has only the connections and the clock.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

from pregao.clock import SECOND, Clock, system_clock
from pregao.errors import NetworkError
from pregao.fix.session import FixSessionSettings
from pregao.legacy.recovery import (
    MessageStore,
    RecoveryClient,
    RecoveryEvent,
    RecoveryServer,
    RecoverySessionEnded,
)
from pregao.legacy.recovery_messages import MessageRange

IDLE_NS = 10 * SECOND
MAX_CONNECTIONS = 64
_PIECE = 1 << 16


class RecoveryConnection:
    """A connection to a recovery gateway, opened by `connect_recovery`."""

    def __init__(
        self,
        client: RecoveryClient,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        clock: Clock,
    ) -> None:
        self.client = client
        self._reader = reader
        self._writer = writer
        self._clock = clock

    async def ask(self, wanted: MessageRange) -> None:
        """Request messages; they arrive as events."""
        self.client.ask(wanted, self._clock())
        await _flushed(self.client.take_output, self._writer)

    async def flush(self) -> None:
        """Send pending output of the client, such as requests of a `GapFiller`."""
        await _flushed(self.client.take_output, self._writer)

    async def events(self) -> AsyncIterator[RecoveryEvent]:
        """Yield events until the session ends, sending heartbeats meanwhile."""
        while True:
            data = await _read(self._reader, self.client.deadline_ns, self._clock)
            now = self._clock()
            if data == b"":
                yield RecoverySessionEnded("the connection was closed")
                return
            events = self.client.tick(now) if data is None else self.client.receive(data, now)
            await _flushed(self.client.take_output, self._writer)
            for event in events:
                yield event
                if isinstance(event, RecoverySessionEnded):
                    return

    async def close(self) -> None:
        """Log out and close the connection."""
        self.client.session.log_out(self._clock())
        with suppress(OSError):
            await _flushed(self.client.take_output, self._writer)
            self._writer.close()
            await self._writer.wait_closed()


async def connect_recovery(
    host: str, port: int, settings: FixSessionSettings, clock: Clock = system_clock
) -> RecoveryConnection:
    """Connect to a recovery gateway and send the logon."""
    try:
        reader, writer = await asyncio.open_connection(host, port)
    except OSError as error:
        reason = error.strerror or str(error)
        raise NetworkError(f"{host}:{port} cannot be reached: {reason}") from None
    client = RecoveryClient(settings, clock())
    await _flushed(client.take_output, writer)
    return RecoveryConnection(client, reader, writer, clock)


@asynccontextmanager
async def recovery_server(
    host: str,
    port: int,
    settings: FixSessionSettings,
    store: MessageStore,
    clock: Clock = system_clock,
    *,
    idle_ns: int = IDLE_NS,
) -> AsyncIterator[int]:
    """Serve a store of messages while the context is open. Yields the port.

    The server closes a connection that does not log on within ``idle_ns``, that sends only part of
    a message in that time, or that does not read. It accepts at most `MAX_CONNECTIONS`. About
    `BYTES_PER_REPORT` bytes of replies to received data wait for a client to read.
    """
    connections = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        try:
            if connections <= MAX_CONNECTIONS:
                await answer(reader, writer)
        except (OSError, TimeoutError):
            pass
        finally:
            connections -= 1
            writer.transport.abort()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served = RecoveryServer(settings, store, clock())
        waits_until: int | None = clock() + idle_ns
        while True:
            deadline = served.deadline_ns
            if waits_until is not None and deadline is not None:
                deadline = min(deadline, waits_until)
            data = await _read(reader, deadline, clock)
            now = clock()
            if data == b"":
                return
            ended: list[RecoverySessionEnded] = []
            for events in [served.tick(now)] if data is None else served.answers(data, now):
                ended += events
                async with asyncio.timeout(idle_ns / SECOND):
                    await _flushed(served.take_output, writer)
                    await asyncio.sleep(0)  # let other connections proceed
            if ended:
                writer.close()
                async with asyncio.timeout(idle_ns / SECOND):
                    await writer.wait_closed()
                return
            if waits_until is not None and now >= waits_until:
                return
            if not served.session.waits_for_peer:
                waits_until = None
            elif waits_until is None or served.session.last_received_ns == now:
                waits_until = now + idle_ns

    server = await asyncio.start_server(serve, host, port)
    async with server:
        yield int(server.sockets[0].getsockname()[1])


async def _read(
    reader: asyncio.StreamReader, deadline_ns: int | None, clock: Clock
) -> bytes | None:
    """Return data received before the deadline, None at the deadline, or b"" at the end."""
    wait = None if deadline_ns is None else max(deadline_ns - clock(), 0) / SECOND
    try:
        return await asyncio.wait_for(reader.read(_PIECE), wait)
    except TimeoutError:
        return None
    except ConnectionError:
        return b""


async def _flushed(output: Callable[[], bytes], writer: asyncio.StreamWriter) -> None:
    data = output()
    if data:
        writer.write(data)
        with suppress(ConnectionError):
            await writer.drain()
