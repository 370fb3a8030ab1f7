"""State of a session between connections, on either side, derived from its records.

Every change of a session is a record, and the state is the result of applying the records. A store
that keeps the records therefore keeps the session.

Part of it is cancel on disconnect (§4.7): whether and when a session's orders are canceled, and
why. The market selects the orders: all except good-till ones and those in an auction.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from pregao.clock import MILLISECOND

MAX_WINDOW_MS: Final = 60_000

NEVER: Final = "DO_NOT_CANCEL_ON_DISCONNECT_OR_TERMINATE"
ON_LOSS: Final = "CANCEL_ON_DISCONNECT_ONLY"
ON_TERMINATE: Final = "CANCEL_ON_TERMINATE_ONLY"
ALWAYS: Final = "CANCEL_ON_DISCONNECT_OR_TERMINATE"

REASONS: Final = {
    ON_LOSS: "CANCEL_ON_HARD_DISCONNECTION",
    ON_TERMINATE: "CANCEL_ON_TERMINATE",
    ALWAYS: "CANCEL_ON_DISCONNECT_AND_TERMINATE",
}
"""Reason in the report of a canceled order (100, 101, 102), by the session's setting."""

LAST_NUMBER: Final = 0xFFFF_FFFF
"""Highest sequence number on the wire: nothing can follow it."""


def due_ns(requested: str, window_ms: int, now_ns: int, *, graceful: bool) -> int | None:
    """Return the time at which orders are canceled after a connection ended, or None.

    ``graceful`` means that the client sent Terminate; a Terminate of the gateway does not count.
    """
    triggering = (ALWAYS, ON_TERMINATE) if graceful else (ALWAYS, ON_LOSS)
    return now_ns + window_ms * MILLISECOND if requested in triggering else None


@dataclass(frozen=True, slots=True)
class VersionNegotiated:
    """A session version was negotiated with a gateway, for messages of this schema version."""

    session_ver_id: int
    version: int
    gateway: int


@dataclass(frozen=True, slots=True)
class SessionBound:
    """The session was established with these cancel-on-disconnect settings."""

    cancel_on_disconnect: str
    window_ms: int


@dataclass(frozen=True, slots=True)
class SessionUnbound:
    """The connection that had established the session ended."""


@dataclass(frozen=True, slots=True)
class IncomingExpected:
    """The next expected number of the peer was set, whatever came before."""

    number: int


@dataclass(frozen=True, slots=True)
class IncomingAccepted:
    """A business message of the peer was accepted."""

    number: int


@dataclass(frozen=True, slots=True)
class DeliveryResolved:
    """Delivery is known for the own messages up to this one: the peer has them, or not."""

    number: int


@dataclass(frozen=True, slots=True)
class OutgoingSent:
    """A business message was sent, or would have been sent had there been a connection."""

    number: int
    data: bytes


@dataclass(frozen=True, slots=True)
class OutgoingSkipped:
    """The next own number was changed without sending."""

    number: int


@dataclass(frozen=True, slots=True)
class CancelScheduled:
    """Cancellation of orders was scheduled for this time, or unscheduled (None)."""

    time_ns: int | None


@dataclass(frozen=True, slots=True)
class DayReset:
    """A trading session starts: numbers from 1, nothing sent; session versions keep rising."""


@dataclass(frozen=True, slots=True)
class WeekReset:
    """A week starts: session versions may start over."""


@dataclass(frozen=True, slots=True)
class IncomingKept:
    """A business message of the peer that was passed on, as received."""

    number: int
    data: bytes


@dataclass(frozen=True, slots=True)
class OutgoingNotApplied:
    """The peer did not receive ``count`` own messages from ``first`` on, and continues without
    them.
    """

    first: int
    count: int


SessionRecord = (
    VersionNegotiated
    | SessionBound
    | SessionUnbound
    | IncomingExpected
    | IncomingAccepted
    | OutgoingSent
    | OutgoingSkipped
    | DeliveryResolved
    | CancelScheduled
    | DayReset
    | WeekReset
    | IncomingKept
    | OutgoingNotApplied
)


