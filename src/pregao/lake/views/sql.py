"""SQL of the views for DuckDB or Spark, and DDL that registers a lake in a Spark catalog.

Tables are registered at their location, as Delta tables: their columns and comments are in their
logs. They must not be registered as plain Parquet, because their folders also contain replaced
files.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final

from pregao.errors import UsageError
from pregao.lake.storage.lake_store import LakeStore
from pregao.lake.views.definitions import (
    Lookup,
    LookupColumn,
    OwnColumn,
    SqlExpression,
    TimestampColumn,
    TimeUnit,
    View,
    ViewColumn,
    define_views,
    key_columns,
    own_columns,
    view_names,
)

_TIMES: Final = (
    "time_ns", "start_ns", "from_ns", "entered_ns", "minute_ns", "session_start_ns",
    "sending_time_ns", "t10_ns", "capture_time_ns", "committed_at_ns", "date",
)  # fmt: skip
"""Times of a row's event; the first one that a table has determines its order.

Ticks and messages are ordered by their packets' sending times: those follow the sequence of a
channel, whereas the times in messages may be those of earlier events.
"""
_SEQUENCE: Final = (
    "channel", "sequence_version", "sequence_number", "index_in_packet", "event",
    "stream", "feed", "position", "security_id", "symbol", "interval", "measure", "name",
)  # fmt: skip


def event_order(columns: Collection[str]) -> list[str]:
    """Return the columns by which a table with these columns is in event order."""
    names = set(columns)
    return [
        *[name for name in _TIMES if name in names][:1],
        *(name for name in _SEQUENCE if name in names),
    ]


@dataclass(frozen=True, slots=True)
class SqlDialect:
    """Differences between the engines: identifier quotes and timestamp functions."""

    quote: str
    timestamps: dict[TimeUnit, str]

    def name(self, name: str) -> str:
        """Quote a name as an SQL identifier."""
        return f"{self.quote}{name.replace(self.quote, 2 * self.quote)}{self.quote}"


DUCKDB = SqlDialect(
    '"',
    {
        TimeUnit.NANOSECONDS: "make_timestamp_ns({})",
        TimeUnit.SECONDS: "make_timestamp({} * 1000000)",
    },
)
SPARK = SqlDialect(
    # Spark's timestamps have microseconds: the last three digits are truncated.
    "`",
    {
        TimeUnit.NANOSECONDS: "timestamp_micros({} DIV 1000)",
        TimeUnit.SECONDS: "timestamp_seconds({})",
    },
)


def select_text(
    view: View,
    dialect: SqlDialect,
    table_reference: Callable[[str], str] | None = None,
    *,
    ordered: bool = False,
) -> str:
    """Return the query of a view; ``table_reference`` maps table names to SQL.

    ``ordered`` sorts its rows into event order.
    """
    named = table_reference or dialect.name
    columns = ",\n  ".join(
        f"{_value(column, dialect)} AS {dialect.name(column.name)}" for column in view.columns
    )
    joins = "".join(
        _join(number, lookup, dialect, named) for number, lookup in enumerate(view.lookups)
    )
    keys = event_order(own_columns(view)) if ordered else ()
    order = f"\nORDER BY {', '.join(map(dialect.name, keys))}" if keys else ""
    return f"SELECT\n  {columns}\nFROM {named(view.table)}{joins}{order}"


def _value(column: ViewColumn, dialect: SqlDialect) -> str:
    match column.value:
        case OwnColumn(name):
            return dialect.name(name)
        case TimestampColumn(of, unit, sql):
            return dialect.timestamps[unit].format(f"({sql})" if sql else dialect.name(of))
        case SqlExpression(sql):
            return sql
        case LookupColumn(name, kind, there):
            return f"found_{name}" if there else f"CAST(NULL AS {kind})"


def _join(number: int, lookup: Lookup, dialect: SqlDialect, named: Callable[[str], str]) -> str:
    """Return the join of a lookup; its column names occur in no table."""
    quoted = dialect.name
    key = ", ".join(f"{quoted(name)} AS key_{number}_{name}" for name in key_columns())
    on = " AND ".join(f"key_{number}_{name} = {quoted(name)}" for name in key_columns())
    groups = ", ".join(map(quoted, key_columns()))
    if not lookup.order:
        # Grouped, so that each row matches at most one row, even if the table has duplicates.
        takes = ", ".join(f"max({quoted(name)}) AS found_{name}" for name in lookup.takes)
        source = named(lookup.table)
        inner = f"SELECT {key}, {takes} FROM {source} GROUP BY {groups}"  # noqa: S608 - quoted
        return f"\nLEFT JOIN ({inner}) AS lookup_{number} ON {on}"
    takes = ", ".join(f"{quoted(name)} AS found_{name}" for name in lookup.takes)
    order = ", ".join((lookup.theirs, *lookup.order))
    inner = (
        f"SELECT {key}, {takes}, {lookup.theirs} AS since_{number}, "  # noqa: S608 - quoted
        f"lead({lookup.theirs}) OVER (PARTITION BY {groups} ORDER BY {order}) AS until_{number} "
        f"FROM {named(lookup.table)} WHERE security_id IS NOT NULL"
    )
    on += f" AND since_{number} <= {lookup.ours}"
    on += f" AND (until_{number} IS NULL OR until_{number} > {lookup.ours})"
    return f"\nLEFT JOIN ({inner}) AS lookup_{number} ON {on}"


def catalog_ddl(lake: LakeStore, schema: str = "b3", root: str | None = None) -> str:
    """Return DDL for Spark with Delta, Databricks and others that accept its SQL.

    ``schema`` is the target schema (``b3``, or ``main.b3`` with a catalog); ``root`` is the URI by
    which the catalog reaches the lake, if it differs from the one used here
    (``s3a://bucket/lake``).
    """
    lake.require()
    lake.roll_forward()
    parts = [part for part in schema.split(".") if part]
    if not 1 <= len(parts) <= 2 or len(parts) != schema.count(".") + 1:
        raise UsageError(f"The schema must be NAME or CATALOG.NAME, was {schema!r}.")
    quoted_schema = ".".join(map(SPARK.name, parts))

    def placed(table: str) -> str:
        return f"{quoted_schema}.{SPARK.name(table)}"

    uri = f"file://{lake.location.uri}" if lake.location.is_local else lake.location.uri
    base = (root or uri).rstrip("/")
    tables = lake.table_names()
    statements = [f"CREATE SCHEMA IF NOT EXISTS {quoted_schema};"]
    statements += [
        f"CREATE TABLE IF NOT EXISTS {placed(table)}\n"
        f"USING DELTA LOCATION {_text(f'{base}/{table}')};"
        for table in tables
    ]
    statements += [
        f"CREATE OR REPLACE VIEW {placed(view.name)} (\n  {_columns(view)}\n) AS\n"
        f"{select_text(view, SPARK, placed)};"
        for view in define_views(lake, view_names(tables), tables)
    ]
    return "\n\n".join(statements) + "\n"


def _columns(view: View) -> str:
    return ",\n  ".join(
        f"{SPARK.name(column.name)} COMMENT {_text(column.comment)}" for column in view.columns
    )


def _text(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
