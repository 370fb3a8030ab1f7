"""DuckDB over the tables of a lake: of the files that their logs tell, those that a query needs."""

from __future__ import annotations

import contextlib
import datetime
import difflib
import json
import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from pregao.errors import PregaoError, UsageError
from pregao.lake.sql.skipping import Condition, admitted, conditions
from pregao.lake.sql.statements import explained, not_a_query, require_query
from pregao.lake.store import (
    DATE,
    Lake,
    Location,
    arrow_schema,
    dataset,
    unique_name,
    visible_files,
)
from pregao.lake.views import DUCKDB, View, define_views, needed_tables, select_text, view_names

_WORD = re.compile(r"\w+")
_BATCH = 65_536
_LISTING = ("show", "describe", "information_schema", "duckdb_views", "duckdb_columns")
# What Spark knows under these names.
MACROS = ("percentile(x, p) AS quantile_cont(x, p)",)
_SETTINGS = (
    # As in Spark, so that both engines give their rows in the same order.
    "default_null_order = 'nulls_first_on_asc_last_on_desc'",
    "TimeZone = 'UTC'",
    # Words of a query are never variables of ours.
    "python_enable_replacements = false",
    "autoinstall_known_extensions = false",
    "autoload_known_extensions = false",
    # The ends of files are read once, not each time that a view is looked at.
    "parquet_metadata_cache = true",
)


class DuckdbEngine:
    """A lake in DuckDB; a query sees the tables that it names as they are when it is asked."""

    def __init__(self, lake: Lake, *, unsafe: bool = False) -> None:
        self._lake = lake
        self._unsafe = unsafe

    def ask(self, sql: str) -> DuckdbAnswer:
        """Plan a query; a mistake in it is a sentence."""
        require_query(sql, unsafe=self._unsafe)
        tables, views = self._named(sql)
        opened = [_Table.of(self._lake, name) for name in tables]
        with self._spoken():
            connection = _session()
            files: list[str] = []
            scans = _scans(sql, opened, views)
            for table in opened:
                chosen = admitted(table.actions, scans.get(table.name, ()))
                files += _open(connection, replace(table, actions=chosen))
            _make_views(connection, views)
            if not self._unsafe:
                connection.execute(f"SET allowed_paths = [{', '.join(map(quoted_text, files))}]")
                connection.execute("SET enable_external_access = false")
                connection.execute("SET lock_configuration = true")
            _require_select(connection, explained(sql))
            relation = connection.sql(sql)
        return DuckdbAnswer(self, connection, relation)

    def _named(self, sql: str) -> tuple[list[str], list[View]]:
        """The tables that a query may be about, and the views."""
        words = set(_WORD.findall(sql.lower()))
        known = tables = self._lake.table_names()
        views = list(view_names(known))
        if not words & set(_LISTING):
            tables = [name for name in tables if name in words]
            views = [name for name in views if name in words]
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


def _require_select(connection: Any, sql: str) -> None:
    """Refuse what DuckDB's own parser takes for anything but one query."""
    statements = connection.extract_statements(sql)
    kinds = [statement.type for statement in statements]
    if kinds != [duckdb.StatementType.SELECT]:
        other = next((kind for kind in kinds if kind != duckdb.StatementType.SELECT), None)
        raise not_a_query("more than one" if other is None else other.name)


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


def is_interrupt(error: BaseException) -> bool:
    """Is it what DuckDB raises for an interrupt? It does so in several classes."""
    return isinstance(error, duckdb.InterruptException) or "Query interrupted" in str(error)


def set_up(connection: Any) -> Path:
    """Make the settings that all our work in DuckDB has; gives the folder that it may write to."""
    # A folder of its own, made when need be: DuckDB lets a query read what is in it.
    spill = Path(tempfile.gettempdir()) / unique_name("pregao-query", "")
    connection.execute(f"SET temp_directory = {quoted_text(str(spill))}")
    for setting in _SETTINGS:
        connection.execute(f"SET {setting}")
    # A notebook without ipywidgets has no bar, and DuckDB will not hear of one, not even of none.
    with contextlib.suppress(duckdb.InvalidInputException):
        connection.execute("SET enable_progress_bar = false")
    return spill


