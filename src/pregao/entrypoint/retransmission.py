"""Retransmission (§4.5.6): validation of requests, and sending in parts."""

from __future__ import annotations

from pregao.entrypoint.rules import GatewaySettings
from pregao.entrypoint.session_state import SessionState
from pregao.sbe.codec import SbeMessage

ENDING = frozenset({"REQUEST_LIMIT_EXCEEDED", "RETRANSMIT_IN_PROGRESS"})
"""Reject codes after which the connection ends."""


def request_reject(
    request: SbeMessage,
    session_id: int,
    state: SessionState,
    rules: GatewaySettings,
    now_ns: int,
    *,
    busy: bool,
) -> str | None:
    """Return the reject code of a retransmission request, or None if it is accepted."""
    first, count = request["fromSeqNo"], request["count"]
    if busy:
        return "RETRANSMIT_IN_PROGRESS"
    if request["sessionID"] != session_id:
        return "INVALID_SESSION"
    if abs(request["timestamp"] - now_ns) > rules.clock_tolerance_ns:
        return "INVALID_TIMESTAMP"
    if not first:
        return "INVALID_FROMSEQNO"
    if not count:
        return "INVALID_COUNT"
    if count > rules.retransmission_limit:
        return "REQUEST_LIMIT_EXCEEDED"
    if first + count > state.next_outgoing:
        return "OUT_OF_RANGE"
    return None


class Retransmission:
    """A retransmission in progress: messages to resend, and live messages queued after them."""

    def __init__(self, first: int, count: int, part: int) -> None:
        self._numbers = range(first, first + count)
        self._part = part
        self.waiting: list[bytes] = []
        """Live messages queued meanwhile: they must not interleave with retransmitted ones."""
        self.waiting_bytes = 0

    def wait(self, data: bytes) -> None:
        """Queue a live message until the retransmission ends."""
        self.waiting.append(data)
        self.waiting_bytes += len(data)

    def next_part(self, state: SessionState) -> list[bytes]:
        """Return the next messages, with their original bytes."""
        chosen, self._numbers = self._numbers[: self._part], self._numbers[self._part :]
        return [state.sent[number] for number in chosen]

    @property
    def done(self) -> bool:
        """Whether all messages have been resent."""
        return not self._numbers
