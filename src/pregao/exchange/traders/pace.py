"""When orders come: the busy and quiet hours of a day, and bursts on top of them."""

from __future__ import annotations

from collections.abc import Sequence
from math import log
from random import Random
from typing import NamedTuple

from pregao.clock import DAY, MILLISECOND, SECOND
from pregao.exchange.traders.profiles import Bursts

_LONGEST = 4.0
"""No burst and no calm lasts longer than so many times its mean."""

_LONGEST_CALM_NS = 1000.0 * DAY


class Span(NamedTuple):
    """A part of the day and how busy it is; 1 is the mean of the tradable time."""

    start_ns: int
    end_ns: int
    weight: float


def day_curve(
    phases: Sequence[tuple[int, int, str]], day: Sequence[float], auction: float
) -> list[Span]:
    """How busy each part of a day is.

    ``phases`` are (start, end, kind) with the kinds "open", "auction" and "closed". The numbers
    of ``day`` are spread evenly over the open time; the whole is scaled so that its mean over the
    time in which orders can be sent is 1.
    """
    open_ns = sum(end - start for start, end, kind in phases if kind == "open")
    spans: list[Span] = []
    passed = 0
    for start, end, kind in phases:
        if end <= start:
            continue
        if kind != "open":
            spans.append(Span(start, end, auction if kind == "auction" else 0.0))
            continue
        # Cut where the next number of the day begins.
        begin = start
        while begin < end:
            index = min(passed * len(day) // open_ns, len(day) - 1)
            left = -(-(index + 1) * open_ns // len(day)) - passed
            stop = end if index == len(day) - 1 else min(end, begin + max(left, 1))
            spans.append(Span(begin, stop, day[index]))
            passed += stop - begin
            begin = stop
    tradable = sum(span.end_ns - span.start_ns for span in spans if span.weight)
    total = sum((span.end_ns - span.start_ns) * span.weight for span in spans)
    if not total:
        return spans
    scale = tradable / total
    return [Span(span.start_ns, span.end_ns, span.weight * scale) for span in spans]


def curve_seconds(curve: Sequence[Span], now_ns: int) -> float:
    """How much of a curve is left, in seconds at the mean rate."""
    left = sum(
        (span.end_ns - max(span.start_ns, now_ns)) * span.weight
        for span in curve
        if span.end_ns > now_ns
    )
    return left / SECOND


class Pace:
    """Draws the times of orders: a Poisson process whose rate follows a curve, with bursts.

    In a burst orders come ``factor`` times as fast as in the mean of the whole day; what is
    left for the calm time keeps that mean.
    """

    def __init__(
        self,
        rng: Random,
        bursts: Bursts,
        curve: Sequence[Span],
        mean: float,
        spontaneous: float = 1.0,
    ) -> None:
        """``spontaneous`` is the share of the orders whose times are drawn here.

        The others follow from them, and are counted in ``mean``.
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
            self._calm_mean_ns = min(calm_ns, _LONGEST_CALM_NS)
        self._factor = 0.0
        self._toggle_ns = -1
        self._early_ns = 0
        self._until_ns = -1
        self._gap_ns = 0.0
        self.mean = mean
        self.burst = 0
        """The number of the burst that is on, 0 in calm times."""
        self.bursts = 0
        """How many bursts there have been."""
        self.changes = 0
        """How many times the rate was changed from outside: times drawn before are void."""

    def set_mean(self, mean: float) -> None:
        """Take another mean rate from now on."""
        self.mean = mean
        self._until_ns = -1
        self.changes += 1

    def begin_burst(self, now_ns: int) -> None:
        """Let a burst begin now, if none is on, in place of the one that would come next.

        The calm after it is longer by as much, which keeps the mean; when bursts are too far
        ahead of their time already, this one is left out.
        """
        early = self._toggle_ns - now_ns
        if self.burst or early < 0 or self._early_ns + early > self._calm_mean_ns:
            return
        self._early_ns += early
        self._toggle_ns = now_ns
        self._until_ns = -1
        self.changes += 1

    def remaining(self, now_ns: int) -> float:
        """How much of the curve is left, in seconds at the mean rate."""
        return curve_seconds(self._curve[self._span :], now_ns)

    def next_ns(self, now_ns: int) -> int | None:
        """The time of the next order after a time, or None when the day is over."""
        while True:
            if now_ns >= self._until_ns and not self._change(now_ns):
                return None
            if self._gap_ns:
                # As ``expovariate`` draws, without its cost.
                when = now_ns + 1 + int(-log(1.0 - self._random()) * self._gap_ns)
                if when < self._until_ns:
                    return when
            # The process has no memory: go on from where the rate changes.
            now_ns = self._until_ns

    def _change(self, now_ns: int) -> bool:
        """Find the rate that holds now and how long; False when the curve is over."""
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
        """Begin or end a burst when its time has come."""
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
            # A burst that never ends would be a day of its own.
            self._toggle_ns += 1 + int(min(rng.expovariate(1.0), _LONGEST) * length)
