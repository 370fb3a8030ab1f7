"""Delays counted in classes, so that percentiles of millions of them take little room."""

from __future__ import annotations

import struct

import numpy as np
from numpy.typing import NDArray

from pregao.net import Batch
from pregao.umdf.layout import SENDING_TIME_AT

_STEPS = 16
"""Classes for each doubling: a percentile is known to about 6 %."""
_DOUBLINGS = 44
"""Up to some five hours; what is longer counts as that."""


_TIME = struct.Struct("<q")
_TIME_BYTES = np.arange(_TIME.size)
_LONGEST = 2.0**62
_MOST_WAITING = 1024


def one_sent_ns(batch: Batch, row: int) -> int:
    """When one packet of a batch was sent."""
    at = int(batch.offset[row]) + SENDING_TIME_AT
    return int(_TIME.unpack_from(batch.buffer.data, at)[0])


def sent_ns(batch: Batch, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """When some packets of a batch were sent, each of which has a whole header."""
    at = (batch.offset[rows] + SENDING_TIME_AT)[:, np.newaxis]
    found: NDArray[np.int64] = batch.buffer[at + _TIME_BYTES].view("<i8")[:, 0]
    return found


class Delays:
    """Counts delays in nanoseconds; what is negative (clocks that differ) counts as 0."""

    __slots__ = ("counts",)

    def __init__(self) -> None:
        self.counts: NDArray[np.int64] = np.zeros(_STEPS * _DOUBLINGS + 1, np.int64)

    def add(self, delays_ns: NDArray[np.int64] | NDArray[np.float64]) -> None:
        """Count some."""
        classes = np.log2(np.maximum(delays_ns, 1)) * _STEPS
        places = np.minimum(classes.astype(np.int64), len(self.counts) - 1)
        self.counts += np.bincount(places, minlength=len(self.counts))

    def __len__(self) -> int:
        return int(self.counts.sum())

    def percentile(self, share: float) -> int | None:
        """The delay that so large a share stays below, to the end of its class; None of none."""
        total = len(self)
        if not total:
            return None
        place = int(np.searchsorted(np.cumsum(self.counts), share * total))
        return int(2 ** ((min(place, len(self.counts) - 1) + 1) / _STEPS))

    def spread(self) -> list[list[int]]:
        """How many there are in each tenth of a decade: ``[[bin, count], ...]``.

        A delay is in the bin of the whole part of ten times its decimal logarithm, as far as its
        class tells.
        """
        classes = np.flatnonzero(self.counts)
        bins = (classes * (10 * np.log10(2) / _STEPS)).astype(np.int64)
        counts = np.bincount(bins, self.counts[classes]).astype(np.int64)
        return [[int(place), int(counts[place])] for place in np.flatnonzero(counts)]


class RecentDelays:
    """The delays of the last while: of the span that runs, and of the one before it."""

    def __init__(self, span_ns: int) -> None:
        self._span_ns = span_ns
        self._before = Delays()
        self._now = Delays()
        self._since_ns = 0
        self._waiting: list[int] = []
        self._all = Delays()

    def add(self, delay_ns: int, now_ns: int) -> None:
        """Count one; they are put into their classes many at a time."""
        self._waiting.append(delay_ns)
        self._look(now_ns)

    def add_many(self, delays_ns: NDArray[np.int64], now_ns: int) -> None:
        """Count some."""
        self._waiting += delays_ns.tolist()
        self._look(now_ns)

    def _look(self, now_ns: int) -> None:
        if len(self._waiting) >= _MOST_WAITING or now_ns - self._since_ns >= self._span_ns:
            self._move(now_ns)

    def _move(self, now_ns: int) -> None:
        passed = now_ns - self._since_ns
        if passed >= self._span_ns:
            self._before = self._now if passed < 2 * self._span_ns else Delays()
            self._now, self._since_ns = Delays(), now_ns
        if self._waiting:
            waited = Delays()
            waited.add(np.clip(np.array(self._waiting, np.float64), 0, _LONGEST))
            self._now.counts += waited.counts
            self._all.counts += waited.counts
            self._waiting.clear()

    def spread(self) -> list[list[int]]:
        """How all of them are spread, but for the last few."""
        return self._all.spread()

    def percentiles(self, shares: tuple[float, ...], now_ns: int) -> list[int | None]:
        """Several percentiles of the last while."""
        self._move(now_ns)
        joined = Delays()
        joined.counts = self._before.counts + self._now.counts
        return [joined.percentile(share) for share in shares]
