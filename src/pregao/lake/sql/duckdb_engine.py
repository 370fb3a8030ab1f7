"""DuckDB over the tables of a lake: of the files that their logs tell, those that a query needs."""

from __future__ import annotations

import datetime
import difflib
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from pregao.errors import PregaoError, UsageError
from pregao.lake.sql.duckdb_session import open_session, quoted_name, quoted_text
from pregao.lake.sql.parsed import Parsed, parse
from pregao.lake.sql.skipping import (
    Condition,
    admitted,
    find_scans,
    readable_table,
    readable_view,
)
from pregao.lake.store import (
    DATE,
    Lake,
    Location,
    arrow_schema,
    check_links,
    dataset,
    visible_files,
)
from pregao.lake.views import DUCKDB, View, define_views, needed_tables, select_text, view_names

_BATCH = 65_536


class DuckdbEngine:
    """A lake in DuckDB; a query sees the tables that it names as they are when it is asked."""

    def __init__(self, lake: Lake, *, unsafe: bool = False) -> None:
        self._lake = lake
        self._unsafe = unsafe

    def ask(self, sql: str, parameters: Sequence[Any] = ()) -> DuckdbAnswer:
        """Plan a query; a mistake in it is a sentence. Parameters are the values of its ``?``."""
        with self._spoken():
            parsed = parse(sql, unsafe=self._unsafe)
            tables, views = self._named(parsed)
            opened = [_Table.of(self._lake, name) for name in tables]
            scans = _scans(parsed, opened, views, parameters)
            chosen = [
                replace(table, actions=admitted(table.actions, scans.get(table.name, ())))
                for table in opened
            ]
            files = [file for table in chosen for file in table.local_files()]
            connection = open_session(files, unsafe=self._unsafe)
            for table in chosen:
                _open(connection, table)
            _make_views(connection, views)
            # The statement that was parsed, not its text.
            relation = connection.sql(parsed.statement, params=list(parameters) or None)
        return DuckdbAnswer(self, connection, relation)

    def _named(self, parsed: Parsed) -> tuple[list[str], list[View]]:
        """The tables that a query reads, and the views."""
        known = tables = self._lake.table_names()
        views = list(view_names(known))
        if not parsed.lists_tables:
            tables = [name for name in tables if name.lower() in parsed.tables]
            views = [name for name in views if name.lower() in parsed.tables]
        defined = define_views(self._lake, views, known)
        needed = {name for view in defined for name in needed_tables(view)}
        return sorted({*tables, *needed}), defined

    @contextmanager
    def _spoken(self) -> Iterator[None]:
        """Turn what DuckDB raises into one sentence."""
        try:
            yield
        except PregaoError:
            raise
        except (duckdb.Error, pa.ArrowException, RuntimeError, OSError) as error:
            if is_interrupt(error):
                raise KeyboardInterrupt from None
            raise UsageError(f"The query failed: {self._sentence(error)}") from error

    def _sentence(self, error: BaseException) -> str:
        lines = [line.strip() for line in str(error).splitlines()]
        first = re.sub(r"^[A-Z][A-Za-z/ ]* (?:Error|Exception): ", "", lines[0]) if lines else ""
        words = " ".join(first.split())[:500]
        if "file system operations are disabled" in words:
            return f"{words.partition(' - ')[0]}: only the lake's tables are open to a query."
        if missing := re.match(r"Table with name (.+) does not exist", words):
            tables = self._lake.table_names()
            name = missing.group(1)
            alike = difflib.get_close_matches(name, [*tables, *view_names(tables)], 1, 0.7)
            meant = f"; did you mean {alike[0]}?" if alike else "."
            return (
                f"The table `{name}` cannot be found{meant} The lake has {', '.join(tables)}; "
                "`pregao books` and `pregao analytics` make more."
            )
        if "Function with name" in words:
            near = next((line for line in lines if line.startswith("Did you mean")), "")
            return f"{words} {near} Spark's functions are there with --engine spark.".replace(
                "  ", " "
            )
        if place := next((line for line in lines if re.match(r"LINE \d+:", line)), None):
            return f"{words} ({' '.join(place.split())[:120]})"
        return words or type(error).__name__


