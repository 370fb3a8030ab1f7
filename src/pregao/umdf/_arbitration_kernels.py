"""Kernel of arbitration_columns: marks the first copy of each packet."""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, check-untyped-defs=False
# mypy: disallow-untyped-decorators=False

from __future__ import annotations

from pregao._njit import njit


@njit
def mark_first(serials, times, feeds, order, first, leader, difference):
    """Mark the first packet of each serial, and its lead over another feed.

    ``order`` sorts the packets by serial, then by precedence. The marked packet is the ``leader``
    of all packets with its serial; ``difference`` is its lead over the first packet of another
    feed, or -1 if there is none.
    """
    count = len(order)
    at = 0
    while at < count:
        head = order[at]
        first[head] = True
        leader[head] = head
        difference[head] = -1
        at += 1
        while at < count and serials[order[at]] == serials[head]:
            other = order[at]
            first[other] = False
            leader[other] = head
            difference[other] = -1
            if difference[head] < 0 and feeds[other] != feeds[head]:
                difference[head] = times[other] - times[head]
            at += 1
