"""The kernel of gap_columns: counters of instruments followed over columns of items."""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, check-untyped-defs=False
# mypy: disallow-untyped-decorators=False

from __future__ import annotations

import numpy as np

from pregao._njit import njit
from pregao.umdf import gaps

MESSAGE = int(gaps.Item.MESSAGE)
EMPTIED = int(gaps.Item.EMPTIED)
RESET = int(gaps.Item.RESET)
SNAPSHOT = int(gaps.Item.SNAPSHOT)

APPLIES = int(gaps.Step.APPLIES)
RESTART = int(gaps.Step.RESTART)
GAP = int(gaps.Step.GAP)
QUEUED = int(gaps.Step.QUEUED)
AGREES = int(gaps.Step.AGREES)
LOADS = int(gaps.Step.LOADS)
DISAGREES = int(gaps.Step.DISAGREES)
NOTED = int(gaps.Step.NOTED)
HEALED = 64

NOTHING = gaps.NOTHING
UNSEEN = gaps.UNSEEN


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
