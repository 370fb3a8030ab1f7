"""Sessions whose changes are journaled, except those that replay derives from requests."""

from __future__ import annotations

from collections.abc import Callable

from pregao.entrypoint.session_state import SessionRecord
from pregao.entrypoint.store import SessionStore


class JournaledSessions(SessionStore):
    """Sessions in memory; ``note`` receives the changes to write to the journal."""

    def __init__(self, note: Callable[[int, SessionRecord], None]) -> None:
        super().__init__()
        self._note = note

    def record(self, session_id: int, record: SessionRecord) -> None:
        """Journal and apply a change of a session."""
        self._note(session_id, record)
        self.state(session_id).apply(record)

    def accept_incoming(self, session_id: int, number: int) -> None:
        """Record an accepted request; the request itself is in the journal."""
        state = self._states[session_id]
        state.next_incoming = number + 1
        state.last_incoming = number

    def sent(self, session_id: int, number: int, data: bytes) -> None:
        """Record a sent report, which replay derives from requests."""
        state = self._states[session_id]
        state.sent[number] = data
        state.next_outgoing = number + 1
