"""Components of an exchange without sockets and clocks, and their setup at each start.

Sessions can use a schema file that the user names (`with_schema`).
"""

from __future__ import annotations

import json
import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from datetime import date
from pathlib import Path
from typing import Any, Final

from pregao.entrypoint.gateway_connection import GatewayConnection
from pregao.entrypoint.gateway_sessions import GatewaySession, GatewaySessions
from pregao.entrypoint.messages import read_schema, use_schema
from pregao.entrypoint.session_settings import Throttle
from pregao.entrypoint.session_state import SessionRecord
from pregao.entrypoint.session_store import pack_record
from pregao.errors import PregaoError, UsageError
from pregao.exchange.engine.engine import MatchingEngine
from pregao.exchange.engine.model.auction_rules import AuctionRules
from pregao.exchange.engine.model.events import MarketEvent
from pregao.exchange.host.faults import FaultLog, blank_sessions
from pregao.exchange.host.gateway.execution_reports import report_messages
from pregao.exchange.host.gateway.order_requests import request_readers
from pregao.exchange.host.gateway.pre_trade import (
    Key,
    RiskDelay,
    RiskQueue,
    dump_accounts,
    load_accounts,
)
from pregao.exchange.host.gateway.request_router import RequestRouter
from pregao.exchange.host.journal.journal import Journal, JournaledSessions
from pregao.exchange.host.journal.journal_file import RecordKind
from pregao.exchange.host.settings import ExchangeSettings
from pregao.exchange.publisher.encoding.orders import has_positions

PRIMARY: Final = 1
BACKUP: Final = 2
NO_SESSION: Final = 0

Publish = Callable[[list[MarketEvent], int], None]


