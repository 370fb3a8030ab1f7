"""Kernel of TCP streams: segments that are next in their stream, which are nearly all."""

from __future__ import annotations

from typing import Any

from pregao._njit import njit

_MASK = (1 << 32) - 1


@njit
def take_in_order(
    flow: Any, sequence: Any, flags: Any, length: Any, begin: int, next_sequence: Any,
    taken_bytes: Any, last: Any, taken: Any,
) -> Any:  # fmt: skip
    """Process segments from ``begin`` on while each is next in its stream; return the first other.

    ``next_sequence`` has a number for each flow, -1 where the plain code must process every
    segment. ``taken_bytes`` and ``last`` are the bytes processed of each flow, and its last
    segment.
    """
    for i in range(begin, len(flow)):
        f = flow[i]
        # Neither FIN nor SYN nor RST.
        if next_sequence[f] < 0 or flags[i] & 7:
            return i
        size = length[i]
        if size == 0:
            taken[i] = False
            continue
        if sequence[i] != next_sequence[f]:
            return i
        next_sequence[f] = (sequence[i] + size) & _MASK
        taken_bytes[f] += size
        last[f] = i
        taken[i] = True
    return len(flow)
