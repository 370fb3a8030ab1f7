"""DuckDB over the tables of a lake: of the files that their logs tell, those that a query needs."""

from __future__ import annotations

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
from pregao.lake.store import DATE, Lake, Location, arrow_schema, unique_name, visible_files

_WORD = re.compile(r"\w+")
_BATCH = 65_536
_LISTING = ("show", "describe", "information_schema", "duckdb_views", "duckdb_columns")
# What Spark knows under these names.
_MACROS = ("percentile(x, p) AS quantile_cont(x, p)",)
_SETTINGS = (
    # As in Spark, so that both engines give their rows in the same order.
    "default_null_order = 'nulls_first_on_asc_last_on_desc'",
    "TimeZone = 'UTC'",
    # Words of a query are never variables of ours.
    "python_enable_replacements = false",
    "autoinstall_known_extensions = false",
    "autoload_known_extensions = false",
    "enable_progress_bar = false",
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
        tables = [_Table.of(self._lake, name) for name in self._named(sql)]
        with self._spoken():
            connection = _session()
            files: list[str] = []
            scans = _scans(sql, tables)
            for table in tables:
                chosen = admitted(table.actions, scans.get(table.name, ()))
                files += _open(connection, replace(table, actions=chosen))
            if not self._unsafe:
                connection.execute(f"SET allowed_paths = [{', '.join(map(_text, files))}]")
                connection.execute("SET enable_external_access = false")
                connection.execute("SET lock_configuration = true")
            _require_select(connection, explained(sql))
            relation = connection.sql(sql)
        return DuckdbAnswer(self, connection, relation)

    def _named(self, sql: str) -> list[str]:
        """The tables that a query may be about."""
        words = set(_WORD.findall(sql.lower()))
        tables = self._lake.table_names()
        return tables if words & set(_LISTING) else [name for name in tables if name in words]

    @contextmanager
    def _spoken(self) -> Iterator[None]:
        """Turn what DuckDB raises into one sentence."""
        try:
            yield
        except PregaoError:
            raise
        except duckdb.InterruptException:
            raise KeyboardInterrupt from None
        except (duckdb.Error, pa.ArrowException, RuntimeError, OSError) as error:
            raise UsageError(f"The query failed: {self._sentence(error)}") from error

    def _sentence(self, error: BaseException) -> str:
        lines = [line.strip() for line in str(error).splitlines()]
        first = re.sub(r"^[A-Z][A-Za-z/ ]* (?:Error|Exception): ", "", lines[0]) if lines else ""
        words = " ".join(first.split())[:500]
        if "file system operations are disabled" in words:
            return f"{words.partition(' - ')[0]}: only the lake's tables are open to a query."
        if missing := re.match(r"Table with name (.+) does not exist", words):
            tables = ", ".join(self._lake.table_names())
            return f"The table `{missing.group(1)}` cannot be found. The lake has {tables}."
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


def _session() -> Any:
    connection = duckdb.connect(":memory:")
    # A folder of its own, made when need be: DuckDB lets a query read what is in it.
    spill = Path(tempfile.gettempdir()) / unique_name("pregao-query", "")
    connection.execute(f"SET temp_directory = {_text(str(spill))}")
    for setting in _SETTINGS:
        connection.execute(f"SET {setting}")
    for macro in _MACROS:
        connection.execute(f"CREATE TEMP MACRO {macro}")
    return connection


def _scans(sql: str, tables: Sequence[_Table]) -> dict[str, list[list[Condition]]]:
    """How a query reads tables: of each scan of a table, the conditions that its rows must meet.

    DuckDB plans the query over tables without rows. What it would leave out because of that is not
    left out: it must not look at statistics.
    """
    connection = _session()
    connection.execute("SET disabled_optimizers = 'statistics_propagation,late_materialization'")
    for table in tables:
        # Named, for a query sees variables of ours in no other way.
        connection.register("declared", table.declared.empty_table())
        connection.execute(f"CREATE TEMP TABLE {_name(table.name)} AS FROM declared")
        connection.unregister("declared")
    try:
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


def _open(connection: Any, table: _Table) -> list[str]:
    """Make a view of a table; gives the files that DuckDB itself reads for it."""
    name, place, actions = table.name, table.place, table.actions
    quoted = _name(name)
    empty = connection.from_arrow(table.declared.empty_table())
    kinds = dict(zip(empty.columns, map(str, empty.types), strict=True))
    if not actions.num_rows:
        nulls = ", ".join(f"CAST(NULL AS {kind}) AS {_name(col)}" for col, kind in kinds.items())
        connection.execute(f"CREATE TEMP VIEW {quoted} AS SELECT {nulls} WHERE false")
        return []
    if not place.is_local:
        # DuckDB's own client of S3 is an extension that would have to be downloaded.
        connection.register(name, dataset(place, table.declared, actions))
        return []
    files = [place.join(path).uri for path in sorted(actions["path"].to_pylist())]
    source = f"read_parquet([{', '.join(map(_text, files))}], union_by_name = true, "
    if table.dated:
        source += f"hive_partitioning = true, hive_types = {{'{DATE}': DATE}})"
    else:
        source += "hive_partitioning = false)"
    stored = connection.sql(f"SELECT * FROM {source}")  # noqa: S608 - files of the lake's own log
    there = dict(zip(stored.columns, map(str, stored.types), strict=True))
    columns = ", ".join(_column(column, kind, there) for column, kind in kinds.items())
    connection.execute(f"CREATE TEMP VIEW {quoted} AS SELECT {columns} FROM {source}")  # noqa: S608
    return files


def _column(name: str, kind: str, there: dict[str, str]) -> str:
    """A column of a view: as it is stored, in its declared type, null where no file has it."""
    quoted = _name(name)
    if name not in there:
        return f"CAST(NULL AS {kind}) AS {quoted}"
    return quoted if there[name] == kind else f"CAST({quoted} AS {kind}) AS {quoted}"


def dataset(place: Location, declared: Any, actions: Any) -> Any:
    """The files of a table anywhere, each with its day, for pyarrow to read.

    The table library could make it, but it takes a column without statistics for one without
    values, and leaves out all files when such a column is filtered.
    """
    import pyarrow.dataset as ds

    format_ = ds.ParquetFileFormat()
    dated = f"partition.{DATE}" in actions.column_names
    fragments = []
    for action in actions.to_pylist():
        expression = ds.field(DATE) == action[f"partition.{DATE}"] if dated else ds.scalar(True)
        path = place.join(action["path"]).path
        fragments.append(format_.make_fragment(path, place.filesystem, expression))
    return ds.FileSystemDataset(fragments, declared, format_, place.filesystem)


def _text(value: str) -> str:
    escaped = value.replace("'", "''")
    return f"'{escaped}'"


def _name(value: str) -> str:
    escaped = value.replace('"', '""')
    return f'"{escaped}"'
