"""Small tables of several tasks, staged and merged into one file per table and day."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from pregao.lake.ingest.files import BY_INSTRUMENT, write_rows
from pregao.lake.ingest.latest import latest_rules
from pregao.lake.store.location import Location
from pregao.lake.store.parquet import WrittenFile


@dataclass(frozen=True, slots=True)
class StagedTable:
    """A small table, staged until it is merged with those of other tasks."""

    table: str
    day: int
    path: str
    rows: int


def joined_rows(parts: list[Any]) -> Any:
    """Concatenate rows of a table; columns missing in a part are null."""
    if len(parts) == 1:
        return parts[0]
    return pa.concat_tables(parts, promote_options="default").unify_dictionaries()


def stage(lake: Location, folder: str, name: str, table: str, day: int, data: Any) -> StagedTable:
    """Write a small table to a staging folder of the lake."""
    filesystem = lake.filesystem
    own = f"{lake.path}/{folder}/{table}"
    path = f"{own}/{day}-{name}.arrow"
    filesystem.create_dir(own, recursive=True)
    with (
        filesystem.open_output_stream(path) as sink,
        pa.ipc.new_file(sink, data.schema) as writer,
    ):
        writer.write_table(data.unify_dictionaries().combine_chunks())
    return StagedTable(table, day, path, data.num_rows)


def merge_staged(lake: Location, table: str, day: int, paths: list[str]) -> WrittenFile:
    """Merge the staged tables of several tasks into one file."""
    filesystem = lake.filesystem
    parts = []
    for path in paths:
        with filesystem.open_input_file(path) as source, pa.ipc.open_file(source) as reader:
            parts.append(reader.read_all())
    data = joined_rows(parts)
    if rule := latest_rules().get(table):
        return write_rows(lake, table, rule(data), day)
    if by := [name for name in BY_INSTRUMENT if name in data.column_names]:
        data = data.sort_by([(name, "ascending") for name in by])
    return write_rows(lake, table, data, day)
