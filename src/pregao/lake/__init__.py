"""The lake: captures to Delta tables on Spark, and the tables back to people."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pregao.lake.spark import LakeSession

__all__ = ["connect"]


def connect(
    path: str | os.PathLike[str], spark: Any = None, master: str | None = None, **conf: str
) -> LakeSession:
    """Open a lake in Spark, every table a view; see `pregao.lake.spark.connect`."""
    # Spark is imported by those who use it: most of the lake works without.
    from pregao.lake.spark import connect as open_in_spark

    return open_in_spark(path, spark, master, **conf)
