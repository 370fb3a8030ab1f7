"""Compaction: the small files of a table and date merged, in the order that makes reading cheap."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
from deltalake import DeltaTable
from deltalake.transaction import RemoveAction

from pregao.errors import UsageError
from pregao.lake.store import intents
from pregao.lake.store.commits import unfinished
from pregao.lake.store.delta_tables import add_action, arrow_schema, replace_files
from pregao.lake.store.file_statistics import stats_json
from pregao.lake.store.lake import Lake
from pregao.lake.store.location import Location
from pregao.lake.store.parquet import write_table
from pregao.lake.store.unit import NewFile

TARGET_BYTES = 64 << 20
"""Files above half of this are left alone; merged files come near to it."""
TARGET_ROWS = 4_000_000
"""So many rows of any table can be sorted in the memory of a small machine."""

BY_INSTRUMENT = (
    "security_id",
    "channel",
    "sequence_version",
    "sequence_number",
    "index_in_packet",
)
BY_POSITION = ("capture_id", "position")
OWN_LAYOUT = ("ticks", "book_checkpoints")
"""Tables whose files are laid out for looking up a book; they are as large as they should be."""
_EPOCH = date(1970, 1, 1).toordinal()


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


def compact(lake: Lake, tables: Sequence[str] | None = None) -> list[Compacted]:
    """Merge the small files of the named tables, or of all; rows stay what they are.

    The files that were merged stay on the disk until `vacuum` takes them away, so that queries
    which read them come to their end.
    """
    lake.roll_forward()
    if own := [name for name in tables or () if name in OWN_LAYOUT]:
        raise UsageError(f"{own[0]} has a layout of its own, which `pregao books` gives it.")
    done: list[Compacted] = []
    names = [name for name in lake.table_names() if name not in OWN_LAYOUT]
    for name in tables if tables is not None else names:
        place = lake.table_location(name)
        table = lake.delta(name)
        if table.metadata().partition_columns == ["date"]:
            for group in _groups(table):
                done += _merge(place, name, table, group)
    if tables is None:
        intents.compact(lake.location, partial(unfinished, lake.location))
    return done


def sort_columns(names: Sequence[str]) -> list[str]:
    """The columns by which files of a table are sorted."""
    order = BY_POSITION if BY_POSITION[1] in names else BY_INSTRUMENT
    return [name for name in order if name in names]


def _groups(table: DeltaTable) -> Iterator[list[_Small]]:
    """The small files of each date, two or more at a time, as many as make a large one."""
    actions = pa.table(table.get_add_actions(flatten=True))
    if not actions.num_rows:
        return
    columns = ("path", "size_bytes", "num_records", "partition.date")
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


def _merge(place: Location, name: str, table: DeltaTable, group: list[_Small]) -> list[Compacted]:
    declared = arrow_schema(table)
    schema = pa.schema([field for field in declared if field.name != "date"]).remove_metadata()
    paths = [place.join(file.path).path for file in group]
    rows = ds.dataset(
        paths, schema=schema, filesystem=place.filesystem, format="parquet"
    ).to_table()
    if order := sort_columns(schema.names):
        rows = rows.sort_by([(column, "ascending") for column in order])
    rows = rows.cast(pa.schema([field.with_type(stored_type(field.type)) for field in schema]))
    day = group[0].day
    written = write_table(place.filesystem, place.parent.path, name, rows, day.toordinal() - _EPOCH)
    file = NewFile(
        name,
        written.path,
        written.size,
        written.rows,
        (("date", day.isoformat()),),
        stats_json(written.metadata, declared),
    )
    now = time.time_ns() // 1_000_000
    removals = [
        RemoveAction(old.path, False, now, old.size, {"date": day.isoformat()}) for old in group
    ]
    if not replace_files(place, removals, [add_action(file, data_change=False)]):
        # Another process was faster: it has merged these files.
        place.join(file.path).delete()
        return []
    before = sum(old.size for old in group)
    return [Compacted(name, day.isoformat(), len(group), file.rows, before, file.size)]


def stored_type(kind: Any) -> Any:
    """What files hold for a declared type: decimals as 64-bit integers."""
    if pa.types.is_decimal(kind):
        return pa.decimal64(kind.precision, kind.scale)
    if pa.types.is_struct(kind):
        return pa.struct([member.with_type(stored_type(member.type)) for member in kind])
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(stored_type(kind.value_type)))
    return kind
