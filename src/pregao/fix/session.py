"""A minimal FIX 4.4 session for either side: logon, sequence numbers, heartbeats, gaps, logout.

Sequence numbers restart at 1 at every logon (tag 141). Sent messages are not stored: a resend
request is answered with a gap fill, as recovery gateways do.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from pregao.clock import SECOND, format_ns
from pregao.errors import DecodeError, UsageError
from pregao.fix.message import FixMessage, Parser, Value, encode

_HEARTBEAT, _TEST_REQUEST, _RESEND_REQUEST, _REJECT = "0", "1", "2", "3"
_SEQUENCE_RESET, _LOGOUT, _LOGON = "4", "5", "A"
_SESSION = frozenset("0123451A")
MAX_HEARTBEAT_S = 300
"""Longest heartbeat interval that a client may request: a longer silence would go unnoticed."""
_SILENCE = 1.5
"""Intervals of silence before a test request; after twice as many the session ends."""


@dataclass(frozen=True, slots=True)
class FixSessionSettings:
    """Identifiers, heartbeat interval and role of one side of a session."""

    sender: str
    target: str
    heartbeat_ns: int = 30 * SECOND
    acceptor: bool = False
    """Whether this side waits for the other side's logon."""

    def __post_init__(self) -> None:
        if not self.sender or not self.target:
            raise UsageError("a FIX session needs the CompIDs of both sides: sender and target")
        if self.heartbeat_ns < SECOND:
            raise UsageError("the heartbeat interval of a FIX session must be at least 1 second")


class FixSessionState(Enum):
    """State of a session."""

    IDLE = "not logged on"
    LOGGING_ON = "logon sent"
    ACTIVE = "logged on"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class LoggedOn:
    """Both sides are logged on."""


@dataclass(frozen=True, slots=True)
class LoggedOut:
    """The session has ended; the owner must close the connection."""

    reason: str


@dataclass(frozen=True, slots=True)
class ApplicationMessage:
    """An application message: one that the session does not handle itself."""

    message: FixMessage


FixSessionEvent = LoggedOn | LoggedOut | ApplicationMessage


