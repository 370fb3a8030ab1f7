"""Requests that bring about others: a Hawkes process, told as who causes whom.

Some requests come by themselves, at the pace of the day. Each one brings about others, a few in
the mean and most of them within milliseconds; these bring about more. So requests come in
clusters of all sizes, and the nearer the mean is to one, the larger the clusters.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from heapq import heappop, heappush
from random import Random

from pregao.clock import MICROSECOND, MILLISECOND
from pregao.exchange.traders.desk import Desk
from pregao.exchange.traders.profiles import Excitation, Makers

_TABLE = 8192
_LONGEST = 4.0
"""No quote of a market maker lives longer than this many deviations beyond the median."""

Planned = tuple[int, int, Desk, int]
"""When, a number that keeps the order, on which instrument, and about which order (0: none)."""


class Agenda:
    """What traders will do next because of what was done: reactions, and ends of quotes."""

    def __init__(self, rng: Random, excitation: Excitation, makers: Makers, quotes: float) -> None:
        """``quotes`` is the share of decisions that put in a market maker's quote."""
        self._rng = rng
        self._random = rng.random
        self._planned: list[Planned] = []
        self.due_ns: int | None = None
        """When something is planned next."""
        self._number = 0
        follow_ups = quotes / (1 - makers.replace)
        self.spontaneous = (1 - excitation.branching) / (1 + follow_ups)
        """Share of the requests that come by themselves."""
        mean = excitation.branching / (1 + follow_ups)
        # Random numbers drawn beforehand: choosing one costs less than drawing it.
        self._children = _children(rng, mean, excitation.together) if mean else []
        near, far = excitation.near_us * MICROSECOND, excitation.far_ms * MILLISECOND
        self._delays = [
            1 + int(rng.expovariate(1.0) * (near if rng.random() < excitation.near else far))
            for _ in range(_TABLE)
        ]
        self._same = excitation.same
        median = makers.life_ms * MILLISECOND
        self._lives = [
            1 + int(median * math.exp(makers.life_spread * min(rng.gauss(0, 1), _LONGEST)))
            for _ in range(_TABLE)
        ]

    def pop(self) -> tuple[Desk, int]:
        """What is planned next: the instrument, and the number of an order or 0."""
        planned = self._planned
        _, _, desk, order = heappop(planned)
        self.due_ns = planned[0][0] if planned else None
        return desk, order

    def end_quote(self, now_ns: int, desk: Desk, order: int) -> None:
        """Plan the end of a quote that is put in now."""
        self._number += 1
        life = self._lives[int(self._random() * _TABLE)]
        heappush(self._planned, (now_ns + life, self._number, desk, order))
        self.due_ns = self._planned[0][0]

    def react(self, now_ns: int, desk: Desk, pick: Callable[[], Desk]) -> None:
        """Plan what others will do because of a request that is sent now.

        ``pick`` chooses the instrument of those who act on another one.
        """
        if not self._children:
            return
        random = self._random
        count = self._children[int(random() * _TABLE)]
        if not count:
            return
        planned, delays, same = self._planned, self._delays, self._same
        for number in range(self._number + 1, self._number + count + 1):
            when = now_ns + delays[int(random() * _TABLE)]
            heappush(planned, (when, number, desk if random() < same else pick(), 0))
        self._number += count
        self.due_ns = planned[0][0]


def _children(rng: Random, mean: float, together: float) -> list[int]:
    """How many decisions each of many requests brings about: groups, of some size in the mean.

    Others react to the same thing, and so all at once: the groups are drawn from Poisson's law,
    their sizes from a geometric one.
    """
    more = 1 - 1 / together
    drawn = []
    for _ in range(_TABLE):
        count = groups = _poisson(rng, mean / together)
        for _ in range(groups):
            while rng.random() < more:
                count += 1
        drawn.append(count)
    return drawn


def _poisson(rng: Random, mean: float) -> int:
    """A number drawn from Poisson's law, for small means."""
    count, left = 0, rng.expovariate(1.0)
    while left < mean:
        count += 1
        left += rng.expovariate(1.0)
    return count
