"""The instruments of a day: one row each, the latest definition that was seen."""

from __future__ import annotations

import time
from typing import Any

import pyarrow as pa
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import RemoveAction

from pregao.errors import PregaoError
from pregao.lake.ingest.latest import latest
from pregao.lake.ingest.schemas import DATE
from pregao.lake.store import Lake, NewFile
from pregao.lake.store.delta_tables import add_action
from pregao.lake.store.file_statistics import stats_json
from pregao.lake.store.parquet import iso, write_table

_ATTEMPTS = 20


def settle_instruments(lake: Lake) -> None:
    """Where several ingests brought definitions of a day, keep the latest of each instrument."""
    for _ in range(_ATTEMPTS):
        table = lake.delta("instruments")
        actions = pa.table(table.get_add_actions(flatten=True))
        by_day: dict[Any, list[dict[str, Any]]] = {}
        for action in actions.to_pylist():
            by_day.setdefault(action[f"partition.{DATE}"], []).append(action)
        crowded = {day: files for day, files in by_day.items() if len(files) > 1}
        if not crowded:
            return
        day, files = next(iter(crowded.items()))
        rows = table.to_pyarrow_table(filters=[(DATE, "=", day)]).drop_columns([DATE])
        number = (day - type(day)(1970, 1, 1)).days
        place = lake.location
        written = write_table(place.filesystem, place.path, "instruments", latest(rows), number)
        new = NewFile(
            "instruments", written.path, written.size, written.rows,
            ((DATE, iso(number)),), stats_json(written.metadata, lake.schema("instruments")),
        )  # fmt: skip
        now = time.time_ns() // 1_000_000
        partition: dict[str, str | None] = {DATE: iso(number)}
        changes = [
            RemoveAction(action["path"], True, now, action["size_bytes"], partition)
            for action in files
        ]
        try:
            table.create_write_transaction(
                [*changes, add_action(new)], "append", table.schema(), [DATE]
            )
        except (CommitFailedError, DeltaError):
            time.sleep(0.05)  # somebody else changed the table: look again
    raise PregaoError(f"{lake.location}: the instruments could not be settled; try again.")
