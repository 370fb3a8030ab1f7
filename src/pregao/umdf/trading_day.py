"""Trading day of a message: the day of its packet's sending time in São Paulo.

A packet without a sending time belongs to the day of its capture.
"""

from __future__ import annotations

from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt

from pregao.clock import DAY

SAO_PAULO_NS: Final = -3 * 3600 * 1_000_000_000
"""Offset of Brasília time from UTC; there has been no daylight saving time since 2019."""

T = TypeVar("T", int, npt.NDArray[np.int64])


def day_of(time_ns: T) -> T:
    """Return the day of a time, or of a column of times, as days since 1970."""
    return (time_ns + SAO_PAULO_NS) // DAY


def day_of_packets(
    sending_time_ns: npt.NDArray[np.int64], capture_time_ns: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Return the days of packets; a sending time of 0 means none."""
    return day_of(np.where(sending_time_ns > 0, sending_time_ns, capture_time_ns))


def day_begins_ns(day: int) -> int:
    """Return the start of a day, in UTC nanoseconds."""
    return day * DAY - SAO_PAULO_NS
