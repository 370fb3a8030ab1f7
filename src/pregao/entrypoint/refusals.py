"""Failed authentications: the answer is delayed longer after each failure of a peer."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from pregao.clock import MILLISECOND, MINUTE, SECOND

MAX_PEERS: Final = 10_000
"""Maximum number of tracked pairs of address and session; the least recent failure is dropped."""
MAX_HELD: Final = 8
"""Maximum number of delayed refusals per pair; further requests are dropped unread."""
FREE_ATTEMPTS: Final = 3
"""Failures answered immediately: a wrong key in a configuration, and some retries."""
FIRST_DELAY_NS: Final = 100 * MILLISECOND
MAX_DELAY_NS: Final = 5 * SECOND
FORGET_NS: Final = 10 * MINUTE
"""A pair without a failure for this long starts over."""


@dataclass(slots=True)
class _Failures:
    count: int = 0
    last_ns: int = 0
    held: int = 0


class Refusals:
    """Failures by peer address and requested session."""

    def __init__(self) -> None:
        self._failures: OrderedDict[tuple[str, int], _Failures] = OrderedDict()

    def crowded(self, peer: str, session_id: int) -> bool:
        """Whether this pair has the maximum of delayed refusals: its next request is dropped."""
        found = self._failures.get((peer, session_id))
        return found is not None and found.held >= MAX_HELD

    def failed(self, peer: str, session_id: int, now_ns: int) -> int:
        """Record a failure and return the time of its answer; call `released` once it is sent."""
        key = (peer, session_id)
        found = self._failures.setdefault(key, _Failures())
        if now_ns - found.last_ns > FORGET_NS:
            found.count = 0
        found.count += 1
        found.last_ns = now_ns
        self._failures.move_to_end(key)
        if len(self._failures) > MAX_PEERS:
            self._failures.popitem(last=False)
        beyond = found.count - FREE_ATTEMPTS
        if beyond <= 0:
            return now_ns
        found.held += 1
        return now_ns + min(FIRST_DELAY_NS << min(beyond - 1, 16), MAX_DELAY_NS)

    def released(self, peer: str, session_id: int) -> None:
        """Record that a delayed refusal was sent, or its connection was lost."""
        found = self._failures.get((peer, session_id))
        if found is not None and found.held:
            found.held -= 1

    def succeeded(self, peer: str, session_id: int) -> None:
        """Clear the failures of a pair."""
        found = self._failures.get((peer, session_id))
        if found is not None:
            found.count = 0

    def __len__(self) -> int:
        """Return the number of tracked pairs."""
        return len(self._failures)
