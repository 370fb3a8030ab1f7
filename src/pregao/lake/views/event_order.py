"""Event order of tables: the columns by which rows are sorted as their events happened.

Rows are ordered by time, sequence and index: the time of the row's event, then its packet and the
index of its message in the packet. The files of a table are written by parallel tasks, so their own
order says nothing. The remaining keys make the order of rows with equal ones reproducible.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

_TIMES: Final = (
    "time_ns", "start_ns", "from_ns", "entered_ns", "minute_ns", "session_start_ns",
    "sending_time_ns", "t10_ns", "capture_time_ns", "committed_at_ns", "date",
)  # fmt: skip
"""Times of a row's event; the first one that a table has determines its order.

Ticks and messages are ordered by their packets' sending times: those follow the sequence of a
channel, whereas the times in messages may be those of earlier events.
"""
_SEQUENCE: Final = (
    "channel", "sequence_version", "sequence_number", "index_in_packet", "event",
    "stream", "feed", "position", "security_id", "symbol", "interval", "measure", "name",
)  # fmt: skip


def event_order(columns: Collection[str]) -> list[str]:
    """Return the columns by which a table with these columns is in event order."""
    names = set(columns)
    return [
        *[name for name in _TIMES if name in names][:1],
        *(name for name in _SEQUENCE if name in names),
    ]
