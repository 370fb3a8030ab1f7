"""SQL script with a lake's tables and views for any DuckDB, without extensions.

The script lists each table's files as of now; generate it again after an ingest.
"""

from __future__ import annotations

from typing import Any

import duckdb

from pregao.lake.sql.duckdb_session import MACROS, quoted_name, quoted_text
from pregao.lake.sql.table_files import column_kinds, no_rows
from pregao.lake.storage.commit_unit import DATE
from pregao.lake.storage.delta import arrow_schema, visible_files
from pregao.lake.storage.lake_store import LakeStore
from pregao.lake.views.definitions import define_views, view_names
from pregao.lake.views.sql import DUCKDB, select_text


def views_script(lake: LakeStore) -> str:
    """Return statements that create a view of each table of a lake, and its ``v_`` views."""
    lake.require()
    lake.roll_forward()
    tables = lake.table_names()
    parts = [
        f"-- The tables and views of {_one_line(lake.location)} for DuckDB: .read this file.\n"
        "-- It lists the tables' files at the time it was generated with `pregao lake views`;\n"
        "-- generate it again after an ingest, a build or a compaction.\n",
        *(f"CREATE OR REPLACE MACRO {macro};\n" for macro in MACROS),
    ]
    connection = duckdb.connect(":memory:")
    for name in tables:
        table = lake.delta(name)
        parts.append(_view(name, _table_query(connection, lake, name, table)))
        parts.append(_comment(name, table.metadata().description or ""))
    for view in define_views(lake, view_names(tables), tables):
        parts.append(_view(view.name, select_text(view, DUCKDB)))
        about = f"{view.table}, with symbols, timestamps and names."
        parts.append(_comment(view.name, about))
    return "\n".join(part for part in parts if part)


def _one_line(value: object) -> str:
    """Return a text on one line: an SQL comment ends with its line."""
    return " ".join(str(value).split())


def _view(name: str, query: str) -> str:
    return f"CREATE OR REPLACE VIEW {quoted_name(name)} AS {query};"


def _comment(name: str, text: str) -> str:
    return f"COMMENT ON VIEW {quoted_name(name)} IS {quoted_text(text)};\n" if text else ""


def _table_query(connection: Any, lake: LakeStore, name: str, table: Any) -> str:
    """Return a query for a table's declared columns; null where a file lacks a column."""
    empty = no_rows(column_kinds(connection, arrow_schema(table).remove_metadata()))
    location = lake.table_location(name)
    files = [location.join(path).uri for path in sorted(visible_files(table)["path"].to_pylist())]
    if not files:
        return empty
    dated = DATE in table.metadata().partition_columns
    hive = f"hive_partitioning = true, hive_types = {{'{DATE}': DATE}}"
    listed = ",\n  ".join(map(quoted_text, files))
    return (
        f"{empty}\nUNION ALL BY NAME SELECT * FROM read_parquet([\n  {listed}\n], "  # noqa: S608
        f"union_by_name = true, {hive if dated else 'hive_partitioning = false'})"
    )
