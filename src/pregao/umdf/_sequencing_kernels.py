"""Kernels of sequencing: versions, first copies of packets, events, and gaps of instruments.

`version_distance` is compiled from the function of `sequencing`. `mark_first` marks the first copy
of each packet, `number_events` numbers the events of walked messages, and `follow_counts` follows
the counters of instruments over columns of items.
"""

from __future__ import annotations

import numpy as np

from pregao._njit import load_u8, njit, part
from pregao.umdf import events, gaps, sequencing
from pregao.umdf.templates import END_OF_EVENT

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, check-untyped-defs=False
# mypy: disallow-untyped-decorators=False

version_distance = njit(sequencing.version_distance)

FLAGS_ABSENT = -1
"""Messages without event flags that end their event."""
NEVER_LAST = -2
"""Messages without event flags that never end their event."""

event_number = njit(events.event_number)

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


@part
def ends_event(buffer, body, end, block, at):
    """Whether a message is the last of its event; ``at`` is the offset of its flags."""
    if at == NEVER_LAST:
        return False
    if at == FLAGS_ABSENT or at >= block or body + at >= end:
        return True
    return (load_u8(buffer, body + at) & END_OF_EVENT) != 0


@njit
def number_events(
    buffer, bodies, ends, blocks, packet_of, index_of, flag_of, flag_at, first, last, versions,
    numbers, events,
):  # fmt: skip
    """Assign event numbers to a channel's messages, which are in sequence.

    The flags of message ``m`` are at ``flag_at[flag_of[m]]`` in its block.
    """
    event = np.int64(0)
    begins = True
    for m in range(first, last):
        packet = packet_of[m]
        if m > first and packet != packet_of[m - 1]:
            before = packet_of[m - 1]
            if versions[packet] != versions[before] or numbers[packet] != numbers[before] + 1:
                begins = True
        if begins:
            event = event_number(
                np.int64(versions[packet]), np.int64(numbers[packet]), np.int64(index_of[m])
            )
        events[m] = event
        begins = ends_event(buffer, bodies[m], ends[m], blocks[m], flag_at[flag_of[m]])


@njit
def follow_counts(
    starts, kinds, counts, missing, covered, sound, last, stale, proven, doubted, max_in_packet,
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
                    elif proof != UNPROVEN and whole and count > max_in_packet * (past - proof):
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
