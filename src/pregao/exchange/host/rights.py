"""Who may ask for what: sender locations, traders and accounts of each session (003 §9, §11, §13).

What a session may do is part of the journal: a replay holds each request against the rights that
the session had when it was taken, whatever the configuration says by now.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from pregao.entrypoint import Account, GatewaySession, ThrottleLimit
from pregao.entrypoint.throttle import Throttle
from pregao.exchange.host.requests import CancelRequest, OrderRequest

NOT_AUTHORIZED: Final = 6
"""FIX's reason for something that the sender may not do."""
_LISTS: Final = ("locations", "traders", "accounts")


def tell_accounts(accounts: Iterable[Account]) -> dict[str, dict[str, Any]]:
    """What the journal keeps of the sessions: all that answers depend on, no credentials."""
    told: dict[str, dict[str, Any]] = {}
    for account in accounts:
        own = told[str(account.session_id)] = {"firm": account.firm}
        if account.throttle is not None:
            own["throttle"] = [account.throttle.messages, account.throttle.window_ms]
        for name in _LISTS:
            allowed = getattr(account, name)
            if allowed is not None:
                own[name] = sorted(allowed)
    return told


def take_accounts(sessions: Iterable[GatewaySession], told: Mapping[str, Any]) -> None:
    """Let sessions be what the journal tells of them."""
    for session in sessions:
        own = told.get(str(session.session_id))
        if own is None:
            continue
        throttle = ThrottleLimit(*own["throttle"]) if "throttle" in own else None
        lists: dict[str, Any] = {
            name: frozenset(own[name]) if name in own else None for name in _LISTS
        }
        session.account = replace(session.account, firm=own["firm"], throttle=throttle, **lists)
        session.throttle = Throttle(throttle)


def restricted(account: Account) -> bool:
    """Is there anything that a session may not do?"""
    return any(getattr(account, name) is not None for name in _LISTS)


def order_fault(account: Account, request: OrderRequest | CancelRequest) -> str | None:
    """What a session may not ask for in this way, or None."""
    named = None if isinstance(request, CancelRequest) else request.account
    return _fault(
        account,
        _text(request.location),
        (_text(request.trader), _text(request.executing_trader)),
        (named,),
    )


def message_fault(account: Account, values: Mapping[str, Any]) -> str | None:
    """The same for a message that was decoded in full."""
    sides = values.get("noSides") or ()
    accounts = [values.get("account"), values.get("allocAccount")]
    return _fault(
        account,
        values.get("senderLocation"),
        (values.get("enteringTrader"), values.get("executingTrader")),
        (*accounts, *(each.get("account") for each in sides)),
    )


def _fault(
    account: Account,
    location: str | None,
    traders: tuple[str | None, ...],
    accounts: tuple[int | None, ...],
) -> str | None:
    if location and account.locations is not None and location not in account.locations:
        return f"senderLocation {location} is not one of this session"
    if account.traders is not None:
        for trader in traders:
            if trader and trader not in account.traders:
                return f"trader {trader} is not one of this session"
    if account.accounts is not None:
        for number in accounts:
            if number and number not in account.accounts:
                return f"account {number} is not one of this session"
    return None


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode("latin-1")
