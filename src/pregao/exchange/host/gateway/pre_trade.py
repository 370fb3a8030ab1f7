"""Checks and delays before the matching engine: authorization of requests, and the risk engine.

Sender locations, traders and accounts are checked for each session (003 §9, §11, §13). The rights
of sessions are journaled: a replay checks each request against the rights that the session had when
the request was accepted, whatever the current configuration.

Orders, modifications and crosses reach the matching engine some time after the gateway accepted
them (003 §7.2); cancels and mass actions reach it immediately, possibly before the order they refer
to. Orders of a session keep their order. Each delay is derived from the seed of the journal, so
that in a replay every request arrives at the same time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from hashlib import blake2b
from heapq import heappop, heappush
from itertools import count
from typing import Any, Final, NamedTuple

from pregao.entrypoint.gateway_sessions import GatewaySession
from pregao.entrypoint.session_settings import SessionAccount, Throttle, ThrottleLimit
from pregao.exchange.host.gateway.order_requests import OrderCancelRequest, OrderRequest

NOT_AUTHORIZED: Final = 6
"""FIX reject reason of a request that the sender is not authorized for."""
_LISTS: Final = ("locations", "traders", "accounts")

Arrive = Callable[[int], None]
"""Passes a request to the matching engine at a time."""
Key = tuple[int, int, int]
"""Identifies a request: its session, its number, and the time when the gateway accepted it."""
OVERTAKEN: Final = frozenset({"NewOrderCross"})
"""Rare requests that pass the risk engine."""


def dump_accounts(accounts: Iterable[SessionAccount]) -> dict[str, dict[str, Any]]:
    """Return the journaled settings of sessions: all that answers depend on, no credentials."""
    settings: dict[str, dict[str, Any]] = {}
    for account in accounts:
        session_settings = settings[str(account.session_id)] = {"firm": account.firm}
        if account.throttle is not None:
            session_settings["throttle"] = [account.throttle.messages, account.throttle.window_ms]
        for name in _LISTS:
            allowed = getattr(account, name)
            if allowed is not None:
                session_settings[name] = sorted(allowed)
    return settings


def load_accounts(sessions: Iterable[GatewaySession], settings: Mapping[str, Any]) -> None:
    """Apply journaled settings to sessions."""
    for session in sessions:
        session_settings = settings.get(str(session.session_id))
        if session_settings is None:
            continue
        throttle = (
            ThrottleLimit(*session_settings["throttle"]) if "throttle" in session_settings else None
        )
        lists: dict[str, Any] = {
            name: frozenset(session_settings[name]) if name in session_settings else None
            for name in _LISTS
        }
        session.account = replace(
            session.account, firm=session_settings["firm"], throttle=throttle, **lists
        )
        session.throttle = Throttle(throttle)


def restricted(account: SessionAccount) -> bool:
    """Whether a session has any restrictions."""
    return any(getattr(account, name) is not None for name in _LISTS)


def order_fault(account: SessionAccount, request: OrderRequest | OrderCancelRequest) -> str | None:
    """Return why a session is not authorized for a request, or None."""
    named = None if isinstance(request, OrderCancelRequest) else request.account
    return _fault(
        account,
        _text(request.location),
        (_text(request.trader), _text(request.executing_trader)),
        (named,),
    )


def message_fault(account: SessionAccount, values: Mapping[str, Any]) -> str | None:
    """Return why a session is not authorized for a fully decoded message, or None."""
    sides = values.get("noSides") or ()
    accounts = [values.get("account"), values.get("allocAccount")]
    return _fault(
        account,
        values.get("senderLocation"),
        (values.get("enteringTrader"), values.get("executingTrader")),
        (*accounts, *(each.get("account") for each in sides)),
    )


def _fault(
    account: SessionAccount,
    location: str | None,
    traders: tuple[str | None, ...],
    accounts: tuple[int | None, ...],
) -> str | None:
    if location and account.locations is not None and location not in account.locations:
        return f"senderLocation {location} is not allowed for this session"
    if account.traders is not None:
        for trader in traders:
            if trader and trader not in account.traders:
                return f"trader {trader} is not allowed for this session"
    if account.accounts is not None:
        for number in accounts:
            if number and number not in account.accounts:
                return f"account {number} is not allowed for this session"
    return None


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode("latin-1")


@dataclass(frozen=True, slots=True)
class RiskDelay:
    """Delay of the risk engine: a minimum, plus up to the jitter."""

    delay_ns: int = 0
    jitter_ns: int = 0

    @property
    def takes_time(self) -> bool:
        """Whether requests are delayed."""
        return bool(self.delay_ns or self.jitter_ns)


class OnItsWay(NamedTuple):
    """A delayed request: arrival time, tie-breaker, key, message and callback."""

    due_ns: int
    order: int
    key: Key
    name: str
    data: bytes
    arrive: Arrive


class RiskQueue:
    """Queue of the delayed requests."""

    def __init__(self) -> None:
        self.delay = RiskDelay()
        self.seed = 0
        self.on_their_way: list[OnItsWay] = []
        """Heap of the delayed requests."""
        self._count = count()
        self._last: dict[int, int] = {}

    def send(self, key: Key, name: str, data: bytes, arrive: Arrive) -> None:
        """Queue a request of a session until its delay is over."""
        session, number, now_ns = key
        due = max(now_ns + self._drawn(session, number, now_ns), self._last.get(session, 0))
        self._last[session] = due
        heappush(self.on_their_way, OnItsWay(due, next(self._count), key, name, data, arrive))

    def _drawn(self, session: int, number: int, now_ns: int) -> int:
        """Return the delay of a request: at least 1 ns, so that it arrives after its cause."""
        delay = self.delay
        if not delay.jitter_ns:
            return max(delay.delay_ns, 1)
        drawn = blake2b(f"{self.seed} {session} {number} {now_ns}".encode(), digest_size=8)
        part = int.from_bytes(drawn.digest(), "little") % (delay.jitter_ns + 1)
        return max(delay.delay_ns + part, 1)

    @property
    def next_due_ns(self) -> int | None:
        """Arrival time of the next request."""
        return self.on_their_way[0][0] if self.on_their_way else None

    def arriving(self, now_ns: int) -> OnItsWay | None:
        """Remove and return the next request that has arrived by now, or None."""
        if not self.on_their_way or self.on_their_way[0].due_ns > now_ns:
            return None
        return heappop(self.on_their_way)
