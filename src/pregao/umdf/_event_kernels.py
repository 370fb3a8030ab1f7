"""Kernel of event_columns: numbers the events of walked messages."""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, check-untyped-defs=False
# mypy: disallow-untyped-decorators=False

from __future__ import annotations

import numpy as np

from pregao._njit import load_u8, njit, part
from pregao.umdf import events
from pregao.umdf.templates import END_OF_EVENT

FLAGS_ABSENT = -1
"""Messages without event flags that end their event."""
NEVER_LAST = -2
"""Messages without event flags that never end their event."""

event_number = njit(events.event_number)


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
