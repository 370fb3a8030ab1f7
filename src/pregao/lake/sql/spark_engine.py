"""Spark as the query engine; it refuses the same statements as DuckDB."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from pregao.errors import PregaoError, UsageError
from pregao.lake.execution.spark_session import sentence, was_interrupted
from pregao.lake.sql.engines import renamed_hint
from pregao.lake.sql.query_guard import require_query
from pregao.lake.sql.spark_plans import refuse_code, require_query_plan, wrapped_query
from pregao.lake.sql.spark_tables import LakeSession

_FILES_AS_TABLES = "spark.sql.runSQLOnFiles"


class SparkEngine:
    """Spark engine of a lake."""

    def __init__(self, session: LakeSession, *, unsafe: bool = False) -> None:
        self._session = session
        self._unsafe = unsafe

    def query(self, sql: str, parameters: Sequence[Any] = ()) -> SparkResult:
        """Plan a query; ``parameters`` are the values of its ``?``."""
        require_query(sql)
        with self.asking():
            if getattr(self._session, "_jsparkSession", None) is None:
                return SparkResult(self, self._frame_of_server(sql, parameters))
            return SparkResult(self, self._frame(sql, parameters))

    def _frame(self, sql: str, parameters: Sequence[Any]) -> Any:
        """Return the data frame of the plan that was parsed and checked."""
        from pyspark.sql import DataFrame

        own: Any = self._session._jsparkSession
        java: Any = self._session.sparkContext._jvm
        plan = own.sessionState().sqlParser().parsePlan(sql)
        require_query_plan(java, plan, sql, unsafe=self._unsafe)
        if parameters:
            return self._session.sql(sql, args=list(parameters))
        self._session.open_named(sql)
        rows = java.org.apache.spark.sql.classic.Dataset.ofRows(own, plan)
        return DataFrame(rows, self._session)

    def _frame_of_server(self, sql: str, parameters: Sequence[Any]) -> Any:
        """Return the data frame of a text that the server can only parse as a query."""
        if not self._unsafe:
            refuse_code(sql)
        text = wrapped_query(sql)
        return (
            self._session.sql(text, args=list(parameters))
            if parameters
            else self._session.sql(text)
        )

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Turn Spark's errors into a `UsageError`, and disallow files as tables meanwhile."""
        with self._spoken():
            before = self._session.conf.get(_FILES_AS_TABLES, "true")
            self._session.conf.set(_FILES_AS_TABLES, "true" if self._unsafe else "false")
            try:
                yield
            finally:
                self._session.conf.set(_FILES_AS_TABLES, before or "true")

    @contextmanager
    def _spoken(self) -> Iterator[None]:
        """Turn Spark's errors into a `UsageError` of one line."""
        try:
            yield
        except PregaoError:
            raise
        except Exception as error:
            if was_interrupted():
                raise KeyboardInterrupt from error
            message = sentence(error)
            if "cannot be found" in message:
                tables = ", ".join(self._session.lake.table_names())
                message = f"{message.partition(' Verify')[0]} The lake has {tables}."
            hint = renamed_hint(message, self._session.lake)
            raise UsageError(f"The query failed: {message}{hint}") from error


class SparkResult:
    """Rows of a query planned by Spark."""

    def __init__(self, engine: SparkEngine, frame: Any) -> None:
        self._engine = engine
        self._frame = frame

    def first(self, limit: int) -> tuple[Any, int]:
        """Return the first ``limit`` rows, and the total number of rows."""
        with self._engine.asking():
            rows = self._frame.limit(limit + 1).toArrow()
            total = self._frame.count() if rows.num_rows > limit else rows.num_rows
        return rows.slice(0, limit), total

    def rows(self) -> Any:
        """Return all rows."""
        with self._engine.asking():
            return self._frame.toArrow()
