"""The exchange without sockets and clocks: gateways, engine and journal as one state machine.

What happens (bytes of a connection, its loss, time, commands of market operations) goes in with
its time; bytes for connections and units for the feed come out. Everything that changes the
exchange is in the journal in the order in which the engine saw it, so that the same journal makes
the same books, sessions and sequence numbers.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from datetime import date
from functools import cache
from typing import Any, Final

from pregao.entrypoint import (
    Admitted,
    Event,
    Frame,
    GatewayConnection,
    GatewaySession,
    GatewaySessions,
    MessageRejected,
    Reader,
    Received,
    SessionEstablished,
    messages,
    pack_record,
    read_business,
    unpack_record,
)
from pregao.entrypoint.framing import frame_of
from pregao.entrypoint.session_state import Record as SessionRecord
from pregao.errors import UsageError
from pregao.exchange.engine import AuctionRules, Engine
from pregao.exchange.engine.commands import Command, MassCancel, RestateOrders
from pregao.exchange.engine.events import MarketEvent
from pregao.exchange.engine.terms import ExecRestatementReason
from pregao.exchange.host.checkpoints import resume, save
from pregao.exchange.host.control import engine_commands
from pregao.exchange.host.desk import Desk
from pregao.exchange.host.journal import Journal, Kind, Record
from pregao.exchange.host.kept_sessions import KeptSessions
from pregao.exchange.host.requests import OrderRequest, request_readers
from pregao.exchange.host.rights import take_accounts, tell_accounts
from pregao.exchange.host.risk_path import OVERTAKEN, RiskDelay, RiskPath
from pregao.exchange.host.settings import ExchangeSettings
from pregao.exchange.publisher import tells_places

PRIMARY: Final = 1
BACKUP: Final = 2
_NO_SESSION: Final = 0
_FIRST_RESTATED: Final = 6


class Host:
    """The whole exchange; the owner gives it what happens and sends what it says.

    After any number of inputs the owner calls `commit`, and only then sends what the connections
    in `talking` have to say and publishes `take_units`.
    """

    def __init__(self, settings: ExchangeSettings, journal: Journal | None = None) -> None:
        self.settings = settings
        self._journal = journal
        self._again = False
        """Is the journal being replayed?"""
        self._now_ns = 0
        self.starts = 0
        """How many processes the journal tells of, this one included."""
        self.engine = Engine(
            settings.instruments,
            settings.first_date,
            auction_duration_ns=settings.auction_duration_ns,
            implied_orders=settings.implied_orders,
            auction_rules=settings.auction_rules,
        )
        store = KeptSessions(self._note_session)
        self.gateways = {
            number: GatewaySessions(
                settings.sessions,
                store,
                settings.rules_of(number, accepting=number == PRIMARY),
                request_readers,
            )
            for number in (PRIMARY, BACKUP)
        }
        self.active = PRIMARY
        """The gateway that takes sessions."""
        self.store = store
        self.talking: set[GatewayConnection] = set()
        """The connections that may have something to say."""
        self.dropped: list[GatewayConnection] = []
        """The connections that ended without a word, as when a gateway fails."""
        self._risk = RiskPath()
        self._delays = False
        """Do orders take time through the risk engine?"""
        self.told: Mapping[str, Any] = {}
        """What the last start told of the settings."""
        self._day_began = False
        """Has a day begun since the last commit?"""
        self.desk = self.new_desk()

    def new_desk(self) -> Desk:
        """A desk before the engine that there is now."""
        return Desk(
            self.engine,
            lambda number: self.gateways[self.active][number],
            self._owner,
            self._sessions_of,
        )

    # What the owner does.

    def connect(self, gateway: int, now_ns: int) -> GatewayConnection:
        """A client connected to a gateway."""
        return GatewayConnection(self.gateways[gateway], self._time(now_ns))

    def receive(self, connection: GatewayConnection, data: bytes, now_ns: int) -> None:
        """Bytes came from a client."""
        now = self._time(now_ns)
        self.talking.add(connection)
        for event in connection.arriving(data, now):
            self._event(event, now)

    def lost(self, connection: GatewayConnection, now_ns: int) -> None:
        """A connection is gone."""
        now = self._time(now_ns)
        self.talking.discard(connection)
        for event in connection.lost(now):
            self._event(event, now)

    def wake(self, connection: GatewayConnection, now_ns: int) -> None:
        """The time of a connection has come: a heartbeat, or its end."""
        now = self._time(now_ns)
        self.talking.add(connection)
        for event in connection.advance(now):
            self._event(event, now)

    @property
    def next_due_ns(self) -> int | None:
        """When `advance` has something to do."""
        due = [
            self.engine.next_due_ns,
            self._risk.next_due_ns,
            *(each.next_due_ns for each in self.gateways.values()),
        ]
        return min((time for time in due if time is not None), default=None)

    def advance(self, now_ns: int) -> None:
        """Let time pass: auctions end, orders of clients that left are cancelled."""
        now = self._time(now_ns)
        due = self.engine.next_due_ns
        if due is not None and due <= now:
            self._write(Kind.TIME, now, _NO_SESSION, b"")
            self.desk.advance(now)
        for gateway in self.gateways.values():
            for event in gateway.advance(now):
                self._write(Kind.CANCEL, now, event.session_id, event.reason.encode())
                self._cancel(event.session_id, event.reason, now)

    def control(self, request: Mapping[str, Any], now_ns: int) -> None:
        """Carry out a command of market operations; UsageError if it makes no sense."""
        now = self._time(now_ns)
        body = json.dumps(request, separators=(",", ":")).encode()
        self._write(Kind.CONTROL, now, _NO_SESSION, body)
        self._control(request, now)

    def enter(self, command: Command, now_ns: int) -> None:
        """Let somebody trade who has no session; the journal does not tell of it."""
        self.desk.enter(command, self._time(now_ns))

    def commit(self) -> None:
        """Bring what happened to the disk; after that it may be told."""
        if self._journal is not None:
            self._journal.commit()
            if self._day_began and not self._risk.on_their_way:
                self._day_began = False
                save(self, self._journal)

    def take_units(self) -> list[MarketEvent]:
        """What is to be published since the last time."""
        units, self.desk.units = self.desk.units, []
        return units

    @property
    def requests(self) -> int:
        """How many of the frequent requests reached the desk."""
        return self.desk.requests

    # From the journal.

    def replay(self) -> int:
        """Become what the journal tells; give how many records it has."""
        if self._journal is None:
            return 0
        count = 0
        start = resume(self, self._journal)
        self._again = True
        for record in self._journal.records(start):
            count += 1
            self._now_ns = max(self._now_ns, record.time_ns)
            self._once_more(record)
            if len(self.desk.units) > 1000:
                self.desk.units.clear()  # they were published
        self.desk.units.clear()
        self._again = False
        return count

    def _once_more(self, record: Record) -> None:
        now = record.time_ns
        if self._risk.on_their_way:
            self._arrivals(now)
        match record.kind:
            case Kind.REQUEST:  # by far the most frequent
                self._request_again(record.session, frame_of(record.body), now)
            case Kind.SESSION:
                session_id, change = unpack_record(record.body)
                self.store.record(session_id, change)
            case Kind.CONTROL:
                with suppress(UsageError):  # what was refused then is refused again
                    self._control(json.loads(record.body), now)
            case Kind.CANCEL:
                self._cancel(record.session, record.body.decode(), now)
            case Kind.TIME:
                self.desk.advance(now)
            case Kind.START:
                self._started(json.loads(record.body))
            case Kind.RESTATE:
                self.desk.apply(RestateOrders(record.session), now)
            case Kind.HANDSHAKE:
                pass

    def _request_again(self, session_id: int, frame: Frame, now_ns: int) -> None:
        session = self._owner(session_id)
        if session is None:
            raise UsageError(
                f"The journal has requests of session {session_id}, which is not configured any "
                "more; add it again, or begin with another --journal."
            )
        name, read = _reader(frame.header.version, frame.header.template_id)
        if read is None:
            known = messages(frame.header.version)
            reading = read_business(known, name, known.decode(frame))
        else:
            reading = read(frame)
        self._event(session.take(name, frame, reading, now_ns), now_ns)

    def begin(self, now_ns: int) -> None:
        """The process serves from now on; clients that were connected before have lost that."""
        now = self._time(now_ns)
        rules = self.settings.auction_rules
        told = {
            "instruments": self.settings.instruments_digest,
            "first_date": self.settings.first_date.isoformat(),
            "sessions": tell_accounts(self.settings.sessions),
            "auction": None if rules is None else asdict(rules),
            "risk": [self.settings.risk.delay_ns, self.settings.risk.jitter_ns],
            "implied_orders": self.settings.implied_orders,
            "keeps_numbers": tells_places(self.settings.schema_version),
            "seed": secrets.randbits(62) if self.settings.seed is None else self.settings.seed,
        }
        self._write(Kind.START, now, _NO_SESSION, json.dumps(told).encode())
        self._started(told)
        for gateway in self.gateways.values():
            gateway.recover(now)

    def _started(self, told: Mapping[str, Any]) -> None:
        if told["instruments"] != self.settings.instruments_digest:
            raise UsageError(
                "The journal is of an exchange with other instruments; give those that it had, or "
                "begin with another --journal."
            )
        implied = told.get("implied_orders", self.settings.implied_orders)
        if implied != self.settings.implied_orders:
            raise UsageError(
                f"The journal is of an exchange {'with' if implied else 'without'} implied orders; "
                f"set implied_orders to {str(implied).lower()}, or begin with another --journal."
            )
        if not self.starts:
            # The day on which it all began, not that of the process that reads of it.
            self.engine.market.set_trade_date(date.fromisoformat(told["first_date"]))
            self.engine.market.seed = told.get("seed", 0)
        self.take(told)
        self.starts += 1

    def take(self, told: Mapping[str, Any]) -> None:
        """Let settings be what a start told, on which everything behind it depends."""
        self.told = told
        for gateway in self.gateways.values():
            take_accounts(gateway, told.get("sessions", {}))
        self.desk.restrict(each.account for each in self.gateways[self.active])
        self._risk.delay = RiskDelay(*told.get("risk", ()))
        self._delays = self._risk.delay.takes_time
        self._risk.seed = self.engine.market.seed
        self.engine.market.keeps_numbers = told.get("keeps_numbers", False)
        if "auction" in told:
            rules = told["auction"]
            self.engine.market.auction_rules = None if rules is None else AuctionRules(**rules)

    # What happens.

    def _event(self, event: Event, now_ns: int) -> None:
        if isinstance(event, Admitted):  # by far the most frequent
            request = event.content
            if self._journal is not None and not self._again:
                self._journal.append(Kind.REQUEST, now_ns, request.session, event.frame.data)
            if self._delays and isinstance(request, OrderRequest):
                self._risk.send(
                    request.session,
                    request.number,
                    now_ns,
                    lambda then: self.desk.request(event, request, then),
                )
            else:
                self.desk.request(event, request, now_ns)
            return
        match event:
            case Received():
                session_id = event.message["businessHeader"]["sessionID"]
                self._write(Kind.REQUEST, now_ns, session_id, event.data)
                if self._delays and event.name in OVERTAKEN:
                    self._risk.send(
                        session_id,
                        event.number,
                        now_ns,
                        lambda then: self.desk.rare_request(event, session_id, then),
                    )
                else:
                    self.desk.rare_request(event, session_id, now_ns)
            case MessageRejected():
                session_id = self._session_of(event)
                self._write(Kind.REQUEST, now_ns, session_id, event.data)
            case _:
                self._write(Kind.HANDSHAKE, now_ns, _NO_SESSION, repr(event).encode())
                if isinstance(event, SessionEstablished):
                    self._restate(event.session_id, now_ns)

    def _restate(self, session_id: int, now_ns: int) -> None:
        """Tell a session of orders of an earlier day, if its version has a word for it."""
        if session_id not in self.engine.market.carried:
            return
        if self.gateways[self.active][session_id].state.version >= _FIRST_RESTATED:
            self._write(Kind.RESTATE, now_ns, session_id, b"")
            self.desk.apply(RestateOrders(session_id), now_ns)

    def _session_of(self, event: MessageRejected) -> int:
        """Whose message was rejected."""
        frame = frame_of(event.data)
        known = messages(frame.header.version)
        session_id: int = known.decode(frame)["businessHeader"]["sessionID"]
        return session_id

    def _cancel(self, session_id: int, reason: str, now_ns: int) -> None:
        """Cancel the orders of a session that left and did not come back in time (§4.7)."""
        reason_code = ExecRestatementReason[reason]
        self.desk.apply(MassCancel(session_id, 0, reason=reason_code), now_ns)

    def _control(self, request: Mapping[str, Any], now_ns: int) -> None:
        match request.get("do"):
            case "failover":
                self._fail_over(now_ns)
            case "disconnect":
                self._disconnect(int(request["session"]), now_ns)
            case "day":
                for command in engine_commands(request, self.engine):
                    self.desk.apply(command, now_ns)
                self._reset_sessions(now_ns, week=bool(request.get("week")))
                self._day_began = not self._again
            case _:
                for command in engine_commands(request, self.engine):
                    self.desk.apply(command, now_ns)
        self.desk.look_again()

    def _fail_over(self, now_ns: int) -> None:
        """The active gateway fails; the backup takes over, or comes up again (§5.5)."""
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
            raise UsageError(f"there is no session {session_id}")
        if self._again:
            return
        if session.connection is None:
            raise UsageError(f"session {session_id} is not connected")
        self.talking.add(session.connection)
        session.connection.terminate("UNSPECIFIED", now_ns, "market operations ended it")

    def _reset_sessions(self, now_ns: int, *, week: bool) -> None:
        """A trading session begins: numbers from 1 (§4.5.1)."""
        if self._again:
            return  # the journal tells it of each session
        for session in self.gateways[self.active]:
            if session.connection is not None:
                self.talking.add(session.connection)
        self.gateways[self.active].reset_day(now_ns)
        if week:
            self.store.reset_week()

    # Small things.

    def _owner(self, session_id: int) -> GatewaySession | None:
        session = self.gateways[self.active].get(session_id)
        if session is not None and session.connection is not None:
            self.talking.add(session.connection)
        return session

    def _sessions_of(self, firm: int) -> list[GatewaySession]:
        """The sessions of a firm that were there today; all of them if none was."""
        own = [each for each in self.gateways[self.active] if each.account.firm == firm]
        found = [each for each in own if each.state.negotiated] or own
        for session in found:
            self._heard(session)
        return found

    def _heard(self, session: GatewaySession) -> None:
        if session.connection is not None:
            self.talking.add(session.connection)

    def _time(self, now_ns: int) -> int:
        """The time, which never goes back."""
        if now_ns > self._now_ns:
            self._now_ns = now_ns
        if self._risk.on_their_way:
            self._arrivals(self._now_ns)
        return self._now_ns

    def _arrivals(self, now_ns: int) -> None:
        """Let the requests arrive that the risk engine is done with, each at its own time."""
        while (arrived := self._risk.arriving(now_ns)) is not None:
            then, arrive = arrived
            # The time follows from the request, but whoever reads the journal sees it.
            self._write(Kind.TIME, then, _NO_SESSION, b"")
            arrive(then)

    @property
    def holding(self) -> bool:
        """Are requests on their way through the risk engine?"""
        return bool(self._risk.on_their_way)

    def resume(self, now_ns: int, starts: int, active: int) -> None:
        """Go on from a moment that a checkpoint tells."""
        self._now_ns, self.starts, self.active = now_ns, starts, active

    @property
    def now_ns(self) -> int:
        """The time of what happened last."""
        return self._now_ns

    def _note_session(self, session_id: int, record: SessionRecord) -> None:
        """Something happened to a session that does not follow from a request."""
        self._write(Kind.SESSION, self._now_ns, session_id, pack_record(session_id, record))

    def _write(self, kind: Kind, now_ns: int, session_id: int, body: bytes) -> None:
        if self._journal is not None and not self._again:
            self._journal.append(kind, now_ns, session_id, body)


@cache
def _reader(version: int, template_id: int) -> tuple[str, Reader | None]:
    """The name of a request that was taken, and how it is read if it is a frequent one."""
    name = messages(version).named(template_id)
    assert name is not None
    return name, request_readers(version).get(template_id)
