"""The exchange's messages that a client missed: what to ask for, and what is held meanwhile."""

from __future__ import annotations

from collections.abc import Iterator

from pregao.entrypoint.events import Received

REQUEST_LIMIT = 1000
"""The most messages that one request may ask for (§4.5.6)."""
HOLD_LIMIT = 10_000
"""The most messages that are held; those behind them are asked for again."""


class MissingMessages:
    """Which numbers are missing before those that came; one request at a time."""

    def __init__(self) -> None:
        self._held: dict[int, Received] = {}
        self._highest = 0
        """The highest number that is known to have been sent."""
        self._asked: range | None = None
        self._granted: range | None = None

    def live_from(self, next_number: int) -> None:
        """The next live message has this number; a retransmission, if there was one, is over."""
        self._highest = max(self._highest, next_number - 1)
        if self._granted is not None:
            self._asked = self._granted = None

    def granted(self, first: int, count: int) -> None:
        """The messages that follow were asked for."""
        self._granted = range(first, first + count)

    def arrived(self, number: int) -> bool:
        """A message came; was it asked for?"""
        self._highest = max(self._highest, number)
        return self._granted is not None and number in self._granted

    def hold(self, number: int, received: Received) -> None:
        """Keep a message until those before it have come."""
        if len(self._held) < HOLD_LIMIT:
            self._held[number] = received

    def take_from(self, number: int) -> Iterator[Received]:
        """The held messages that follow, as far as none is missing."""
        while number in self._held:
            yield self._held.pop(number)
            number += 1

    def next_request(self, expected: int) -> tuple[int, int] | None:
        """The first missing numbers; None if there are none, or some are on their way."""
        if self._asked is not None:
            return None
        end = min(self._held, default=self._highest + 1)
        count = min(end - expected, REQUEST_LIMIT)
        if count <= 0:
            return None
        self._asked = range(expected, expected + count)
        return expected, count

    def refused(self, *, for_good: bool) -> range | None:
        """A request was refused: the numbers that will never come, or None to ask again later."""
        asked, self._asked = self._asked, None
        return asked if for_good else None
