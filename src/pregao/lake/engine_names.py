"""Names of the engines; imports nothing of the lake, so that the command line can declare them."""

from __future__ import annotations

from enum import StrEnum


class EngineName(StrEnum):
    """Where work on a lake runs: in local processes (queries and analytics in DuckDB), or Spark."""

    LOCAL = "local"
    SPARK = "spark"