class DuckdbAnswer:
    """The rows of a query that DuckDB has planned."""

    def __init__(self, engine: DuckdbEngine, connection: Any, relation: Any) -> None:
        self._engine = engine
        # Kept: the relation does not keep it.
        self._connection = connection
        self._relation = relation

    @property
    def relation(self) -> Any:
        """The query as DuckDB's own relation; nothing is read before it is asked for rows."""
        return self._relation

    def first(self, limit: int) -> tuple[Any, int]:
        """The first rows, at most so many, and how many rows there are in all."""
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
        """Every row."""
        with self._engine._spoken():
            return self._plain(self._relation.to_arrow_table())

    def _plain(self, rows: Any) -> Any:
        """Sums of whole numbers as 64-bit numbers, as Spark gives them, where they fit."""
        for place, kind in enumerate(self._relation.types):
            if str(kind) == "HUGEINT":
                column = rows.column(place)
                bounds = pc.min_max(column)
                largest = max((abs(v.as_py() or 0) for v in bounds.values()), default=0)
                if largest < 1 << 63:
                    name = rows.schema.field(place).name
                    rows = rows.set_column(place, name, column.cast(pa.int64()))
        return rows


@dataclass(frozen=True, slots=True)
class _Table:
    """A table as its log tells it: where it is, its columns, its files."""

    name: str
    place: Location
    declared: Any
    dated: bool
    actions: Any

    @classmethod
    def of(cls, lake: Lake, name: str) -> _Table:
        table = lake.delta(name)
        declared = arrow_schema(table).remove_metadata()
        dated = DATE in table.metadata().partition_columns
        return cls(name, lake.table_location(name), declared, dated, visible_files(table))

    def local_files(self) -> list[str]:
        """The files that DuckDB itself reads."""
        if not self.place.is_local:
            return []
        paths = sorted(self.actions["path"].to_pylist())
        check_links(self.place, paths)
        return [self.place.join(path).uri for path in paths]


def is_interrupt(error: BaseException) -> bool:
    """Is it what DuckDB raises for an interrupt? It does so in several classes."""
    return isinstance(error, duckdb.InterruptException) or "Query interrupted" in str(error)


def _make_views(connection: Any, views: Sequence[View]) -> None:
    for view in views:
        select = select_text(view, DUCKDB)
        connection.execute(f"CREATE TEMP VIEW {quoted_name(view.name)} AS {select}")


def _scans(
    parsed: Parsed, tables: Sequence[_Table], views: Sequence[View], parameters: Sequence[Any]
) -> dict[str, list[Condition]]:
    """How a query reads tables: of each time that it names one, what its rows must meet."""
    if parsed.lists_tables:
        return {}  # tables may be read by other means than their names after FROM
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


def open_table(
    connection: Any,
    lake: Lake,
    name: str,
    *,
    view: str | None = None,
    date: datetime.date | None = None,
) -> None:
    """Make a view of a table, or of one day of it."""
    table = _Table.of(lake, name)
    actions = table.actions
    if date is not None and actions.num_rows:
        actions = actions.filter(pc.equal(actions[f"partition.{DATE}"], date))
    _open(connection, replace(table, name=view or name, actions=actions))


def _open(connection: Any, table: _Table) -> None:
    """Make a view of a table."""
    name, place, actions = table.name, table.place, table.actions
    quoted = quoted_name(name)
    kinds = column_kinds(connection, table.declared)
    if not actions.num_rows:
        connection.execute(f"CREATE TEMP VIEW {quoted} AS {no_rows(kinds)}")
        return
    if not place.is_local:
        # DuckDB's own client of S3 is an extension that would have to be downloaded.
        connection.register(name, dataset(place, table.declared, actions))
        return
    files = ", ".join(map(quoted_text, table.local_files()))
    source = f"read_parquet([{files}], union_by_name = true, "
    if table.dated:
        source += f"hive_partitioning = true, hive_types = {{'{DATE}': DATE}})"
    else:
        source += "hive_partitioning = false)"
    stored = connection.sql(f"SELECT * FROM {source}")  # noqa: S608 - files of the lake's own log
    there = dict(zip(stored.columns, map(str, stored.types), strict=True))
    columns = ", ".join(_column(column, kind, there) for column, kind in kinds.items())
    connection.execute(f"CREATE TEMP VIEW {quoted} AS SELECT {columns} FROM {source}")  # noqa: S608


def column_kinds(connection: Any, declared: Any) -> dict[str, str]:
    """A table's columns, with how DuckDB names their types."""
    empty = connection.from_arrow(declared.empty_table())
    return dict(zip(empty.columns, map(str, empty.types), strict=True))


def no_rows(kinds: dict[str, str]) -> str:
    """A query for columns of these types that gives no rows."""
    nulls = ", ".join(f"CAST(NULL AS {kind}) AS {quoted_name(col)}" for col, kind in kinds.items())
    return f"SELECT {nulls} WHERE false"


def _column(name: str, kind: str, there: dict[str, str]) -> str:
    """A column of a view: as it is stored, in its declared type, null where no file has it."""
    quoted = quoted_name(name)
    if name not in there:
        return f"CAST(NULL AS {kind}) AS {quoted}"
    return quoted if there[name] == kind else f"CAST({quoted} AS {kind}) AS {quoted}"
