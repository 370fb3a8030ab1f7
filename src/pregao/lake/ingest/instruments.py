"""The instruments of a day: one row each, the latest definition that was seen."""

from __future__ import annotations

from datetime import date
from typing import Any

import numpy as np
import pyarrow as pa

from pregao.lake.ingest.files import write_rows
from pregao.lake.store import (
    DATE,
    Lake,
    LakeTable,
    add_action,
    arrow_schema,
    change_table,
    commit_changes,
    new_file,
    number_of,
    remove_action,
    visible_files,
)

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


def settle_instruments(lake: Lake) -> None:
    """Where several ingests brought definitions of a day, keep the latest of each instrument."""

    def settle_a_day(table: LakeTable) -> bool:
        """Give the first day with several files one; False if there is none."""
        by_day: dict[date, list[dict[str, Any]]] = {}
        for action in visible_files(table).to_pylist():
            by_day.setdefault(action[f"partition.{DATE}"], []).append(action)
        day = next((day for day, files in by_day.items() if len(files) > 1), None)
        if day is None:
            return False
        rows = table.to_pyarrow_table(filters=[(DATE, "=", day)]).drop_columns([DATE])
        written = write_rows(lake.location, INSTRUMENTS, latest(rows), number_of(day))
        gone = [remove_action(old["path"], old["size_bytes"], day) for old in by_day[day]]
        commit_changes(table, [*gone, add_action(new_file(written, arrow_schema(table)))])
        return True

    while change_table(lake.table_location(INSTRUMENTS), settle_a_day):
        pass
