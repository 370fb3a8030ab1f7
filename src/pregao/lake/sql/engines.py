"""Query engines: their interface, the choice of one, and hints about renamed columns.

An engine takes SQL and returns rows as Arrow tables. It is the named one, else DuckDB if it can
read the lake, else Spark. Errors about a column that version 0.2 renamed name the other column.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from pregao.errors import UsageError
from pregao.lake.execution.runner import EngineName
from pregao.lake.storage.lake_store import LakeStore


class QueryResult(Protocol):
    """Rows of a planned query; call one of the two methods, once, to fetch them."""

    def first(self, limit: int) -> tuple[Any, int]:
        """Return the first ``limit`` rows, and the total number of rows."""

    def rows(self) -> Any:
        """Return all rows."""


class QueryEngine(Protocol):
    """Engine that runs queries on the tables of a lake."""

    def query(self, sql: str, parameters: Sequence[Any] = ()) -> QueryResult:
        """Plan a query; ``parameters`` are the values of its ``?``.

        Raises:
            UsageError: The text is not one query, or the engine cannot plan it.
        """


_DUCKDB_READS = ("file", "s3")


def choose_engine(lake: LakeStore, named: EngineName | None, *, spark_wanted: bool) -> EngineName:
    """Return the named engine; else DuckDB, or Spark if its settings or the location require it."""
    reads = lake.location.scheme in _DUCKDB_READS
    if named is EngineName.LOCAL and not reads:
        raise UsageError(
            f"DuckDB reads lakes on local disks and on S3, not {lake.location}; use --engine spark."
        )
    if named is not None:
        return named
    return EngineName.LOCAL if reads and not spark_wanted else EngineName.SPARK


def open_engine(
    lake: LakeStore,
    name: EngineName,
    *,
    master: str | None = None,
    settings: Mapping[str, str] | None = None,
    unsafe: bool = False,
) -> QueryEngine:
    """Open a lake in an engine, and complete units that a dead process left half committed."""
    lake.require()
    if name is EngineName.LOCAL:
        from pregao.lake.sql.duckdb_engine import DuckdbEngine

        lake.roll_forward()
        return DuckdbEngine(lake, unsafe=unsafe)
    from pregao.lake.sql.spark_engine import SparkEngine
    from pregao.lake.sql.spark_tables import connect

    return SparkEngine(connect(lake.location, None, master, **(settings or {})), unsafe=unsafe)


RENAMED = {
    "told_by": "source",
    "separate": "own_status",
    "known_high": "initial_high",
    "known_low": "initial_low",
    "known_volume": "initial_volume",
    "known_vwap": "initial_vwap",
    "known_trades": "initial_trades",
    "left_out": "outliers",
    "smallest_ns": "min_ns",
    "unseen_quantity": "unobserved_quantity",
}
"""Columns of analytics tables, the old name first."""
_TABLES = ("auctions", "clock_offsets", "orders", "session_stats", "status")
_NEW = {new: old for old, new in RENAMED.items()}
_QUOTED = re.compile(r"[\"`](\w+)[\"`]")
"""A name in an error of DuckDB or of Spark."""


def renamed_hint(words: str, lake: LakeStore) -> str:
    """Return a clause for the error of a query that names a missing column, or an empty string."""
    if "column" not in words.lower():
        return ""
    for name in _QUOTED.findall(words):
        if new := RENAMED.get(name):
            return f" {name} is called {new} since version 0.2."
        if (old := _NEW.get(name)) and _is_there(old, lake):
            return (
                f" Tables of version 0.1 have {old} instead of {name}: rebuild them with "
                "pregao analytics."
            )
    return ""


def _is_there(column: str, lake: LakeStore) -> bool:
    names = set(lake.table_names()).intersection(_TABLES)
    return any(column in lake.schema(name).names for name in names)
