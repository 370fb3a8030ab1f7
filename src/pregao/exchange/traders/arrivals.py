"""Arrival times of orders: the busy and quiet hours of a day, and bursts on top of them.

All random numbers of the simulation derive from one seed, with a separate source for every part.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log
from random import Random
from typing import NamedTuple

from pregao.clock import DAY, MILLISECOND, SECOND
from pregao.exchange.traders.profiles import Bursts

_MAX_NS = 4.0
"""Maximum length of a burst or of a calm, as a multiple of its mean."""

_MAX_CALM_NS = 1000.0 * DAY


class ActivitySpan(NamedTuple):
    """A part of the day and its activity, relative to the mean of the tradable time."""

    start_ns: int
    end_ns: int
    weight: float


def day_curve(
    phases: Sequence[tuple[int, int, str]], day: Sequence[float], auction: float
) -> list[ActivitySpan]:
    """Return the activity of each part of a day.

    ``phases`` are (start, end, kind) with the kinds "open", "auction" and "closed". The numbers of
    ``day`` are spread evenly over the open time; the curve is scaled so that its mean over the time
    in which orders can be sent is 1.
    """
    open_ns = sum(end - start for start, end, kind in phases if kind == "open")
    spans: list[ActivitySpan] = []
    elapsed = 0
    for start, end, kind in phases:
        if end <= start:
            continue
        if kind != "open":
            spans.append(ActivitySpan(start, end, auction if kind == "auction" else 0.0))
            continue
        # Split where the next number of ``day`` applies.
        position = start
        while position < end:
            index = min(elapsed * len(day) // open_ns, len(day) - 1)
            remaining = -(-(index + 1) * open_ns // len(day)) - elapsed
            stop = end if index == len(day) - 1 else min(end, position + max(remaining, 1))
            spans.append(ActivitySpan(position, stop, day[index]))
            elapsed += stop - position
            position = stop
    tradable = sum(span.end_ns - span.start_ns for span in spans if span.weight)
    total = sum((span.end_ns - span.start_ns) * span.weight for span in spans)
    if not total:
        return spans
    scale = tradable / total
    return [ActivitySpan(span.start_ns, span.end_ns, span.weight * scale) for span in spans]


def curve_seconds(curve: Sequence[ActivitySpan], now_ns: int) -> float:
    """Return how much of a curve is left, in seconds at the mean rate."""
    remaining = sum(
        (span.end_ns - max(span.start_ns, now_ns)) * span.weight
        for span in curve
        if span.end_ns > now_ns
    )
    return remaining / SECOND


class ArrivalProcess:
    """Arrival process of orders: a Poisson process whose rate follows a curve, with bursts.

    In a burst the rate is ``factor`` times the mean of the day; the rate in calm times is lowered
    to keep that mean.
    """

    def __init__(
        self,
        rng: Random,
        bursts: Bursts,
        curve: Sequence[ActivitySpan],
        mean: float,
        spontaneous: float = 1.0,
    ) -> None:
        """Create the process; ``spontaneous`` is the share of orders whose times it draws.

        The others are triggered by them, and count in ``mean``.
        """
        self._rng = rng
        self._random = rng.random
        self._spontaneous = spontaneous
        self._curve = list(curve)
        self._span = 0
        self._factors = bursts.factor
        factor = (bursts.factor[0] + bursts.factor[1]) / 2
        self._calm = (1 - bursts.share * factor) / (1 - bursts.share)
        self._burst_mean_ns = bursts.length_ms * MILLISECOND
        self._calm_mean_ns = 0.0
        if bursts.share:
            calm_ns = self._burst_mean_ns * (1 - bursts.share) / bursts.share
            self._calm_mean_ns = min(calm_ns, _MAX_CALM_NS)
        self._factor = 0.0
        self._toggle_ns = -1
        self._early_ns = 0
        self._until_ns = -1
        self._gap_ns = 0.0
        self.mean = mean
        self.burst = 0
        """Number of the current burst, 0 in calm times."""
        self.bursts = 0
        """Number of bursts so far."""
        self.changes = 0
        """Number of changes of the rate from outside, which invalidate times drawn before."""

    def set_mean(self, mean: float) -> None:
        """Set the mean rate from now on."""
        self.mean = mean
        self._until_ns = -1
        self.changes += 1

    def begin_burst(self, now_ns: int) -> None:
        """Start a burst now, if none is running, instead of the next one.

        The calm after it is longer by the same time, which keeps the mean; if bursts are already
        too far ahead of their time, no burst starts.
        """
        early = self._toggle_ns - now_ns
        if self.burst or early < 0 or self._early_ns + early > self._calm_mean_ns:
            return
        self._early_ns += early
        self._toggle_ns = now_ns
        self._until_ns = -1
        self.changes += 1

    def remaining(self, now_ns: int) -> float:
        """Return how much of the curve is left, in seconds at the mean rate."""
        return curve_seconds(self._curve[self._span :], now_ns)

    def next_ns(self, now_ns: int) -> int | None:
        """Return the time of the next order after a time, or None at the end of the day."""
        while True:
            if now_ns >= self._until_ns and not self._change(now_ns):
                return None
            if self._gap_ns:
                # Same as ``expovariate``, without its overhead.
                when = now_ns + 1 + int(-log(1.0 - self._random()) * self._gap_ns)
                if when < self._until_ns:
                    return when
            # The process is memoryless: continue from where the rate changes.
            now_ns = self._until_ns

    def _change(self, now_ns: int) -> bool:
        """Update the current rate and its end; returns False at the end of the curve."""
        curve = self._curve
        while self._span < len(curve) and curve[self._span].end_ns <= now_ns:
            self._span += 1
        if self._span == len(curve):
            return False
        span = curve[self._span]
        self._until_ns = span.end_ns
        if now_ns < span.start_ns or not span.weight or not self.mean:
            self._gap_ns = 0.0
            if now_ns < span.start_ns:
                self._until_ns = span.start_ns
            return True
        weight = span.weight * self._calm
        if self._calm_mean_ns:
            self._toggle(now_ns)
            self._until_ns = min(self._until_ns, self._toggle_ns)
            if self.burst:
                weight = self._factor
        weight *= self._spontaneous
        self._gap_ns = SECOND / (self.mean * weight) if weight else 0.0
        return True

    def _toggle(self, now_ns: int) -> None:
        """Start or end a burst when its time has come."""
        rng = self._rng
        if self._toggle_ns < 0:
            self._toggle_ns = now_ns + 1 + int(rng.expovariate(1.0) * self._calm_mean_ns)
        while self._toggle_ns <= now_ns:
            if self.burst:
                self.burst = 0
                length = self._calm_mean_ns
                self._toggle_ns += self._early_ns
                self._early_ns = 0
            else:
                self.bursts += 1
                self.burst = self.bursts
                self._factor = rng.uniform(*self._factors)
                length = self._burst_mean_ns
            # Bounded, since a burst without an end would dominate the day.
            self._toggle_ns += 1 + int(min(rng.expovariate(1.0), _MAX_NS) * length)


class SeededRandom(Random):
    """A source of random numbers derived from a seed and a purpose.

    Parts that draw from different sources are independent: more loss on a feed does not change what
    the traders do.
    """

    def __new__(cls, seed: int, purpose: str) -> SeededRandom:
        """Create an unseeded source; the parent would treat the arguments as a seed."""
        del seed, purpose
        return super().__new__(cls)

    def __init__(self, seed: int, purpose: str) -> None:
        super().__init__(f"{seed}/{purpose}")
