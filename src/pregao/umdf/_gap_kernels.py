"""The kernel of gaps: counters of instruments followed over columns of items."""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, check-untyped-defs=False
# mypy: disallow-untyped-decorators=False

from __future__ import annotations

import numpy as np

from pregao._njit import njit

# What an item is.
MESSAGE = 0
EMPTIED = 1
RESET = 2
SNAPSHOT = 3
ABSENT = 4

# What it is to its instrument.
APPLIES = 0
RESTART = 1
GAP = 2
QUEUED = 3
AGREES = 4
LOADS = 5
DISAGREES = 6
NOTED = 7
HEALED = 64

NOTHING = -1
"""The last count where none is known."""
UNTOUCHED = -2
"""The last count of an instrument that is seen from its beginning: the first one is 1."""
UNSEEN = -3
"""The last count of an instrument whose past is not at hand, unless its first one is 1."""


@njit
def follow_counts(starts, kinds, counts, last, stale, steps, before):
    """Follow each instrument's items, from one start to the next; ``last``, ``stale`` go on.

    ``before`` gets the last count before each item.
    """
    for g in range(len(starts) - 1):
        known = last[g]
        broken = stale[g] != 0
        for i in range(starts[g], starts[g + 1]):
            at = np.uint64(i)
            kind = kinds[at]
            count = counts[at]
            was_broken = broken
            before[at] = max(known, 0)
            step = APPLIES
            if kind == MESSAGE:
                if broken:
                    step = QUEUED
                    if count == 1:
                        step = RESTART
                        broken = False
                    if count > 0:
                        known = count
                elif count > 0:
                    if known < NOTHING:
                        known = 0
                    if known >= 0 and count != known + 1:
                        step = RESTART if count == 1 else GAP
                        broken = step == GAP
                    known = count
            elif kind == EMPTIED:
                known = 0
                broken = False
            elif kind == RESET:
                broken = False
                if known == UNSEEN:
                    known = NOTHING
            elif kind == SNAPSHOT:
                agrees = known == NOTHING or max(known, 0) == count
                if broken or (known == UNSEEN and count > 0):
                    step = LOADS
                elif agrees:
                    step = AGREES
                else:
                    step = DISAGREES
                known = count
                broken = False
            else:
                step = NOTED
                if known == UNSEEN:
                    known = NOTHING
            if was_broken and not broken:
                step |= HEALED
            steps[at] = step
        last[g] = known
        stale[g] = broken
