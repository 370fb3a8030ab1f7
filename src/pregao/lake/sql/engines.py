"""Which engine answers: DuckDB where it can read the lake, else Spark, or the one asked for."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from pregao.errors import UsageError
from pregao.lake.sql.answers import Engine
from pregao.lake.store import Lake

_DUCKDB_READS = ("file", "s3")


class EngineName(StrEnum):
    """The engines that there are."""

    DUCKDB = "duckdb"
    SPARK = "spark"


def choose_engine(lake: Lake, named: EngineName | None, *, spark_wanted: bool) -> EngineName:
    """The engine that is named; else DuckDB, unless Spark's settings or the place ask for Spark."""
    if named is EngineName.DUCKDB and spark_wanted:
        raise UsageError("--master and --conf are for Spark; leave them out with --engine duckdb.")
    reads = lake.location.scheme in _DUCKDB_READS
    if named is EngineName.DUCKDB and not reads:
        raise UsageError(
            f"DuckDB reads lakes on this machine and on S3, not {lake.location}; "
            "use --engine spark."
        )
    if named is not None:
        return named
    return EngineName.DUCKDB if reads and not spark_wanted else EngineName.SPARK


def open_engine(
    lake: Lake,
    name: EngineName,
    *,
    master: str | None = None,
    settings: Mapping[str, str] | None = None,
    unsafe: bool = False,
) -> Engine:
    """Open a lake in an engine; units that a dead process has left half committed are finished."""
    lake.require()
    if name is EngineName.DUCKDB:
        from pregao.lake.sql.duckdb_engine import DuckdbEngine

        lake.roll_forward()
        return DuckdbEngine(lake, unsafe=unsafe)
    from pregao.lake.spark import connect
    from pregao.lake.sql.spark_engine import SparkEngine

    return SparkEngine(connect(lake.location, None, master, **(settings or {})), unsafe=unsafe)
