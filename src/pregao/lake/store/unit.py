"""What is handed over to a lake: tables, files not yet visible, units of commit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

DATE = "date"
"""The column by which tables are partitioned: a day."""


@dataclass(frozen=True, slots=True)
class TableSpec:
    """A table as it is to be: its columns, with what they mean in the metadata ``comment``."""

    name: str
    schema: Any
    partition_by: tuple[str, ...] = (DATE,)
    description: str = ""
    statistics: tuple[str, ...] = ()
    """The columns by whose bounds files are chosen; if none is named, the 32 leading ones."""
    passing: bool = False
    """Are its files replaced all the time, and those before of no use to anybody?"""


@dataclass(frozen=True, slots=True)
class NewFile:
    """A Parquet file that was written and is not yet visible.

    ``path`` is relative to the table's root: ``date=2026-05-21/part-<uuid>.parquet``. The file does
    not hold the partition columns. ``stats`` is Delta's statistics, see `stats_json`.
    """

    table: str
    path: str
    size: int
    rows: int
    partition: tuple[tuple[str, str], ...]
    stats: str


@dataclass(frozen=True, slots=True)
class Replaced:
    """Rows that vanish when a unit becomes visible: those of a table and date with some values.

    ``where`` names columns and the values that each may have; a column without values may have any,
    only not null.
    """

    table: str
    date: str
    where: tuple[tuple[str, tuple[int | str, ...]], ...]


@dataclass(frozen=True, slots=True)
class Unit:
    """What becomes visible as one: captures, the files made of them, their rows in ``ingests``."""

    unit_id: str
    captures: tuple[str, ...]
    files: tuple[NewFile, ...]
    ingests: tuple[Mapping[str, Any], ...] = ()
    replaces: tuple[Replaced, ...] = ()
    """What is derived from other tables is made anew when these change."""


@dataclass(frozen=True, slots=True)
class CommitResult:
    """What came of a commit: done, or which captures which other unit had taken before."""

    unit_id: str
    committed: bool
    taken: Mapping[str, str] = field(default_factory=dict)
