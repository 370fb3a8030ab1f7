"""DuckDB over the tables of a lake: exactly the files that their logs tell, and nothing else."""

from __future__ import annotations

import datetime
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from pregao.errors import PregaoError, UsageError
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
)


class DuckdbEngine:
    """A lake in DuckDB; a query sees the tables that it names as they are when it is asked."""

    def __init__(self, lake: Lake, *, unsafe: bool = False) -> None:
        self._lake = lake
        self._unsafe = unsafe

    def ask(self, sql: str) -> DuckdbAnswer:
        """Plan a query; a mistake in it is a sentence."""
        require_query(sql, unsafe=self._unsafe)
        names = self._named(sql)
        connection = duckdb.connect(":memory:")
        with self._spoken():
            set_up(connection)
            for macro in _MACROS:
                connection.execute(f"CREATE TEMP MACRO {macro}")
            files: list[str] = []
            for name in names:
                files += open_table(connection, self._lake, name)
            if not self._unsafe:
                connection.execute(f"SET allowed_paths = [{', '.join(map(quoted_text, files))}]")
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
    return spill


def open_table(
    connection: Any,
    lake: Lake,
    name: str,
    *,
    view: str | None = None,
    date: datetime.date | None = None,
) -> list[str]:
    """Make a view of a table, or of one day of it; gives the files that DuckDB reads for it."""
    table = lake.delta(name)
    declared = arrow_schema(table).remove_metadata()
    place = lake.table_location(name)
    actions = visible_files(table)
    if date is not None:
        actions = actions.filter(pc.equal(actions[f"partition.{DATE}"], date))
    quoted = quoted_name(view or name)
    empty = connection.from_arrow(declared.empty_table())
    kinds = dict(zip(empty.columns, map(str, empty.types), strict=True))
    if not actions.num_rows:
        nulls = ", ".join(
            f"CAST(NULL AS {kind}) AS {quoted_name(col)}" for col, kind in kinds.items()
        )
        connection.execute(f"CREATE TEMP VIEW {quoted} AS SELECT {nulls} WHERE false")
        return []
    if not place.is_local:
        # DuckDB's own client of S3 is an extension that would have to be downloaded.
        connection.register(view or name, dataset(place, declared, actions))
        return []
    files = [place.join(path).uri for path in sorted(actions["path"].to_pylist())]
    source = f"read_parquet([{', '.join(map(quoted_text, files))}], union_by_name = true, "
    if DATE in table.metadata().partition_columns:
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
    quoted = quoted_name(name)
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


def quoted_text(value: str) -> str:
    """A text as a query writes it."""
    escaped = value.replace("'", "''")
    return f"'{escaped}'"


def quoted_name(value: str) -> str:
    """A name as a query writes it."""
    escaped = value.replace('"', '""')
    return f'"{escaped}"'
