"""The sessions of a gateway: what each has sent and expects, whether or not it is connected."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from pregao.entrypoint import cancel_on_disconnect as cod
from pregao.entrypoint.business_rejects import OTHER, THROTTLED, reject_values, value_fault
from pregao.entrypoint.events import Admitted, CancelOrders, MessageRejected, Received
from pregao.entrypoint.framing import Frame
from pregao.entrypoint.messages import VERSIONS, Messages, messages
from pregao.entrypoint.refusals import Refusals
from pregao.entrypoint.rules import Account, GatewayRules
from pregao.entrypoint.session_state import (
    Bound,
    CancelDue,
    Expecting,
    Negotiated,
    SessionState,
    Unbound,
)
from pregao.entrypoint.store import SessionStore
from pregao.entrypoint.throttle import Throttle
from pregao.errors import FieldRangeError, UsageError
from pregao.sbe import Decoded

if TYPE_CHECKING:
    from pregao.entrypoint.gateway_connection import GatewayConnection


class Reading(NamedTuple):
    """A business message as far as a session must know it, and what was read of it."""

    name: str
    session_id: int
    number: int
    fault: str | None
    """What is wrong with its values, if anything is."""
    content: Any


Reader = Callable[[Frame], Reading]
"""Reads the business messages of one template and version; DecodeError where it cannot."""
Readers = Callable[[int], Mapping[int, Reader]]
"""The readers of a version by template; templates without one are decoded in full."""


def _no_readers(_version: int) -> Mapping[int, Reader]:
    return {}


def read_frame(known: Messages, name: str, frame: Frame) -> Reading:
    """A business message decoded in full; one with a number beyond its field has a fault."""
    try:
        return read_business(known, name, known.decode(frame))
    except FieldRangeError as error:
        message = known.readable(frame)
        header = message["businessHeader"]
        return Reading(name, header["sessionID"], header["msgSeqNum"], error.reason, message)


def read_business(known: Messages, name: str, message: Decoded) -> Reading:
    """A business message that was decoded in full; it is its own content."""
    header = message["businessHeader"]
    fault = value_fault(known.enumerations(name), message.values)
    return Reading(name, header["sessionID"], header["msgSeqNum"], fault, message)


class GatewaySession:
    """One session: it lives through connections."""

    def __init__(
        self, account: Account, store: SessionStore, rules: GatewayRules, leaving: set[int]
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
        """What it is between connections."""

    @property
    def messages(self) -> Messages:
        """The messages of the version that it is held in."""
        return messages(self.state.version or VERSIONS[-1])

    def send(
        self, name: str, values: Mapping[str, Any], now_ns: int, *, resend: bool = False
    ) -> int:
        """Send a business message, or keep it until the client comes back; give its number.

        ``resend`` marks what may have been sent before under another number, as after a takeover.
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
        """Send a business message that the owner has packed with the next outgoing number."""
        self._store.sent(self.session_id, self.state.next_outgoing, data)
        if self.connection is not None:
            self.connection.live(data, now_ns)

    def take(
        self, name: str, frame: Frame, reading: Reading, now_ns: int
    ) -> Received | Admitted | MessageRejected:
        """Take a business message of the client, or reject it: too many, or a value that is none.

        It depends on nothing but what the session is, so that it can be done again.
        """
        self.took(reading.number)
        content = reading.content
        fault = None
        if not self.throttle.admits(now_ns):
            fault = THROTTLED
        elif reading.fault is not None:
            fault = (OTHER, reading.fault)
        whole = isinstance(content, Decoded)
        if fault is not None:
            message = content if whole else self.messages.readable(frame)
            return self.reject(name, message, frame.data, *fault, now_ns)
        if whole:
            return Received(name, reading.number, content, frame.data, now_ns)
        return Admitted(name, reading.number, content, frame, now_ns)

    def reject(
        self, name: str, message: Decoded, data: bytes, reason: int, text: str, now_ns: int
    ) -> MessageRejected:
        """Answer a business message with BusinessMessageReject."""
        values = reject_values(name, message, reason, text)
        self.send("BusinessMessageReject", values, now_ns)
        return MessageRejected(name, values["refSeqNum"], reason, text, data)

    def negotiated(self, session_ver_id: int, version: int) -> None:
        """A session version was agreed."""
        record = Negotiated(session_ver_id, version, self._rules.gateway)
        self._store.record(self.session_id, record)

    def bound(self, wish: str, window_ms: int) -> None:
        """The client is there, and says what its going shall mean."""
        self._store.record(self.session_id, Bound(wish, window_ms))
        self.refused_attempts = 0

    def expect(self, number: int) -> None:
        """The client's next business message should have this number."""
        self._store.record(self.session_id, Expecting(number))

    def took(self, number: int) -> None:
        """A business message of the client was received."""
        self._store.taken(self.session_id, number)

    def left(self, now_ns: int, *, graceful: bool) -> None:
        """The connection that had established it ended."""
        self._store.record(self.session_id, Unbound())
        state = self.state
        due = cod.due_ns(state.cancel_on_disconnect, state.window_ms, now_ns, graceful=graceful)
        if due is not None:
            self._store.record(self.session_id, CancelDue(due))
            self._leaving.add(self.session_id)

    def cancelled(self, now_ns: int) -> CancelOrders | None:
        """The cancellation that is due by now, once."""
        state = self.state
        if state.cancel_due_ns is None or state.cancel_due_ns > now_ns:
            return None
        self._store.record(self.session_id, CancelDue(None))
        return CancelOrders(self.session_id, cod.REASONS[state.cancel_on_disconnect])


