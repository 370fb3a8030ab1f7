"""Retransmission (§4.5.6) on both sides: answers of the exchange, missed messages of the client.

The exchange validates a request and sends the messages in parts. The client determines which
messages to request, and which to hold until they arrive.

After a failover inside the exchange a message may be published again with another number, marked as
a possible resend (§4.6.3.2). Its business identifier shows whether it was received before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from pregao.clock import MILLISECOND, SECOND
from pregao.entrypoint.events import MessageReceived
from pregao.entrypoint.session_settings import GatewaySettings
from pregao.entrypoint.session_state import SessionState
from pregao.sbe.codec import SbeMessage

ENDING = frozenset({"REQUEST_LIMIT_EXCEEDED", "RETRANSMIT_IN_PROGRESS"})
"""Reject codes after which the connection ends."""

REQUEST_LIMIT = 1000
"""Maximum number of messages per request (§4.5.6)."""
HOLD_LIMIT = 10_000
"""Maximum number of messages held; later ones are requested again."""
HOLD_BYTES: Final = 16 * 1024 * 1024
"""Maximum total size of the messages held, in bytes."""
FIRST_WAIT_NS: Final = 100 * MILLISECOND
"""Delay before the first retry of a request without effect; it doubles with each retry."""
MAX_WAIT_NS: Final = 5 * SECOND
"""Maximum delay before a retry."""
PATIENCE_NS: Final = 10 * SECOND
"""Timeout for an answer, or for the next message of a retransmission."""
ABANDONED_LIMIT: Final = 10_000
"""Maximum number of abandoned ranges of sequence numbers that are remembered."""

IDENTIFIERS: Final = {
    "ExecutionReport_New": "execID",
    "ExecutionReport_Modify": "execID",
    "ExecutionReport_Cancel": "execID",
    "ExecutionReport_Reject": "execID",
    "ExecutionReport_Trade": "execID",
    "ExecutionReport_Forward": "execID",
    "SecurityDefinitionResponse": "securityReqID",
    "QuoteRequest": "quoteID",
    "QuoteStatusReport": "quoteID",
    "Quote": "quoteID",
    "QuoteCancel": "quoteID",
    "QuoteRequestReject": "quoteID",
    "PositionMaintenanceReport": "posMaintRptID",
    "AllocationReport": "allocID",
    "OrderMassActionReport": "massActionReportID",
}
"""Identifying field of each message type."""


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

    def keep(self, remains: Callable[[bytes], bool]) -> None:
        """Drop the queued messages that do not remain."""
        self.waiting = [each for each in self.waiting if remains(each)]
        self.waiting_bytes = sum(map(len, self.waiting))

    def next_part(self, state: SessionState) -> list[bytes]:
        """Return the next messages, with their original bytes."""
        chosen, self._numbers = self._numbers[: self._part], self._numbers[self._part :]
        return [state.sent[number] for number in chosen]

    @property
    def done(self) -> bool:
        """Whether all messages have been resent."""
        return not self._numbers


class AbandonedNumbers:
    """Sequence numbers that a client abandoned; a message with one of them is not a duplicate."""

    def __init__(self) -> None:
        self._ranges: list[range] = []

    def add(self, numbers: range) -> None:
        """Add abandoned numbers; beyond the limit the oldest ranges are dropped."""
        if numbers:
            self._ranges.append(numbers)
            del self._ranges[:-ABANDONED_LIMIT]

    def take(self, number: int) -> bool:
        """Whether a number was abandoned and has not arrived since; removes it."""
        for index, each in enumerate(self._ranges):
            if number in each:
                parts = (range(each.start, number), range(number + 1, each.stop))
                self._ranges[index : index + 1] = [part for part in parts if part]
                return True
        return False

    def forget_from(self, number: int) -> None:
        """Remove the numbers from this one on: they are expected again."""
        cut = (range(each.start, min(each.stop, number)) for each in self._ranges)
        self._ranges = [each for each in cut if each]


class MissedMessages:
    """Sequence numbers missing before those received; one request at a time.

    A request without effect (refused for now, granted without a message, unanswered) is retried
    after a delay that doubles; after `max_attempts` in a row the numbers are abandoned.
    """

    def __init__(self, max_attempts: int) -> None:
        self._max_attempts = max_attempts
        self._held: dict[int, MessageReceived] = {}
        self._held_bytes = 0
        self.highest = 0
        """The highest number known to have been sent."""
        self._requested: range | None = None
        self._granted: range | None = None
        self._delivered = False
        """Whether a requested message has arrived since the request."""
        self._failures = 0
        """Consecutive requests without effect."""
        self._not_before_ns = 0
        """Time before which no request is sent."""
        self._due_ns: int | None = None

    @property
    def next_due_ns(self) -> int | None:
        """Time at which the next request is due, or the current one times out."""
        return self._due_ns

    def live_from(self, next_number: int, now_ns: int) -> list[MessageReceived]:
        """Set the number of the next live message; this ends a retransmission in progress.

        Returns the held messages that the peer states it has not sent yet: nothing will precede
        them.
        """
        if next_number <= self.highest:
            above = sorted(number for number in self._held if number >= next_number)
            contradicted = [self._take(number) for number in above]
            self._over(now_ns)
        else:
            contradicted = []
            if self._granted is not None:
                self._over(now_ns)
        self.highest = next_number - 1
        return contradicted

    def granted(self, first: int, count: int) -> None:
        """Record that the peer granted the request and will send this range."""
        self._granted = range(first, first + count)

    def arrived(self, number: int, now_ns: int) -> bool:
        """Record the arrival of a message. Returns whether it was retransmitted."""
        self.highest = max(self.highest, number)
        if self._requested is not None and number in self._requested:
            self._delivered = True
            self._failures = 0
            self._due_ns = now_ns + PATIENCE_NS
        return self._granted is not None and number in self._granted

    def hold(self, number: int, received: MessageReceived) -> bool:
        """Hold a message until those before it arrive; False if its number is already held."""
        if number in self._held:
            return False
        size = len(received.data)
        if len(self._held) < HOLD_LIMIT and self._held_bytes + size <= HOLD_BYTES:
            self._held[number] = received
            self._held_bytes += size
        return True

    def _take(self, number: int) -> MessageReceived:
        received = self._held.pop(number)
        self._held_bytes -= len(received.data)
        return received

    def take_from(self, number: int) -> Iterator[MessageReceived]:
        """Yield the held messages from a number on, up to the next gap."""
        while number in self._held:
            yield self._take(number)
            number += 1

    def next_request(self, expected: int, now_ns: int) -> tuple[int, int] | None:
        """Return the first number and count to request; None without a gap, or if too early."""
        if self._requested is not None:
            return None
        gap = self._gap(expected)
        if not gap:
            self._due_ns = None
            return None
        if now_ns < self._not_before_ns:
            self._due_ns = self._not_before_ns
            return None
        self._requested = gap[:REQUEST_LIMIT]
        self._delivered = False
        self._due_ns = now_ns + PATIENCE_NS
        return self._requested.start, len(self._requested)

    def _gap(self, expected: int) -> range:
        return range(expected, min(self._held, default=self.highest + 1))

    def refused(self, expected: int, now_ns: int, *, final: bool) -> range | None:
        """End a refused request: return the numbers to abandon, or None if there are none.

        ``expected`` is the next number: those before it have arrived since the request.
        """
        requested = self._requested
        if requested is None:
            return None
        self._over(now_ns)
        if not final:
            return None
        # Messages of the range that arrived meanwhile are held: they are passed on after the gap.
        first_held = min(self._held, default=requested.stop)
        return range(expected, min(requested.stop, first_held)) or None

    def impatient(self, now_ns: int) -> None:
        """Treat a request that was not answered in time as refused."""
        if self._requested is not None and self._due_ns is not None and now_ns >= self._due_ns:
            self._delivered = False
            self._over(now_ns)

    def given_up(self, expected: int) -> range | None:
        """Return the numbers to abandon after too many failed requests; None to continue
        requesting.
        """
        if self._requested is not None or self._failures < self._max_attempts:
            return None
        gap = self._gap(expected)
        if gap:
            self._failures = 0
        return gap

    def _over(self, now_ns: int) -> None:
        """End a request: the next one is immediate if this one had an effect, else delayed."""
        requested, self._requested, self._granted = self._requested, None, None
        if requested is not None and not self._delivered:
            wait = min(MAX_WAIT_NS, FIRST_WAIT_NS << min(self._failures, 30))
            self._failures += 1
            self._not_before_ns = now_ns + wait
            self._due_ns = self._not_before_ns


class DuplicateDetector:
    """Business identifiers received in a trading session."""

    def __init__(self) -> None:
        self._seen: set[tuple[str, int]] = set()

    def is_repeat(self, name: str, message: SbeMessage, *, marked: bool) -> bool:
        """Whether a message marked as a possible resend is a repeat; records it otherwise."""
        field = IDENTIFIERS.get(name)
        number = None if field is None else message.values.get(field)
        if number is None:
            return False
        key = (name, number)
        if marked and key in self._seen:
            return True
        self._seen.add(key)
        return False
