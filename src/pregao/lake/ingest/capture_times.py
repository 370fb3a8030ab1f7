"""Outliers among capture times, detected so that captures are not split by them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from pregao.arrays import Int64Array
from pregao.clock import DAY, SECOND

FAR_NS = 3600 * SECOND
"""Maximum distance of a packet's time from the median of its neighbors'."""
FAR_AT_ENDS_NS = 30 * DAY
"""Maximum distance at the ends of a block, next to which the capture may have paused."""
_AROUND = 2
FAR_FROM_CAPTURE_NS = DAY
"""Maximum distance between sending and capture time: a packet beyond it is rejected, because it
would be filed under a day on which nothing was captured."""
FAR_REASON = "sending time more than a day from the capture time"


def sent_far_from_capture(sending_time_ns: Int64Array, times: Int64Array) -> npt.NDArray[np.bool_]:
    """Return a mask of packets whose sending time is more than a day from their capture time.

    Packets without a sending time (0) and captures without times (1970) are not compared.
    """
    compared = (sending_time_ns > 0) & (times >= DAY)
    early = sending_time_ns < times - FAR_FROM_CAPTURE_NS
    # No difference is computed: with extreme times it would overflow int64.
    late = sending_time_ns > np.minimum(times, _LATEST) + FAR_FROM_CAPTURE_NS
    far: npt.NDArray[np.bool_] = compared & (early | late)
    return far


_LATEST = (1 << 63) - 1 - FAR_FROM_CAPTURE_NS


def sensible_times(times: Int64Array) -> tuple[Int64Array, Int64Array]:
    """Return the times of consecutive packets without outliers, and the indexes of the outliers.

    An outlier is replaced by the median of itself and its four neighbors.
    """
    if len(times) <= 2 * _AROUND or np.abs(np.diff(times)).max() <= FAR_NS:
        return times, np.empty(0, np.int64)
    padded = np.pad(times, _AROUND, mode="reflect")
    median = np.median(np.lib.stride_tricks.sliding_window_view(padded, 2 * _AROUND + 1), axis=1)
    limits = np.full(len(times), FAR_NS)
    limits[:_AROUND] = limits[-_AROUND:] = FAR_AT_ENDS_NS
    outliers = np.flatnonzero(np.abs(times - median) > limits)
    if not len(outliers):
        return times, outliers
    corrected = times.copy()
    corrected[outliers] = median[outliers].astype(np.int64)
    return corrected, outliers


def sensible_time(time: int, others: Sequence[int], limit: int = FAR_NS) -> int:
    """Return a packet's time, or the median of its neighbors' if it is an outlier among them."""
    if len(others) < _AROUND:
        return time
    median = sorted(others)[len(others) // 2]
    return median if abs(time - median) > limit else time
