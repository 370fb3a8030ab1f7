"""Kernels of the bulk follower: last statistics up to given message serials."""

from __future__ import annotations

from pregao._njit import njit
from pregao.book.update_rows import NULL

TRADE = 0
LAST_TRADE = 1
VOLUME = 2
NO_VOLUME = 3
SESSION = 4


@njit
def last_before(ranks, serials, wanted_ranks, wanted_serials, found):
    """Find for each wanted serial the last row of its rank up to it, or -1; inputs are sorted."""
    at = 0
    for i in range(len(wanted_ranks)):
        rank = wanted_ranks[i]
        while at < len(ranks) and (
            ranks[at] < rank or (ranks[at] == rank and serials[at] <= wanted_serials[i])
        ):
            at += 1
        found[i] = at - 1 if at > 0 and ranks[at - 1] == rank else -1


@njit
def statistics_at(
    ranks, serials, events, kinds, values, orders,
    wanted_ranks, wanted_serials, wanted_events, state, prices, volumes,
):  # fmt: skip
    """Return last price and volume at each wanted message serial, after the end of its event.

    Statistics and wanted serials are sorted by instrument and serial. ``state`` continues from
    call to call: instrument, last price, order key of its trade, volume, and the next statistic.
    """
    at = state[4]
    for i in range(len(wanted_ranks)):
        rank = wanted_ranks[i]
        if state[0] != rank:
            state[0] = rank
            state[1] = state[2] = state[3] = NULL
            while at < len(ranks) and ranks[at] < rank:
                at += 1
        while (
            at < len(ranks)
            and ranks[at] == rank
            and (serials[at] <= wanted_serials[i] or events[at] == wanted_events[i])
        ):
            kind = kinds[at]
            if kind == TRADE:
                # A corrected trade is sent again under its old number: it is not the last one.
                if orders[at] >= state[2]:
                    state[1] = values[at]
                    state[2] = orders[at]
            elif kind == LAST_TRADE:
                state[1] = values[at]
                state[2] = orders[at]
            elif kind == SESSION:
                state[1] = state[2] = state[3] = NULL
            else:
                state[3] = values[at]
                if kind == NO_VOLUME:  # all trades were busted, so there is no last one
                    state[1] = state[2] = NULL
            at += 1
        prices[i] = state[1]
        volumes[i] = state[3]
    state[4] = at


@njit
def spread_ranges(starts, counts, out):
    """Write the numbers of all ranges, concatenated."""
    at = 0
    for i in range(len(starts)):
        for k in range(counts[i]):
            out[at] = starts[i] + k
            at += 1
