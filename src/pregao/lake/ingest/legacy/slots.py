"""Time slots as a stand-in for sequence versions, which the legacy feed does not have.

Numbers continue from slot to slot until the exchange restarts at 1: each week (PUMA), each day
(MEGABOLSA), or by a SequenceReset at any time (002 §5.3.7, §15.7).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pregao.clock import MINUTE
from pregao.umdf.sequencing import LAST_SEQUENCE_VERSION

SLOT_NS = 10 * MINUTE

Numbers = npt.NDArray[np.int64]


def slot_of(time_ns: Numbers) -> Numbers:
    """Return the slots of sending times; they wrap like sequence versions."""
    slots: Numbers = time_ns // SLOT_NS % LAST_SEQUENCE_VERSION + 1
    return slots