class BaseHost(ABC):
    """Gateways, sessions, engine, request routing and journal of an exchange."""

    def __init__(self, settings: ExchangeSettings, journal: Journal | None = None) -> None:
        self.settings = settings
        self._journal = journal
        self._again = False
        """Whether the journal is being replayed."""
        self._now_ns = 0
        self.starts = 0
        """Number of starts in the journal, including the current one."""
        self.engine = self._new_engine()
        store = JournaledSessions(self._note_session)
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
        """Gateway that accepts sessions."""
        self.store = store
        self.talking: set[GatewayConnection] = set()
        """Connections that may have output to send."""
        self.dropped: list[GatewayConnection] = []
        """Connections that ended without a message, as when a gateway fails."""
        self._risk = RiskQueue()
        self._delays = False
        """Whether the risk engine delays orders."""
        self.start_settings: Mapping[str, Any] = {}
        """Settings recorded by the last start."""
        self._day_began = False
        """Whether a day has begun since the last commit."""
        self.request_router = self.new_request_router()
        self.publish: Publish | None = None
        """Encodes the events to publish, as part of each step; without it `take_units` returns
        them."""
        self.faults = FaultLog()
        self._void: set[Key] = set()
        """Requests that failed after they were journaled."""
        self._changed = False
        """Whether the current command of market operations has changed anything yet."""
        self._mark = 0
        """Number of records of earlier steps that are queued for the next commit."""
        self._units_before = 0
        self._lost: Exception | None = None
        """Why the exchange cannot continue: the journal could not be committed or replayed."""

    def _new_engine(self) -> MatchingEngine:
        settings = self.settings
        return MatchingEngine(
            settings.instruments,
            settings.first_date,
            auction_duration_ns=settings.auction_duration_ns,
            implied_orders=settings.implied_orders,
            auction_rules=settings.auction_rules,
        )

    def new_request_router(self) -> RequestRouter:
        """Return a router for the current engine."""
        return RequestRouter(
            self.engine,
            lambda number: self.gateways[self.active][number],
            self._owner,
            self._sessions_of,
        )

    def blank(self) -> None:
        """Reset to the state before the first record, in place: connections keep their sessions."""
        self.engine.restore(self._new_engine().state())
        self._risk = RiskQueue()
        self._delays = False
        self.start_settings = {}
        self.starts = 0
        self.active = PRIMARY
        blank_sessions(self.store)
        for number, gateway in self.gateways.items():
            gateway.accept(number == PRIMARY)
            for account in self.settings.sessions:
                session = gateway[account.session_id]
                session.account = account
                session.throttle = Throttle(account.throttle)
        self.request_router = self.new_request_router()

    # Starts

    def begin(self, now_ns: int) -> None:
        """Start serving; clients connected to an earlier process have lost their connection."""
        now = self._time(now_ns)
        self.begin_again(now)
        for gateway in self.gateways.values():
            gateway.recover(now)
        self._done(now)

    def begin_again(self, now_ns: int) -> None:
        """Record a start in the journal: the feed then has a new sequence version."""
        rules = self.settings.auction_rules
        start_settings = {
            "instruments": self.settings.instruments_digest,
            "first_date": self.settings.first_date.isoformat(),
            "sessions": dump_accounts(self.settings.sessions),
            "auction": None if rules is None else asdict(rules),
            "risk": [self.settings.risk.delay_ns, self.settings.risk.jitter_ns],
            "implied_orders": self.settings.implied_orders,
            "keeps_numbers": has_positions(self.settings.schema_version),
            "seed": secrets.randbits(62) if self.settings.seed is None else self.settings.seed,
        }
        self._write(RecordKind.START, now_ns, NO_SESSION, json.dumps(start_settings).encode())
        self._started(start_settings)
        self._done(now_ns)

    def _started(self, start_settings: Mapping[str, Any]) -> None:
        if start_settings["instruments"] != self.settings.instruments_digest:
            raise UsageError(
                "The journal is of an exchange with other instruments; use the same instruments, "
                "or start with another --journal."
            )
        implied = start_settings.get("implied_orders", self.settings.implied_orders)
        if implied != self.settings.implied_orders:
            raise UsageError(
                f"The journal is of an exchange {'with' if implied else 'without'} implied orders; "
                f"set implied_orders to {str(implied).lower()}, or start with another --journal."
            )
        if not self.starts:
            # The first day of the journal, not that of the process that replays it.
            self.engine.market.set_trade_date(date.fromisoformat(start_settings["first_date"]))
            self.engine.market.seed = start_settings.get("seed", 0)
        self.load_start_settings(start_settings)
        self.starts += 1

    def load_start_settings(self, start_settings: Mapping[str, Any]) -> None:
        """Apply the settings recorded by a start, on which all later records depend."""
        self.start_settings = start_settings
        for gateway in self.gateways.values():
            load_accounts(gateway, start_settings.get("sessions", {}))
        self.request_router.restrict(each.account for each in self.gateways[self.active])
        self._risk.delay = RiskDelay(*start_settings.get("risk", ()))
        self._delays = self._risk.delay.takes_time
        self._risk.seed = self.engine.market.seed
        self.engine.market.keeps_numbers = start_settings.get("keeps_numbers", False)
        if "auction" in start_settings:
            rules = start_settings["auction"]
            self.engine.market.auction_rules = None if rules is None else AuctionRules(**rules)

    # Helpers

    def _owner(self, session_id: int) -> GatewaySession | None:
        session = self.gateways[self.active].get(session_id)
        if session is not None and session.connection is not None:
            self.talking.add(session.connection)
        return session

    def _sessions_of(self, firm: int) -> list[GatewaySession]:
        """Return the sessions of a firm that negotiated today; all of them if none did."""
        firm_sessions = [each for each in self.gateways[self.active] if each.account.firm == firm]
        found = [each for each in firm_sessions if each.state.negotiated] or firm_sessions
        for session in found:
            self._schedule_flush(session)
        return found

    def _schedule_flush(self, session: GatewaySession) -> None:
        if session.connection is not None:
            self.talking.add(session.connection)

    @property
    def holding(self) -> bool:
        """Whether the risk engine is delaying requests."""
        return bool(self._risk.on_their_way)

    def resume(self, now_ns: int, starts: int, active: int) -> None:
        """Continue from the state of a checkpoint."""
        self._now_ns, self.starts, self.active = now_ns, starts, active

    @property
    def now_ns(self) -> int:
        """Time of the last input."""
        return self._now_ns

    def _note_session(self, session_id: int, record: SessionRecord) -> None:
        """Journal a change of a session that replay cannot derive from a request."""
        self._write(RecordKind.SESSION, self._now_ns, session_id, pack_record(session_id, record))

    def _write(self, kind: RecordKind, now_ns: int, session_id: int, body: bytes) -> None:
        if self._journal is not None and not self._again:
            self._journal.append(kind, now_ns, session_id, body)

    @abstractmethod
    def _time(self, now_ns: int) -> int:
        """Advance the clock, which never goes back, and return the time."""

    @abstractmethod
    def _done(self, now_ns: int) -> None:
        """Complete a step that succeeded."""


def with_schema(settings: ExchangeSettings, path: Path) -> ExchangeSettings:
    """Return settings that also accept sessions of the version of a schema file.

    In this process, the file replaces a bundled schema of the same version. It is read and checked
    immediately: UsageError names what it lacks.
    """
    schema = read_schema(path)
    use_schema(schema)
    request_readers.cache_clear()
    report_messages.cache_clear()
    try:
        request_readers(schema.version)
        report_messages(schema.version)
    except (KeyError, PregaoError) as error:
        raise UsageError(
            f"{path}: the schema lacks messages or fields that the exchange needs: {error}."
        ) from None
    versions = tuple(sorted({*settings.rules.versions, schema.version}))
    return replace(settings, rules=replace(settings.rules, versions=versions))
