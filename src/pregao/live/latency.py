"""Latency histograms: percentiles of millions of delays in little memory."""

from __future__ import annotations

import struct

import numpy as np
from numpy.typing import NDArray

from pregao.net.datagram_batch import DatagramBatch
from pregao.umdf.layout import SENDING_TIME_AT

_STEPS = 16
"""Buckets per doubling: a percentile is accurate to about 6 %."""
_DOUBLINGS = 44
"""About five hours; longer delays are counted in the last bucket."""


_TIME = struct.Struct("<q")
_TIME_BYTES = np.arange(_TIME.size)
_MAX_LATENCY = 2.0**62
_MAX_PENDING = 1024


def one_sent_ns(batch: DatagramBatch, row: int) -> int:
    """Return the sending time of one packet of a batch."""
    offset = int(batch.offset[row]) + SENDING_TIME_AT
    return int(_TIME.unpack_from(batch.buffer.data, offset)[0])


def sent_ns(batch: DatagramBatch, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the sending times of packets of a batch; each packet must have a complete header."""
    offset = (batch.offset[rows] + SENDING_TIME_AT)[:, np.newaxis]
    times: NDArray[np.int64] = batch.buffer[offset + _TIME_BYTES].view("<i8")[:, 0]
    return times


class LatencyHistogram:
    """Histogram of delays in nanoseconds; negative ones (clocks that differ) count as 0."""

    __slots__ = ("counts",)

    def __init__(self) -> None:
        self.counts: NDArray[np.int64] = np.zeros(_STEPS * _DOUBLINGS + 1, np.int64)

    def add(self, delays_ns: NDArray[np.int64] | NDArray[np.float64]) -> None:
        """Count delays."""
        scaled = np.log2(np.maximum(delays_ns, 1)) * _STEPS
        buckets = np.minimum(scaled.astype(np.int64), len(self.counts) - 1)
        self.counts += np.bincount(buckets, minlength=len(self.counts))

    def __len__(self) -> int:
        return int(self.counts.sum())

    def percentile(self, share: float) -> int | None:
        """Return the delay below which ``share`` of all delays lie, or None if there are none.

        The result is the upper end of a bucket.
        """
        total = len(self)
        if not total:
            return None
        bucket = int(np.searchsorted(np.cumsum(self.counts), share * total))
        return int(2 ** ((min(bucket, len(self.counts) - 1) + 1) / _STEPS))

    def spread(self) -> list[list[int]]:
        """Return the number of delays in each tenth of a decade: ``[[bin, count], ...]``.

        The bin of a delay is the integer part of ten times its decimal logarithm, as precise as its
        bucket.
        """
        buckets = np.flatnonzero(self.counts)
        bins = (buckets * (10 * np.log10(2) / _STEPS)).astype(np.int64)
        counts = np.bincount(bins, self.counts[buckets]).astype(np.int64)
        return [[int(index), int(counts[index])] for index in np.flatnonzero(counts)]


class RecentLatency:
    """Delays of the current span of time and of the one before it."""

    def __init__(self, span_ns: int) -> None:
        self._span_ns = span_ns
        self._before = LatencyHistogram()
        self._now = LatencyHistogram()
        self._since_ns = 0
        self._waiting: list[int] = []
        self._all = LatencyHistogram()

    def add(self, delay_ns: int, now_ns: int) -> None:
        """Count a delay; delays are added to the histogram in batches."""
        self._waiting.append(delay_ns)
        self._look(now_ns)

    def add_many(self, delays_ns: NDArray[np.int64], now_ns: int) -> None:
        """Count delays."""
        self._waiting += delays_ns.tolist()
        self._look(now_ns)

    def _look(self, now_ns: int) -> None:
        if len(self._waiting) >= _MAX_PENDING or now_ns - self._since_ns >= self._span_ns:
            self._move(now_ns)

    def _move(self, now_ns: int) -> None:
        passed = now_ns - self._since_ns
        if passed >= self._span_ns:
            self._before = self._now if passed < 2 * self._span_ns else LatencyHistogram()
            self._now, self._since_ns = LatencyHistogram(), now_ns
        if self._waiting:
            pending = LatencyHistogram()
            pending.add(np.clip(np.array(self._waiting, np.float64), 0, _MAX_LATENCY))
            self._now.counts += pending.counts
            self._all.counts += pending.counts
            self._waiting.clear()

    def spread(self) -> list[list[int]]:
        """Return the distribution of all delays since the start, except the last few."""
        return self._all.spread()

    def percentiles(self, shares: tuple[float, ...], now_ns: int) -> list[int | None]:
        """Return percentiles of the delays of the current span and the one before it."""
        self._move(now_ns)
        merged = LatencyHistogram()
        merged.counts = self._before.counts + self._now.counts
        return [merged.percentile(share) for share in shares]
