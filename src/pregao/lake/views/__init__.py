"""Views over the tables of a lake, which add symbols, timestamps, flag names and trading phases.

Each view is defined once, from the columns of its table; SQL for DuckDB and Spark and Polars lazy
frames are generated from that definition.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pregao.lake.views.ddl import catalogue_ddl as catalogue_ddl
    from pregao.lake.views.definitions import View as View
    from pregao.lake.views.definitions import column_type as column_type
    from pregao.lake.views.definitions import define_view as define_view
    from pregao.lake.views.definitions import define_views as define_views
    from pregao.lake.views.definitions import key_columns as key_columns
    from pregao.lake.views.definitions import needed_tables as needed_tables
    from pregao.lake.views.definitions import own_columns as own_columns
    from pregao.lake.views.definitions import view_columns as view_columns
    from pregao.lake.views.definitions import view_names as view_names
    from pregao.lake.views.definitions import view_of as view_of
    from pregao.lake.views.polars_frames import scan as scan
    from pregao.lake.views.sql_text import DUCKDB as DUCKDB
    from pregao.lake.views.sql_text import SPARK as SPARK
    from pregao.lake.views.sql_text import select_text as select_text
    from pregao.lake.views.symbols import Listing as Listing
    from pregao.lake.views.symbols import find_symbol as find_symbol
    from pregao.lake.views.symbols import meant as meant

# fmt: off
_HOMES = {
    "ddl": ["catalogue_ddl"],
    "definitions": [
        "View", "column_type", "define_view", "define_views", "key_columns", "needed_tables",
        "own_columns", "view_columns", "view_names", "view_of",
    ],
    "polars_frames": ["scan"],
    "sql_text": ["DUCKDB", "SPARK", "select_text"],
    "symbols": ["Listing", "find_symbol", "meant"],
}
# fmt: on
_HOME = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
