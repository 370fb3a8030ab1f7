"""Checkpoints: what the exchange was when a day had begun, so that a start goes back no further.

They are no truth of their own: the journal is, and without them a start replays all of it. A
checkpoint holds objects as this code has them, so that only the same code reads it again; any
change of ours makes it as if there was none. It is read with nothing but classes of ours.
"""

from __future__ import annotations

import hashlib
import io
import pickle
import sys
from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pregao.errors import UsageError

if TYPE_CHECKING:
    from pregao.exchange.host.core import Host

_PACKAGE: Final = Path(__file__).resolve().parents[2]
_ROOMS: Final = ("exchange/engine", "exchange/host", "entrypoint", "sbe", "schemas")
_PLAIN: Final = frozenset(
    {
        ("collections", "Counter"),
        ("collections", "deque"),
        ("datetime", "date"),
        ("datetime", "datetime"),
        ("datetime", "timezone"),
        ("datetime", "timedelta"),
        ("decimal", "Decimal"),
        ("builtins", "set"),
        ("builtins", "frozenset"),
        ("copyreg", "__newobj__"),
    }
)


@cache
def code_digest() -> str:
    """What tells this code from any other that would make other objects."""
    digest = hashlib.sha256(sys.version.encode())
    for room in _ROOMS:
        for path in sorted((_PACKAGE / room).rglob("*")):
            if path.suffix in (".py", ".xml") and path.is_file():
                digest.update(path.relative_to(_PACKAGE).as_posix().encode())
                digest.update(path.read_bytes())
    return digest.hexdigest()[:32]


def state_of(host: Host) -> dict[str, Any]:
    """All that the journal has made of an exchange up to now."""
    return {
        "moment": (host.now_ns, host.starts, host.active),
        "told": dict(host.told),
        "accepting": {number: each.rules.accepting for number, each in host.gateways.items()},
        "sessions": {number: host.store.state(number) for number in host.store.sessions()},
        "throttles": {
            (number, each.session_id): each.throttle
            for number, gateway in host.gateways.items()
            for each in gateway
        },
        "engine": host.engine.state(),
        "desk": host.desk.state(),
    }


def restore(host: Host, state: Mapping[str, Any]) -> bool:
    """Let an exchange become what a checkpoint tells, if that is of the same market."""
    told, settings = state["told"], host.settings
    if (told["instruments"], told["implied_orders"]) != (
        settings.instruments_digest,
        settings.implied_orders,
    ):
        return False
    host.resume(*state["moment"])
    for number, accepting in state["accepting"].items():
        host.gateways[number].accept(accepting)
    for number, kept in state["sessions"].items():
        own = host.store.state(number)
        for field in fields(kept):
            setattr(own, field.name, getattr(kept, field.name))
    host.engine.restore(state["engine"])
    host.desk = host.new_desk()
    host.desk.restore(state["desk"])
    host.take(state["told"])
    for (number, session_id), throttle in state["throttles"].items():
        session = host.gateways[number].get(session_id)
        if session is not None:
            session.throttle = throttle
    return True


def pack(state: dict[str, Any]) -> bytes:
    """A state as bytes."""
    return pickle.dumps(state, protocol=5)


def unpack(data: bytes) -> dict[str, Any]:
    """A state from bytes that `pack` made."""
    found = _Reader(io.BytesIO(data)).load()
    if not isinstance(found, dict):
        raise UsageError("the checkpoint holds something else than a state")
    return found


class _Reader(pickle.Unpickler):
    """Reads objects of our classes and plain values, nothing else."""

    def find_class(self, module: str, name: str) -> Any:
        if module.startswith("pregao.") or (module, name) in _PLAIN:
            return super().find_class(module, name)
        raise UsageError(f"the checkpoint holds {module}.{name}, which is nothing of an exchange")
