"""Time slots as a stand-in for sequence versions, which the legacy feed does not have.

Numbers continue from slot to slot until the exchange restarts at 1: each week (PUMA), each day
(MEGABOLSA), or by a SequenceReset at any time (002 §5.3.7, §15.7).
"""

from __future__ import annotations

from pregao.arrays import Int64Array
from pregao.clock import MINUTE
from pregao.umdf.sequencing import LAST_SEQUENCE_VERSION

SLOT_NS = 10 * MINUTE


def slot_of(time_ns: Int64Array) -> Int64Array:
    """Return the slots of sending times; they wrap like sequence versions."""
    slots: Int64Array = time_ns // SLOT_NS % LAST_SEQUENCE_VERSION + 1
    return slots
