"""The lake: ingest captures into Delta tables, derive books and analytics, query and export.

`connect` opens a lake in Spark, `spark_session` starts a Spark session with Pregão's settings,
`register` adds the ``b3`` data source to one, and `scan` returns a table as a Polars frame. Names
are imported on first use: most of the lake works without Spark and Polars.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pregao.lake.datasource.data_source import register as register
    from pregao.lake.execution.spark_session import spark_session as spark_session
    from pregao.lake.sql.spark_tables import connect as connect
    from pregao.lake.views.polars import scan as scan

_MODULES = {
    "connect": "sql.spark_tables",
    "register": "datasource.data_source",
    "scan": "views.polars",
    "spark_session": "execution.spark_session",
}
__all__ = ["connect", "register", "scan", "spark_session"]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
