"""The client side of a session: bytes and a time in; bytes to send and events out.

A session spans many connections. It negotiates once per trading session with each gateway and then
only establishes; it recovers lost state from rejects (§5.4), requests the messages that it missed,
and passes on those of the exchange in sequence, exactly once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any

from pregao.clock import MILLISECOND
from pregao.entrypoint.events import (
    ConnectionEnded,
    DuplicateIgnored,
    MessageReceived,
    NotAppliedGap,
    RetransmissionRefused,
    SequenceLowered,
    SessionEstablished,
    SessionEvent,
    SessionNegotiated,
    SessionRefused,
)
from pregao.entrypoint.framing import BadFrame, FrameReader, StreamFrame, credentials, frame_of
from pregao.entrypoint.messages import FROM_CLIENT, FROM_EXCHANGE, EntryPointCodec, messages
from pregao.entrypoint.retransmission import AbandonedNumbers, DuplicateDetector, MissedMessages
from pregao.entrypoint.session_settings import ClientSettings, ConnectionStage, KeepAlive
from pregao.entrypoint.session_state import (
    LAST_NUMBER,
    DayReset,
    DeliveryResolved,
    IncomingAccepted,
    IncomingExpected,
    IncomingKept,
    OutgoingNotApplied,
    OutgoingSent,
    OutgoingSkipped,
    SessionRecord,
    SessionState,
    VersionNegotiated,
    expected_text,
)
from pregao.entrypoint.session_store import SessionStore
from pregao.errors import DecodeError, UsageError
from pregao.sbe.codec import SbeMessage

_NO_SUCH_MESSAGES = "OUT_OF_RANGE"
"""Reject code for messages that do not exist; after any other code they are requested again."""
_NOT_DELIVERED = "NOT_DELIVERED"
"""Code for messages that no request delivered: ours, not the protocol's."""
_LAST_VERSION = 0xFFFF_FFFF_FFFF_FFFF
"""Highest session version on the wire."""
_KEEP_ALIVE_MS = (1, 60_000)
"""Intervals that the documents allow (§4.5.3)."""


class _Next(Enum):
    """First step on the next connection."""

    AS_KNOWN = "establish what was negotiated with the gateway, or negotiate"
    NEGOTIATE = "negotiate: the gateway does not know the session"
    NEW_VERSION = "negotiate a new version: the current one is too low"


