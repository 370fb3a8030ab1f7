"""What earlier ingests tell, remembered in one file, so that an ingest need not read all reports.

The table ``_known`` holds the facts of `Known` as of some files of ``ingests``, and names these
files. It says nothing that ``ingests`` does not say: where one of the files is gone (merged, or its
rows taken out), or the table is not there, everything is read anew.
"""

from __future__ import annotations

import io
import json
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pregao.lake.ingest.known import Known
from pregao.lake.store import (
    Lake,
    LakeTable,
    Location,
    NewFile,
    TableSpec,
    add_action,
    change_table,
    commit_changes,
    remove_action,
    unique_name,
    visible_files,
)

MEMORY = TableSpec(
    "_known",
    pa.schema(
        [
            pa.field("files", pa.string(), metadata={"comment": "Of which files, as JSON."}),
            pa.field("facts", pa.string(), metadata={"comment": "What they tell, as JSON."}),
        ]
    ),
    partition_by=(),
    description="What earlier ingests tell to later ones, as of some files of ingests.",
    passing=True,
)
REMEMBER_FROM = 32
"""How many files of ``ingests`` are read each time before they are remembered."""
_COLUMNS = (
    "content_hash",
    "fingerprint",
    "size",
    "report",
    "plain_fingerprint",
    "range_hash",
    "committed_at_ns",
)


def read_known(lake: Lake) -> Known:
    """What the lake's ingests tell; much of it that is new is remembered for the next time."""
    # First what is remembered: a file that comes in between is one that was not.
    known, remembered = _recall(lake)
    files = lake.paths("ingests")
    if not remembered <= files:
        known, remembered = Known(), set()
    place = lake.table_location("ingests")
    rows = [row for path in files - remembered for row in _rows(place.join(path))]
    rows.sort(key=lambda row: row["committed_at_ns"] or 0)
    known.add(rows)
    if len(files) - len(remembered) >= REMEMBER_FROM and _place(lake).exists():
        _remember(lake, known, files)
    return known


def refresh_memory(lake: Lake) -> None:
    """Remember what is known, if files that were remembered are gone."""
    if _place(lake).exists():
        read_known(lake)


def _place(lake: Lake) -> Location:
    return lake.table_location(MEMORY.name)


def _recall(lake: Lake) -> tuple[Known, set[str]]:
    """What is remembered, and of which files."""
    known = Known()
    place = _place(lake)
    if not place.exists():
        return known, set()
    remembered: set[str] = set()
    for path in lake.paths(MEMORY.name):
        (row,) = _table(place.join(path), MEMORY.schema.names).to_pylist()
        known.recall(json.loads(row["facts"]))
        remembered = set(json.loads(row["files"]))
    return known, remembered


def _remember(lake: Lake, known: Known, files: set[str]) -> None:
    """Put what is known in the place of what was remembered."""
    told = {"files": sorted(files), "facts": known.facts()}
    row = {name: json.dumps(value, separators=(",", ":")) for name, value in told.items()}
    content = io.BytesIO()
    rows = pa.Table.from_pylist([row], MEMORY.schema.remove_metadata())
    pq.write_table(rows, content, compression="zstd")
    place = _place(lake)
    path = unique_name("known", ".parquet")
    place.join(path).write_bytes(content.getvalue())
    file = NewFile(MEMORY.name, path, content.tell(), 1, (), '{"numRecords":1}')

    def replace(table: LakeTable) -> None:
        # Of two that do this at once either may be the last: both are right.
        shown = visible_files(table).select(["path", "size_bytes"]).to_pylist()
        gone = [remove_action(old["path"], old["size_bytes"]) for old in shown]
        commit_changes(table, [*gone, add_action(file)])

    change_table(place, replace)


def _rows(file: Location) -> list[dict[str, Any]]:
    """The rows of a file of ``ingests``; columns that are younger than it are null."""
    rows: list[dict[str, Any]] = _table(file, _COLUMNS).to_pylist()
    return [{**dict.fromkeys(_COLUMNS), **row} for row in rows]


def _table(file: Location, columns: Any) -> Any:
    with file.open_input() as opened:
        parquet = pq.ParquetFile(opened)
        there = [name for name in columns if name in parquet.schema_arrow.names]
        return parquet.read(columns=there, use_threads=False)