class GatewaySessions:
    """All sessions of a gateway, by their accounts."""

    def __init__(
        self,
        accounts: Iterable[Account],
        store: SessionStore,
        rules: GatewayRules | None = None,
        readers: Readers = _no_readers,
    ) -> None:
        """With ``readers`` an owner reads the frequent messages its own way."""
        self.rules = GatewayRules() if rules is None else rules
        self.refusals = Refusals()
        self.readers = readers
        self.store = store
        self._sessions: dict[int, GatewaySession] = {}
        self._leaving: set[int] = set()
        """The sessions whose orders may have to be cancelled."""
        for account in accounts:
            if account.session_id in self._sessions:
                raise UsageError(f"session {account.session_id} has two accounts")
            session = GatewaySession(account, store, self.rules, self._leaving)
            self._sessions[account.session_id] = session
            if session.state.cancel_due_ns is not None:
                self._leaving.add(account.session_id)

    def get(self, session_id: int) -> GatewaySession | None:
        """The session of that number, if there is an account for it."""
        return self._sessions.get(session_id)

    def __getitem__(self, session_id: int) -> GatewaySession:
        """The session of that number."""
        return self._sessions[session_id]

    @property
    def next_due_ns(self) -> int | None:
        """When orders are to be cancelled next, as far as is known."""
        due = (self._sessions[each].state.cancel_due_ns for each in self._leaving)
        return min((time for time in due if time is not None), default=None)

    def advance(self, now_ns: int) -> list[CancelOrders]:
        """What became due: the orders of clients that left and did not come back in time."""
        found = [self._sessions[each].cancelled(now_ns) for each in sorted(self._leaving)]
        self._leaving -= {
            each for each in self._leaving if self._sessions[each].state.cancel_due_ns is None
        }
        return [event for event in found if event is not None]

    def recover(self, now_ns: int) -> None:
        """After a start: clients that were connected when the process ended have lost that.

        Their windows begin now, so that a failure of the gateway leaves no orders behind.
        """
        for session in self._sessions.values():
            if session.connection is None and session.state.connected:
                session.left(now_ns, graceful=False)
            if session.state.cancel_due_ns is not None:
                self._leaving.add(session.session_id)

    def restored(self) -> None:
        """Find out again whose orders may have to be cancelled: the states were replaced."""
        self._leaving.clear()
        self._leaving.update(
            each for each, session in self._sessions.items() if session.state.cancel_due_ns
        )

    def accept(self, accepting: bool = True) -> None:
        """Take sessions from now on, as a backup does when its primary failed; or take none."""
        self.rules = replace(self.rules, accepting=accepting)

    def __iter__(self) -> Iterator[GatewaySession]:
        """All sessions, in the order of their accounts."""
        return iter(self._sessions.values())

    def reset_day(self, now_ns: int) -> None:
        """Begin a trading session; connections that are there are ended (§4.2, §4.5.1)."""
        for session in self._sessions.values():
            if session.connection is not None:
                session.connection.terminate("FINISHED", now_ns, "the trading session ends")
            session.refused_attempts = 0
        self.store.reset_day()
