"""What a session is between connections, on either side, as the sum of what happened to it.

Everything that changes a session is a record; the state is what the records make of it. So a store
that keeps the records keeps the session.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from pregao.entrypoint.cancel_on_disconnect import NEVER

LAST_NUMBER: Final = 0xFFFF_FFFF
"""The highest sequence number of the wire: nothing can follow it."""


@dataclass(frozen=True, slots=True)
class Negotiated:
    """A session version was agreed with a gateway; the messages are of this schema version."""

    session_ver_id: int
    version: int
    gateway: int


@dataclass(frozen=True, slots=True)
class Bound:
    """The session was established with these wishes for the end of the connection."""

    cancel_on_disconnect: str
    window_ms: int


@dataclass(frozen=True, slots=True)
class Unbound:
    """The connection that had established the session ended."""


@dataclass(frozen=True, slots=True)
class Expecting:
    """The peer's next business message should have this number, whatever came before."""

    number: int


@dataclass(frozen=True, slots=True)
class Taken:
    """A business message of the peer was received, and taken."""

    number: int


@dataclass(frozen=True, slots=True)
class Settled:
    """Of the own messages up to this one it is known whether the peer has them."""

    number: int


@dataclass(frozen=True, slots=True)
class Sent:
    """A business message that was sent, or would have been had there been a connection."""

    number: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Skipped:
    """The own next number was moved without sending."""

    number: int


@dataclass(frozen=True, slots=True)
class CancelDue:
    """Orders will be cancelled at this time; None: not any more."""

    time_ns: int | None


@dataclass(frozen=True, slots=True)
class DayReset:
    """A trading session begins: numbers from 1, nothing sent; session versions go on rising."""


@dataclass(frozen=True, slots=True)
class WeekReset:
    """A week begins: session versions may start again."""


@dataclass(frozen=True, slots=True)
class Kept:
    """A business message of the peer that was passed on, as it came."""

    number: int
    data: bytes


@dataclass(frozen=True, slots=True)
class NotTaken:
    """The peer does not have so many own messages from this one on, and goes on without them."""

    first: int
    count: int


Record = (
    Negotiated
    | Bound
    | Unbound
    | Expecting
    | Taken
    | Sent
    | Skipped
    | Settled
    | CancelDue
    | DayReset
    | WeekReset
    | Kept
    | NotTaken
)


@dataclass(slots=True)
class SessionState:
    """A session between connections."""

    session_ver_id: int = 0
    """The last that was negotiated in this week; 0 if none was."""
    version: int = 0
    """The schema version of its messages; 0 if none was negotiated."""
    gateways: set[int] = field(default_factory=set)
    """The gateways with which it was negotiated in this trading session."""
    next_incoming: int = 1
    last_incoming: int = 0
    """The last business message received; lower than what is expected less one after a jump."""
    next_outgoing: int = 1
    settled: int = 0
    """Up to which own message it is known whether the peer has it."""
    sent: dict[int, bytes] = field(default_factory=dict)
    """The business messages of this trading session by number, as they were sent."""
    received: list[Kept] = field(default_factory=list)
    """The peer's business messages of this trading session as they came, where they are kept."""
    not_taken: list[NotTaken] = field(default_factory=list)
    """Which own messages the peer does not have, where that is kept."""
    connected: bool = False
    """A connection has it established, as far as is known."""
    cancel_on_disconnect: str = NEVER
    window_ms: int = 0
    cancel_due_ns: int | None = None

    @property
    def negotiated(self) -> bool:
        """Was it negotiated in this trading session, with any gateway?"""
        return bool(self.gateways)

    def apply(self, record: Record) -> None:
        """Become what a record says."""
        match record:  # the frequent ones first
            case Taken(number):
                self.next_incoming = number + 1
                self.last_incoming = number
            case Sent(number, data):
                self.sent[number] = data
                self.next_outgoing = number + 1
            case Negotiated(session_ver_id, version, gateway):
                self.session_ver_id = session_ver_id
                self.version = version
                self.gateways.add(gateway)
            case Bound(cancel_on_disconnect, window_ms):
                self.cancel_on_disconnect = cancel_on_disconnect
                self.window_ms = window_ms
                self.cancel_due_ns = None
                self.connected = True
            case Unbound():
                self.connected = False
            case Expecting(number):
                self.next_incoming = number
            case Settled(number):
                self.settled = number
            case Skipped(number):
                self.next_outgoing = number
            case CancelDue(time_ns):
                self.cancel_due_ns = time_ns
            case Kept():
                self.received.append(record)
            case NotTaken():
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

    def summary(self) -> list[Record]:
        """The fewest records that make this state."""
        records: list[Record] = [
            Negotiated(self.session_ver_id, self.version, gateway) for gateway in self.gateways
        ]
        if not records and self.session_ver_id:
            records = [Negotiated(self.session_ver_id, self.version, 0), DayReset()]
        records.append(Bound(self.cancel_on_disconnect, self.window_ms))
        if not self.connected:
            records.append(Unbound())
        records += [Sent(number, data) for number, data in self.sent.items()]
        records += [Skipped(self.next_outgoing), Settled(self.settled)]
        records += self.received
        records += self.not_taken
        records += [Taken(self.last_incoming), Expecting(self.next_incoming)]
        return [*records, CancelDue(self.cancel_due_ns)]
