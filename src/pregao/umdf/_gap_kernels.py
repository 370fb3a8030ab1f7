"""Kernel of gap_columns: counters of instruments over columns of items."""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, check-untyped-defs=False
# mypy: disallow-untyped-decorators=False

from __future__ import annotations

import numpy as np

from pregao._njit import njit
from pregao.umdf import gaps

MESSAGE = int(gaps.GapItem.MESSAGE)
EMPTIED = int(gaps.GapItem.EMPTIED)
RESET = int(gaps.GapItem.RESET)
SNAPSHOT = int(gaps.GapItem.SNAPSHOT)
ABSENT = int(gaps.GapItem.ABSENT)

APPLIES = int(gaps.GapStep.APPLIES)
RESTART = int(gaps.GapStep.RESTART)
GAP = int(gaps.GapStep.GAP)
QUEUED = int(gaps.GapStep.QUEUED)
AGREES = int(gaps.GapStep.AGREES)
LOADS = int(gaps.GapStep.LOADS)
DISAGREES = int(gaps.GapStep.DISAGREES)
NOTED = int(gaps.GapStep.NOTED)
CONFIRMS = int(gaps.GapStep.CONFIRMS)
EMPTIES = int(gaps.GapStep.EMPTIES)
STEPS = 15
"""The bits of the step."""
DOUBTED = 32
HEALED = 64
CONFIRMED = 128

NOTHING = gaps.NOTHING
UNSEEN = gaps.UNSEEN
UNPROVEN = gaps.UNPROVEN

continues = njit(gaps.continues)


@njit
def follow_counts(
    starts, kinds, counts, missing, covered, sound, last, stale, proven, doubted, most_in_packet,
    steps, before,
):  # fmt: skip
    """Process each instrument's items, from one start to the next, and update its counter.

    ``before`` receives the last count before each item.
    """
    for g in range(len(starts) - 1):
        known = last[g]
        broken = stale[g] != 0
        proof = proven[g]
        doubt = doubted[g] != 0
        for i in range(starts[g], starts[g + 1]):
            at = np.uint64(i)
            kind = kinds[at]
            count = counts[at]
            lost = missing[at]
            past = covered[at]
            whole = sound[at] != 0
            was_broken = broken
            before[at] = max(known, 0)
            step = APPLIES
            if kind == MESSAGE:
                if count == 0:
                    step = QUEUED if broken else APPLIES
                elif count == 1 and (broken or known > 0):
                    step = RESTART
                    broken = False
                    proof = max(proof, past if whole else past - 1)
                elif broken:
                    step = QUEUED
                elif known != NOTHING:
                    if not continues(max(known, 0), count):
                        step = GAP
                        broken = True
                    elif proof != UNPROVEN and whole and count > most_in_packet * (past - proof):
                        proof = max(proof, past)
                if count > 0:
                    known = count
            elif kind in (EMPTIED, RESET):
                if kind == EMPTIED:
                    known = count  # 0, except on the legacy feed
                elif known == UNSEEN:
                    known = NOTHING
                broken = False
                proof = max(proof, past if whole else past - 1)
            elif kind == SNAPSHOT:
                if broken or (known == UNSEEN and count > 0):
                    step = LOADS
                elif known != NOTHING and max(known, 0) != count:
                    step = DISAGREES
                elif lost > proof:
                    step = CONFIRMS
                else:
                    step = AGREES
                known = count
                broken = False
                proof = max(proof, past)
            elif kind == ABSENT and (broken or past > proof):
                step = EMPTIES
                known = NOTHING
                broken = False
                proof = max(proof, past)
            else:
                step = NOTED
            if was_broken and not broken:
                step |= HEALED
            if doubt != (lost > proof):
                doubt = not doubt
                step |= DOUBTED if doubt else CONFIRMED
            steps[at] = step
        last[g] = known
        stale[g] = broken
        proven[g] = proof
        doubted[g] = doubt
