"""DuckDB engine over the tables of a lake; it reads only the files that a query needs.

Pregão's own queries are constant SQL with bound values: a lake may come from an untrusted source,
and its strings never become part of the SQL. Their tables are Arrow datasets, whose files Arrow
reads, so the DuckDB session is locked, with no file access, before it gets a query. Conditions on
bound values still skip files and columns that are not needed.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from pregao.errors import PregaoError, UsageError
from pregao.lake.sql.duckdb_session import open_session, quoted_name
from pregao.lake.sql.engines import renamed_hint
from pregao.lake.sql.file_pruning import (
    Condition,
    admitted,
    find_scans,
    readable_table,
    readable_view,
)
from pregao.lake.sql.query_guard import Parsed, lists_rows, parse
from pregao.lake.sql.table_files import TableFiles, open_files
from pregao.lake.storage.delta import arrow_schema, dataset, visible_files
from pregao.lake.storage.lake_store import LakeStore
from pregao.lake.views.definitions import View, define_views, needed_tables, view_names
from pregao.lake.views.sql import DUCKDB, select_text
from pregao.name_matching import did_you_mean

_BATCH = 65_536
_MISSING_COLUMN = re.compile(r'(?:Referenced column|does not have a column named) "([^"]+)"')


class DuckdbEngine:
    """DuckDB engine of a lake; a query reads the versions its tables have when it is planned."""

    def __init__(self, lake: LakeStore, *, unsafe: bool = False) -> None:
        self._lake = lake
        self._unsafe = unsafe

    def query(self, sql: str, parameters: Sequence[Any] = ()) -> DuckdbResult:
        """Plan a query; ``parameters`` are the values of its ``?``."""
        opened_session: list[Any] = []
        with self._spoken(opened_session):
            parsed = parse(sql, unsafe=self._unsafe)
            tables, views = self._named(parsed)
            opened = [TableFiles.from_lake(self._lake, name) for name in tables]
            scans = _scans(parsed, opened, views, parameters)
            chosen = [
                replace(table, actions=admitted(table.actions, scans.get(table.name, ())))
                for table in opened
            ]
            files = [file for table in chosen for file in table.local_files()]
            connection = open_session(files, unsafe=self._unsafe)
            opened_session.append(connection)
            for table in chosen:
                open_files(connection, table.name, table)
            _make_views(connection, views, ordered=lists_rows(parsed.tree))
            # Run the statement that was checked, not its text, which would be parsed again.
            relation = connection.sql(parsed.statement, params=list(parameters) or None)
        return DuckdbResult(self, connection, relation)

    def _named(self, parsed: Parsed) -> tuple[list[str], list[View]]:
        """Return the tables and the views that a query reads."""
        known = tables = self._lake.table_names()
        views = list(view_names(known))
        if not parsed.lists_tables:
            tables = [name for name in tables if name.lower() in parsed.tables]
            views = [name for name in views if name.lower() in parsed.tables]
        defined = define_views(self._lake, views, known)
        needed = {name for view in defined for name in needed_tables(view)}
        return sorted({*tables, *needed}), defined

    def _spoken(self, session: Sequence[Any] = ()) -> AbstractContextManager[None]:
        """Turn errors of DuckDB and Arrow into a `UsageError` of one line.

        ``session`` has the connection with the query's tables once it is open.
        """
        return translated_errors(
            lambda error: UsageError(f"The query failed: {self._sentence(error, session)}")
        )

    def _sentence(self, error: BaseException, session: Sequence[Any]) -> str:
        lines = [line.strip() for line in str(error).splitlines()]
        first = re.sub(r"^[A-Z][A-Za-z/ ]* (?:Error|Exception): ", "", lines[0]) if lines else ""
        message = " ".join(first.split())[:500]
        if "file system operations are disabled" in message:
            return f"{message.partition(' - ')[0]}: only the lake's tables are open to a query."
        if missing := re.match(r"Table with name (.+) does not exist", message):
            tables = self._lake.table_names()
            name = missing.group(1)
            hint = did_you_mean(name, [*tables, *view_names(tables)], 1, 0.7)
            return (
                f"The table `{name}` cannot be found.{hint} The lake has {', '.join(tables)}; "
                "`pregao books` and `pregao analytics` build more."
            )
        if "Function with name" in message:
            near = next((line for line in lines if line.startswith("Did you mean")), "")
            return f"{message} {near} Use --engine spark for Spark's functions.".replace("  ", " ")
        if position := next((line for line in lines if re.match(r"LINE \d+:", line)), None):
            message = f"{message} ({' '.join(position.split())[:120]})"
        hint = renamed_hint(first, self._lake) or _similar_columns(error, session)
        message = message or type(error).__name__
        return f"{message}.{hint}" if hint and message[-1] not in ".!?" else message + hint


def _similar_columns(error: BaseException, session: Sequence[Any]) -> str:
    """Return which columns of the query's tables have a name like the one that is missing."""
    missing = _MISSING_COLUMN.search(str(error))
    if missing is None or not session:
        return ""
    rows = session[0].execute(
        "SELECT DISTINCT column_name FROM duckdb_columns() WHERE NOT internal ORDER BY ALL"
    )
    return did_you_mean(missing[1], [name for (name,) in rows.fetchall()])


