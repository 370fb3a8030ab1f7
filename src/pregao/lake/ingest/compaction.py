"""Compaction of a lake: which tables are merged, and in which order of rows."""

from __future__ import annotations

from collections.abc import Sequence

from pregao.errors import UsageError
from pregao.lake.ingest.files import BY_INSTRUMENT
from pregao.lake.ingest.memory import refresh_memory
from pregao.lake.store import Compacted, Lake, compact_intents, compact_table

BY_POSITION = ("capture_id", "position")
OWN_LAYOUT = ("ticks", "book_checkpoints")
"""Tables whose files are laid out for looking up a book; they are as large as they should be."""


def compact(lake: Lake, tables: Sequence[str] | None = None) -> list[Compacted]:
    """Merge the small files of the named tables, or of all; rows stay what they are."""
    lake.roll_forward()
    if own := [name for name in tables or () if name in OWN_LAYOUT]:
        raise UsageError(f"{own[0]} has a layout of its own, which `pregao books` gives it.")
    names = [name for name in lake.table_names() if name not in OWN_LAYOUT]
    done: list[Compacted] = []
    for name in names if tables is None else tables:
        done += compact_table(lake, name, sort_columns(lake.schema(name).names))
    if tables is None:
        compact_intents(lake)
    if any(each.table == "ingests" for each in done):
        refresh_memory(lake)
    return done


def sort_columns(names: Sequence[str]) -> list[str]:
    """The columns by which files of a table are sorted."""
    order = BY_POSITION if BY_POSITION[1] in names else BY_INSTRUMENT
    return [name for name in order if name in names]
