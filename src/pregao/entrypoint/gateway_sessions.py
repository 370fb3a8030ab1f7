"""Sessions of a gateway: what each has sent and expects, connected or not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from pregao.entrypoint import session_state as cod
from pregao.entrypoint.admission import Refusals
from pregao.entrypoint.events import CancelOrders, MessageReceived, MessageRejected, RequestReceived
from pregao.entrypoint.framing import StreamFrame
from pregao.entrypoint.messages import (
    OTHER,
    THROTTLED,
    VERSIONS,
    EntryPointCodec,
    messages,
    reject_values,
    value_fault,
)
from pregao.entrypoint.session_settings import GatewaySettings, SessionAccount, Throttle
from pregao.entrypoint.session_state import (
    CancelScheduled,
    IncomingExpected,
    SessionBound,
    SessionState,
    SessionUnbound,
    VersionNegotiated,
)
from pregao.entrypoint.session_store import SessionStore
from pregao.errors import FieldRangeError, UsageError
from pregao.sbe.codec import SbeMessage

if TYPE_CHECKING:
    from pregao.entrypoint.gateway_connection import GatewayConnection


class BusinessMessage(NamedTuple):
    """A business message: the fields that the session needs, and the decoded content."""

    name: str
    session_id: int
    number: int
    fault: str | None
    """Description of an invalid value, or None."""
    content: Any


Reader = Callable[[StreamFrame], BusinessMessage]
"""Reads the business messages of one template and version; raises DecodeError if it cannot."""
Readers = Callable[[int], Mapping[int, Reader]]
"""Returns the readers of a version by template; other templates are decoded in full."""


def _no_readers(_version: int) -> Mapping[int, Reader]:
    return {}


def read_frame(known: EntryPointCodec, name: str, frame: StreamFrame) -> BusinessMessage:
    """Decode a business message in full; one with an out-of-range field has a fault."""
    try:
        return read_business(known, name, known.decode(frame))
    except FieldRangeError as error:
        message = known.readable(frame)
        header = message["businessHeader"]
        return BusinessMessage(
            name, header["sessionID"], header["msgSeqNum"], error.reason, message
        )


def read_business(known: EntryPointCodec, name: str, message: SbeMessage) -> BusinessMessage:
    """Return the reading of a business message that was decoded in full; its content is the
    message.

    Args:
        known: The codec of the session's version.
        name: Name of the message.
        message: The decoded message.

    Returns:
        The message with its session and number, and why its values are invalid, or None.

    Example:
        >>> from pregao.entrypoint import FrameReader, messages
        >>> codec = messages(6)
        >>> values = {"clOrdID": 1, "securityID": 1, "side": "BUY", "ordType": "LIMIT",
        ...     "timeInForce": "DAY", "orderQty": 100, "price": 30, "marketSegmentID": 1,
        ...     "mmProtectionReset": "FALSE_VALUE", "senderLocation": "X", "enteringTrader": "X",
        ...     "selfTradePreventionInstruction": "NONE"}
        >>> sent = codec.from_client("SimpleNewOrder", values, 7, 3, 1)
        >>> (frame,) = FrameReader().receive(sent)
        >>> business = read_business(codec, "SimpleNewOrder", codec.decode(frame))
        >>> business.session_id, business.number, business.fault
        (7, 3, None)
    """
    header = message["businessHeader"]
    fault = value_fault(known.enumerations(name), message.values)
    return BusinessMessage(name, header["sessionID"], header["msgSeqNum"], fault, message)


class GatewaySession:
    """One session, across connections."""

    def __init__(
        self,
        account: SessionAccount,
        store: SessionStore,
        rules: GatewaySettings,
        leaving: set[int],
    ) -> None:
        self.account = account
        self._leaving = leaving
        self.connection: GatewayConnection | None = None
        """The connection that has negotiated or established it."""
        self.throttle = Throttle(account.throttle)
        self.refused_attempts = 0
        self._store = store
        self._rules = rules
        self.session_id = account.session_id
        self.state: SessionState = store.state(account.session_id)
        """State between connections."""

    @property
    def messages(self) -> EntryPointCodec:
        """The codec of the session's version."""
        return messages(self.state.version or VERSIONS[-1])

    def send(
        self, name: str, values: Mapping[str, Any], now_ns: int, *, resend: bool = False
    ) -> int:
        """Send a business message, or store it until the client reconnects; return its number.

        Args:
            name: Name of the message.
            values: Its field values by name.
            now_ns: The current time.
            resend: Marks a message that may have been sent before with another number, e.g. before
                a
                failover.
        """
        number = self.state.next_outgoing
        data = self.messages.from_exchange(
            name, values, self.session_id, number, now_ns, resend=resend
        )
        self._store.sent(self.session_id, number, data)
        if self.connection is not None:
            self.connection.live(data, now_ns)
        return number

    def post(self, data: bytes, now_ns: int) -> None:
        """Send a business message that the owner has encoded with the next outgoing number."""
        self._store.sent(self.session_id, self.state.next_outgoing, data)
        if self.connection is not None:
            self.connection.live(data, now_ns)

    def accept(
        self, name: str, frame: StreamFrame, reading: BusinessMessage, now_ns: int
    ) -> MessageReceived | RequestReceived | MessageRejected:
        """Accept a business message of the client, or reject it: throttled, or an invalid value.

        The result depends only on the session's state, so that it can be replayed.
        """
        self.record_accepted(reading.number)
        content = reading.content
        fault = None
        if not self.throttle.admits(now_ns):
            fault = THROTTLED
        elif reading.fault is not None:
            fault = (OTHER, reading.fault)
        decoded = isinstance(content, SbeMessage)
        if fault is not None:
            message = content if decoded else self.messages.readable(frame)
            return self.reject(name, message, frame.data, *fault, now_ns)
        if decoded:
            return MessageReceived(name, reading.number, content, frame.data, now_ns)
        return RequestReceived(name, reading.number, content, frame, now_ns)

    def reject(
        self, name: str, message: SbeMessage, data: bytes, reason: int, text: str, now_ns: int
    ) -> MessageRejected:
        """Answer a business message with BusinessMessageReject."""
        values = reject_values(name, message, reason, text)
        self.send("BusinessMessageReject", values, now_ns)
        return MessageRejected(name, values["refSeqNum"], reason, text, data)

    def negotiated(self, session_ver_id: int, version: int) -> None:
        """Record a negotiated session version."""
        record = VersionNegotiated(session_ver_id, version, self._rules.gateway)
        self._store.record(self.session_id, record)

    def bound(self, wish: str, window_ms: int) -> None:
        """Record that the client established the session, with its cancel-on-disconnect."""
        self._store.record(self.session_id, SessionBound(wish, window_ms))
        self.refused_attempts = 0

    def expect(self, number: int) -> None:
        """Set the next expected number of the client."""
        self._store.record(self.session_id, IncomingExpected(number))

    def record_accepted(self, number: int) -> None:
        """Record the receipt of a business message of the client."""
        self._store.accept_incoming(self.session_id, number)

    def left(self, now_ns: int, *, graceful: bool) -> None:
        """Record the end of the connection that had established it."""
        self._store.record(self.session_id, SessionUnbound())
        state = self.state
        due = cod.due_ns(state.cancel_on_disconnect, state.window_ms, now_ns, graceful=graceful)
        if due is not None:
            self._store.record(self.session_id, CancelScheduled(due))
            self._leaving.add(self.session_id)

    def cancelled(self, now_ns: int) -> CancelOrders | None:
        """Return the cancellation that is due by now, once."""
        state = self.state
        if state.cancel_due_ns is None or state.cancel_due_ns > now_ns:
            return None
        self._store.record(self.session_id, CancelScheduled(None))
        return CancelOrders(self.session_id, cod.REASONS[state.cancel_on_disconnect])


