"""Interface of the query engines: SQL in, rows as Arrow tables out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol


class QueryResult(Protocol):
    """Rows of a planned query; call one of the two methods, once, to fetch them."""

    def first(self, limit: int) -> tuple[Any, int]:
        """Return the first ``limit`` rows, and the total number of rows."""

    def rows(self) -> Any:
        """Return all rows."""


class QueryEngine(Protocol):
    """Engine that runs queries on the tables of a lake."""

    def query(self, sql: str, parameters: Sequence[Any] = ()) -> QueryResult:
        """Plan a query; ``parameters`` are the values of its ``?``.

        Raises:
            UsageError: The text is not one query, or the engine cannot plan it.
        """
