"""An EntryPoint client on asyncio that recovers its session from every failure.

`Client` connects to the first gateway that answers, negotiates or establishes, and reconnects
whenever the connection is lost. It publishes events and tracks the orders of the session
(`Client.orders`). With a `SessionFile` the session survives a restart of the process.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from pregao.clock import SECOND, Clock, system_clock
from pregao.entrypoint.client_session import ClientSession
from pregao.entrypoint.client_transport import ClientTransport
from pregao.entrypoint.events import (
    ClientEvent,
    ClientSubscription,
    ConnectionEnded,
    ConnectionFailed,
    MessageReceived,
    NotAppliedGap,
    SequenceLowered,
    SessionEstablished,
    SessionRefused,
)
from pregao.entrypoint.framing import frame_of
from pregao.entrypoint.messages import EntryPointCodec, messages, read_schema
from pregao.entrypoint.order_tracker import AnswerMatcher, OrderTracker, answer_key, client_ids_of
from pregao.entrypoint.request_builder import RequestBuilder, RequestDefaults
from pregao.entrypoint.session_settings import ClientSettings, ConnectionStage
from pregao.entrypoint.session_store import SessionStore
from pregao.errors import PregaoError, UsageError

LEARNT: Final = frozenset({
    "ALREADY_NEGOTIATED", "INVALID_SESSIONVERID", "UNNEGOTIATED", "INVALID_NEXTSEQNO",
})  # fmt: skip
"""Rejects that provide what the client lacked: it retries with the corrected value."""
PASSING: Final = frozenset({
    "DUPLICATE_SESSION_CONNECTION", "AUTHENTICATION_IN_PROGRESS", "NEGOTIATE_NOT_ALLOWED",
    "ESTABLISH_NOT_ALLOWED", "ALREADY_ESTABLISHED", "UNSPECIFIED",
})  # fmt: skip
"""Rejects that may be temporary, or specific to one gateway."""


UNREADABLE: Final = frozenset({"INVALID_SOFH", "UNRECOGNIZED_MESSAGE", "DECODING_ERROR"})
"""Termination codes of a connection that received something unreadable."""


class SessionRefusedError(PregaoError):
    """The exchange refuses the session, and a retry would not change that."""


class ClientTimeoutError(PregaoError, TimeoutError):
    """No session was established, or no answer arrived, within a timeout."""


@dataclass(frozen=True, slots=True)
class ReconnectPolicy:
    """Delays and timeouts of a client that connects and reconnects, in seconds."""

    first_s: float = 0.05
    """Delay before the second retry; the first is immediate."""
    max_delay_s: float = 5.0
    """Maximum delay; it doubles with each attempt up to this."""
    connect_s: float = 5.0
    """Timeout of the TCP connection."""
    handshake_s: float = 10.0
    """Timeout of the handshake, until the session is established."""
    start_s: float | None = 15.0
    """Timeout of ``async with``, until the first session is established, or None."""


class Client:
    """One client session, over as many connections as it needs.

    ```python
    async with Client(settings, [("127.0.0.1", 9000)]) as client:
        report = await client.request("SimpleNewOrder", {...})
    ```
    """

    def __init__(
        self,
        settings: ClientSettings,
        gateways: Sequence[tuple[str, int]],
        store: SessionStore | None = None,
        *,
        reconnecting: ReconnectPolicy | None = None,
        clock: Clock = system_clock,
        schema: str | Path | None = None,
    ) -> None:
        """Create a client; `start` or ``async with`` connects it.

        Args:
            settings: Session, credentials and session parameters.
            gateways: Host and port of the primary gateway and its backups, in order of preference.
            store: Where the session is kept; in memory by default.
            reconnecting: Delays and timeouts of connection attempts.
            clock: Returns the time in nanoseconds since 1970.
            schema: A schema file of one version, for gateways whose version is not bundled;
                it overrides ``settings.version``.

        Raises:
            UsageError: ``gateways`` is empty, or the schema cannot be used for sessions.
        """
        if not gateways:
            raise UsageError("A client needs at least one gateway address; gateways is empty.")
        self.gateways = list(gateways)
        self.orders = OrderTracker()
        self._clock = clock
        self._store = SessionStore() if store is None else store
        codec = (
            messages(settings.version) if schema is None else EntryPointCodec(read_schema(schema))
        )
        self.schema = codec.schema
        self.settings = replace(settings, keep_reports=True, version=codec.version)
        self._session = ClientSession(self.settings, self._store, codec)
        self._codec = codec
        self.last_problem = ""
        """Why the last connection failed or ended, as text."""
        self.unreadable = ""
        """What could not be read since the session was last established, as text."""
        self._wait = reconnecting or ReconnectPolicy()
        self._link: ClientTransport | None = None
        self._running: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()
        self._established = asyncio.Event()
        self._writable = asyncio.Event()
        self._held_version = self._session.state.session_ver_id
        self._refusal: str = ""
        self._last_refusal: str = ""
        self._answers = AnswerMatcher()
        self._subscriptions: set[ClientSubscription] = set()
        self._remember()

    def _remember(self) -> None:
        """Restore the orders of this trading session from the store."""
        state = self._session.state
        codec = self._codec
        for number, data in sorted(state.sent.items()):
            frame = frame_of(data)
            name = codec.name(frame)
            if name is not None:
                self.orders.sent(number, name, codec.decode(frame).values)
        for gap in state.not_taken:
            self.orders.not_applied(gap.first, gap.count)
        for number, name, message in self._session.kept():
            self.orders.received(name, message, number)

    # Lifecycle.

    async def __aenter__(self) -> Self:
        self.start()
        try:
            await self.ready(self._wait.start_s)
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    def start(self) -> None:
        """Start connecting, in the background."""
        if self._running is None:
            self._running = asyncio.get_running_loop().create_task(self._run())

    @property
    def established(self) -> bool:
        """Whether business messages can be sent now."""
        return self._session.stage is ConnectionStage.ESTABLISHED and self._link is not None

    @property
    def stage(self) -> ConnectionStage:
        """Stage of the current connection."""
        return self._session.stage

    @property
    def next_number(self) -> int:
        """Sequence number of the next business message."""
        return self._session.state.next_outgoing

    async def ready(self, timeout_s: float | None = None) -> None:
        """Wait until the session is established.

        Args:
            timeout_s: Maximum wait in seconds; None waits indefinitely.

        Raises:
            ClientTimeoutError: The session was not established in time.
            SessionRefusedError: The exchange refuses the session permanently.
            UsageError: The client was not started, or was closed.
        """
        if self._running is None:
            raise UsageError("The client was not started: use `async with`, or call start().")
        try:
            async with asyncio.timeout(timeout_s):
                while not self.established:
                    if self._running.done():
                        raise self._reason()
                    waiting = asyncio.ensure_future(self._established.wait())
                    both: set[asyncio.Future[Any]] = {waiting, self._running}
                    try:
                        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
                    finally:
                        waiting.cancel()
        except TimeoutError:
            raise ClientTimeoutError(self._no_session(timeout_s)) from None

    def _no_session(self, timeout_s: float | None) -> str:
        """Return the sentence that explains why no session was established in time."""
        listed = ", ".join(f"{host}:{port}" for host, port in self.gateways)
        problem = self.unreadable or self.last_problem or f"no answer of {listed}"
        return f"No session within {timeout_s or 0:g} s: {problem}."

    def _reason(self) -> PregaoError:
        """Return the error that explains why the session ended."""
        if self._refusal:
            return SessionRefusedError(
                f"The exchange refused session {self.settings.session_id}: {self._refusal}."
            )
        return UsageError("The client was closed.")

    async def close(self, timeout_s: float = 2.0) -> None:
        """Terminate the connection and stop; the session can be established again later.

        Args:
            timeout_s: Maximum wait for the gateway's answer, in seconds.
        """
        self._stopping.set()
        if self._running is not None:
            if self.established:
                self._session.leave(self._clock())
                self._flush()
                with suppress(TimeoutError):
                    async with asyncio.timeout(timeout_s):
                        await asyncio.shield(self._running)
            self._running.cancel()
            with suppress(asyncio.CancelledError):
                await self._running
        self._answers.cancel()
        for subscription in list(self._subscriptions):
            subscription.end()
        self._store.flush()

    # Requests.

    async def send(self, name: str, values: Mapping[str, Any]) -> int:
        """Send a business message as soon as possible and return its sequence number.

        Waits while the session is not established and while the gateway applies back-pressure.

        Args:
            name: Name of the message, e.g. ``NewOrderSingle``.
            values: Its field values by name; ``marketSegmentID`` goes into the business header.

        Returns:
            The sequence number of the message.

        Raises:
            SessionRefusedError: The exchange refuses the session permanently.
            EncodeError: A value cannot be encoded, or the message has no such field.
            UsageError: Clients do not send this message, its ``clOrdID`` belongs to an active
                order or an unanswered request, or the client was closed.
        """
        while True:
            if not self.established:
                await self.ready()
            if self._writable.is_set():
                return self.send_now(name, values)
            await self._writable.wait()

    def send_now(self, name: str, values: Mapping[str, Any]) -> int:
        """Send a business message immediately and return its sequence number.

        Args:
            name: Name of the message.
            values: Its field values by name.

        Raises:
            EncodeError: A value cannot be encoded, or the message has no such field.
            UsageError: The session is not established, clients do not send this message, or its
                ``clOrdID`` belongs to an active order or an unanswered request.
        """
        for client_id in client_ids_of(name, values):
            owner = self.orders.owner(client_id)
            if owner:
                raise UsageError(
                    f"clOrdID {client_id} belongs to {owner}; send {name} with another one, such "
                    "as the next that a RequestBuilder allocates."
                )
        first_answer = self._session.next_live
        number = self._session.send(name, values, self._clock())
        self.orders.sent(number, name, values, first_answer)
        if self._link is not None:
            self._link.flush_soon()
        return number

    async def request(
        self, name: str, values: Mapping[str, Any], timeout_s: float | None = 10.0
    ) -> MessageReceived:
        """Send a request and wait for the first answer, positive or negative.

        The answer is the report with the request's ``clOrdID`` (or ``securityReqID``, ``posReqID``,
        ``allocID``, ``quoteID``, ``crossID``), or a BusinessMessageReject. A report that the
        exchange sent before the request, and now retransmits, is not its answer.

        Args:
            name: Name of the message, e.g. ``SimpleNewOrder``.
            values: Its field values by name.
            timeout_s: Maximum wait in seconds; None waits indefinitely.

        Returns:
            The answer, as received.

        Raises:
            ClientTimeoutError: No answer arrived in time; the exchange may or may not have the
                request.
            EncodeError: A value cannot be encoded, or the message has no such field.
            NotAppliedError: The exchange did not receive the request.
            UsageError: The request has no identifying field, or its value belongs to an active
                order or an unanswered request.

        Example:
            ```python
            name, values = requests.new("BUY", 200_000_101, 100, Decimal("12.50"))
            report = await client.request(name, values)
            ```
        """
        key = answer_key(name, values)
        if key is None:
            raise UsageError(f"{name} has no field that identifies its answer; use send().")
        answer = self._answers.expect(key)
        number = None
        try:
            async with asyncio.timeout(timeout_s):
                number = await self.send(name, values)
                self._answers.sent(key, number, self._session.next_live)
                return await answer
        except TimeoutError:
            if number is None:
                raise ClientTimeoutError(self._no_session(timeout_s)) from None
            raise ClientTimeoutError(
                f"No answer to {name} with {key[0]} {key[1]} within {timeout_s:g} s; the exchange "
                "may or may not have it."
            ) from None
        finally:
            self._answers.remove(key)

    def request_builder(self, entering: RequestDefaults | None = None) -> RequestBuilder:
        """Return a builder of requests for this session.

        It allocates ``clOrdID`` values from the last one of the session's store, or from the time
        if the store has none.

        Args:
            entering: Values common to all requests.

        Example:
            ```python
            requests = client.request_builder()
            report = await client.request(*requests.new("BUY", 200_000_101, 100))
            ```
        """
        return RequestBuilder(
            self.settings.version,
            entering,
            self.schema,
            last_client_id=self.orders.last_client_id,
            clock=self._clock,
        )

    # Events.

    def events(self, max_events: int = 10_000) -> ClientSubscription:
        """Subscribe to all events from now on.

        A subscriber with ``max_events`` unread events stops the client from reading until it has
        caught up: no event is lost, and the gateway sees back-pressure.

        Args:
            max_events: Maximum number of unread events before reading stops.

        Returns:
            An asynchronous iterator over the events, which ends when the client is closed.

        Example:
            ```python
            async for event in client.events():
                print(event)
            ```
        """
        subscription = ClientSubscription(self, max_events)
        self._subscriptions.add(subscription)
        return subscription

    def drop(self, subscription: ClientSubscription) -> None:
        """Stop delivering events to a subscription."""
        self._subscriptions.discard(subscription)
        self.caught_up()

    def caught_up(self) -> None:
        """Resume reading if no subscription is full."""
        if self._link is not None and not any(each.full for each in self._subscriptions):
            self._link.resume_reading()

    def _emit(self, events: Sequence[ClientEvent]) -> None:
        for event in events:
            match event:
                case MessageReceived():
                    self.orders.received(event.name, event.message, event.number)
                    self._answers.received(event)
                case NotAppliedGap():
                    self.orders.not_applied(event.first, event.count)
                    self._answers.not_applied(event)
                case SequenceLowered():
                    self.orders.lowered(event.next_number)
                    self._answers.lowered(event.next_number)
                case SessionEstablished():
                    if event.session_ver_id != self._held_version:
                        # Numbers restart: pending requests will not be answered (§4.6.2).
                        self._held_version = event.session_ver_id
                        self.orders.renumber()
                        self._answers.renumber()
                    self._established.set()
                    self.last_problem = self.unreadable = ""
                case SessionRefused():
                    self._last_refusal = event.code
                    why = ": ".join(filter(None, (event.code, event.text)))
                    self.last_problem = f"the gateway refused the session: {why}"
                case ConnectionFailed():
                    self.last_problem = f"cannot connect to {event.gateway}: {event.reason}"
                case ConnectionEnded() if event.code != self._last_refusal:
                    why = ": ".join(filter(None, (event.code, event.reason)))
                    self.last_problem = f"the connection ended: {why}"
                    if event.code in UNREADABLE:
                        self.unreadable = self.last_problem
        for subscription in self._subscriptions:
            subscription.put(events)
        if self._link is not None and any(each.full for each in self._subscriptions):
            self._link.pause_reading()

    # Connections.

    async def _run(self) -> None:
        """Keep the session connected until the client is closed or permanently refused."""
        index, attempt = 0, 0
        loop = asyncio.get_running_loop()
        while not self._stopping.is_set():
            self._last_refusal = ""
            began = loop.time()
            held = await self._connection(index)
            self._established.clear()
            self._writable.clear()
            refused = self._last_refusal
            if refused and refused not in LEARNT | PASSING:
                self._refusal = refused
                return
            if held:
                # Back off from a gateway that ends each session right after it was established.
                if loop.time() - began >= self._wait.max_delay_s:
                    attempt = 0
            elif refused not in LEARNT:
                index = (index + 1) % len(self.gateways)
            await self._pause(attempt)
            attempt += 1

    async def _pause(self, attempt: int) -> None:
        """Wait with exponential backoff and jitter, so that clients do not reconnect in step."""
        if attempt:
            wait = min(self._wait.max_delay_s, self._wait.first_s * 2.0 ** min(attempt - 1, 30))
            with suppress(TimeoutError):
                async with asyncio.timeout(wait * random.uniform(0.5, 1.0)):  # noqa: S311
                    await self._stopping.wait()

    async def _connection(self, gateway: int) -> bool:
        """Run the session on one connection until it ends. Returns whether it was established."""
        host, port = self.gateways[gateway]
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._wait.connect_s):
                _, link = await loop.create_connection(
                    lambda: ClientTransport(self, gateway + 1), host, port
                )
        except (OSError, TimeoutError) as error:
            self._emit([ConnectionFailed(f"{host}:{port}", _reason(error))])
            return False
        try:
            return await link.ended
        finally:
            link.abort()

    def on_connected(self, link: ClientTransport, gateway: int) -> None:
        """Handle a new connection."""
        self._link = link
        self._writable.set()
        self._session.connect(self._clock(), gateway)
        self._flush()

    def on_data(self, data: bytes) -> None:
        """Handle received bytes."""
        self._emit(self._session.receive(data, self._clock()))
        self._flush()
        if self._link is not None:
            self._link.rearm()

    def on_timer(self, *, reading: bool) -> None:
        """Handle the expiry of the timer."""
        now = self._clock()
        if not reading:
            self._session.on_reading_paused(now)
        self._emit(self._session.advance(now))
        self._flush()

    def on_disconnected(self) -> bool:
        """Handle the end of the connection. Returns whether it had established the session."""
        held = self._established.is_set()
        self._link = None
        self._established.clear()
        self._emit(self._session.lost())
        return held

    def writable(self, now: bool) -> None:
        """Handle a change of the write buffer: writable, or above its high-water mark."""
        if now:
            self._writable.set()
        else:
            self._writable.clear()

    def due_s(self) -> float | None:
        """Return the seconds until the next timer is due, or None."""
        due = self._session.next_due_ns
        return None if due is None else max(0.0, (due - self._clock()) / SECOND)

    def handshake_s(self) -> float:
        """Return the time allowed for establishing the session, in seconds."""
        return self._wait.handshake_s

    def _flush(self) -> None:
        if self._link is not None:
            self._link.flush()

    def output(self) -> tuple[bytes, bool]:
        """Return the bytes to send, and whether to close the connection after them."""
        return self._session.take_output(), self._session.closing


def _reason(error: OSError | TimeoutError) -> str:
    """Return why a connection failed; asyncio's own text would repeat the address."""
    if isinstance(error, OSError) and error.errno is not None and error.errno > 0:
        return os.strerror(error.errno)
    return getattr(error, "strerror", None) or str(error) or "no answer in time"
