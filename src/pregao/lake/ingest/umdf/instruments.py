"""The instruments of a day: one row each, the latest definition that was seen."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

INSTRUMENTS = "instruments"
_ORDER = ("index_in_packet", "sequence_number", "capture_time_ns", "security_id", "channel")


def latest(rows: Any) -> Any:
    """Of each channel's instruments the row that was captured last, by instrument."""
    if not rows.num_rows:
        return rows
    columns = [rows.column(name).fill_null(0).to_numpy() for name in _ORDER]
    order = np.lexsort(tuple(columns))
    channel, security = columns[4][order], columns[3][order]
    last = np.append((channel[1:] != channel[:-1]) | (security[1:] != security[:-1]), True)
    return rows.take(pa.array(order[last]))