class FixSession:
    """One session over one connection."""

    def __init__(self, settings: FixSessionSettings, now_ns: int) -> None:
        self.settings = settings
        self.state = FixSessionState.IDLE
        self._parser = Parser()
        self._out = bytearray()
        self._next_out = 1
        self._next_in = 1
        self._gap_start = 0
        """First missing number of the last gap that was requested."""
        self._sent_ns = self._last_received_ns = now_ns
        self._test_request_sent = False
        """Whether a test request is unanswered."""
        self._interval_ns = settings.heartbeat_ns
        if not settings.acceptor:
            seconds = settings.heartbeat_ns // SECOND
            self._write(_LOGON, [(98, 0), (108, seconds), (141, "Y")], now_ns)
            self.state = FixSessionState.LOGGING_ON

    @property
    def ended(self) -> bool:
        """Whether the session has ended."""
        return self.state is FixSessionState.ENDED

    @property
    def last_received_ns(self) -> int:
        """Time of the last complete message received, or of the start of the session."""
        return self._last_received_ns

    @property
    def waits_for_peer(self) -> bool:
        """Whether the other side must send next: it is not logged on, or its message is partial."""
        return self.state is not FixSessionState.ACTIVE or self._parser.pending > 0

    @property
    def deadline_ns(self) -> int | None:
        """Time at which `tick` must be called next; None if the session has ended."""
        if self.state is FixSessionState.ENDED:
            return None
        silence = int(self._interval_ns * _SILENCE) * (2 if self._test_request_sent else 1)
        return min(self._sent_ns + self._interval_ns, self._last_received_ns + silence)

    def take_output(self) -> bytes:
        """Return and clear the bytes to send."""
        out = bytes(self._out)
        self._out.clear()
        return out

    def send(self, kind: str, fields: Iterable[tuple[int, Value]], now_ns: int) -> None:
        """Send an application message."""
        if self.state is not FixSessionState.ACTIVE:
            raise UsageError(
                f"the FIX session is not logged on (state: {self.state.value}): wait for LoggedOn"
            )
        self._write(kind, fields, now_ns)

    def log_out(self, now_ns: int, reason: str = "") -> None:
        """Send a logout and end the session."""
        if self.state is not FixSessionState.ENDED:
            self._write(_LOGOUT, [(58, reason)] if reason else [], now_ns)
            self.state = FixSessionState.ENDED

    def receive(self, data: bytes, now_ns: int) -> list[FixSessionEvent]:
        """Process received bytes and return the events they cause."""
        if self.state is FixSessionState.ENDED:
            return []
        events: list[FixSessionEvent] = []
        try:
            for message in self._parser.feed(data):
                self._last_received_ns, self._test_request_sent = now_ns, False
                events += self._message(message, now_ns)
                if self.ended:
                    break
        except DecodeError as error:
            events += self._end(f"received data is not valid FIX: {error}", now_ns)
        return events

    def tick(self, now_ns: int) -> list[FixSessionEvent]:
        """Advance the clock: send heartbeats and test requests, end the session after silence."""
        if self.state is FixSessionState.ENDED:
            return []
        silence = int(self._interval_ns * _SILENCE)
        if self._test_request_sent and now_ns >= self._last_received_ns + 2 * silence:
            return self._end("the other side did not answer a test request", now_ns)
        if self.state is FixSessionState.ACTIVE:
            if not self._test_request_sent and now_ns >= self._last_received_ns + silence:
                self._test_request_sent = True
                self._write(_TEST_REQUEST, [(112, "alive")], now_ns)
            elif now_ns >= self._sent_ns + self._interval_ns:
                self._write(_HEARTBEAT, [], now_ns)
        elif now_ns >= self._last_received_ns + silence:
            return self._end("no logon received in time", now_ns)
        return []

    def _message(self, message: FixMessage, now_ns: int) -> list[FixSessionEvent]:
        kind, number = message.type, message.number(34)
        problem = self._peer(message)
        if problem or number is None:
            return self._end(problem or "message without a sequence number (tag 34)", now_ns)
        if kind == _LOGON:
            return self._logon(message, number, now_ns)
        if self.state is not FixSessionState.ACTIVE:
            return self._end("the first message is not a logon", now_ns)
        if kind == _SEQUENCE_RESET and message.text(123) != "Y":
            self._next_in = max(self._next_in, message.number(36) or 1)
            return []
        if number > self._next_in:
            if self._gap_start != self._next_in:
                self._gap_start = self._next_in
                self._write(_RESEND_REQUEST, [(7, self._next_in), (16, 0)], now_ns)
            return []  # the other side resends it, or skips it with a gap fill
        if number < self._next_in:
            if message.text(43) == "Y":
                return []
            return self._end(f"sequence number {number} received, {self._next_in} expected", now_ns)
        self._next_in = number + 1
        return self._in_turn(kind, message, now_ns)

    def _in_turn(self, kind: str, message: FixMessage, now_ns: int) -> list[FixSessionEvent]:
        match kind:
            case "1":
                self._write(_HEARTBEAT, [(112, message.get(112) or b"")], now_ns)
            case "2":
                begin = message.number(7) or 1
                fields: list[tuple[int, Value]] = [(43, "Y"), (123, "Y"), (36, self._next_out)]
                self._write(_SEQUENCE_RESET, fields, now_ns, number=begin)
            case "4":
                self._next_in = max(self._next_in, message.number(36) or 1)
            case "5":
                reason = message.text(58) or "the other side logged out"
                self._write(_LOGOUT, [], now_ns)
                self.state = FixSessionState.ENDED
                return [LoggedOut(reason)]
            case "3" | "j":
                return [ApplicationMessage(message)]
            case _ if kind not in _SESSION:
                return [ApplicationMessage(message)]
        return []

    def _logon(self, message: FixMessage, number: int, now_ns: int) -> list[FixSessionEvent]:
        if self.state is FixSessionState.ACTIVE:
            return self._end("second logon in the same session", now_ns)
        if number != 1:
            return self._end(f"logon with sequence number {number}, must be 1 (tag 141)", now_ns)
        self._next_in = 2
        seconds = message.number(108) or 0
        if self.settings.acceptor:
            if seconds < 1:
                return self._end("logon without a heartbeat interval (tag 108)", now_ns)
            if seconds > MAX_HEARTBEAT_S:
                reason = (
                    f"heartbeat interval of {seconds} seconds (tag 108) is more than "
                    f"{MAX_HEARTBEAT_S}"
                )
                return self._end(reason, now_ns)
            self._interval_ns = seconds * SECOND
            self._write(_LOGON, [(98, 0), (108, seconds), (141, "Y")], now_ns)
        self.state = FixSessionState.ACTIVE
        return [LoggedOn()]

    def _peer(self, message: FixMessage) -> str:
        expected = (self.settings.target, self.settings.sender)
        if (message.text(49), message.text(56)) != expected:
            return (
                f"message from {message.text(49)} to {message.text(56)}, "
                f"expected from {expected[0]} to {expected[1]}"
            )
        return ""

    def _end(self, reason: str, now_ns: int) -> list[FixSessionEvent]:
        self.log_out(now_ns, reason)
        return [LoggedOut(reason)]

    def _write(
        self,
        kind: str,
        fields: Iterable[tuple[int, Value]],
        now_ns: int,
        number: int | None = None,
    ) -> None:
        stamp = format_ns(now_ns)[:23].replace("-", "").replace("T", "-")
        head: list[tuple[int, Value]] = [
            (35, kind),
            (49, self.settings.sender),
            (56, self.settings.target),
            (34, self._next_out if number is None else number),
            (52, stamp),
        ]
        self._out += encode([*head, *fields])
        if number is None:
            self._next_out += 1
        self._sent_ns = now_ns
