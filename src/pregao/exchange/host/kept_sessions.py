"""Sessions whose changes are in the journal, but for what follows from requests."""

from __future__ import annotations

from collections.abc import Callable

from pregao.entrypoint import SessionStore
from pregao.entrypoint.session_state import Record


class KeptSessions(SessionStore):
    """Sessions in memory; ``note`` is told of what the journal has to know."""

    def __init__(self, note: Callable[[int, Record], None]) -> None:
        super().__init__()
        self._note = note

    def record(self, session_id: int, record: Record) -> None:
        """Let something have happened to a session."""
        self._note(session_id, record)
        self.state(session_id).apply(record)

    def taken(self, session_id: int, number: int) -> None:
        """A request was taken; it is in the journal itself."""
        state = self._states[session_id]
        state.next_incoming = number + 1
        state.last_incoming = number

    def sent(self, session_id: int, number: int, data: bytes) -> None:
        """A report was sent; it follows from requests."""
        state = self._states[session_id]
        state.sent[number] = data
        state.next_outgoing = number + 1
