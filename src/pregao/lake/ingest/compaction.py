"""Compaction of a lake: the tables to compact and the row order of each."""

from __future__ import annotations

from collections.abc import Sequence

from pregao.errors import UsageError
from pregao.lake.ingest.files import BY_INSTRUMENT
from pregao.lake.ingest.memory import refresh_state_cache
from pregao.lake.store.compaction import (
    TARGET_BYTES,
    CompactionResult,
    TableLayout,
    compact_intents,
    compact_table,
)
from pregao.lake.store.lake import LakeStore

BY_POSITION = ("capture_id", "position")
OWN_LAYOUT = ("ticks", "book_checkpoints")
"""Tables whose files are laid out for book lookups and already have their intended size."""
MIN_BYTES = 1 << 16


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
