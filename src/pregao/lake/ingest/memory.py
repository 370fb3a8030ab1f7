"""Cache of the ingest history, so that an ingest need not read the reports of all earlier ones.

The table ``_ingest_state`` has the contents of `Known` for a set of files of ``ingests``, and
the names of these files. It only repeats ``ingests``: if one of the files no longer exists (merged,
or its rows dropped) or the table is missing, everything is read again.
"""

from __future__ import annotations

import io
import json
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pregao.lake.ingest.known import IngestState
from pregao.lake.store.delta_tables import (
    LakeTable,
    add_action,
    change_table,
    commit_changes,
    remove_action,
    visible_files,
)
from pregao.lake.store.lake import LakeStore
from pregao.lake.store.location import Location, unique_name
from pregao.lake.store.unit import NewFile, TableSpec

MEMORY = TableSpec(
    "_ingest_state",
    pa.schema(
        [
            pa.field("files", pa.string(), metadata={"comment": "Files of ingests, as JSON."}),
            pa.field("facts", pa.string(), metadata={"comment": "Their history, as JSON."}),
        ]
    ),
    partition_by=(),
    description="Cache of the history of earlier ingests, for a set of files of ingests.",
    passing=True,
)
REMEMBER_FROM = 32
"""Minimum number of uncached files of ``ingests`` at which the cache is rewritten."""
_COLUMNS = (
    "content_hash",
    "fingerprint",
    "size",
    "report",
    "plain_fingerprint",
    "range_hash",
    "committed_at_ns",
)


def load_ingest_state(lake: LakeStore) -> IngestState:
    """Read the history of the lake's ingests; update the cache if many files are not in it."""
    # The cache first: a file that is added in between then counts as not cached.
    state, remembered = _recall(lake)
    files = lake.paths("ingests")
    if not remembered <= files:
        state, remembered = IngestState(), set()
    table = lake.table_location("ingests")
    rows = [row for path in files - remembered for row in _rows(table.join(path))]
    rows.sort(key=lambda row: row["committed_at_ns"] or 0)
    state.add(rows)
    if len(files) - len(remembered) >= REMEMBER_FROM and _channel_day(lake).exists():
        _remember(lake, state, files)
    return state


def refresh_state_cache(lake: LakeStore) -> None:
    """Rebuild the cache if files that it covers no longer exist."""
    if _channel_day(lake).exists():
        load_ingest_state(lake)


def _channel_day(lake: LakeStore) -> Location:
    return lake.table_location(MEMORY.name)


def _recall(lake: LakeStore) -> tuple[IngestState, set[str]]:
    """Return the cached history and the files that it covers."""
    state = IngestState()
    table = _channel_day(lake)
    if not table.exists():
        return state, set()
    remembered: set[str] = set()
    for path in lake.paths(MEMORY.name):
        (row,) = _table(table.join(path), MEMORY.schema.names).to_pylist()
        state.recall(json.loads(row["facts"]))
        remembered = set(json.loads(row["files"]))
    return state, remembered


def _remember(lake: LakeStore, known: IngestState, files: set[str]) -> None:
    """Replace the cached history."""
    contents = {"files": sorted(files), "facts": known.to_json()}
    row = {name: json.dumps(value, separators=(",", ":")) for name, value in contents.items()}
    content = io.BytesIO()
    rows = pa.Table.from_pylist([row], MEMORY.schema.remove_metadata())
    pq.write_table(rows, content, compression="zstd")
    folder = _channel_day(lake)
    path = unique_name("known", ".parquet")
    folder.join(path).write_bytes(content.getvalue())
    file = NewFile(MEMORY.name, path, content.tell(), 1, (), '{"numRecords":1}')

    def replace(table: LakeTable) -> None:
        # If two processes do this concurrently, either may win: both are correct.
        shown = visible_files(table).select(["path", "size_bytes"]).to_pylist()
        removed = [remove_action(old["path"], old["size_bytes"]) for old in shown]
        commit_changes(table, [*removed, add_action(file)])

    change_table(folder, replace)


def _rows(file: Location) -> list[dict[str, Any]]:
    """Read a file of ``ingests``; columns added after it was written are null."""
    rows: list[dict[str, Any]] = _table(file, _COLUMNS).to_pylist()
    return [{**dict.fromkeys(_COLUMNS), **row} for row in rows]


def _table(file: Location, columns: Any) -> Any:
    with file.open_input() as opened:
        parquet = pq.ParquetFile(opened)
        existing = [name for name in columns if name in parquet.schema_arrow.names]
        return parquet.read(columns=existing, use_threads=False)
