"""What a session tells its owner, on either side."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from pregao.entrypoint.framing import Frame
from pregao.sbe import Decoded


@dataclass(frozen=True, slots=True)
class SessionNegotiated:
    """A session version was agreed."""

    session_id: int
    session_ver_id: int


@dataclass(frozen=True, slots=True)
class SessionEstablished:
    """Business messages can flow."""

    session_id: int
    session_ver_id: int
    next_incoming: int
    next_outgoing: int


@dataclass(frozen=True, slots=True)
class SessionRefused:
    """Negotiate or Establish was rejected; the connection ends."""

    code: str


@dataclass(frozen=True, slots=True)
class Received:
    """A business message, in its order, once."""

    name: str
    number: int
    message: Decoded
    data: bytes
    """The frame as it came."""
    time_ns: int
    again: bool = False
    """It came by retransmission."""


class Admitted(NamedTuple):
    """A business message that a reader of the owner's has read, in its order, once."""

    name: str
    number: int
    content: Any
    """What the reader made of it."""
    frame: Frame
    time_ns: int


@dataclass(frozen=True, slots=True)
class Ignored:
    """A business message that was not passed on, because it was before."""

    name: str
    number: int


@dataclass(frozen=True, slots=True)
class MessageRejected:
    """The gateway answered a business message with BusinessMessageReject by itself."""

    name: str
    number: int
    reason: int
    text: str
    data: bytes = b""
    """The frame as it came."""


@dataclass(frozen=True, slots=True)
class NotAppliedGap:
    """The exchange has not seen these messages of the client and goes on without them."""

    first: int
    count: int


@dataclass(frozen=True, slots=True)
class RetransmissionRefused:
    """Messages that were asked for again do not come."""

    code: str
    """Of the reject; NOT_DELIVERED where requests had no effect, several times in a row."""
    first: int
    count: int
    """How many are given up for good; 0 if they will be asked for once more."""


@dataclass(frozen=True, slots=True)
class SequenceLowered:
    """The gateway goes on with a lower number than was expected; the client follows it."""

    expected: int
    next_number: int


@dataclass(frozen=True, slots=True)
class ConnectionEnded:
    """The connection ends, or has ended."""

    code: str
    """Of the Terminate that was sent or received; empty where there was none."""
    graceful: bool
    """The client said that it goes."""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class CancelOrders:
    """The orders of a session are to be cancelled: it left and did not come back in time."""

    session_id: int
    reason: str
    """The name of the reason for the reports."""


Event = (
    SessionNegotiated
    | SessionEstablished
    | SessionRefused
    | Received
    | Admitted
    | Ignored
    | MessageRejected
    | NotAppliedGap
    | RetransmissionRefused
    | SequenceLowered
    | ConnectionEnded
    | CancelOrders
)


@dataclass(frozen=True, slots=True)
class ConnectionFailed:
    """A gateway could not be reached; the next one is tried, or the same again later."""

    gateway: str
    reason: str
