"""Internal failures of the exchange: counted, logged with the bytes that caused them, survived.

A request that fails unexpectedly must neither end the exchange nor leave the state half changed.
Its records are dropped from the journal before they are committed, and the state is rebuilt from
the last checkpoint and the remaining records.
"""

from __future__ import annotations

import logging
import struct
from dataclasses import fields
from typing import TYPE_CHECKING, Final, NamedTuple

from pregao.entrypoint.session_state import SessionState
from pregao.entrypoint.session_store import SessionStore
from pregao.exchange.host.gateway.pre_trade import Key

if TYPE_CHECKING:
    from pregao.exchange.host.checkpoints.checkpoint_file import JournalPosition

_log = logging.getLogger(__name__)
_VOID: Final = struct.Struct("<IIQ")
_LOGGED_BYTES: Final = 4096
_MAX_TRACED: Final = 1_000
MAX_SET_ASIDE: Final = 1_000
"""Maximum number of records that cannot be replayed. A journal with more is of another program or
another market, and the exchange does not start."""


class SkippedRecord(NamedTuple):
    """A record of the journal that could not be replayed and is skipped."""

    file: str
    offset: int
    kind: str
    reason: str

    def __str__(self) -> str:
        """Return a description for messages."""
        return f"{self.file}, byte {self.offset} ({self.kind}): {self.reason}"


class FaultLog:
    """Failures of a process: their number, and the journal records that were set aside."""

    def __init__(self) -> None:
        self.count = 0
        self._traced: set[tuple[str, str]] = set()
        """Failures whose stack trace was logged: a peer may repeat one endlessly."""
        self.skipped_records: dict[JournalPosition, SkippedRecord] = {}

    def note(self, what: str, error: Exception, data: bytes = b"") -> None:
        """Count a failure and log it with the bytes that caused it."""
        self.count += 1
        kind = (what, type(error).__name__)
        new = kind not in self._traced and len(self._traced) < _MAX_TRACED
        if new:
            self._traced.add(kind)
        _log.error(
            "%s failed, its changes were undone: %s: %s; bytes %s",
            what,
            type(error).__name__,
            error,
            data[:_LOGGED_BYTES].hex() or "none",
            exc_info=error if new else None,
        )

    def skip_record(self, position: JournalPosition, kind: str, error: Exception) -> None:
        """Set a record of the journal aside."""
        entry = SkippedRecord(
            position.file, position.size, kind, f"{type(error).__name__}: {error}"[:500]
        )
        if position not in self.skipped_records:
            _log.error("journal record set aside: %s", entry)
        self.skipped_records[position] = entry


def pack_void(key: Key) -> bytes:
    """Return the body of a record that voids a request."""
    session, number, time_ns = key
    return _VOID.pack(session, number, time_ns)


def unpack_void(body: bytes) -> Key:
    """Return the request that a record voids."""
    session, number, time_ns = _VOID.unpack(body)
    return session, number, time_ns


def blank_sessions(store: SessionStore) -> None:
    """Reset every session in place, because connections reference their states."""
    for session_id in store.sessions():
        own, new = store.state(session_id), SessionState()
        for each in fields(new):
            setattr(own, each.name, getattr(new, each.name))
