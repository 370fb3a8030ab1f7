"""The exchange without sockets and clocks: gateways, engine and journal as one state machine.

Inputs (bytes of a connection, its loss, time, commands of market operations) have a time; outputs
are bytes for connections and units for the feed. Everything that changes the exchange is in the
journal in the order in which the engine applied it, so that the same journal produces the same
books, sessions and sequence numbers.

Each message, command or timer is a step: it is applied, its events are encoded, and only then its
records are queued for the commit. A step that fails is undone completely.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from pregao.entrypoint.events import (
    ConnectionEnded,
    MessageReceived,
    MessageRejected,
    RequestReceived,
    SessionEstablished,
    SessionEvent,
    SessionRefused,
)
from pregao.entrypoint.framing import frame_of
from pregao.entrypoint.gateway_connection import GatewayConnection
from pregao.entrypoint.messages import OTHER, messages, reject_values
from pregao.entrypoint.session_state import IncomingAccepted, OutgoingSent
from pregao.errors import UsageError
from pregao.exchange.engine.model.commands import Command, MassCancel, RestateOrders
from pregao.exchange.engine.model.enums import ExecRestatementReason
from pregao.exchange.engine.model.events import MarketEvent
from pregao.exchange.host.admin.commands import engine_commands
from pregao.exchange.host.admin.control_requests import (
    ControlRequest,
    DayRequest,
    DisconnectRequest,
    FailoverRequest,
    parse_request,
)
from pregao.exchange.host.base_host import BACKUP, NO_SESSION, PRIMARY
from pregao.exchange.host.checkpoints.checkpoints import save
from pregao.exchange.host.faults import pack_void
from pregao.exchange.host.gateway.order_requests import OrderRequest
from pregao.exchange.host.gateway.pre_trade import OVERTAKEN, OnItsWay
from pregao.exchange.host.journal.journal_file import RecordKind
from pregao.exchange.host.journal.replay import TIME_ITSELF, ReplayedHost

__all__ = ["BACKUP", "PRIMARY", "ExchangeHost"]
_FIRST_RESTATED: Final = 6
_FAILED: Final = "the request could not be processed"


class ExchangeHost(ReplayedHost):
    """The complete exchange; the owner passes inputs to it and sends its output.

    After any number of inputs the owner calls `commit`, and only then sends the output of the
    connections in `talking` and publishes `take_units`.
    """

    # Inputs from the owner

    def connect(self, gateway: int, now_ns: int, peer: str = "") -> GatewayConnection:
        """Return the connection of a client that connected to a gateway."""
        return GatewayConnection(self.gateways[gateway], self._time(now_ns), peer)

    def receive(self, connection: GatewayConnection, data: bytes, now_ns: int) -> None:
        """Process bytes received from a client."""
        now = self._time(now_ns)
        self.talking.add(connection)
        start, units, events = self._mark, len(self.request_router.units), 0
        encoding = False
        try:
            for event in connection.arriving(data, now):
                events += 1
                try:
                    self._event(event, now, connection)
                except Exception as error:
                    encoding = True
                    self._publish_earlier(now)
                    encoding = False
                    self._event_failed(connection, event, error, now)
                    start, units = self._mark, len(self.request_router.units)
                else:
                    self._keep()
            # Encode all of them together: encoding each separately would evict the engine from
            # the CPU caches. If it fails, all are undone; they are of one client.
            encoding = True
            self._publish(now)
        except Exception as error:
            if not encoding:  # the messages before the failed one remain valid
                try:
                    self._publish_earlier(now)
                except Exception as second:
                    self.faults.note("encoding of the feed", second)
                    encoding = True
            if encoding:
                self._mark, self._units_before = start, units
            if encoding and events == 1:
                self._event_failed(connection, event, error, now)
            else:
                self._connection_failed(connection, "data of a client", data, error, now)

    def lost(self, connection: GatewayConnection, now_ns: int) -> None:
        """Process the loss of a connection."""
        now = self._time(now_ns)
        self.talking.discard(connection)
        try:
            for event in connection.lost(now):
                self._event(event, now, connection)
            self._done(now)
        except Exception as error:
            self._connection_failed(connection, "loss of a connection", b"", error, now)

    def wake(self, connection: GatewayConnection, now_ns: int) -> None:
        """Run the timer of a connection that is due: send a heartbeat, or end the connection."""
        now = self._time(now_ns)
        self.talking.add(connection)
        try:
            for event in connection.advance(now):
                self._event(event, now, connection)
            self._done(now)
        except Exception as error:
            self._connection_failed(connection, "timer of a connection", b"", error, now)

    @property
    def next_due_ns(self) -> int | None:
        """Time at which `advance` must be called next, or None."""
        due = [
            self.engine.next_due_ns,
            self._risk.next_due_ns,
            *(each.next_due_ns for each in self.gateways.values()),
        ]
        return min((time for time in due if time is not None), default=None)

    def advance(self, now_ns: int) -> None:
        """Advance the clock: end auctions, and cancel orders of clients that left."""
        now = self._time(now_ns)
        due = self.engine.next_due_ns
        if due is not None and due <= now:
            try:
                self._write(RecordKind.TIME, now, NO_SESSION, b"")
                self.request_router.advance(now)
                self._done(now)
            except Exception as error:
                self._time_failed(due, error, now)
        for gateway in self.gateways.values():
            for event in gateway.advance(now):
                try:
                    self._write(RecordKind.CANCEL, now, event.session_id, event.reason.encode())
                    self._cancel(event.session_id, event.reason, now)
                    self._done(now)
                except Exception as error:
                    self.faults.note(f"mass cancel of session {event.session_id}", error)
                    self._undo()

    def control(self, request: Mapping[str, Any], now_ns: int) -> None:
        """Apply a command of market operations; raise UsageError if it is refused.

        A refused command changes nothing and is not journaled.
        """
        now = self._time(now_ns)
        name, command = parse_request(request)
        body = json.dumps(request, separators=(",", ":")).encode()
        self._write(RecordKind.CONTROL, now, NO_SESSION, body)
        self._changed = False
        try:
            self._control(name, command, now)
            self._done(now)
        except Exception as error:
            if isinstance(error, UsageError) and not self._changed:
                self._discard_records()
                raise
            self.faults.note(f"command {name}", error, body)
            self._undo()
            raise UsageError(f"{name}: the command failed and was undone: {error}") from error

    def enter(self, command: Command, now_ns: int) -> None:
        """Apply a command of a trader without a session, which is not journaled."""
        now = self._time(now_ns)
        try:
            self.request_router.enter(command, now)
            self._done(now)
        except Exception as error:
            self.faults.note(f"command {type(command).__name__}", error)
            self._undo()

    def commit(self) -> None:
        """Write the steps so far to disk; only then may their output be sent."""
        if self._lost is not None:
            raise self._lost
        if self._journal is not None:
            self._journal.commit()
            self._mark = 0
            if self._day_began and not self._risk.on_their_way:
                self._day_began = False
                save(self, self._journal)

    def take_units(self) -> list[MarketEvent]:
        """Return and clear the events to publish."""
        units, self.request_router.units = self.request_router.units, []
        self._units_before = 0
        return units

    @property
    def requests(self) -> int:
        """Number of frequent requests processed."""
        return self.request_router.requests

    # Events

    def _event(
        self, event: SessionEvent, now_ns: int, connection: GatewayConnection | None = None
    ) -> None:
        if isinstance(event, RequestReceived):  # by far the most frequent
            request = event.content
            if self._journal is not None and not self._again:
                self._journal.append(RecordKind.REQUEST, now_ns, request.session, event.frame.data)
            if self._delays and isinstance(request, OrderRequest):
                self._risk.send(
                    (request.session, request.number, now_ns),
                    event.name,
                    event.frame.data,
                    lambda then: self.request_router.request(event, request, then),
                )
            else:
                self.request_router.request(event, request, now_ns)
            return
        match event:
            case MessageReceived():
                session_id = event.message["businessHeader"]["sessionID"]
                self._write(RecordKind.REQUEST, now_ns, session_id, event.data)
                if self._delays and event.name in OVERTAKEN:
                    self._risk.send(
                        (session_id, event.number, now_ns),
                        event.name,
                        event.data,
                        lambda then: self.request_router.rare_request(event, session_id, then),
                    )
                else:
                    self.request_router.rare_request(event, session_id, now_ns)
            case MessageRejected():
                session_id = self._session_of(event)
                self._write(RecordKind.REQUEST, now_ns, session_id, event.data)
            case SessionRefused():
                pass  # refused clients must not grow the journal
            case ConnectionEnded() if connection is not None and not connection.negotiated:
                pass
            case _:
                self._write(RecordKind.HANDSHAKE, now_ns, NO_SESSION, repr(event).encode())
                if isinstance(event, SessionEstablished):
                    self._restate(event.session_id, now_ns)

    def _restate(self, session_id: int, now_ns: int) -> None:
        """Restate orders of an earlier day to a session, if its version supports that."""
        if session_id not in self.engine.market.carried:
            return
        if self.gateways[self.active][session_id].state.version >= _FIRST_RESTATED:
            self._write(RecordKind.RESTATE, now_ns, session_id, b"")
            self.request_router.apply(RestateOrders(session_id), now_ns)

    def _session_of(self, event: MessageRejected) -> int:
        """Return the session of a rejected message."""
        frame = frame_of(event.data)
        known = messages(frame.header.version)
        session_id: int = known.readable(frame)["businessHeader"]["sessionID"]
        return session_id

    def _cancel(self, session_id: int, reason: str, now_ns: int) -> None:
        """Cancel the orders of a session that left and did not return in time (§4.7)."""
        reason_code = ExecRestatementReason[reason]
        self.request_router.apply(MassCancel(session_id, 0, reason=reason_code), now_ns)

    def _control(self, name: str, request: ControlRequest, now_ns: int) -> None:
        match request:
            case FailoverRequest():
                self._fail_over(now_ns)
            case DisconnectRequest():
                self._disconnect(request.session, now_ns)
            case _:
                for command in engine_commands(name, request, self.engine):
                    self.request_router.apply(command, now_ns)
                    self._changed = True
        if isinstance(request, DayRequest):
            self._reset_sessions(now_ns, week=request.week)
            self._day_began = not self._again
        self.request_router.invalidate_cache()

    def _fail_over(self, now_ns: int) -> None:
        """Fail the active gateway; the backup takes over, or restarts (§5.5)."""
        failed = self.gateways[self.active]
        if not self._again:
            for session in failed:
                connection = session.connection
                if connection is not None:
                    self.dropped.append(connection)
                    self.lost(connection, now_ns)
        failed.accept(False)
        self.active = BACKUP
        self.gateways[BACKUP].accept()

    def _disconnect(self, session_id: int, now_ns: int) -> None:
        session = self._owner(session_id)
        if session is None:
            raise UsageError(f"session {session_id} is not configured")
        if self._again:
            return
        if session.connection is None:
            raise UsageError(f"session {session_id} is not connected")
        self.talking.add(session.connection)
        session.connection.terminate("UNSPECIFIED", now_ns, "ended by market operations")

    def _reset_sessions(self, now_ns: int, *, week: bool) -> None:
        """Start a trading session: sequence numbers restart at 1 (§4.5.1)."""
        if self._again:
            return  # the journal has a record for each session
        for session in self.gateways[self.active]:
            if session.connection is not None:
                self.talking.add(session.connection)
        self.gateways[self.active].reset_day(now_ns)
        if week:
            self.store.reset_week()

    def _time(self, now_ns: int) -> int:
        """Advance the clock, which never goes back, and return the time."""
        if now_ns > self._now_ns:
            self._now_ns = now_ns
        if self._risk.on_their_way:
            self._arrivals(self._now_ns)
        return self._now_ns

    def _arrivals(self, now_ns: int) -> None:
        """Process the requests that have passed the risk engine, each at its arrival time."""
        while (arrived := self._risk.arriving(now_ns)) is not None:
            if self._again:
                arrived.arrive(arrived.due_ns)
                continue
            try:
                # Replay derives this time from the request; the record is for readers of the
                # journal.
                self._write(RecordKind.TIME, arrived.due_ns, NO_SESSION, b"")
                arrived.arrive(arrived.due_ns)
                self._done(arrived.due_ns)
            except Exception as error:
                self._arrival_failed(arrived, error, now_ns)

    # Failures

    def _event_failed(
        self, connection: GatewayConnection, event: SessionEvent, error: Exception, now_ns: int
    ) -> None:
        """Undo an event and reject its message; for events without one, end the connection."""
        match event:
            case RequestReceived():
                name, data = event.name, event.frame.data
            case MessageReceived() | MessageRejected():
                name, data = event.name, event.data
            case _:
                what = type(event).__name__
                self._connection_failed(connection, what, repr(event).encode(), error, now_ns)
                return
        self.faults.note(name, error, data)
        self._undo()
        try:
            self._reject_failed(name, data, connection, now_ns)
        except Exception as second:
            self._connection_failed(connection, "reject of a request", data, second, now_ns)

    def _reject_failed(
        self, name: str, data: bytes, connection: GatewayConnection | None, now_ns: int
    ) -> None:
        """Reject a failed request; the journal contains the reject, not the request."""
        frame = frame_of(data)
        known = messages(frame.header.version)
        message = known.readable(frame)
        header = message["businessHeader"]
        session = self.gateways[self.active][header["sessionID"]]
        number = session.state.next_outgoing
        values = reject_values(name, message, OTHER, _FAILED)
        answer = known.from_exchange(
            "BusinessMessageReject", values, session.session_id, number, now_ns
        )
        if header["msgSeqNum"] >= session.state.next_incoming:
            self.store.record(session.session_id, IncomingAccepted(header["msgSeqNum"]))
        self.store.record(session.session_id, OutgoingSent(number, answer))
        if connection is not None:
            connection.live(answer, now_ns)
        self._done(now_ns)

    def _arrival_failed(self, failed: OnItsWay, error: Exception, now_ns: int) -> None:
        """Void a request that is already in the journal, and reject it."""
        self.faults.note(failed.name, error, failed.data)
        self._discard_records()
        self._void.add(failed.key)
        self._write(RecordKind.VOID, now_ns, failed.key[0], pack_void(failed.key))
        self._mark += 1
        self._undo()
        session = self._owner(failed.key[0])
        connection = None if session is None else session.connection
        try:
            self._reject_failed(failed.name, failed.data, connection, now_ns)
        except Exception as second:
            self.faults.note("reject of a request", second, failed.data)
            self._undo()

    def _time_failed(self, due_ns: int, error: Exception, now_ns: int) -> None:
        """Drop a market timer that failed, which would otherwise fail again with every request."""
        self.faults.note("end of an auction", error)
        self._undo()
        self._write(
            RecordKind.VOID, now_ns, NO_SESSION, pack_void((NO_SESSION, TIME_ITSELF, due_ns))
        )
        self.engine.drop_due(due_ns)
        self._done(now_ns)

    def _connection_failed(
        self, connection: GatewayConnection, what: str, data: bytes, error: Exception, now_ns: int
    ) -> None:
        """Undo the last step of a connection, and end it."""
        self.faults.note(what, error, data)
        self._undo()
        self.talking.add(connection)
        try:
            connection.terminate("UNSPECIFIED", now_ns, what)
        except Exception as second:
            self.faults.note("end of a connection", second)
            connection.closing = True
            self.dropped.append(connection)
        self._done(now_ns)