@dataclass(slots=True)
class SessionState:
    """State of a session between connections."""

    session_ver_id: int = 0
    """Last version negotiated in this week; 0 if none was."""
    version: int = 0
    """Schema version of its messages; 0 if none was negotiated."""
    gateways: set[int] = field(default_factory=set)
    """Gateways with which it was negotiated in this trading session."""
    next_incoming: int = 1
    last_incoming: int = 0
    """Last business message received; after a skipped range lower than ``next_incoming - 1``."""
    next_outgoing: int = 1
    settled: int = 0
    """Last own message of which the delivery is known."""
    sent: dict[int, bytes] = field(default_factory=dict)
    """Sent business messages of this trading session by number, with their original bytes."""
    received: list[IncomingKept] = field(default_factory=list)
    """Business messages received in this trading session, unchanged, if they are kept."""
    not_taken: list[OutgoingNotApplied] = field(default_factory=list)
    """Own messages that the peer did not receive, if they are kept."""
    connected: bool = False
    """Whether a connection has the session established, according to the records."""
    cancel_on_disconnect: str = NEVER
    window_ms: int = 0
    cancel_due_ns: int | None = None

    @property
    def negotiated(self) -> bool:
        """Whether it was negotiated in this trading session, with any gateway."""
        return bool(self.gateways)

    def apply(self, record: SessionRecord) -> None:
        """Apply a record."""
        match record:  # the frequent ones first
            case IncomingAccepted(number):
                self.next_incoming = number + 1
                self.last_incoming = number
            case OutgoingSent(number, data):
                self.sent[number] = data
                self.next_outgoing = number + 1
            case VersionNegotiated(session_ver_id, version, gateway):
                self.session_ver_id = session_ver_id
                self.version = version
                self.gateways.add(gateway)
            case SessionBound(cancel_on_disconnect, window_ms):
                self.cancel_on_disconnect = cancel_on_disconnect
                self.window_ms = window_ms
                self.cancel_due_ns = None
                self.connected = True
            case SessionUnbound():
                self.connected = False
            case IncomingExpected(number):
                self.next_incoming = number
            case DeliveryResolved(number):
                self.settled = number
            case OutgoingSkipped(number):
                self.next_outgoing = number
            case CancelScheduled(time_ns):
                self.cancel_due_ns = time_ns
            case IncomingKept():
                self.received.append(record)
            case OutgoingNotApplied():
                self.not_taken.append(record)
            case DayReset():
                self.gateways.clear()
                self.sent.clear()
                self.received.clear()
                self.not_taken.clear()
                self.next_incoming = self.next_outgoing = 1
                self.last_incoming = self.settled = 0
                self.connected = False
                self.cancel_due_ns = None
            case WeekReset():
                self.apply(DayReset())
                self.session_ver_id = self.version = 0

    def summary(self) -> list[SessionRecord]:
        """Return the shortest list of records that produces this state."""
        records: list[SessionRecord] = [
            VersionNegotiated(self.session_ver_id, self.version, gateway)
            for gateway in self.gateways
        ]
        if not records and self.session_ver_id:
            records = [VersionNegotiated(self.session_ver_id, self.version, 0), DayReset()]
        records.append(SessionBound(self.cancel_on_disconnect, self.window_ms))
        if not self.connected:
            records.append(SessionUnbound())
        records += [OutgoingSent(number, data) for number, data in self.sent.items()]
        records += [OutgoingSkipped(self.next_outgoing), DeliveryResolved(self.settled)]
        records += self.received
        records += self.not_taken
        records += [IncomingAccepted(self.last_incoming), IncomingExpected(self.next_incoming)]
        return [*records, CancelScheduled(self.cancel_due_ns)]


def expected_text(last_incoming: int) -> str:
    """Return what a refused nextSeqNo should have been: the reject has the number before it."""
    return (
        f"nextSeqNo {last_incoming + 1} is expected; lastIncomingSeqNo is the number before it, "
        f"{last_incoming}"
    )
