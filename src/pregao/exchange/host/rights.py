"""Authorization: sender locations, traders and accounts of each session (003 §9, §11, §13).

The rights of sessions are journaled: a replay checks each request against the rights that the
session had when the request was accepted, whatever the current configuration.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from pregao.entrypoint.gateway_sessions import GatewaySession
from pregao.entrypoint.rules import SessionAccount
from pregao.entrypoint.throttle import Throttle, ThrottleLimit
from pregao.exchange.host.requests import CancelRequest, OrderRequest

NOT_AUTHORIZED: Final = 6
"""FIX reject reason of a request that the sender is not authorized for."""
_LISTS: Final = ("locations", "traders", "accounts")


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


def load_accounts(sessions: Iterable[GatewaySession], told: Mapping[str, Any]) -> None:
    """Apply journaled settings to sessions."""
    for session in sessions:
        session_settings = told.get(str(session.session_id))
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


def order_fault(account: SessionAccount, request: OrderRequest | CancelRequest) -> str | None:
    """Return why a session is not authorized for a request, or None."""
    named = None if isinstance(request, CancelRequest) else request.account
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
