"""Requests that trigger others: a Hawkes process in its branching form.

Some requests are spontaneous, at the pace of the day. Each one triggers others, a few on average
and most of them within milliseconds; these trigger more. Requests therefore come in clusters of all
sizes, and the nearer the branching ratio is to one, the larger the clusters.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from heapq import heappop, heappush
from random import Random

from pregao.clock import MICROSECOND, MILLISECOND
from pregao.exchange.traders.crowd_instrument import CrowdInstrument
from pregao.exchange.traders.profiles import Excitation, Makers

_TABLE = 8192
_MIN_REPRICING_NS, _REPRICING_NS = 15 * MICROSECOND, 60 * MICROSECOND
"""Delay of a maker who follows the fair value: the minimum, and the mean on top of it."""
_DEEP_SPREAD = 1.4
"""Standard deviation of the logarithm of the lifetime of deep quotes."""
_MAX_NS = 4.0
"""Upper cutoff of the logarithm of a quote's lifetime, in deviations above the median.
"""

REPRICE = -1
"""In place of an order's ClOrdID: makers follow the fair value."""
Planned = tuple[int, int, CrowdInstrument, int]
"""Time, a serial that breaks ties, the instrument, and the order's ClOrdID (0: none)."""


class ReactionQueue:
    """Queue of the traders' planned actions: reactions, and ends of quotes."""

    def __init__(self, rng: Random, excitation: Excitation, makers: Makers, quotes: float) -> None:
        """Build the tables; ``quotes`` is the share of decisions that enter a fleeting quote."""
        self._rng = rng
        self._random = rng.random
        self._planned: list[Planned] = []
        self.due_ns: int | None = None
        """Time of the next planned action."""
        self._number = 0
        follow_ups = quotes / (1 - makers.replace)
        self.spontaneous = (1 - excitation.branching) / (1 + follow_ups)
        """Share of the requests that are spontaneous."""
        mean = excitation.branching / (1 + follow_ups)
        # Tables of random numbers: picking one costs less than drawing it.
        self._children = _children(rng, mean, excitation.together) if mean else []
        near, far = excitation.near_us * MICROSECOND, excitation.far_ms * MILLISECOND
        self._delays = [
            1 + int(rng.expovariate(1.0) * (near if rng.random() < excitation.near else far))
            for _ in range(_TABLE)
        ]
        self._same = excitation.same
        self._lives, self._deep_lives = (
            [
                1 + int(median_ms * MILLISECOND * math.exp(sigma * min(rng.gauss(0, 1), _MAX_NS)))
                for _ in range(_TABLE)
            ]
            for median_ms, sigma in (
                (makers.life_ms, makers.life_spread),
                (makers.deep_ms, _DEEP_SPREAD),
            )
        )
        self._repricing = [
            _MIN_REPRICING_NS + int(rng.expovariate(1 / _REPRICING_NS)) for _ in range(_TABLE)
        ]

    def pop(self) -> tuple[CrowdInstrument, int]:
        """Remove the next planned action and return its instrument, and what it is.

        That is the ClOrdID of a quote that ends (negative for a deep one), 0 or `REPRICE`.
        """
        planned = self._planned
        _, _, instrument, order = heappop(planned)
        self.due_ns = planned[0][0] if planned else None
        return instrument, order

    def reprice(self, now_ns: int, instrument: CrowdInstrument) -> None:
        """Schedule the next step of the makers of an instrument whose fair value moved."""
        self._number += 1
        delay = self._repricing[int(self._random() * _TABLE)]
        heappush(self._planned, (now_ns + delay, self._number, instrument, REPRICE))
        self.due_ns = self._planned[0][0]

    def end_quote(
        self, now_ns: int, instrument: CrowdInstrument, order: int, deep: bool = False
    ) -> None:
        """Schedule the end of a quote that is entered now; a deep one lives long."""
        self._number += 1
        lifetime = (self._deep_lives if deep else self._lives)[int(self._random() * _TABLE)]
        due = (now_ns + lifetime, self._number, instrument, -order if deep else order)
        heappush(self._planned, due)
        self.due_ns = self._planned[0][0]

    def react(
        self, now_ns: int, instrument: CrowdInstrument, pick: Callable[[], CrowdInstrument]
    ) -> None:
        """Schedule the reactions of other traders to a request that is sent now.

        ``pick`` chooses the instrument of reactions on another one.
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
            heappush(planned, (when, number, instrument if random() < same else pick(), 0))
        self._number += count
        self.due_ns = planned[0][0]


def _children(rng: Random, mean: float, together: float) -> list[int]:
    """Draw how many decisions each of many requests triggers: groups, of a given mean size.

    Traders react to the same cause, and so together: the number of groups has a Poisson
    distribution, their sizes a geometric one.
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
    """Draw a number from a Poisson distribution with a small mean."""
    count, elapsed = 0, rng.expovariate(1.0)
    while elapsed < mean:
        count += 1
        elapsed += rng.expovariate(1.0)
    return count
