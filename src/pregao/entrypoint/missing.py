"""The exchange's messages that a client missed: what to request, and what is held meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pregao.clock import MILLISECOND, SECOND
from pregao.entrypoint.events import Received

REQUEST_LIMIT = 1000
"""How many messages one request may ask for (§4.5.6)."""
HOLD_LIMIT = 10_000
"""How many messages are held; those after them are requested again."""
HOLD_BYTES: Final = 16 * 1024 * 1024
"""How many bytes of messages are held."""
FIRST_WAIT_NS: Final = 100 * MILLISECOND
"""Before the request that follows one without effect; it doubles with each of them…"""
MAX_WAIT_NS: Final = 5 * SECOND
"""…up to this."""
PATIENCE_NS: Final = 10 * SECOND
"""How long an answer, or the next message of a retransmission, may take."""
ABANDONED_LIMIT: Final = 10_000
"""How many ranges of numbers are remembered that were given up."""


class AbandonedNumbers:
    """Numbers that a client gave up: a message that has one of them after all is no duplicate."""

    def __init__(self) -> None:
        self._ranges: list[range] = []

    def add(self, numbers: range) -> None:
        """Remember numbers that were given up; the oldest are forgotten beyond the limit."""
        if numbers:
            self._ranges.append(numbers)
            del self._ranges[:-ABANDONED_LIMIT]

    def take(self, number: int) -> bool:
        """Whether a number was given up and did not arrive since."""
        for place, each in enumerate(self._ranges):
            if number in each:
                parts = (range(each.start, number), range(number + 1, each.stop))
                self._ranges[place : place + 1] = [part for part in parts if part]
                return True
        return False

    def forget_from(self, number: int) -> None:
        """Forget numbers from this one on: they are expected again."""
        cut = (range(each.start, min(each.stop, number)) for each in self._ranges)
        self._ranges = [each for each in cut if each]


class MissingMessages:
    """Which numbers are missing before those that came; one request at a time.

    A request without effect (refused for now, granted without a message, not answered) is followed
    by the next after a wait that doubles; after `max_attempts` in a row the numbers are given up.
    """

    def __init__(self, max_attempts: int) -> None:
        self._max_attempts = max_attempts
        self._held: dict[int, Received] = {}
        self._held_bytes = 0
        self._highest = 0
        """The highest number that is known to have been sent."""
        self._asked: range | None = None
        self._granted: range | None = None
        self._delivered = False
        """Whether a message came since the request."""
        self._failures = 0
        """Requests in a row that brought nothing."""
        self._not_before_ns = 0
        """When the next request may be made."""
        self._due_ns: int | None = None

    @property
    def next_due_ns(self) -> int | None:
        """When a request may have to be made, or is out of patience."""
        return self._due_ns

    def live_from(self, next_number: int, now_ns: int) -> list[Received]:
        """The next live message has this number; a retransmission, if there was one, is over.

        Gives the held messages that the peer says it has not sent yet: nothing will come before
        them.
        """
        if next_number <= self._highest:
            above = sorted(number for number in self._held if number >= next_number)
            contradicted = [self._take(number) for number in above]
            self._over(now_ns)
        else:
            contradicted = []
            if self._granted is not None:
                self._over(now_ns)
        self._highest = next_number - 1
        return contradicted

    def granted(self, first: int, count: int) -> None:
        """The messages that follow were asked for."""
        self._granted = range(first, first + count)

    def arrived(self, number: int, now_ns: int) -> bool:
        """A message came; was it asked for?"""
        self._highest = max(self._highest, number)
        if self._asked is not None and number in self._asked:
            self._delivered = True
            self._failures = 0
            self._due_ns = now_ns + PATIENCE_NS
        return self._granted is not None and number in self._granted

    def hold(self, number: int, received: Received) -> bool:
        """Keep a message until those before it have come; False if its number is held already."""
        if number in self._held:
            return False
        size = len(received.data)
        if len(self._held) < HOLD_LIMIT and self._held_bytes + size <= HOLD_BYTES:
            self._held[number] = received
            self._held_bytes += size
        return True

    def _take(self, number: int) -> Received:
        received = self._held.pop(number)
        self._held_bytes -= len(received.data)
        return received

    def take_from(self, number: int) -> Iterator[Received]:
        """The held messages that follow, as far as none is missing."""
        while number in self._held:
            yield self._take(number)
            number += 1

    def next_request(self, expected: int, now_ns: int) -> tuple[int, int] | None:
        """The first missing numbers; None if there are none, some are coming, or it is too soon."""
        if self._asked is not None:
            return None
        gap = self._gap(expected)
        if not gap:
            self._due_ns = None
            return None
        if now_ns < self._not_before_ns:
            self._due_ns = self._not_before_ns
            return None
        self._asked = gap[:REQUEST_LIMIT]
        self._delivered = False
        self._due_ns = now_ns + PATIENCE_NS
        return self._asked.start, len(self._asked)

    def _gap(self, expected: int) -> range:
        return range(expected, min(self._held, default=self._highest + 1))

    def refused(self, now_ns: int, *, for_good: bool) -> range | None:
        """A request was refused: the numbers that will never come, or None to ask again later."""
        asked = self._asked
        if asked is None:
            return None
        self._over(now_ns)
        return asked if for_good else None

    def impatient(self, now_ns: int) -> None:
        """Take a request for refused that was not answered in time."""
        if self._asked is not None and self._due_ns is not None and now_ns >= self._due_ns:
            self._delivered = False
            self._over(now_ns)

    def given_up(self, expected: int) -> range | None:
        """The numbers that too many requests in a row did not bring; None to go on asking."""
        if self._asked is not None or self._failures < self._max_attempts:
            return None
        gap = self._gap(expected)
        if gap:
            self._failures = 0
        return gap

    def _over(self, now_ns: int) -> None:
        """End a request: the next may come at once if it had an effect, else after a wait."""
        asked, self._asked, self._granted = self._asked, None, None
        if asked is not None and not self._delivered:
            wait = min(MAX_WAIT_NS, FIRST_WAIT_NS << min(self._failures, 30))
            self._failures += 1
            self._not_before_ns = now_ns + wait
            self._due_ns = self._not_before_ns