def _session() -> Any:
    connection = duckdb.connect(":memory:")
    set_up(connection)
    for macro in MACROS:
        connection.execute(f"CREATE TEMP MACRO {macro}")
    return connection


def _make_views(connection: Any, views: Sequence[View]) -> None:
    for view in views:
        select = select_text(view, DUCKDB)
        connection.execute(f"CREATE TEMP VIEW {quoted_name(view.name)} AS {select}")


def _scans(
    sql: str, tables: Sequence[_Table], views: Sequence[View]
) -> dict[str, list[list[Condition]]]:
    """How a query reads tables: of each scan of a table, the conditions that its rows must meet.

    DuckDB plans the query over tables without rows. What it would leave out because of that is not
    left out: it must not look at statistics.
    """
    connection = _session()
    connection.execute("SET disabled_optimizers = 'statistics_propagation,late_materialization'")
    for table in tables:
        # Named, for a query sees variables of ours in no other way.
        connection.register("declared", table.declared.empty_table())
        connection.execute(f"CREATE TEMP TABLE {quoted_name(table.name)} AS FROM declared")
        connection.unregister("declared")
    try:
        _make_views(connection, views)
        (row,) = connection.execute(f"EXPLAIN (FORMAT JSON) {explained(sql)}").fetchall()
        plans = json.loads(row[1])
    except (duckdb.Error, ValueError):
        return {}  # told when the query itself is planned; or it is no query but a question
    finally:
        connection.close()
    found: dict[str, list[list[Condition]]] = {}
    for node in _nodes(plans):
        told = node.get("extra_info") or {}
        name = str(told.get("Table", "")).rpartition(".")[2].strip('"')
        if name:
            filters = told.get("Filters") or []
            texts = [filters] if isinstance(filters, str) else filters
            found.setdefault(name, []).append([one for text in texts for one in conditions(text)])
    return found


def _nodes(plans: list[Any]) -> Iterator[dict[str, Any]]:
    for node in plans:
        yield node
        yield from _nodes(node.get("children") or [])


def open_table(
    connection: Any,
    lake: Lake,
    name: str,
    *,
    view: str | None = None,
    date: datetime.date | None = None,
) -> list[str]:
    """Make a view of a table, or of one day of it; gives the files that DuckDB reads for it."""
    table = _Table.of(lake, name)
    actions = table.actions
    if date is not None and actions.num_rows:
        actions = actions.filter(pc.equal(actions[f"partition.{DATE}"], date))
    return _open(connection, replace(table, name=view or name, actions=actions))


def _open(connection: Any, table: _Table) -> list[str]:
    """Make a view of a table; gives the files that DuckDB itself reads for it."""
    name, place, actions = table.name, table.place, table.actions
    quoted = quoted_name(name)
    kinds = column_kinds(connection, table.declared)
    if not actions.num_rows:
        nulls = ", ".join(
            f"CAST(NULL AS {kind}) AS {quoted_name(col)}" for col, kind in kinds.items()
        )
        connection.execute(f"CREATE TEMP VIEW {quoted} AS SELECT {nulls} WHERE false")
        return []
    if not place.is_local:
        # DuckDB's own client of S3 is an extension that would have to be downloaded.
        connection.register(name, dataset(place, table.declared, actions))
        return []
    files = [place.join(path).uri for path in sorted(actions["path"].to_pylist())]
    source = f"read_parquet([{', '.join(map(quoted_text, files))}], union_by_name = true, "
    if table.dated:
        source += f"hive_partitioning = true, hive_types = {{'{DATE}': DATE}})"
    else:
        source += "hive_partitioning = false)"
    stored = connection.sql(f"SELECT * FROM {source}")  # noqa: S608 - files of the lake's own log
    there = dict(zip(stored.columns, map(str, stored.types), strict=True))
    columns = ", ".join(_column(column, kind, there) for column, kind in kinds.items())
    connection.execute(f"CREATE TEMP VIEW {quoted} AS SELECT {columns} FROM {source}")  # noqa: S608
    return files


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


def quoted_text(value: str) -> str:
    """A text as a query writes it."""
    escaped = value.replace("'", "''")
    return f"'{escaped}'"


def quoted_name(value: str) -> str:
    """A name as a query writes it."""
    escaped = value.replace('"', '""')
    return f'"{escaped}"'
