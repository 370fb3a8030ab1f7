"""Compaction: the small files of a table and date merged, in the order that makes reading cheap."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date

import pyarrow as pa
from deltalake import DeltaTable

from pregao.lake.store.commits import retire
from pregao.lake.store.delta_tables import (
    add_action,
    arrow_schema,
    remove_action,
    replace_files,
    visible_files,
)
from pregao.lake.store.lake import Lake
from pregao.lake.store.parquet import rewrite
from pregao.lake.store.unit import DATE

TARGET_BYTES = 64 << 20
"""Files above half of this are left alone; merged files come near to it."""
TARGET_ROWS = 4_000_000
"""So many rows of any table can be sorted in the memory of a small machine."""


@dataclass(frozen=True, slots=True)
class Compacted:
    """Files of a table and date that became one."""

    table: str
    date: str
    files: int
    rows: int
    bytes_before: int
    bytes_after: int


@dataclass(frozen=True, slots=True)
class _Small:
    path: str
    size: int
    rows: int
    day: date


def compact_table(lake: Lake, name: str, order: Sequence[str]) -> list[Compacted]:
    """Merge the small files of a table; rows stay what they are, and are sorted by some columns.

    The files that were merged stay on the disk until `vacuum` takes them away, so that queries
    which read them come to their end.
    """
    table = lake.delta(name)
    if table.metadata().partition_columns != [DATE]:
        return []
    merged = (_merge(lake, name, table, group, order) for group in _groups(table))
    return [each for each in merged if each is not None]


def compact_intents(lake: Lake) -> None:
    """Retire the intents of all complete units."""
    retire(lake.location, least=1)


def _groups(table: DeltaTable) -> Iterator[list[_Small]]:
    """The small files of each date, two or more at a time, as many as make a large one."""
    actions = visible_files(table)
    if not actions.num_rows:
        return
    columns = ("path", "size_bytes", "num_records", f"partition.{DATE}")
    small = [
        _Small(*values)
        for values in zip(*(actions[name].to_pylist() for name in columns), strict=True)
        if values[1] < TARGET_BYTES // 2 and values[2] is not None
    ]
    group: list[_Small] = []
    for file in sorted(small, key=lambda file: (file.day, file.path)):
        if group and (
            file.day != group[0].day
            or sum(each.size for each in group) + file.size > TARGET_BYTES
            or sum(each.rows for each in group) + file.rows > TARGET_ROWS
        ):
            if len(group) > 1:
                yield group
            group = []
        group.append(file)
    if len(group) > 1:
        yield group


def _merge(
    lake: Lake, name: str, table: DeltaTable, group: list[_Small], order: Sequence[str]
) -> Compacted | None:
    # Imported here: it brings pandas along, which commands that only read need not pay for.
    import pyarrow.dataset as ds

    place = lake.table_location(name)
    declared = arrow_schema(table)
    schema = pa.schema([field for field in declared if field.name != DATE]).remove_metadata()
    paths = [place.join(file.path).path for file in group]
    rows = ds.dataset(
        paths, schema=schema, filesystem=place.filesystem, format="parquet"
    ).to_table()
    if order:
        rows = rows.sort_by([(column, "ascending") for column in order])
    day = group[0].day
    file = rewrite(place, [old.path for old in group], rows, day, declared)
    removals = [remove_action(old.path, old.size, day, data_change=False) for old in group]
    if not replace_files(place, removals, [add_action(file, data_change=False)]):
        # Another process was faster: it has merged these files.
        place.join(file.path).delete()
        return None
    before = sum(old.size for old in group)
    return Compacted(name, day.isoformat(), len(group), file.rows, before, file.size)
