"""Choice of the query engine: the named one, else DuckDB if it can read the lake, else Spark.

Interface of the query engines: SQL in, rows as Arrow tables out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from pregao.errors import UsageError
from pregao.lake.engine_names import EngineName
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