class DuckdbResult:
    """Rows of a query planned by DuckDB."""

    def __init__(self, engine: DuckdbEngine, connection: Any, relation: Any) -> None:
        self._engine = engine
        # The relation does not keep its connection alive.
        self._connection = connection
        self._relation = relation

    @property
    def relation(self) -> Any:
        """The query as a DuckDB relation, which reads nothing until rows are fetched from it."""
        return self._relation

    def first(self, limit: int) -> tuple[Any, int]:
        """Return the first ``limit`` rows, and the total number of rows."""
        kept: list[Any] = []
        total = 0
        with self._engine._spoken():
            reader = self._relation.to_arrow_reader(_BATCH)
            for batch in reader:
                if total < limit:
                    kept.append(batch.slice(0, limit - total))
                total += batch.num_rows
            return self._plain(pa.Table.from_batches(kept, reader.schema)), total

    def rows(self) -> Any:
        """Return all rows."""
        with self._engine._spoken():
            return self._plain(self._relation.to_arrow_table())

    def _plain(self, rows: Any) -> Any:
        """Cast sums of integers (HUGEINT) to int64, as Spark returns them, where they fit."""
        for index, kind in enumerate(self._relation.types):
            if str(kind) == "HUGEINT":
                column = rows.column(index)
                bounds = pc.min_max(column)
                largest = max((abs(v.as_py() or 0) for v in bounds.values()), default=0)
                if largest < 1 << 63:
                    name = rows.schema.field(index).name
                    rows = rows.set_column(index, name, column.cast(pa.int64()))
        return rows


@contextmanager
def translated_errors(describe: Callable[[BaseException], PregaoError]) -> Iterator[None]:
    """Replace errors of DuckDB and Arrow by our own; an interrupted query is an interrupt."""
    try:
        yield
    except PregaoError:
        raise
    except (duckdb.Error, pa.ArrowException, RuntimeError, OSError) as error:
        if is_interrupt(error):
            raise KeyboardInterrupt from None
        raise describe(error) from error


def is_interrupt(error: BaseException) -> bool:
    """Whether DuckDB raised the error for an interrupt; it uses several classes for that."""
    return isinstance(error, duckdb.InterruptException) or "Query interrupted" in str(error)


def _make_views(connection: Any, views: Sequence[View], *, ordered: bool = False) -> None:
    for view in views:
        select = select_text(view, DUCKDB, ordered=ordered)
        connection.execute(f"CREATE TEMP VIEW {quoted_name(view.name)} AS {select}")


def _scans(
    parsed: Parsed, tables: Sequence[TableFiles], views: Sequence[View], parameters: Sequence[Any]
) -> dict[str, list[Condition]]:
    """Return, by table, the condition on its rows for each time that the query reads it."""
    if parsed.lists_tables:
        return {}  # tables may be read otherwise than by name after FROM
    readables = {one.name.lower(): readable_table(one.name, one.declared.names) for one in tables}
    readables |= {view.name.lower(): readable_view(view) for view in views}
    kinds: dict[tuple[str, str], type] = {}
    for table in tables:
        for field in table.declared:
            if pa.types.is_integer(field.type):
                kinds[table.name, field.name] = int
            elif pa.types.is_date32(field.type):
                kinds[table.name, field.name] = datetime.date
    return find_scans(parsed.tree, readables, kinds, parameters)


LEVELS_OF_TICKS = """
SELECT sending_time_ns, state,
  bid_price_1, bid_price_2, bid_price_3, bid_price_4, bid_price_5,
  bid_price_6, bid_price_7, bid_price_8, bid_price_9, bid_price_10,
  bid_size_1, bid_size_2, bid_size_3, bid_size_4, bid_size_5,
  bid_size_6, bid_size_7, bid_size_8, bid_size_9, bid_size_10,
  ask_price_1, ask_price_2, ask_price_3, ask_price_4, ask_price_5,
  ask_price_6, ask_price_7, ask_price_8, ask_price_9, ask_price_10,
  ask_size_1, ask_size_2, ask_size_3, ask_size_4, ask_size_5,
  ask_size_6, ask_size_7, ask_size_8, ask_size_9, ask_size_10
FROM ticks
"""
"""SELECT and FROM of a query for the states and the best ten levels of ticks."""
_NAMED = re.compile(r"\$([a-z_]+)")


def bound_rows(
    lake: LakeStore, tables: Sequence[str], sql: str, values: Mapping[str, Any] | None = None
) -> Any:
    """Return the rows of a query as an Arrow table.

    Args:
        lake: Lake that has the tables.
        tables: Names of the tables that the query reads.
        sql: Constant SQL text, with ``$name`` for each bound value.
        values: Values by name; names that do not occur in ``sql`` are ignored.
    """
    lake.require()
    lake.roll_forward()
    wanted = set(_NAMED.findall(sql))
    bound = {name: value for name, value in (values or {}).items() if name in wanted}
    with _errors(lake, tables), open_session() as session:
        for name in tables:
            table = lake.delta(name)
            files = dataset(lake.table_location(name), arrow_schema(table), visible_files(table))
            session.register(name, files)
        return session.sql(sql, params=bound).to_arrow_table()


def _errors(lake: LakeStore, tables: Sequence[str]) -> AbstractContextManager[None]:
    """Turn errors of DuckDB and Arrow into a `PregaoError` of one line."""

    def describe(error: BaseException) -> PregaoError:
        first = " ".join(str(error).split())[:300]
        hint = renamed_hint(first, lake)
        return PregaoError(f"The lake's {', '.join(tables)} cannot be read: {first}{hint}")

    return translated_errors(describe)
