"""The gateway side of a connection: bytes and a time in; bytes to send and events out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pregao.entrypoint.admission import (
    UNAUTHENTICATED,
    answer_to,
    ending_code,
    establishment_reject,
    negotiation_reject,
    wish_of,
)
from pregao.entrypoint.events import (
    ConnectionEnded,
    DuplicateIgnored,
    NotAppliedGap,
    SessionEstablished,
    SessionEvent,
    SessionNegotiated,
    SessionRefused,
)
from pregao.entrypoint.framing import BadFrame, FrameReader, StreamFrame, frame_of
from pregao.entrypoint.gateway_sessions import (
    BusinessMessage,
    GatewaySession,
    GatewaySessions,
    Reader,
    read_frame,
)
from pregao.entrypoint.messages import (
    FROM_CLIENT,
    FROM_EXCHANGE,
    VERSIONS,
    EntryPointCodec,
    messages,
    nearest_version,
)
from pregao.entrypoint.retransmission import ENDING, Retransmission, request_reject
from pregao.entrypoint.session_settings import (
    GatewaySettings,
    KeepAlive,
    SessionAccount,
    skips_too_far,
)
from pregao.entrypoint.session_state import SessionState, expected_text
from pregao.errors import DecodeError
from pregao.sbe.codec import SbeMessage
from pregao.schemas.bundle import ENTRYPOINT_SCHEMA_ID

_REQUESTS = FROM_CLIENT | {"Negotiate", "Establish", "Sequence", "RetransmitRequest", "Terminate"}


class GatewayConnection:
    """One TCP connection to a gateway.

    The owner passes in received bytes (`receive`), the time (`advance`, at `next_due_ns`) and the
    loss of the connection (`lost`). It sends the result of `take_output`, and then closes the
    socket if `closing` is set. While `unfinished` is set, it calls `continue_retransmission`
    whenever that output has been written.
    """

    def __init__(self, sessions: GatewaySessions, now_ns: int, peer: str = "") -> None:
        """Create a connection; ``peer`` is the client's address, which identifies repeated
        failures.
        """
        self._sessions = sessions
        self._peer = peer
        self._held: tuple[int, Mapping[str, Any], str, str] | None = None
        """A delayed refusal: session, answer, message name and code."""
        self._reader = FrameReader(sessions.rules.max_message)
        self._output: list[bytes] = []
        self._session: GatewaySession | None = None
        self._messages: EntryPointCodec = messages(VERSIONS[-1])
        self._readers: Mapping[int, Reader] = {}
        self._established = False
        self._ended = False
        self._deadline_ns = now_ns + self._rules.handshake_ns
        self._keep_alive: KeepAlive | None = None
        self._retransmission: Retransmission | None = None
        self._late: list[SessionEvent] = []
        self.closing = False
        """Close the socket once the output is written."""

    # Called by the owner.

    def take_output(self) -> bytes:
        """Return and clear the output, after flushing the records that it depends on."""
        self._sessions.store.flush()
        output, self._output = b"".join(self._output), []
        return output

    def receive(self, data: bytes, now_ns: int) -> list[SessionEvent]:
        """Process bytes of the client."""
        return list(self.arriving(data, now_ns))

    def arriving(self, data: bytes, now_ns: int) -> Iterator[SessionEvent]:
        """Process bytes of the client, yielding each event before the next message is processed.

        The owner can thus answer each message in turn, and all answers leave in message order.
        """
        yield from self._take_events()
        for item in self._reader.receive(data):
            if self.closing or self._held is not None:
                break
            if isinstance(item, BadFrame):
                yield from self._end("INVALID_SOFH", now_ns, item.reason)
            elif (event := self._usual(item, now_ns)) is not None:
                yield event
            else:
                yield from self._frame(item, now_ns)

    @property
    def next_due_ns(self) -> int | None:
        """Time of the next call of `advance`, unless bytes arrive before."""
        if self.closing:
            return None
        return self._deadline_ns if self._keep_alive is None else self._keep_alive.next_due_ns

    def advance(self, now_ns: int) -> list[SessionEvent]:
        """Advance the clock: send heartbeats, and end the connection of a silent client."""
        events = self._take_events()
        if self.closing:
            return events
        if self._held is not None:
            if now_ns >= self._deadline_ns:
                _, answer, name, code = self._held
                self._release()
                events += self._refused(name, answer, code, now_ns)
        elif self._keep_alive is None:
            if now_ns >= self._deadline_ns:
                events += self._end(
                    "UNSPECIFIED", now_ns, "the session was not established in time"
                )
        elif self._keep_alive.lapsed(now_ns):
            events += self._end("KEEPALIVE_INTERVAL_LAPSED", now_ns, "the client was silent")
        elif self._keep_alive.heartbeat_due(now_ns):
            if self._retransmission is None:
                self._put("Sequence", {"nextSeqNo": self._state.next_outgoing}, now_ns)
            else:  # Sequence would end the retransmission
                self._keep_alive.sent(now_ns)
        return events

    def lost(self, now_ns: int) -> list[SessionEvent]:
        """Handle the loss of the connection, whichever side ended it."""
        self.closing = True
        return [*self._take_events(), *self._left(now_ns, "", graceful=False)]

    @property
    def negotiated(self) -> bool:
        """Whether the client has authenticated for a session."""
        return self._session is not None

    @property
    def waiting_bytes(self) -> int:
        """Bytes queued until a retransmission ends."""
        return 0 if self._retransmission is None else self._retransmission.waiting_bytes

    @property
    def unfinished(self) -> bool:
        """Whether a retransmission is in progress."""
        return self._retransmission is not None

    def continue_retransmission(self, now_ns: int) -> None:
        """Send the next part of a retransmission, and after the last part the queued messages."""
        retransmission = self._retransmission
        if retransmission is None or self.closing:
            return
        assert self._session is not None
        state = self._session.state
        for data in retransmission.next_part(state):
            self._send(data, now_ns)
        if retransmission.done:
            self._retransmission = None
            next_number = state.next_outgoing - len(retransmission.waiting)
            self._put("Sequence", {"nextSeqNo": next_number}, now_ns)
            for data in retransmission.waiting:
                self._send(data, now_ns)

    # Called by the session.

    def live(self, data: bytes, now_ns: int) -> None:
        """Send a business message that the session has numbered and stored."""
        if self.closing or not self._established:
            return
        if self._retransmission is not None:
            self._retransmission.wait(data)
        else:
            self._send(data, now_ns)

    def withdraw(self, number: int) -> None:
        """Drop the unsent business messages from this number on: they no longer exist."""
        self._output = [each for each in self._output if self._number(each) < number]
        if self._retransmission is not None:
            self._retransmission.keep(lambda each: self._number(each) < number)

    def _number(self, data: bytes) -> int:
        """Return the number of a business message; 0 for other messages."""
        frame = frame_of(data)
        if self._messages.name(frame) not in FROM_EXCHANGE:
            return 0
        number: int = self._messages.decode(frame)["businessHeader"]["msgSeqNum"]
        return number

    def terminate(self, code: str, now_ns: int, reason: str) -> None:
        """End the connection from the gateway side; the next call returns the event."""
        if not self.closing:
            self._late += self._end(code, now_ns, reason)

    # Incoming messages.

    def _usual(self, frame: StreamFrame, now_ns: int) -> SessionEvent | None:
        """Accept the next expected business message if it has a reader; otherwise return None.

        This is the path of nearly all messages; `_frame` handles the others.
        """
        header = frame.header
        read = self._readers.get(header.template_id)
        session = self._session
        if read is None or session is None or not self._established:
            return None
        if header.version != self._messages.version or header.schema_id != ENTRYPOINT_SCHEMA_ID:
            return None
        try:
            reading = read(frame)
        except DecodeError:
            return None
        if (
            reading.number != session.state.next_incoming
            or reading.session_id != session.session_id
        ):
            return None
        assert self._keep_alive is not None
        self._keep_alive.on_received(now_ns)
        return session.accept(reading.name, frame, reading, now_ns)

    def _frame(self, frame: StreamFrame, now_ns: int) -> list[SessionEvent]:
        version = frame.header.version
        if self._session is None:
            self._messages = messages(nearest_version(version))
        name = self._messages.name(frame)
        if name is None or name not in _REQUESTS:
            reason = f"template {frame.header.template_id} is not a client message"
            return self._end("UNRECOGNIZED_MESSAGE", now_ns, reason)
        handshake = name in ("Negotiate", "Establish")
        if not handshake and version != self._messages.version:
            reason = f"schema version {version} is not the session's {self._messages.version}"
            return self._end("PROTOCOL_VERSION_NOT_SUPPORTED", now_ns, reason)
        business = name in FROM_CLIENT
        try:
            message = self._messages.readable(frame) if business else self._messages.decode(frame)
        except DecodeError as error:
            return self._end("DECODING_ERROR", now_ns, error.reason)
        if self._keep_alive is not None:
            self._keep_alive.on_received(now_ns)
        match name:
            case "Negotiate":
                return self._negotiate(message, version, now_ns)
            case "Establish":
                return self._establish(message, version, now_ns)
            case "Terminate":
                return self._terminated(message, now_ns)
        if not self._established:
            negotiated = self._session is not None
            code = "NOT_ESTABLISHED" if negotiated else "UNNEGOTIATED"
            return self._end(code, now_ns, f"{name} arrived before the session was established")
        match name:
            case "Sequence":
                return self._sequence(message["nextSeqNo"], now_ns)
            case "RetransmitRequest":
                return self._retransmit(message, now_ns)
        read = self._readers.get(frame.header.template_id)
        try:
            reading = read_frame(self._messages, name, frame) if read is None else read(frame)
        except DecodeError as error:
            return self._end("DECODING_ERROR", now_ns, error.reason)
        return self._business(name, reading, frame, now_ns)

    def _negotiate(self, request: SbeMessage, version: int, now_ns: int) -> list[SessionEvent]:
        found = self._sessions.get(request["sessionID"])
        if self._crowded(request):
            return self._cut(now_ns)
        account, state, rival = self._known(found)
        code = negotiation_reject(request, version, self._rules, account, state, rival, now_ns)
        if self._session is not None:  # a second Negotiate on the same connection
            code = code or "ALREADY_NEGOTIATED"
        answer = {**answer_to(request), "enteringFirm": request["enteringFirm"]}
        if code is not None:
            answer["enteringFirm"] = answer["enteringFirm"] or None  # 0 is not a firm
            current = state.session_ver_id if code == "ALREADY_NEGOTIATED" else None
            answer |= {"negotiationRejectCode": code, "currentSessionVerID": current}
            return self._refuse("NegotiateReject", answer, code, now_ns)
        assert found is not None
        self._sessions.refusals.succeeded(self._peer, found.session_id)
        found.negotiated(request["sessionVerID"], version)
        found.connection = self
        self._session = found
        self._put("NegotiateResponse", answer, now_ns)
        return [SessionNegotiated(found.session_id, request["sessionVerID"])]

    def _establish(self, request: SbeMessage, version: int, now_ns: int) -> list[SessionEvent]:
        found = self._sessions.get(request["sessionID"])
        if self._crowded(request):
            return self._cut(now_ns)
        account, state, rival = self._known(found)
        code = establishment_reject(request, version, self._rules, account, state, rival, now_ns)
        unknown = code == UNAUTHENTICATED
        if self._established:
            code = "ALREADY_ESTABLISHED"
        elif self._session is not None and found is not self._session:
            code = "INVALID_SESSIONID"
        answer = answer_to(request)
        limit = self._rules.establish_attempts
        if code is not None and found is not None and not unknown:
            # A peer without the key must not be able to use up the owner's attempts.
            found.refused_attempts += 1
            if limit and found.refused_attempts > limit:
                code = "ESTABLISH_ATTEMPTS_EXCEEDED"
        if code is not None:
            # After a skipped range the last received number would lead to another refused number.
            last = state.next_incoming - 1 if code == "INVALID_NEXTSEQNO" else 0
            answer |= {"establishmentRejectCode": code, "lastIncomingSeqNo": last or None}
            text = ""
            if code == "INVALID_NEXTSEQNO":
                text = expected_text(last)
            return self._refuse("EstablishReject", answer, code, now_ns, text)
        assert found is not None
        self._sessions.refusals.succeeded(self._peer, found.session_id)
        return self._bind(found, request, answer, now_ns)

    def _bind(
        self, session: GatewaySession, request: SbeMessage, answer: dict[str, Any], now_ns: int
    ) -> list[SessionEvent]:
        """Establish a session on this connection."""
        wish = wish_of(request)
        assert wish is not None
        session.connection = self
        session.bound(wish, request["codTimeoutWindow"])
        self._session, self._established = session, True
        self._readers = self._sessions.readers(self._messages.version)
        interval = request["keepAliveInterval"]
        own = interval if self._rules.own_keep_alive_ms is None else self._rules.own_keep_alive_ms
        self._keep_alive = KeepAlive(own, interval, self._rules.silent_intervals, now_ns)
        state = session.state
        answer |= {
            "keepAliveInterval": own,
            "nextSeqNo": state.next_outgoing,
            "lastIncomingSeqNo": state.last_incoming,
        }
        self._put("EstablishAck", answer, now_ns)
        session_ver_id, outgoing = state.session_ver_id, state.next_outgoing
        events = self._skip_to(request["nextSeqNo"], now_ns)
        incoming = session.state.next_incoming
        return [SessionEstablished(session.session_id, session_ver_id, incoming, outgoing), *events]

    def _known(
        self, session: GatewaySession | None
    ) -> tuple[SessionAccount | None, SessionState, str | None]:
        """Return a session's account and state, and the reject code if it is in use elsewhere."""
        if session is None:
            return None, SessionState(), None
        other, rival = session.connection, None
        if other is not None and other is not self:
            used = other.established
            rival = "DUPLICATE_SESSION_CONNECTION" if used else "AUTHENTICATION_IN_PROGRESS"
        return session.account, session.state, rival

    def _sequence(self, number: int, now_ns: int) -> list[SessionEvent]:
        """Handle a heartbeat, or a request to continue with a higher number (§4.5.4)."""
        expected = self._state.next_incoming
        if number < expected:
            reason = f"the next sequence number must be at least {expected}, was {number}"
            return self._end("INVALID_NEXTSEQNO", now_ns, reason)
        return self._too_far(number, now_ns) or self._skip_to(number, now_ns)

    def _too_far(self, number: int, now_ns: int) -> list[SessionEvent]:
        """End the connection of a client that skips more numbers than it could have used."""
        expected = self._state.next_incoming
        if not skips_too_far(number, expected):
            return []
        reason = f"sequence number {number} skips too far: {expected} is expected"
        return self._end("INVALID_NEXTSEQNO", now_ns, reason)

    def _skip_to(self, number: int, now_ns: int) -> list[SessionEvent]:
        """Expect a number, and send NotApplied for the missing ones before it (§4.5.5)."""
        assert self._session is not None
        expected = self._session.state.next_incoming
        if number <= expected:
            return []
        self._session.expect(number)
        missing = number - expected
        self._put("NotApplied", {"fromSeqNo": expected, "count": missing}, now_ns)
        return [NotAppliedGap(expected, missing)]

    def _retransmit(self, request: SbeMessage, now_ns: int) -> list[SessionEvent]:
        session = self._session
        assert session is not None
        busy = self._retransmission is not None
        code = request_reject(
            request, session.session_id, session.state, self._rules, now_ns, busy=busy
        )
        if code is None and not session.throttle.admits(now_ns):
            code = "THROTTLE_REJECT"
        answer = {"sessionID": session.session_id, "requestTimestamp": request["timestamp"]}
        if code is not None:
            self._put("RetransmitReject", {**answer, "retransmitRejectCode": code}, now_ns)
            if code in ENDING:
                return self._end("UNSPECIFIED", now_ns, f"RetransmitRequest refused: {code}")
            return []
        first, count = request["fromSeqNo"], request["count"]
        self._put("Retransmission", {**answer, "nextSeqNo": first, "count": count}, now_ns)
        part = self._rules.retransmission_part
        self._retransmission = Retransmission(first, count, part)
        self.continue_retransmission(now_ns)
        return []

    def _business(
        self, name: str, reading: BusinessMessage, frame: StreamFrame, now_ns: int
    ) -> list[SessionEvent]:
        session = self._session
        assert session is not None
        if reading.session_id != session.session_id:
            reason = (
                f"{name} has session {reading.session_id}; this connection has {session.session_id}"
            )
            return self._end("INVALID_SESSIONID", now_ns, reason)
        number = reading.number
        expected = session.state.next_incoming
        if number < expected:
            return [
                DuplicateIgnored(name, number)
            ]  # it may have been executed: do not execute it again
        events: list[SessionEvent] = []
        if number > expected:
            if ended := self._too_far(number, now_ns):
                return ended
            events = self._skip_to(number, now_ns)
        events.append(session.accept(name, frame, reading, now_ns))
        return events

    def _terminated(self, message: SbeMessage, now_ns: int) -> list[SessionEvent]:
        """Answer the client's Terminate, then close (§4.5.7)."""
        code = message["terminationCode"]
        code = code if isinstance(code, str) else str(code)
        if self._session is not None:
            self._put_terminate("FINISHED", now_ns)
        self.closing = True
        return self._left(now_ns, code, graceful=True)

    # Refusal and termination.

    def _refuse(
        self, name: str, answer: Mapping[str, Any], code: str, now_ns: int, text: str = ""
    ) -> list[SessionEvent]:
        """Refuse a session: immediately, or delayed after repeated authentication failures."""
        if code == UNAUTHENTICATED and self._session is None:
            number = answer["sessionID"]
            due_ns = self._sessions.refusals.failed(self._peer, number, now_ns)
            if due_ns > now_ns:
                self._held = (number, answer, name, code)
                self._deadline_ns = due_ns
                return []
        return self._refused(name, answer, code, now_ns, text)

    def _refused(
        self, name: str, answer: Mapping[str, Any], code: str, now_ns: int, text: str = ""
    ) -> list[SessionEvent]:
        self._put(name, answer, now_ns)
        session = (answer["sessionID"], answer["sessionVerID"])
        refused = SessionRefused(code, text)
        return [refused, *self._end(ending_code(code), now_ns, text or code, session)]

    def _release(self) -> None:
        if self._held is not None:
            self._sessions.refusals.released(self._peer, self._held[0])
            self._held = None

    def _crowded(self, request: SbeMessage) -> bool:
        return self._session is None and self._sessions.refusals.crowded(
            self._peer, request["sessionID"]
        )

    def _cut(self, now_ns: int) -> list[SessionEvent]:
        """Close without an answer."""
        self.closing = True
        return self._left(now_ns, "", graceful=False, reason="too many delayed refusals")

    def _end(
        self, code: str, now_ns: int, reason: str, requested: tuple[int, int] | None = None
    ) -> list[SessionEvent]:
        """Send Terminate and close; ``requested``: session and version of a refused request."""
        self._put_terminate(code, now_ns, requested)
        self.closing = True
        return self._left(now_ns, code, graceful=False, reason=reason)

    def _put_terminate(
        self, code: str, now_ns: int, requested: tuple[int, int] | None = None
    ) -> None:
        session = self._session
        if requested is None:
            requested = (
                (0, 0) if session is None else (session.session_id, session.state.session_ver_id)
            )
        values = {"sessionID": requested[0], "sessionVerID": requested[1], "terminationCode": code}
        self._put("Terminate", values, now_ns)

    def _left(
        self, now_ns: int, code: str, *, graceful: bool, reason: str = ""
    ) -> list[SessionEvent]:
        """Release the session, once."""
        if self._ended:
            return []
        self._ended = True
        self._release()
        session = self._session
        if session is not None and session.connection is self:
            session.connection = None
            if self._established:
                session.left(now_ns, graceful=graceful)
        self._retransmission = None
        return [ConnectionEnded(code, graceful, reason)]

    @property
    def _rules(self) -> GatewaySettings:
        return self._sessions.rules

    @property
    def _state(self) -> SessionState:
        """State of the established session."""
        assert self._session is not None
        return self._session.state

    @property
    def established(self) -> bool:
        """Whether business messages can flow."""
        return self._established and not self._ended

    # Output.

    def _put(self, name: str, values: Mapping[str, Any], now_ns: int) -> None:
        self._send(self._messages.encode(name, values), now_ns)

    def _send(self, data: bytes, now_ns: int) -> None:
        self._output.append(data)
        if self._keep_alive is not None:
            self._keep_alive.sent(now_ns)

    def _take_events(self) -> list[SessionEvent]:
        events, self._late = self._late, []
        return events
