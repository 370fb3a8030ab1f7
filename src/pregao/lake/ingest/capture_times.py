"""Capture times that make no sense beside their neighbours': found, so that no cut goes by them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from pregao.clock import DAY, SECOND

Numbers = npt.NDArray[np.int64]

FAR_NS = 3600 * SECOND
"""So far from its neighbours' times, before and behind it, a packet's makes no sense."""
FAR_AT_ENDS_NS = 30 * DAY
"""The same at the ends of a stretch: a pause may have begun there."""
_AROUND = 2
FAR_FROM_CAPTURE_NS = DAY
"""A packet that says that it was sent so long before or after its capture is rejected: its day
would be one on which nothing was captured."""
FAR_REASON = "sending time more than a day from the capture time"


def sent_far_from_capture(sending_time_ns: Numbers, times: Numbers) -> npt.NDArray[np.bool_]:
    """Which packets say that they were sent more than a day before or after their capture.

    Those without a sending time (0) do not, nor do captures without times, which begin in 1970.
    """
    compared = (sending_time_ns > 0) & (times >= DAY)
    early = sending_time_ns < times - FAR_FROM_CAPTURE_NS
    # Not by a difference, which of the largest times is more than a number holds.
    late = sending_time_ns > np.minimum(times, _LATEST) + FAR_FROM_CAPTURE_NS
    far: npt.NDArray[np.bool_] = compared & (early | late)
    return far


_LATEST = (1 << 63) - 1 - FAR_FROM_CAPTURE_NS


def sensible_times(times: Numbers) -> tuple[Numbers, Numbers]:
    """The times of consecutive packets as they make sense, and which of them did not.

    A time that makes no sense is replaced by the median of it and its four neighbours.
    """
    if len(times) <= 2 * _AROUND or np.abs(np.diff(times)).max() <= FAR_NS:
        return times, np.empty(0, np.int64)
    padded = np.pad(times, _AROUND, mode="reflect")
    near = np.median(np.lib.stride_tricks.sliding_window_view(padded, 2 * _AROUND + 1), axis=1)
    limits = np.full(len(times), FAR_NS)
    limits[:_AROUND] = limits[-_AROUND:] = FAR_AT_ENDS_NS
    strange = np.flatnonzero(np.abs(times - near) > limits)
    if not len(strange):
        return times, strange
    sensible = times.copy()
    sensible[strange] = near[strange].astype(np.int64)
    return sensible, strange


def sensible_time(time: int, others: Sequence[int], limit: int = FAR_NS) -> int:
    """A packet's time, or that of the packets beside it if it makes no sense among them."""
    if len(others) < _AROUND:
        return time
    near = sorted(others)[len(others) // 2]
    return near if abs(time - near) > limit else time
