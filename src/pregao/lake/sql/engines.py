"""Choice of the query engine: the named one, else DuckDB if it can read the lake, else Spark."""

from __future__ import annotations

from collections.abc import Mapping

from pregao.errors import UsageError
from pregao.lake.engine_names import EngineName
from pregao.lake.sql.answers import QueryEngine
from pregao.lake.store.lake import LakeStore

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
    from pregao.lake.spark.views import connect
    from pregao.lake.sql.spark_engine import SparkEngine

    return SparkEngine(connect(lake.location, None, master, **(settings or {})), unsafe=unsafe)
