"""DDL that registers the tables and views of a lake in a Spark-compatible catalog.

Tables are registered at their location, as Delta tables: their columns and comments are in their
logs. They must not be registered as plain Parquet, because their folders also contain replaced
files.
"""

from __future__ import annotations

from pregao.errors import UsageError
from pregao.lake.store.lake import LakeStore
from pregao.lake.views.definitions import View, define_views, view_names
from pregao.lake.views.sql_text import SPARK, select_text


def catalogue_ddl(lake: LakeStore, schema: str = "b3", root: str | None = None) -> str:
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
