"""A client of EntryPoint on asyncio: it keeps its session through every failure by itself.

`Client` connects to the first gateway that answers, negotiates or establishes, and connects anew
whenever the connection is lost. Everything that happens is an event; the orders of the session are
followed (`Client.orders`). With a `SessionFile` the session goes on where it was after the end of
the process.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from pregao.clock import SECOND, Clock, system_clock
from pregao.entrypoint.client_link import Link
from pregao.entrypoint.client_session import ClientSession
from pregao.entrypoint.client_settings import ClientSettings, Stage
from pregao.entrypoint.events import (
    ConnectionEnded,
    ConnectionFailed,
    NotAppliedGap,
    Received,
    SessionEstablished,
    SessionRefused,
)
from pregao.entrypoint.framing import frame_of
from pregao.entrypoint.messages import Messages, messages, read_schema
from pregao.entrypoint.order_tracking import OrderTracker
from pregao.entrypoint.store import SessionStore
from pregao.entrypoint.subscription import ClientEvent, Subscription
from pregao.errors import PregaoError, UsageError

LEARNT: Final = frozenset({
    "ALREADY_NEGOTIATED", "INVALID_SESSIONVERID", "UNNEGOTIATED", "INVALID_NEXTSEQNO",
})  # fmt: skip
"""Refusals that tell the client what it did not know: it tries again with that."""
PASSING: Final = frozenset({
    "DUPLICATE_SESSION_CONNECTION", "AUTHENTICATION_IN_PROGRESS", "NEGOTIATE_NOT_ALLOWED",
    "ESTABLISH_NOT_ALLOWED", "ALREADY_ESTABLISHED", "UNSPECIFIED",
})  # fmt: skip
"""Refusals that may be over in a while, or are not those of another gateway."""


UNREADABLE: Final = frozenset({"INVALID_SOFH", "UNRECOGNIZED_MESSAGE", "DECODING_ERROR"})
"""How a connection ends on which something came that cannot be read."""


class SessionRefusedError(PregaoError):
    """The exchange will not hold the session, and trying again would not change that."""


class NotAppliedError(PregaoError):
    """The exchange does not have a request: it was lost with the connection it was sent on."""


@dataclass(frozen=True, slots=True)
class Reconnecting:
    """How a client comes back: how long it waits, and for how long."""

    first_s: float = 0.05
    """Before the second attempt; the first comes at once."""
    most_s: float = 5.0
    """The wait doubles up to this."""
    connect_s: float = 5.0
    """How long a gateway may take to answer."""
    handshake_s: float = 10.0
    """How long it may take until the session is established."""


class Client:
    """One session of a client, for as long as it is wanted.

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
        reconnecting: Reconnecting | None = None,
        clock: Clock = system_clock,
        schema: str | Path | None = None,
    ) -> None:
        """Prepare a client that `start` connects.

        Args:
            settings: Whose session it is, and how it is held.
            gateways: The primary and its backups.
            store: Keeps the session; in memory by default.
            reconnecting: How long it waits between attempts.
            clock: Gives the time in nanoseconds.
            schema: A schema file of one version, for gateways whose version is not bundled;
                it takes the place of ``settings.version``.
        """
        if not gateways:
            raise UsageError("A client needs the address of at least one gateway.")
        self.gateways = list(gateways)
        self.orders = OrderTracker()
        self._clock = clock
        self._store = SessionStore() if store is None else store
        speech = messages(settings.version) if schema is None else Messages(read_schema(schema))
        self.schema = speech.schema
        self.settings = replace(settings, keep_reports=True, version=speech.version)
        self._session = ClientSession(self.settings, self._store, speech)
        self._speech = speech
        self.last_problem = ""
        """Why the last connection was not made or ended, in words."""
        self.unreadable = ""
        """What could not be read since a session was established last, in words."""
        self._wait = reconnecting or Reconnecting()
        self._link: Link | None = None
        self._running: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()
        self._established = asyncio.Event()
        self._writable = asyncio.Event()
        self._held_version = self._session.state.session_ver_id
        self._refusal: str = ""
        self._last_refusal: str = ""
        self._answers: dict[tuple[str, int], asyncio.Future[Received]] = {}
        self._numbers: dict[int, tuple[str, int]] = {}
        self._subscriptions: set[Subscription] = set()
        self._remember()

    def _remember(self) -> None:
        """Follow the orders of what the store kept of this trading session."""
        state = self._session.state
        speech = self._speech
        for number, data in sorted(state.sent.items()):
            frame = frame_of(data)
            name = speech.name(frame)
            if name is not None:
                self.orders.sent(number, name, speech.decode(frame).values)
        for gap in state.not_taken:
            self.orders.not_applied(gap.first, gap.count)
        for _, name, message in self._session.kept():
            self.orders.received(name, message)

    # Its life.

    async def __aenter__(self) -> Self:
        self.start()
        try:
            await self.ready()
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
        """Begin to connect, in the background."""
        if self._running is None:
            self._running = asyncio.get_running_loop().create_task(self._run())

    @property
    def established(self) -> bool:
        """Can business messages be sent now?"""
        return self._session.stage is Stage.ESTABLISHED and self._link is not None

    @property
    def stage(self) -> Stage:
        """How far the connection is."""
        return self._session.stage

    @property
    def next_number(self) -> int:
        """The sequence number of the next business message."""
        return self._session.state.next_outgoing

    async def ready(self, timeout_s: float | None = None) -> None:
        """Wait until the session is established; SessionRefusedError if it never will be."""
        if self._running is None:
            raise UsageError("The client was not started: use it with `async with`, or start it.")
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

    def _reason(self) -> PregaoError:
        """Why the session is not held any more."""
        if self._refusal:
            return SessionRefusedError(
                f"The exchange refuses session {self.settings.session_id}: {self._refusal}."
            )
        return UsageError("The client was closed.")

    async def close(self, timeout_s: float = 2.0) -> None:
        """Take leave of the exchange and stop; the session can be held again later."""
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
        for answer in self._answers.values():
            answer.cancel()
        for subscription in list(self._subscriptions):
            subscription.end()
        self._store.flush()

    # What it sends.

    async def send(self, name: str, values: Mapping[str, Any]) -> int:
        """Send a business message as soon as it can be sent; give its number.

        Waits while the session is not established, and while the gateway reads too slowly.
        """
        while True:
            if not self.established:
                await self.ready()
            if self._writable.is_set():
                return self.send_now(name, values)
            await self._writable.wait()

    def send_now(self, name: str, values: Mapping[str, Any]) -> int:
        """Send a business message; UsageError if the session is not established."""
        number = self._session.send(name, values, self._clock())
        self.orders.sent(number, name, values)
        if self._link is not None:
            self._link.flush_soon()
        return number

    async def request(
        self, name: str, values: Mapping[str, Any], timeout_s: float | None = 10.0
    ) -> Received:
        """Send a request and wait for the first answer to it, whether it says yes or no.

        That is the report with its ``clOrdID`` (or ``securityReqID``, ``posReqID``, ``allocID``,
        ``quoteReqID``…), or a BusinessMessageReject. NotAppliedError says that the exchange does
        not have it, TimeoutError that it is not known whether it has.
        """
        key = _key_of(name, values)
        if key is None:
            raise UsageError(f"{name} has no field by which its answer could be told; send it.")
        if key in self._answers:
            raise UsageError(f"A request with {key[0]} {key[1]} waits for its answer already.")
        answer: asyncio.Future[Received] = asyncio.get_running_loop().create_future()
        self._answers[key] = answer
        number = -1
        try:
            async with asyncio.timeout(timeout_s):
                number = await self.send(name, values)
                self._numbers[number] = key
                return await answer
        finally:
            self._answers.pop(key, None)
            self._numbers.pop(number, None)

    # What it tells.

    def events(self, most: int = 10_000) -> Subscription:
        """Everything that happens from now on, to be iterated over.

        Who falls behind by more than ``most`` events makes the client read no more until he has
        caught up: nothing is lost, and the exchange notices.
        """
        subscription = Subscription(self, most)
        self._subscriptions.add(subscription)
        return subscription

    def drop(self, subscription: Subscription) -> None:
        """Tell a subscription no more."""
        self._subscriptions.discard(subscription)
        self.caught_up()

    def caught_up(self) -> None:
        """Read again, if nobody is behind any more."""
        if self._link is not None and not any(each.full for each in self._subscriptions):
            self._link.resume_reading()

    def _tell(self, events: Sequence[ClientEvent]) -> None:
        for event in events:
            match event:
                case Received():
                    self.orders.received(event.name, event.message)
                    self._answer(event)
                case NotAppliedGap():
                    self._not_applied(event)
                case SessionEstablished():
                    if event.session_ver_id != self._held_version:
                        # Numbers begin anew: what was not answered will not be (§4.6.2).
                        self._held_version = event.session_ver_id
                        self.orders.renumber()
                    self._established.set()
                    self.last_problem = self.unreadable = ""
                case SessionRefused():
                    self._last_refusal = event.code
                    self.last_problem = f"the gateway refuses the session: {event.code}"
                case ConnectionFailed():
                    self.last_problem = f"{event.gateway}: {event.reason}"
                case ConnectionEnded() if event.code != self._last_refusal:
                    why = ": ".join(filter(None, (event.code, event.reason)))
                    self.last_problem = f"the connection ended: {why}"
                    if event.code in UNREADABLE:
                        self.unreadable = self.last_problem
        for subscription in self._subscriptions:
            subscription.put(events)
        if self._link is not None and any(each.full for each in self._subscriptions):
            self._link.pause_reading()

    def _answer(self, event: Received) -> None:
        values = event.message.values
        if event.name == "BusinessMessageReject":
            key = self._numbers.get(values["refSeqNum"])
            found = None if key is None else self._answers.get(key)
        else:
            found = None
            for name in _ANSWERED_BY:
                value = values.get(name)
                if value is not None and (name, value) in self._answers:
                    found = self._answers[name, value]
                    break
        if found is not None and not found.done():
            found.set_result(event)

    def _not_applied(self, gap: NotAppliedGap) -> None:
        self.orders.not_applied(gap.first, gap.count)
        for number in [n for n in self._numbers if gap.first <= n < gap.first + gap.count]:
            answer = self._answers.get(self._numbers[number])
            if answer is not None and not answer.done():
                answer.set_exception(
                    NotAppliedError(f"The exchange does not have message {number}; send it anew.")
                )

    # Connections.

    async def _run(self) -> None:
        """Hold the session until the client is closed, or refused for good."""
        place, attempt = 0, 0
        loop = asyncio.get_running_loop()
        while not self._stopping.is_set():
            self._last_refusal = ""
            began = loop.time()
            held = await self._connection(place)
            self._established.clear()
            self._writable.clear()
            refused = self._last_refusal
            if refused and refused not in LEARNT | PASSING:
                self._refusal = refused
                return
            if held:
                # A gateway that ends each session at once is not asked again at once.
                if loop.time() - began >= self._wait.most_s:
                    attempt = 0
            elif refused not in LEARNT:
                place = (place + 1) % len(self.gateways)
            await self._pause(attempt)
            attempt += 1

    async def _pause(self, attempt: int) -> None:
        """Wait longer after each attempt that failed, and not as long as others do."""
        if attempt:
            wait = min(self._wait.most_s, self._wait.first_s * 2.0 ** min(attempt - 1, 30))
            with suppress(TimeoutError):
                async with asyncio.timeout(wait * random.uniform(0.5, 1.0)):  # noqa: S311
                    await self._stopping.wait()

    async def _connection(self, place: int) -> bool:
        """Hold the session on one connection until it ends; was it established?"""
        host, port = self.gateways[place]
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._wait.connect_s):
                _, link = await loop.create_connection(lambda: Link(self, place + 1), host, port)
        except (OSError, TimeoutError) as error:
            reason = getattr(error, "strerror", None) or str(error) or "no answer in time"
            self._tell([ConnectionFailed(f"{host}:{port}", reason)])
            return False
        try:
            return await link.ended
        finally:
            link.abort()

    def opened(self, link: Link, gateway: int) -> None:
        """A connection is there."""
        self._link = link
        self._writable.set()
        self._session.connect(self._clock(), gateway)
        self._flush()

    def heard(self, data: bytes) -> None:
        """Bytes came."""
        self._tell(self._session.receive(data, self._clock()))
        self._flush()
        if self._link is not None:
            self._link.rearm()

    def elapsed(self, *, reading: bool) -> None:
        """Time has passed."""
        now = self._clock()
        if not reading:
            self._session.unheard(now)
        self._tell(self._session.advance(now))
        self._flush()

    def gone(self) -> bool:
        """The connection is gone; had it established the session?"""
        held = self._established.is_set()
        self._link = None
        self._established.clear()
        self._tell(self._session.lost())
        return held

    def writable(self, now: bool) -> None:
        """The gateway reads, or it does not keep up."""
        if now:
            self._writable.set()
        else:
            self._writable.clear()

    def due_s(self) -> float | None:
        """In how many seconds something is to be done if nothing happens before."""
        due = self._session.next_due_ns
        return None if due is None else max(0.0, (due - self._clock()) / SECOND)

    def handshake_s(self) -> float:
        """How long a connection may take until the session is established."""
        return self._wait.handshake_s

    def _flush(self) -> None:
        if self._link is not None:
            self._link.flush()

    def output(self) -> tuple[bytes, bool]:
        """What is to be sent, and whether the connection is to be closed then."""
        return self._session.take_output(), self._session.closing


_ANSWERED_BY: Final = (
    "clOrdID", "securityReqID", "posReqID", "allocID", "quoteID", "crossID",
)  # fmt: skip
"""The fields by which a report names the request that it answers, the most telling first."""


def _key_of(name: str, values: Mapping[str, Any]) -> tuple[str, int] | None:
    if name == "NewOrderCross":
        return "crossID", values["crossID"]
    for field in _ANSWERED_BY:
        if values.get(field) is not None:
            return field, values[field]
    return None
