"""What day a message belongs to: the day of its packet's sending time in São Paulo.

A packet without a sending time belongs to the day on which it was captured.
"""

from __future__ import annotations

from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt

from pregao.clock import DAY

SAO_PAULO_NS: Final = -3 * 3600 * 1_000_000_000
"""What Brasília time is ahead of UTC; there has been no summer time since 2019."""

T = TypeVar("T", int, npt.NDArray[np.int64])


def day_of(time_ns: T) -> T:
    """The day of a time, or of a column of them, as days since 1970."""
    return (time_ns + SAO_PAULO_NS) // DAY


def day_of_packets(
    sending_time_ns: npt.NDArray[np.int64], capture_time_ns: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """The days of packets; a sending time of 0 is none."""
    return day_of(np.where(sending_time_ns > 0, sending_time_ns, capture_time_ns))


def day_begins_ns(day: int) -> int:
    """When a day begins, as UTC."""
    return day * DAY - SAO_PAULO_NS
