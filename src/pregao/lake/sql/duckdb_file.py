"""A lake as a file of SQL that any DuckDB reads: its tables and views, without extensions.

Tables are the lists of files that their logs tell at that moment; after an ingest the file is to be
made again.
"""

from __future__ import annotations

from typing import Any

import duckdb

from pregao.lake.sql.duckdb_engine import column_kinds, no_rows
from pregao.lake.sql.duckdb_session import MACROS, quoted_name, quoted_text
from pregao.lake.store import DATE, Lake, arrow_schema, visible_files
from pregao.lake.views import DUCKDB, define_views, select_text, view_names


def views_script(lake: Lake) -> str:
    """The statements that make views of all tables of a lake, and the views over them."""
    lake.require()
    lake.roll_forward()
    tables = lake.table_names()
    parts = [
        f"-- The tables and views of {_one_line(lake.location)} for DuckDB: .read this file.\n"
        "-- It names the files that the tables had when it was made with `pregao lake views`;\n"
        "-- make it again after an ingest, a build or a compaction.\n",
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
    """A text for a comment, which ends with its line."""
    return " ".join(str(value).split())


def _view(name: str, query: str) -> str:
    return f"CREATE OR REPLACE VIEW {quoted_name(name)} AS {query};"


def _comment(name: str, text: str) -> str:
    return f"COMMENT ON VIEW {quoted_name(name)} IS {quoted_text(text)};\n" if text else ""


def _table_query(connection: Any, lake: Lake, name: str, table: Any) -> str:
    """The rows of a table's files in its declared columns; null where a file has none."""
    nothing = no_rows(column_kinds(connection, arrow_schema(table).remove_metadata()))
    place = lake.table_location(name)
    files = [place.join(path).uri for path in sorted(visible_files(table)["path"].to_pylist())]
    if not files:
        return nothing
    days = DATE in table.metadata().partition_columns
    hive = f"hive_partitioning = true, hive_types = {{'{DATE}': DATE}}"
    listed = ",\n  ".join(map(quoted_text, files))
    return (
        f"{nothing}\nUNION ALL BY NAME SELECT * FROM read_parquet([\n  {listed}\n], "  # noqa: S608
        f"union_by_name = true, {hive if days else 'hive_partitioning = false'})"
    )