class GatewaySessions:
    """All sessions of a gateway, by their accounts."""

    def __init__(
        self,
        accounts: Iterable[SessionAccount],
        store: SessionStore,
        rules: GatewaySettings | None = None,
        readers: Readers = _no_readers,
    ) -> None:
        """Create the sessions of a gateway.

        Args:
            accounts: One account per session.
            store: Where the sessions are kept.
            rules: Settings of the gateway; the defaults if omitted.
            readers: Custom readers of frequent messages, instead of full decoding.

        Raises:
            UsageError: Two accounts have the same session.
        """
        self.rules = GatewaySettings() if rules is None else rules
        self.refusals = Refusals()
        self.readers = readers
        self.store = store
        self._sessions: dict[int, GatewaySession] = {}
        self._leaving: set[int] = set()
        """Sessions with scheduled cancellations."""
        for account in accounts:
            if account.session_id in self._sessions:
                raise UsageError(
                    f"Session {account.session_id} has two accounts; each session needs one."
                )
            session = GatewaySession(account, store, self.rules, self._leaving)
            self._sessions[account.session_id] = session
            if session.state.cancel_due_ns is not None:
                self._leaving.add(account.session_id)

    def get(self, session_id: int) -> GatewaySession | None:
        """Return the session with this number, or None if it has no account."""
        return self._sessions.get(session_id)

    def __getitem__(self, session_id: int) -> GatewaySession:
        """Return the session with this number."""
        return self._sessions[session_id]

    @property
    def next_due_ns(self) -> int | None:
        """Time of the next scheduled cancellation of orders, if any."""
        due = (self._sessions[each].state.cancel_due_ns for each in self._leaving)
        return min((time for time in due if time is not None), default=None)

    def advance(self, now_ns: int) -> list[CancelOrders]:
        """Return the cancellations that are due: clients that left and did not return in time."""
        found = [self._sessions[each].cancelled(now_ns) for each in sorted(self._leaving)]
        self._leaving -= {
            each for each in self._leaving if self._sessions[each].state.cancel_due_ns is None
        }
        return [event for event in found if event is not None]

    def recover(self, now_ns: int) -> None:
        """Record, after a start, the loss of the connections that the previous process had.

        Their cancel-on-disconnect windows start now, so that a gateway failure leaves no orders.
        """
        for session in self._sessions.values():
            if session.connection is None and session.state.connected:
                session.left(now_ns, graceful=False)
            if session.state.cancel_due_ns is not None:
                self._leaving.add(session.session_id)

    def restored(self) -> None:
        """Find the sessions with scheduled cancellations again, after states were replaced."""
        self._leaving.clear()
        self._leaving.update(
            each for each, session in self._sessions.items() if session.state.cancel_due_ns
        )

    def accept(self, accepting: bool = True) -> None:
        """Accept sessions from now on, as a backup does when its primary failed, or refuse all."""
        self.rules = replace(self.rules, accepting=accepting)

    def __iter__(self) -> Iterator[GatewaySession]:
        """Iterate over all sessions, in the order of their accounts."""
        return iter(self._sessions.values())

    def reset_day(self, now_ns: int) -> None:
        """Start a trading session; existing connections are terminated (§4.2, §4.5.1)."""
        for session in self._sessions.values():
            if session.connection is not None:
                session.connection.terminate("FINISHED", now_ns, "the trading session ends")
            session.refused_attempts = 0
        self.store.reset_day()
