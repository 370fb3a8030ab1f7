"""Tables that keep only their latest rows: one file per day, rewritten when ingests add rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from pregao.lake.ingest.files import write_rows
from pregao.lake.ingest.protocols import PROTOCOLS
from pregao.lake.store.delta_tables import (
    LakeTable,
    add_action,
    arrow_schema,
    change_table,
    commit_changes,
    remove_action,
    visible_files,
)
from pregao.lake.store.lake import LakeStore
from pregao.lake.store.parquet import new_file, number_of
from pregao.lake.store.unit import DATE

Latest = Callable[[Any], Any]


def latest_rules() -> dict[str, Latest]:
    """Return the function that selects the rows to keep, by table; other tables keep all rows."""
    return {table: rule for each in PROTOCOLS.values() for table, rule in each.latest.items()}


def settle_latest(lake: LakeStore) -> None:
    """Keep only the latest rows of each day to which several ingests have added rows."""
    for table, rule in latest_rules().items():
        _settle(lake, table, rule)


def _settle(lake: LakeStore, name: str, rule: Latest) -> None:
    def settle_a_day(table: LakeTable) -> bool:
        """Merge the files of the first day that has several; return False if none has."""
        actions = visible_files(table)
        if not actions.num_rows:
            return False
        days = actions[f"partition.{DATE}"].to_pylist()
        day = next((day for day, files in Counter(days).items() if files > 1), None)
        if day is None:
            return False
        files = actions.filter([own == day for own in days]).to_pylist()
        rows = table.to_pyarrow_table(filters=[(DATE, "=", day)]).drop_columns([DATE])
        written = write_rows(lake.location, name, rule(rows), number_of(day))
        removed = [remove_action(old["path"], old["size_bytes"], day) for old in files]
        commit_changes(table, [*removed, add_action(new_file(written, arrow_schema(table)))])
        return True

    while change_table(lake.table_location(name), settle_a_day):
        pass
