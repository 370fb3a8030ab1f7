"""Messages sent again (§4.5.6): which requests are refused, and the parts in which they go out."""

from __future__ import annotations

from pregao.entrypoint.rules import GatewayRules
from pregao.entrypoint.session_state import SessionState
from pregao.sbe import Decoded

ENDING = frozenset({"REQUEST_LIMIT_EXCEEDED", "RETRANSMIT_IN_PROGRESS"})
"""The codes behind which the connection ends."""


def request_reject(
    request: Decoded,
    session_id: int,
    state: SessionState,
    rules: GatewayRules,
    now_ns: int,
    *,
    busy: bool,
) -> str | None:
    """Why a request for messages is refused; None if they will be sent."""
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
    """A retransmission under way: what is still to be sent again, and what waits behind it."""

    def __init__(self, first: int, count: int, part: int) -> None:
        self._numbers = range(first, first + count)
        self._part = part
        self.waiting: list[bytes] = []
        """The live messages that came meanwhile: nothing goes between those sent again."""
        self.waiting_bytes = 0

    def wait(self, data: bytes) -> None:
        """Keep a live message for the end."""
        self.waiting.append(data)
        self.waiting_bytes += len(data)

    def next_part(self, state: SessionState) -> list[bytes]:
        """The next messages, with the bytes that they had the first time."""
        chosen, self._numbers = self._numbers[: self._part], self._numbers[self._part :]
        return [state.sent[number] for number in chosen]

    @property
    def done(self) -> bool:
        """Has everything been sent again?"""
        return not self._numbers
