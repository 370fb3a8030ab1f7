"""The parts of an exchange without sockets and clocks, and how each start sets them up."""

from __future__ import annotations

import json
import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import asdict
from datetime import date
from typing import Any, Final

from pregao.entrypoint import GatewayConnection, GatewaySession, GatewaySessions, pack_record
from pregao.entrypoint.session_state import Record as SessionRecord
from pregao.entrypoint.throttle import Throttle
from pregao.errors import UsageError
from pregao.exchange.engine import AuctionRules, Engine
from pregao.exchange.engine.events import MarketEvent
from pregao.exchange.host.desk import Desk
from pregao.exchange.host.faults import Faults, blank_sessions
from pregao.exchange.host.journal import Journal, Kind
from pregao.exchange.host.kept_sessions import KeptSessions
from pregao.exchange.host.requests import request_readers
from pregao.exchange.host.rights import take_accounts, tell_accounts
from pregao.exchange.host.risk_path import Key, RiskDelay, RiskPath
from pregao.exchange.host.settings import ExchangeSettings
from pregao.exchange.publisher import tells_places

PRIMARY: Final = 1
BACKUP: Final = 2
NO_SESSION: Final = 0

Publish = Callable[[list[MarketEvent], int], None]


class BaseHost(ABC):
    """Gateways, sessions, engine, desk and journal of an exchange."""

    def __init__(self, settings: ExchangeSettings, journal: Journal | None = None) -> None:
        self.settings = settings
        self._journal = journal
        self._again = False
        """Is the journal being replayed?"""
        self._now_ns = 0
        self.starts = 0
        """How many processes the journal tells of, this one included."""
        self.engine = self._new_engine()
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
        self.publish: Publish | None = None
        """Encodes what is to be published, as a part of each step; without it `take_units` gives
        what waits."""
        self.faults = Faults()
        self._void: set[Key] = set()
        """The requests that failed after the journal had them."""
        self._changed = False
        """Has a command of market operations changed anything so far?"""
        self._mark = 0
        """How many records of earlier steps wait for the next commit."""
        self._units_before = 0
        self._lost: Exception | None = None
        """Why the exchange cannot go on: the journal can be neither written nor read again."""

    def _new_engine(self) -> Engine:
        settings = self.settings
        return Engine(
            settings.instruments,
            settings.first_date,
            auction_duration_ns=settings.auction_duration_ns,
            implied_orders=settings.implied_orders,
            auction_rules=settings.auction_rules,
        )

    def new_desk(self) -> Desk:
        """A desk before the engine that there is now."""
        return Desk(
            self.engine,
            lambda number: self.gateways[self.active][number],
            self._owner,
            self._sessions_of,
        )

    def blank(self) -> None:
        """Be as before the first record, in place: connections hold on to their sessions."""
        self.engine.restore(self._new_engine().state())
        self._risk = RiskPath()
        self._delays = False
        self.told = {}
        self.starts = 0
        self.active = PRIMARY
        blank_sessions(self.store)
        for number, gateway in self.gateways.items():
            gateway.accept(number == PRIMARY)
            for account in self.settings.sessions:
                session = gateway[account.session_id]
                session.account = account
                session.throttle = Throttle(account.throttle)
        self.desk = self.new_desk()

    # Starts.

    def begin(self, now_ns: int) -> None:
        """The process serves from now on; clients that were connected before have lost that."""
        now = self._time(now_ns)
        self.begin_again(now)
        for gateway in self.gateways.values():
            gateway.recover(now)
        self._done(now)

    def begin_again(self, now_ns: int) -> None:
        """Note a start in the journal: what is published from now on has a version of its own."""
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
        self._write(Kind.START, now_ns, NO_SESSION, json.dumps(told).encode())
        self._started(told)
        self._done(now_ns)

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

    @abstractmethod
    def _time(self, now_ns: int) -> int:
        """The time, which never goes back."""

    @abstractmethod
    def _done(self, now_ns: int) -> None:
        """A step succeeded."""
