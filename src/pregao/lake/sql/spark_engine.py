"""Spark as the engine of queries: the same questions, and the same refusals."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pregao.errors import PregaoError, UsageError
from pregao.lake.spark import LakeSession, sentence
from pregao.lake.spark.session import was_interrupted
from pregao.lake.sql.statements import explained, first_word, not_a_query, require_query

_PLANS = "org.apache.spark.sql.catalyst.plans.logical"
_WRITING = (f"{_PLANS}.Command", f"{_PLANS}.ParsedStatement")
_SCRIPT = "ScriptTransformation"
_QUESTIONS = ("show", "describe", "desc")
_FILES_AS_TABLES = "spark.sql.runSQLOnFiles"


class SparkEngine:
    """A lake in Spark."""

    def __init__(self, session: LakeSession, *, unsafe: bool = False) -> None:
        self._session = session
        self._unsafe = unsafe

    def ask(self, sql: str) -> SparkAnswer:
        """Plan a query; a mistake in it is a sentence."""
        require_query(sql, unsafe=self._unsafe)
        with self._spoken():
            self._require_query_plan(explained(sql))
            before = self._session.conf.get(_FILES_AS_TABLES, "true")
            self._session.conf.set(_FILES_AS_TABLES, "true" if self._unsafe else "false")
            try:
                return SparkAnswer(self, self._session.sql(sql))
            finally:
                self._session.conf.set(_FILES_AS_TABLES, before or "true")

    def _require_query_plan(self, sql: str) -> None:
        """Refuse what Spark's own parser takes for anything but a query."""
        own: Any = getattr(self._session, "_jsparkSession", None)
        if own is None or first_word(sql) in _QUESTIONS:
            return
        java: Any = self._session.sparkContext._jvm
        writing = [java.java.lang.Class.forName(name, True, _loader(java)) for name in _WRITING]
        for node in _nodes(own.sessionState().sqlParser().parsePlan(sql.rstrip("; \t\r\n"))):
            if any(kind.isInstance(node) for kind in writing):
                raise not_a_query(first_word(sql).upper())
            if node.nodeName().startswith(_SCRIPT) and not self._unsafe:
                raise UsageError(
                    "The query would start a program, so nothing was run; --unsafe allows it."
                )

    @contextmanager
    def _spoken(self) -> Iterator[None]:
        """Turn what Spark raises into one sentence."""
        try:
            yield
        except PregaoError:
            raise
        except Exception as error:
            if was_interrupted():
                raise KeyboardInterrupt from error
            words = sentence(error)
            if "cannot be found" in words:
                tables = ", ".join(self._session.lake.table_names())
                words = f"{words.partition(' Verify')[0]} The lake has {tables}."
            raise UsageError(f"The query failed: {words}") from error


class SparkAnswer:
    """The rows of a query that Spark has planned."""

    def __init__(self, engine: SparkEngine, frame: Any) -> None:
        self._engine = engine
        self._frame = frame

    def first(self, limit: int) -> tuple[Any, int]:
        """The first rows, at most so many, and how many rows there are in all."""
        with self._engine._spoken():
            rows = self._frame.limit(limit + 1).toArrow()
            total = self._frame.count() if rows.num_rows > limit else rows.num_rows
        return rows.slice(0, limit), total

    def rows(self) -> Any:
        """Every row."""
        with self._engine._spoken():
            return self._frame.toArrow()


def _loader(java: Any) -> Any:
    return java.java.lang.Thread.currentThread().getContextClassLoader()


def _nodes(plan: Any) -> Iterator[Any]:
    """A plan and everything below it, named parts (WITH) included."""
    yield plan
    for parts in (plan.children(), plan.innerChildren()):
        for place in range(parts.size()):
            part = parts.apply(place)
            if hasattr(part, "innerChildren"):
                yield from _nodes(part)
