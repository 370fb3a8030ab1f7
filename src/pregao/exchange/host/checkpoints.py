"""Checkpoints: the state of the exchange when a day had begun, from which a start goes on.

They are no truth of their own: the journal is, and without them a start replays all of it. A
checkpoint holds values of the classes in `state_schema` and nothing else, and only the code that
wrote it reads it again. Whatever is wrong with one, it is ignored with a sentence in the log.
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

from pregao.documents import parse_json
from pregao.exchange.host.column_bytes import ColumnError
from pregao.exchange.host.state_schema import STATE, HostState

if TYPE_CHECKING:
    from pregao.exchange.host.core import Host
    from pregao.exchange.host.journal import Journal, Place

_log = logging.getLogger(__name__)
_PACKAGE: Final = Path(__file__).resolve().parents[2]
_ROOMS: Final = ("exchange/engine", "exchange/host", "entrypoint", "sbe", "schemas")


@cache
def code_digest() -> str:
    """Return what distinguishes this code from any other that would make other objects."""
    digest = hashlib.sha256(sys.version.encode())
    for room in _ROOMS:
        for path in sorted((_PACKAGE / room).rglob("*")):
            if path.suffix in (".py", ".xml") and path.is_file():
                digest.update(path.relative_to(_PACKAGE).as_posix().encode())
                digest.update(path.read_bytes())
    return digest.hexdigest()[:32]


def save(host: Host, journal: Journal) -> None:
    """Keep a checkpoint of all that is committed; where that fails, the next start takes longer."""
    try:
        state = STATE.pack(state_of(host))
    except (ColumnError, ValueError, struct.error) as error:
        _log.warning("no checkpoint could be kept: %s", error)
        return
    journal.keep_checkpoint(code_digest(), state)


def resume(host: Host, journal: Journal) -> Place | None:
    """Let a new exchange become what the last checkpoint holds; return its place in the journal.

    If there is no checkpoint that can be used, the exchange stays new, and None is returned.
    """
    found = journal.checkpoint(code_digest())
    if found is None:
        return None
    try:
        if restore(host, STATE.unpack(found.state)):
            return found.place
        reason = "it is of other instruments"
    except Exception as error:
        # The bytes are what was written, or what somebody made of them: no value of theirs may
        # end the start, which can do without them.
        reason = f"{type(error).__name__}: {error}"
        host.blank()
    _log.warning(
        "%s: the checkpoint is ignored, all of the journal is replayed: %s", journal.folder, reason
    )
    return None


def state_of(host: Host) -> HostState:
    """Return all that the journal has made of an exchange up to now."""
    market, engine_ns, unreported = host.engine.state()
    requests, (orders, ended, forwards) = host.desk.state()
    return HostState(
        now_ns=host.now_ns,
        starts=host.starts,
        active=host.active,
        told=json.dumps(host.told),
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


def restore(host: Host, state: HostState) -> bool:
    """Let an exchange become what a state holds, if that is of the same market."""
    told, settings = parse_json(state.told), host.settings
    if (told["instruments"], told["implied_orders"]) != (
        settings.instruments_digest,
        settings.implied_orders,
    ):
        return False
    host.resume(state.now_ns, state.starts, state.active)
    for number, accepting in state.accepting.items():
        host.gateways[number].accept(accepting)
    for number, kept in state.sessions.items():
        own = host.store.state(number)
        for field in fields(kept):
            setattr(own, field.name, getattr(kept, field.name))
    host.engine.restore((state.market, state.engine_ns, state.unreported))
    host.desk = host.new_desk()
    host.desk.restore((state.requests, (state.orders, state.ended, state.forwards)))
    host.take(told)
    for (number, session_id), throttle in state.throttles.items():
        session = host.gateways[number].get(session_id)
        if session is not None:
            session.throttle = throttle
    return True
