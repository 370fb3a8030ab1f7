"""The statements that register the tables and views of a lake in a catalogue of Spark's kind.

Tables are registered where they are, as Delta tables: their columns and comments are in their logs.
They must not be registered as plain Parquet, for their folders hold replaced files too.
"""

from __future__ import annotations

from pregao.errors import UsageError
from pregao.lake.store import Lake
from pregao.lake.views.definitions import View, define_views, view_names
from pregao.lake.views.sql_text import SPARK, select_text


def catalogue_ddl(lake: Lake, schema: str = "b3", root: str | None = None) -> str:
    """Statements for Spark with Delta, Databricks and others that read their SQL.

    ``schema`` is where tables go (``b3``, or ``main.b3`` with a catalogue); ``root`` is how the
    catalogue reaches the lake, where that is not how it was opened (``s3a://bucket/lake``).
    """
    lake.require()
    lake.roll_forward()
    parts = [part for part in schema.split(".") if part]
    if not 1 <= len(parts) <= 2 or len(parts) != schema.count(".") + 1:
        raise UsageError(f"A schema is a name, or CATALOGUE.NAME; {schema!r} is neither.")
    within = ".".join(map(SPARK.name, parts))

    def placed(table: str) -> str:
        return f"{within}.{SPARK.name(table)}"

    own = f"file://{lake.location.uri}" if lake.location.is_local else lake.location.uri
    base = (root or own).rstrip("/")
    tables = lake.table_names()
    statements = [f"CREATE SCHEMA IF NOT EXISTS {within};"]
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
