"""Input of the store: table specs, files that are not yet visible, and units of commit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

DATE = "date"
"""Partition column of tables: a day."""


@dataclass(frozen=True, slots=True)
class TableSpec:
    """Specification of a table: its columns, with their meaning in the metadata ``comment``."""

    name: str
    schema: Any
    partition_by: tuple[str, ...] = (DATE,)
    description: str = ""
    statistics: tuple[str, ...] = ()
    """Columns with bounds in the log, for data skipping; the 32 leading ones if empty."""
    passing: bool = False
    """Whether its files are replaced frequently and old versions are not needed."""


@dataclass(frozen=True, slots=True)
class NewFile:
    """A written Parquet file that is not yet visible.

    ``path`` is relative to the table's root: ``date=2026-05-21/part-<uuid>.parquet``. The file does
    not have the partition columns. ``stats`` has Delta's statistics, see `stats_json`.
    """

    table: str
    path: str
    size: int
    rows: int
    partition: tuple[tuple[str, str], ...]
    stats: str


@dataclass(frozen=True, slots=True)
class ReplacedRows:
    """Rows that a unit removes: those of a table and date that match a condition.

    ``where`` has the allowed values of columns; a column without values matches any value except
    null.
    """

    table: str
    date: str
    where: tuple[tuple[str, tuple[int | str, ...]], ...]


@dataclass(frozen=True, slots=True)
class CommitUnit:
    """A unit of commit: captures, the files made from them, and their rows in ``ingests``."""

    unit_id: str
    captures: tuple[str, ...]
    files: tuple[NewFile, ...]
    ingests: tuple[Mapping[str, Any], ...] = ()
    replaces: tuple[ReplacedRows, ...] = ()
    """Rows to remove, such as those of derived tables that are rebuilt."""


@dataclass(frozen=True, slots=True)
class CommitResult:
    """Result of a commit: committed, or the captures that other units have claimed."""

    unit_id: str
    committed: bool
    claimed: Mapping[str, str] = field(default_factory=dict)