class ClientSession:
    """A session of a client.

    For each connection the owner calls `connect`, then passes in received bytes (`receive`), the
    time (`advance`, at `next_due_ns`) and the loss of the connection (`lost`). It sends the result
    of `take_output`, then closes the socket if `closing` is set, and may reconnect.
    """

    def __init__(
        self, settings: ClientSettings, store: SessionStore, codec: EntryPointCodec | None = None
    ) -> None:
        """Create a session.

        Args:
            settings: Identity, credentials and parameters.
            store: Where the session is kept.
            codec: Codec of a schema that is not bundled.
        """
        self.settings = settings
        self._store = store
        self._messages = messages(settings.version) if codec is None else codec
        self._output: list[bytes] = []
        self._reader = FrameReader(settings.max_message)
        self._gateway = 1
        self._keep_alive: KeepAlive | None = None
        self._missing = MissedMessages(settings.retransmission_attempts)
        self._abandoned = AbandonedNumbers()
        self._duplicates = DuplicateDetector()
        for _, name, message in self.kept():
            self._duplicates.is_repeat(name, message, marked=False)
        self._next_step = _Next.AS_KNOWN
        self._requested_version = 0
        """Session version of the last Negotiate."""
        self.stage = ConnectionStage.UNCONNECTED
        self.closing = False
        """Close the socket once the output is written."""

    @property
    def state(self) -> SessionState:
        """State of the session between connections."""
        return self._store.state(self.settings.session_id)

    @property
    def next_live(self) -> int:
        """Lowest number that the gateway can give to its next new message, as far as known."""
        return max(self._missing.highest + 1, self.state.next_incoming)

    def _record(self, record: SessionRecord) -> None:
        self._store.record(self.settings.session_id, record)

    def kept(self) -> Iterator[tuple[int, str, SbeMessage]]:
        """Yield the stored messages of this trading session: number, name, message."""
        for number, data in ((each.number, each.data) for each in self.state.received):
            frame = frame_of(data)
            name = self._messages.name(frame)
            if name is not None:
                yield number, name, self._messages.decode(frame)

    # Called by the owner.

    def connect(self, now_ns: int, gateway: int = 1) -> None:
        """Start the handshake on a new connection: negotiate, or establish what was negotiated."""
        self._reader = FrameReader(self.settings.max_message)
        self._output = []
        self._gateway = gateway
        self._keep_alive = None
        self._missing = MissedMessages(self.settings.retransmission_attempts)
        self.closing = False
        if gateway in self.state.gateways and self._next_step is _Next.AS_KNOWN:
            self._establish(now_ns)
        else:
            self._negotiate(now_ns)

    def take_output(self) -> bytes:
        """Return and clear the output, after flushing the records that it depends on."""
        self._store.flush()
        output, self._output = b"".join(self._output), []
        return output

    def send(self, name: str, values: Mapping[str, Any], now_ns: int) -> int:
        """Send a business message and return its number.

        The message is recorded before it is sent, so that its number is never reused.
        """
        if self.stage is not ConnectionStage.ESTABLISHED:
            raise UsageError(f"{name} cannot be sent: the session is not established")
        if name not in FROM_CLIENT:
            raise UsageError(
                f"{name} is not a message of clients; they send {', '.join(sorted(FROM_CLIENT))}"
            )
        number = self.state.next_outgoing
        if number > LAST_NUMBER:
            raise UsageError(
                f"{name} cannot be sent: sequence number {LAST_NUMBER} was the last of this "
                "trading session"
            )
        data = self._messages.from_client(name, values, self.settings.session_id, number, now_ns)
        self._record(OutgoingSent(number, data))
        self._send(data, now_ns)
        return number

    def skip_to(self, number: int, now_ns: int) -> None:
        """Continue with a higher number; the exchange answers with NotApplied (§4.5.4.2)."""
        if self.stage is not ConnectionStage.ESTABLISHED or number <= self.state.next_outgoing:
            raise UsageError(
                f"cannot skip to sequence number {number}: the session must be established, and "
                f"the number higher than {self.state.next_outgoing}"
            )
        self._record(OutgoingSkipped(number))
        self._put("Sequence", {"nextSeqNo": number}, now_ns)

    def leave(self, now_ns: int) -> None:
        """End the connection; the session can be established again."""
        if self.stage is not ConnectionStage.ENDED:
            self._put_terminate("FINISHED", now_ns)
            self.stage = ConnectionStage.ENDED

    def reset_day(self) -> None:
        """Start a trading session: numbers from 1, a new session version (§4.5.1)."""
        self._store.reset_day()
        self._duplicates = DuplicateDetector()
        self._abandoned = AbandonedNumbers()

    @property
    def next_due_ns(self) -> int | None:
        """Time of the next call of `advance`, unless bytes arrive before."""
        if self.closing or self._keep_alive is None:
            return None
        due, missing = self._keep_alive.next_due_ns, self._missing.next_due_ns
        return due if missing is None else min(due, missing)

    def advance(self, now_ns: int) -> list[SessionEvent]:
        """Advance the clock: send heartbeats, end a silent connection, request missing messages."""
        if self.closing or self._keep_alive is None:
            return []
        if self._keep_alive.lapsed(now_ns):
            return self._end("KEEPALIVE_INTERVAL_LAPSED", now_ns, "the gateway was silent")
        if self._keep_alive.heartbeat_due(now_ns):
            self._put("Sequence", {"nextSeqNo": self._next_number_on_wire()}, now_ns)
        self._missing.impatient(now_ns)
        return self._request_missing(now_ns)

    def _next_number_on_wire(self) -> int:
        """Return the next own number, limited to what the wire can carry."""
        return min(self.state.next_outgoing, LAST_NUMBER)

    def on_reading_paused(self, now_ns: int) -> None:
        """Restart the silence timer while reading is paused."""
        if self._keep_alive is not None:
            self._keep_alive.on_received(now_ns)

    def lost(self) -> list[SessionEvent]:
        """Handle the loss of the connection, whichever side ended it."""
        ended = self.stage is ConnectionStage.ENDED and self.closing
        self.stage, self.closing = ConnectionStage.ENDED, True
        self._keep_alive = None
        return (
            [] if ended else [ConnectionEnded("", graceful=False, reason="the connection was lost")]
        )

    def receive(self, data: bytes, now_ns: int) -> list[SessionEvent]:
        """Process bytes of the gateway."""
        events: list[SessionEvent] = []
        for item in self._reader.receive(data):
            if self.closing:
                break
            if isinstance(item, BadFrame):
                events += self._end("INVALID_SOFH", now_ns, item.reason)
            else:
                events += self._on_frame(item, now_ns)
        return events

    # Output.

    def _negotiate(self, now_ns: int) -> None:
        """Send Negotiate: for the known session version on a backup, else for a new one."""
        state, settings = self.state, self.settings
        # A backup continues the session in its version (§5.5).
        continues = state.negotiated and self._next_step is not _Next.NEW_VERSION
        # Versions from milliseconds keep rising through the week even if the last one was lost.
        fresh = max(state.session_ver_id + 1, now_ns // MILLISECOND)
        if fresh > _LAST_VERSION:  # no version can follow: start over
            fresh = now_ns // MILLISECOND
        self._requested_version = state.session_ver_id if continues else fresh
        self.stage = ConnectionStage.NEGOTIATING
        values = {
            "sessionID": settings.session_id,
            "sessionVerID": self._requested_version,
            "timestamp": now_ns,
            "enteringFirm": settings.firm,
            "credentials": credentials(settings.session_id, settings.access_key),
            "clientIP": settings.ip or None,
            "clientAppName": settings.app_name or None,
            "clientAppVersion": settings.app_version or None,
        }
        self._put("Negotiate", values, now_ns)

    def _establish(self, now_ns: int) -> None:
        """Send Establish for the negotiated session version."""
        state, settings = self.state, self.settings
        self.stage = ConnectionStage.ESTABLISHING
        values = {
            "sessionID": settings.session_id,
            "sessionVerID": state.session_ver_id,
            "timestamp": now_ns,
            "keepAliveInterval": settings.keep_alive_ms,
            "nextSeqNo": self._next_number_on_wire(),
            "cancelOnDisconnectType": settings.cancel_on_disconnect,
            "codTimeoutWindow": settings.window_ms,
            "credentials": credentials(settings.session_id, settings.access_key),
        }
        self._put("Establish", values, now_ns)

    def _request_missing(self, now_ns: int) -> list[SessionEvent]:
        """Request missing messages, or abandon them after too many requests without effect."""
        events: list[SessionEvent] = []
        abandoned = self._missing.given_up(self.state.next_incoming)
        if abandoned:
            events = self._abandon(_NOT_DELIVERED, abandoned)
        wanted = self._missing.next_request(self.state.next_incoming, now_ns)
        if wanted is not None:
            first, count = wanted
            values = {
                "sessionID": self.settings.session_id,
                "timestamp": now_ns,
                "fromSeqNo": first,
                "count": count,
            }
            self._put("RetransmitRequest", values, now_ns)
        return events

    def _put_terminate(self, code: str, now_ns: int) -> None:
        values = {
            "sessionID": self.settings.session_id,
            "sessionVerID": self.state.session_ver_id,
            "terminationCode": code,
        }
        self._put("Terminate", values, now_ns)

    def _put(self, name: str, values: Mapping[str, Any], now_ns: int) -> None:
        self._send(self._messages.encode(name, values), now_ns)

    def _send(self, data: bytes, now_ns: int) -> None:
        self._output.append(data)
        if self._keep_alive is not None:
            self._keep_alive.sent(now_ns)

    def _end(self, code: str, now_ns: int, reason: str) -> list[SessionEvent]:
        """Send Terminate and close."""
        self._put_terminate(code, now_ns)
        self.stage, self.closing = ConnectionStage.ENDED, True
        return [ConnectionEnded(code, graceful=False, reason=reason)]

    # Incoming messages.

    def _on_frame(self, frame: StreamFrame, now_ns: int) -> list[SessionEvent]:
        """Process a message of the gateway according to the stage of the connection."""
        name = self._messages.name(frame)
        if name is None:
            header = frame.header
            reason = f"template {header.template_id} is not known (schema {header.schema_id}, "
            return self._end("UNRECOGNIZED_MESSAGE", now_ns, f"{reason}version {header.version})")
        try:
            message = self._messages.decode(frame)
        except DecodeError as error:
            reason = f"{name} of version {frame.header.version} cannot be decoded: {error.reason}"
            return self._end("DECODING_ERROR", now_ns, reason)
        if self._keep_alive is not None:
            self._keep_alive.on_received(now_ns)
        match name:
            case "Terminate":
                return self._on_terminate(message, now_ns)
            case "NegotiateReject":
                return self._on_negotiate_reject(message)
            case "EstablishReject":
                return self._on_establish_reject(message)
            case "NegotiateResponse" if self.stage is ConnectionStage.NEGOTIATING:
                return self._on_negotiate_response(now_ns)
            case "EstablishAck" if self.stage is ConnectionStage.ESTABLISHING:
                return self._on_establish_ack(message, now_ns)
        if self.stage is ConnectionStage.ENDED:
            return []  # only the answer to Terminate is of interest
        if self.stage is not ConnectionStage.ESTABLISHED:
            return self._end(
                "NOT_ESTABLISHED", now_ns, f"{name} arrived before the session was established"
            )
        if name in FROM_EXCHANGE:
            return self._on_business_message(name, message, frame, now_ns)
        return self._on_session_message(name, message, now_ns)

    def _on_session_message(
        self, name: str, message: SbeMessage, now_ns: int
    ) -> list[SessionEvent]:
        """Process a message of the session layer on an established connection."""
        match name:
            case "Sequence":
                return self._set_next_incoming(message["nextSeqNo"], now_ns)
            case "NotApplied":
                first = message["fromSeqNo"]
                return self._not_applied(first, first + message["count"])
            case "Retransmission":
                self._missing.granted(message["nextSeqNo"], message["count"])
                return []
            case "RetransmitReject":
                return self._on_retransmit_reject(
                    _code_name(message["retransmitRejectCode"]), now_ns
                )
        return self._end("UNRECOGNIZED_MESSAGE", now_ns, f"{name} is not a message for clients")

    def _on_negotiate_response(self, now_ns: int) -> list[SessionEvent]:
        """Adopt the session version and establish it."""
        self._adopt_version(self._requested_version)
        self._establish(now_ns)
        return [SessionNegotiated(self.settings.session_id, self._requested_version)]

    def _on_negotiate_reject(self, message: SbeMessage) -> list[SessionEvent]:
        """Prepare the next connection by the reason of the reject."""
        code = _code_name(message["negotiationRejectCode"])
        current = message["currentSessionVerID"]
        if code == "ALREADY_NEGOTIATED" and current is not None:  # restore the lost version (§5.4)
            self._adopt_version(current)
        elif code == "INVALID_SESSIONVERID":
            self._next_step = _Next.NEW_VERSION
        return [SessionRefused(code)]

    def _adopt_version(self, session_ver_id: int) -> None:
        """Record the agreed session version; sequence numbers belong to one version (§4.6.2)."""
        if session_ver_id != self.state.session_ver_id:
            self._record(DayReset())
            self._duplicates = DuplicateDetector()
            self._abandoned = AbandonedNumbers()
        self._next_step = _Next.AS_KNOWN
        self._record(VersionNegotiated(session_ver_id, self.settings.version, self._gateway))

    def _on_establish_reject(self, message: SbeMessage) -> list[SessionEvent]:
        """Correct the state by the reason of the reject, for the next connection."""
        code = _code_name(message["establishmentRejectCode"])
        text = ""
        if code == "INVALID_NEXTSEQNO":
            last = message["lastIncomingSeqNo"] or 0
            text = expected_text(last)
            if last < LAST_NUMBER - 1:  # otherwise nothing could be sent again
                self._record(OutgoingSkipped(last + 1))
                self._record(DeliveryResolved(last))
        elif code in ("UNNEGOTIATED", "INVALID_SESSIONVERID"):
            self._next_step = _Next.NEGOTIATE
        return [SessionRefused(code, text)]

    def _on_establish_ack(self, message: SbeMessage, now_ns: int) -> list[SessionEvent]:
        """Start the keep-alive; compare the sequence numbers of both sides."""
        self.stage = ConnectionStage.ESTABLISHED
        settings, state = self.settings, self.state
        low, high = _KEEP_ALIVE_MS
        theirs = message["keepAliveInterval"]
        self._keep_alive = KeepAlive(
            settings.keep_alive_ms,
            theirs if theirs is not None and low <= theirs <= high else settings.keep_alive_ms,
            settings.silent_intervals,
            now_ns,
        )
        events: list[SessionEvent] = [
            SessionEstablished(
                settings.session_id, state.session_ver_id, state.next_incoming, state.next_outgoing
            )
        ]
        events += self._not_applied(message["lastIncomingSeqNo"] + 1, state.next_outgoing)
        return events + self._set_next_incoming(message["nextSeqNo"], now_ns)

    def _set_next_incoming(self, stated: int, now_ns: int) -> list[SessionEvent]:
        """Set the next number that the gateway states, even if it is lower than expected.

        Otherwise all messages up to the expected number would be treated as duplicates.
        """
        number = max(stated, 1)
        expected = self.state.next_incoming
        events = [self._deliver(held) for held in self._missing.live_from(number, now_ns)]
        if number < expected or events:
            self._record(IncomingExpected(min(number, expected)))
        if number < expected:
            self._abandoned.forget_from(number)
            events.insert(0, SequenceLowered(expected, number))
        return events + self._request_missing(now_ns)

    def _not_applied(self, first: int, end: int) -> list[SessionEvent]:
        """Report the messages that the exchange did not receive, each once.

        EstablishAck states them, then NotApplied; and EstablishAck again if the connection was lost
        before NotApplied arrived.
        """
        first = max(first, self.state.settled + 1)
        end = min(end, self.state.next_outgoing)
        if first >= end:
            return []
        self._record(DeliveryResolved(end - 1))
        if self.settings.keep_reports:
            self._record(OutgoingNotApplied(first, end - first))
        return [NotAppliedGap(first, end - first)]

    def _on_business_message(
        self, name: str, message: SbeMessage, frame: StreamFrame, now_ns: int
    ) -> list[SessionEvent]:
        """Deliver a message in sequence, hold it after a gap, or ignore a duplicate."""
        number = message["businessHeader"]["msgSeqNum"]
        expected = self.state.next_incoming
        if number < expected and not self._abandoned.take(number):
            return [DuplicateIgnored(name, number)]
        retransmitted = self._missing.arrived(number, now_ns)
        received = MessageReceived(name, number, message, frame.data, now_ns, retransmitted)
        if number < expected:  # abandoned, but delivered after all
            return [self._deliver(received, in_sequence=False)]
        if number > expected:
            held = self._missing.hold(number, received)
            events = self._request_missing(now_ns)
            return events if held else [DuplicateIgnored(name, number), *events]
        return [self._deliver(received), *self._deliver_held_from(number + 1)]

    def _deliver_held_from(self, number: int) -> list[SessionEvent]:
        """Pass on held messages from a number on, up to the next gap."""
        return [self._deliver(held) for held in self._missing.take_from(number)]

    def _on_retransmit_reject(self, code: str, now_ns: int) -> list[SessionEvent]:
        """Retry later, or continue without messages that do not exist."""
        expected = self.state.next_incoming
        abandoned = self._missing.refused(expected, now_ns, final=code == _NO_SUCH_MESSAGES)
        if abandoned is None:
            return [RetransmissionRefused(code, expected, 0)]
        return self._abandon(code, abandoned)

    def _abandon(self, code: str, numbers: range) -> list[SessionEvent]:
        """Continue without some numbers; a message that still arrives with one of them is passed
        on.
        """
        self._record(IncomingExpected(numbers.stop))
        self._abandoned.add(numbers)
        event = RetransmissionRefused(code, numbers.start, len(numbers))
        return [event, *self._deliver_held_from(numbers.stop)]

    def _deliver(self, received: MessageReceived, *, in_sequence: bool = True) -> SessionEvent:
        """Pass a message on, unless it was received before with another number."""
        if in_sequence:
            self._record(IncomingAccepted(received.number))
        marked = self._messages.resent(received.message)
        if self._duplicates.is_repeat(received.name, received.message, marked=marked):
            return DuplicateIgnored(received.name, received.number)
        if self.settings.keep_reports:
            self._record(IncomingKept(received.number, received.data))
        return received

    def _on_terminate(self, message: SbeMessage, now_ns: int) -> list[SessionEvent]:
        """Handle the gateway's Terminate, which may answer ours."""
        answered = self.stage is ConnectionStage.ENDED
        if not answered:
            self._put_terminate("FINISHED", now_ns)
        self.stage, self.closing = ConnectionStage.ENDED, True
        code = _code_name(message["terminationCode"])
        reason = "" if answered else "the gateway terminated the connection"
        return [ConnectionEnded(code, graceful=answered, reason=reason)]


def _code_name(code: Any) -> str:
    return code if isinstance(code, str) else str(code)
