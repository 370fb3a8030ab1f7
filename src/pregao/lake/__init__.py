"""The lake: ingest captures into Delta tables, derive books and analytics, query and export."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pregao.lake.sql.spark_tables import LakeSession

__all__ = ["connect"]


def connect(
    path: str | os.PathLike[str], spark: Any = None, master: str | None = None, **conf: str
) -> LakeSession:
    """Open a lake in Spark, with a view of every table; see `pregao.lake.sql.spark_tables.connect`."""
    # Imported lazily: most of the lake works without Spark.
    from pregao.lake.sql.spark_tables import connect as open_in_spark

    return open_in_spark(path, spark, master, **conf)
