"""Compaction of a lake, with the row order of each table; summaries of tables from logs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from pregao.errors import UsageError
from pregao.lake.ingest.history import refresh_state_cache
from pregao.lake.ingest.writer import BY_INSTRUMENT
from pregao.lake.storage.delta import arrow_schema, comment_of, type_name
from pregao.lake.storage.lake_store import LakeStore
from pregao.lake.storage.optimize import (
    TARGET_BYTES,
    CompactionResult,
    TableLayout,
    compact_intents,
    compact_table,
)

BY_POSITION = ("capture_id", "position")
OWN_LAYOUT = ("ticks", "book_checkpoints")
"""Tables whose files are laid out for book lookups and already have their intended size."""
MIN_BYTES = 1 << 16

# A table's time range is that of the first pair that it has.
_SPANS = (
    ("sending_time_ns", "sending_time_ns"),
    ("capture_time_ns", "capture_time_ns"),
    ("first_time_ns", "last_time_ns"),
    ("time_ns", "time_ns"),
)


def compact(
    lake: LakeStore, tables: Sequence[str] | None = None, target_bytes: int = TARGET_BYTES
) -> list[CompactionResult]:
    """Merge the small files of the named tables, or of all; no row changes.

    In tables with instruments, rows are clustered so that an instrument is in as few files of a day
    as possible.
    """
    if target_bytes < MIN_BYTES:
        raise UsageError(
            f"A target size of {target_bytes:,} bytes is too small; "
            f"it must be at least {MIN_BYTES // 1024}k."
        )
    lake.roll_forward()
    if own := [name for name in tables or () if name in OWN_LAYOUT]:
        raise UsageError(f"{own[0]} cannot be compacted: `pregao books` lays out its files.")
    names = [name for name in lake.table_names() if name not in OWN_LAYOUT]
    done: list[CompactionResult] = []
    for name in names if tables is None else tables:
        done += compact_table(lake, name, layout_of(lake.schema(name).names), target_bytes)
    if tables is None:
        compact_intents(lake)
    if any(each.table == "ingests" for each in done):
        refresh_state_cache(lake)
    return done


def layout_of(names: Sequence[str]) -> TableLayout:
    """Return the layout of a table with the given columns."""
    if BY_POSITION[1] in names:
        return TableLayout(BY_POSITION)
    order = tuple(name for name in BY_INSTRUMENT if name in names)
    if BY_INSTRUMENT[0] not in names:
        return TableLayout(order)
    then_by = "sequence_number" if "sequence_number" in names else None
    return TableLayout(order, BY_INSTRUMENT[0], then_by)


@dataclass(frozen=True, slots=True)
class TableSummary:
    """Summary of a table; times are None if its files have no statistics of them."""

    name: str
    description: str
    rows: int
    files: int
    size: int
    columns: int
    first_time_ns: int | None
    last_time_ns: int | None
    dates: int


def summarize(lake: LakeStore, names: Iterable[str] | None = None) -> list[TableSummary]:
    """Summarize the tables of a lake without opening data files."""
    selected = list(names) if names is not None else lake.table_names()
    with ThreadPoolExecutor(8) as pool:
        return list(pool.map(lambda name: _summary(lake, name), selected))


def table_columns(lake: LakeStore, name: str) -> list[tuple[str, str, str]]:
    """Return name, type and comment of a table's columns."""
    return [(field.name, type_name(field.type), comment_of(field)) for field in lake.schema(name)]


def _summary(lake: LakeStore, name: str) -> TableSummary:
    table = lake.delta(name)
    actions = pa.table(table.get_add_actions(flatten=True))
    available = actions.column_names
    first = last = None
    for low, high in _SPANS:
        if f"min.{low}" in available and f"max.{high}" in available:
            first = pc.min(actions[f"min.{low}"]).as_py()
            last = pc.max(actions[f"max.{high}"]).as_py()
            break
    dates = (
        pc.count_distinct(actions["partition.date"]).as_py() if "partition.date" in available else 0
    )
    return TableSummary(
        name,
        table.metadata().description or "",
        pc.sum(actions["num_records"]).as_py() or 0 if actions.num_rows else 0,
        actions.num_rows,
        pc.sum(actions["size_bytes"]).as_py() or 0 if actions.num_rows else 0,
        len(arrow_schema(table)),
        first,
        last,
        dates,
    )
