"""Checkpoints: the state of the exchange at the start of a day, from which a restart resumes.

The journal is authoritative; without a checkpoint a start replays all of it. A checkpoint contains
only values of the classes in `state_schema`, and only the code that wrote it reads it. An unusable
checkpoint is ignored with a log message.
"""

from __future__ import annotations

import hashlib
import json
import logging
import struct
import sys
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pregao import errors
from pregao.exchange.host.checkpoints.columns import ColumnError
from pregao.exchange.host.checkpoints.state_schema import STATE, HostState
from pregao.safe_io.documents import parse_json

if TYPE_CHECKING:
    from pregao.exchange.host.checkpoints.checkpoint_file import JournalPosition
    from pregao.exchange.host.host import ExchangeHost
    from pregao.exchange.host.journal.journal import Journal

_log = logging.getLogger(__name__)
_PACKAGE: Final = Path(errors.__file__).resolve().parent
_PACKAGES: Final = ("exchange/engine", "exchange/host", "entrypoint", "sbe", "schemas")


@cache
def code_digest() -> str:
    """Return a digest of the Python version and the code that defines the state."""
    digest = hashlib.sha256(sys.version.encode())
    for package in _PACKAGES:
        for path in sorted((_PACKAGE / package).rglob("*")):
            if path.suffix in (".py", ".xml") and path.is_file():
                digest.update(path.relative_to(_PACKAGE).as_posix().encode())
                digest.update(path.read_bytes())
    return digest.hexdigest()[:32]


def save(host: ExchangeHost, journal: Journal) -> None:
    """Save a checkpoint of the committed state; if that fails, the next start takes longer."""
    try:
        state = STATE.pack(state_of(host))
    except (ColumnError, ValueError, struct.error) as error:
        _log.warning("cannot save a checkpoint: %s", error)
        return
    journal.keep_checkpoint(code_digest(), state)


def resume(host: ExchangeHost, journal: Journal) -> JournalPosition | None:
    """Restore a new exchange from the last checkpoint; return its position in the journal.

    Without a usable checkpoint the exchange stays new, and None is returned.
    """
    found = journal.checkpoint(code_digest())
    if found is None:
        return None
    try:
        if restore(host, STATE.unpack(found.state)):
            return found.position
        reason = "it is of an exchange with other instruments or implied orders"
    except Exception as error:
        # The file may have been tampered with: no value in it may prevent the start, which does
        # not need it.
        reason = f"{type(error).__name__}: {error}"
        host.blank()
    _log.warning("%s: checkpoint ignored, replaying the full journal: %s", journal.folder, reason)
    return None


def state_of(host: ExchangeHost) -> HostState:
    """Return the complete state of an exchange."""
    market, engine_ns, unreported = host.engine.state()
    requests, (orders, ended, forwards) = host.request_router.state()
    return HostState(
        now_ns=host.now_ns,
        starts=host.starts,
        active=host.active,
        start_settings=json.dumps(host.start_settings),
        accepting={number: each.rules.accepting for number, each in host.gateways.items()},
        sessions={number: host.store.state(number) for number in host.store.sessions()},
        throttles={
            (number, each.session_id): each.throttle
            for number, gateway in host.gateways.items()
            for each in gateway
        },
        market=market,
        engine_ns=engine_ns,
        unreported=unreported,
        requests=requests,
        orders=orders,
        ended=ended,
        forwards=forwards,
    )


def restore(host: ExchangeHost, state: HostState) -> bool:
    """Restore an exchange from a state; return False if the state is of another market."""
    start_settings, settings = parse_json(state.start_settings), host.settings
    if (start_settings["instruments"], start_settings["implied_orders"]) != (
        settings.instruments_digest,
        settings.implied_orders,
    ):
        return False
    host.resume(state.now_ns, state.starts, state.active)
    for number, accepting in state.accepting.items():
        host.gateways[number].accept(accepting)
    for number, kept in state.sessions.items():
        session_state = host.store.state(number)
        for field in fields(kept):
            setattr(session_state, field.name, getattr(kept, field.name))
    host.engine.restore((state.market, state.engine_ns, state.unreported))
    host.request_router = host.new_request_router()
    host.request_router.restore((state.requests, (state.orders, state.ended, state.forwards)))
    host.load_start_settings(start_settings)
    for (number, session_id), throttle in state.throttles.items():
        session = host.gateways[number].get(session_id)
        if session is not None:
            session.throttle = throttle
    return True
