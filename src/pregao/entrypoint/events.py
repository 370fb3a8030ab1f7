"""Events of a session, on either side, and subscriptions with a bound on unread events."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from pregao.entrypoint.framing import StreamFrame
from pregao.sbe.codec import SbeMessage


@dataclass(frozen=True, slots=True)
class SessionNegotiated:
    """A session version was negotiated."""

    session_id: int
    session_ver_id: int


@dataclass(frozen=True, slots=True)
class SessionEstablished:
    """The session is established: business messages can flow."""

    session_id: int
    session_ver_id: int
    next_incoming: int
    next_outgoing: int


@dataclass(frozen=True, slots=True)
class SessionRefused:
    """Negotiate or Establish was rejected; the connection ends."""

    code: str
    text: str = field(default="", compare=False)
    """What the code leaves open, such as the sequence number that is expected."""


@dataclass(frozen=True, slots=True)
class MessageReceived:
    """A business message, in sequence, exactly once."""

    name: str
    number: int
    message: SbeMessage
    data: bytes
    """The frame as received."""
    time_ns: int
    again: bool = False
    """Whether it was retransmitted."""


class RequestReceived(NamedTuple):
    """A business message read by one of the owner's readers, in sequence, exactly once."""

    name: str
    number: int
    content: Any
    """Result of the reader."""
    frame: StreamFrame
    time_ns: int


@dataclass(frozen=True, slots=True)
class DuplicateIgnored:
    """A business message that was not passed on because it is a duplicate."""

    name: str
    number: int


@dataclass(frozen=True, slots=True)
class MessageRejected:
    """The gateway itself answered a business message with BusinessMessageReject."""

    name: str
    number: int
    reason: int
    text: str
    data: bytes = b""
    """The frame as received."""


@dataclass(frozen=True, slots=True)
class NotAppliedGap:
    """The exchange did not receive these messages of the client, and continues without them."""

    first: int
    count: int


@dataclass(frozen=True, slots=True)
class RetransmissionRefused:
    """Requested messages are not retransmitted."""

    code: str
    """Code of the reject; NOT_DELIVERED after several consecutive requests without effect."""
    first: int
    count: int
    """Number of messages abandoned; 0 if they will be requested again."""


@dataclass(frozen=True, slots=True)
class SequenceLowered:
    """The gateway continues with a lower number than expected; the client follows it."""

    expected: int
    next_number: int


@dataclass(frozen=True, slots=True)
class ConnectionEnded:
    """The connection is ending or has ended."""

    code: str
    """Code of the Terminate sent or received; empty if there was none."""
    graceful: bool
    """Whether the client terminated."""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class CancelOrders:
    """The orders of a session must be canceled: its client left and did not return in time."""

    session_id: int
    reason: str
    """Name of the reason for the execution reports."""


SessionEvent = (
    SessionNegotiated
    | SessionEstablished
    | SessionRefused
    | MessageReceived
    | RequestReceived
    | DuplicateIgnored
    | MessageRejected
    | NotAppliedGap
    | RetransmissionRefused
    | SequenceLowered
    | ConnectionEnded
    | CancelOrders
)


@dataclass(frozen=True, slots=True)
class ConnectionFailed:
    """A gateway could not be reached; the client tries the next one, or the same one later."""

    gateway: str
    reason: str


ClientEvent = SessionEvent | ConnectionFailed


class EventSource(Protocol):
    """Publisher of events."""

    def drop(self, subscription: ClientSubscription) -> None:
        """Stop delivering events to a subscription."""

    def caught_up(self) -> None:
        """Handle that a subscription is no longer full."""


class ClientSubscription(AsyncIterator[ClientEvent]):
    """An asynchronous iterator over the events of a client, until it is closed."""

    def __init__(self, source: EventSource, max_events: int) -> None:
        self._source = source
        self._max_events = max_events
        self._waiting: deque[ClientEvent] = deque()
        self._news = asyncio.Event()
        self._over = False

    @property
    def full(self) -> bool:
        """Whether the number of unread events has reached the limit."""
        return len(self._waiting) >= self._max_events

    def put(self, events: Sequence[ClientEvent]) -> None:
        """Add events."""
        self._waiting.extend(events)
        if events:
            self._news.set()

    def end(self) -> None:
        """End the iteration after the events already added."""
        self._over = True
        self._news.set()
        self._source.drop(self)

    async def __anext__(self) -> ClientEvent:
        while not self._waiting:
            if self._over:
                raise StopAsyncIteration
            self._news.clear()
            await self._news.wait()
        was_full = self.full
        event = self._waiting.popleft()
        if was_full:
            self._source.caught_up()
        return event
