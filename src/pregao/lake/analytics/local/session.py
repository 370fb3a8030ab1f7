"""Sessions of DuckDB over the files of one lake, with bounded memory."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import duckdb
import pyarrow as pa

from pregao.errors import PregaoError
from pregao.lake.analytics.local.columns import columns_of
from pregao.lake.analytics.local.frames import DataFrame
from pregao.lake.sql.duckdb_engine import is_interrupt
from pregao.lake.sql.duckdb_session import quoted_name, quoted_text, set_up
from pregao.lake.sql.table_files import TableFiles, open_files
from pregao.lake.storage.filesystem import Location

_BATCH = 65_536
_ARROW = "pregao_arrow"
MAX_MEMORY = 384 << 20
"""Maximum number of bytes of DuckDB in a task; beyond them it spills to disk."""
_MACROS = (
    # Same formula as Spark, so that both yield the same bits.
    """value_between(sorted, spot) AS CASE
        WHEN sorted[CAST(floor(spot) AS BIGINT) + 1] = sorted[CAST(ceil(spot) AS BIGINT) + 1]
        THEN CAST(sorted[CAST(floor(spot) AS BIGINT) + 1] AS DOUBLE)
        ELSE (ceil(spot) - spot) * sorted[CAST(floor(spot) AS BIGINT) + 1]
            + (spot - floor(spot)) * sorted[CAST(ceil(spot) AS BIGINT) + 1] END""",
    "percentile_of(sorted, share) AS value_between(sorted, (len(sorted) - 1) * share)",
    # Exact, rounded half away from zero; DuckDB's division would use floating-point numbers.
    """average_units(amount, quantity) AS sign(amount) * sign(quantity)
        * ((2 * abs(CAST(amount * CAST(100000000 AS DECIMAL(9, 0)) AS HUGEINT))
            + abs(CAST(quantity AS HUGEINT))) // (2 * abs(CAST(quantity AS HUGEINT))))""",
    """average_price(notional, volume) AS CASE WHEN volume <> 0 THEN
        CAST(CAST(average_units(notional, volume) // 100000000 AS DECIMAL(29, 0))
            + CAST(average_units(notional, volume) % 100000000 AS DECIMAL(8, 0))
            * CAST(0.00000001 AS DECIMAL(8, 8)) AS DECIMAL(22, 8)) END""",
)


class LocalSession:
    """Session whose frames are tables of a lake; a context manager that removes its temporary
    files.
    """

    def __init__(self, lake: Location, memory: int = MAX_MEMORY, threads: int = 1) -> None:
        """Open DuckDB with at most `memory` bytes; beyond that it spills to disk."""
        self.lake = lake
        self._stored: list[str] = []
        self._views: list[str] = []
        self._names = 0
        self._connection = duckdb.connect(":memory:")
        self._spill = set_up(self._connection)
        settings = [
            f"memory_limit = '{memory >> 20}MiB'",
            f"threads = {threads}",
            "preserve_insertion_order = false",
            "parquet_metadata_cache = true",
        ]
        if lake.is_local:
            settings.append(f"allowed_directories = [{quoted_text(lake.uri)}]")
        settings += ["enable_external_access = false", "lock_configuration = true"]
        for setting in settings:
            self._connection.execute(f"SET {setting}")
        for macro in _MACROS:
            self._connection.execute(f"CREATE TEMP MACRO {macro}")

    def __enter__(self) -> LocalSession:
        return self

    def __exit__(self, *_error: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Close DuckDB and remove its temporary files."""
        self._connection.close()
        shutil.rmtree(self._spill, ignore_errors=True)

    def table(self, files: TableFiles) -> DataFrame:
        """Return the rows of a table's files."""
        view = self._new_name(files.name)
        with self._spoken():
            open_files(self._connection, view, files)
            self._views.append(view)
            sql = f"SELECT * FROM {quoted_name(view)}"  # noqa: S608 - our own name
            return DataFrame(self, sql, files.declared.names)

    def createDataFrame(self, rows: list[tuple[Any, ...]], schema: str) -> DataFrame:  # noqa: N802
        """Return a frame of the given rows."""
        names = list(columns_of(schema))
        tables = [pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows])]
        return self.from_arrow(tables if rows else [], schema)

    def from_arrow(self, tables: list[Any], schema: str) -> DataFrame:
        """Return the rows of Arrow tables, in the columns and types of a schema."""
        kinds = columns_of(schema)
        full = [table for table in tables if table.num_rows]
        value = quoted_name if full else lambda _name: "NULL"
        chosen = ", ".join(
            f"CAST({value(name)} AS {kind}) AS {quoted_name(name)}" for name, kind in kinds.items()
        )
        if not full:
            return DataFrame(self, f"SELECT {chosen} WHERE false", kinds)
        with self._spoken():
            self._connection.register(_ARROW, pa.concat_tables(full))
            try:
                return self.stored(DataFrame(self, f"SELECT {chosen} FROM {_ARROW}", kinds))  # noqa: S608
            finally:
                self._connection.unregister(_ARROW)

    def stored(self, frame: DataFrame) -> DataFrame:
        """Evaluate the rows of a frame once, and store them until `release`."""
        name = quoted_name(self._new_name("kept"))
        with self._spoken():
            self._connection.execute(f"CREATE TEMP TABLE {name} AS {frame.sql()}")
        self._stored.append(name)
        return DataFrame(self, f"SELECT * FROM {name}", frame.columns)  # noqa: S608 - our own name

    def query(
        self, statement: str, views: Mapping[str, DataFrame], values: Mapping[str, Any]
    ) -> DataFrame:
        """Return the rows of a statement, evaluated once, over frames that it reads by name."""
        name = quoted_name(self._new_name("kept"))
        named = {quoted_name(view): frame.sql() for view, frame in views.items()}
        with self._spoken():
            for view, sql in named.items():
                self._connection.execute(f"CREATE OR REPLACE TEMP VIEW {view} AS {sql}")
            try:
                self._connection.execute(f"CREATE TEMP TABLE {name} AS {statement}", dict(values))
            finally:
                for view in named:
                    self._connection.execute(f"DROP VIEW IF EXISTS {view}")
            self._stored.append(name)
            sql = f"SELECT * FROM {name}"  # noqa: S608 - our own name
            return DataFrame(self, sql, self._connection.sql(sql).columns)

    def release(self) -> None:
        """Drop the stored rows and the views."""
        while self._stored:
            self._connection.execute(f"DROP TABLE {self._stored.pop()}")
        while self._views:
            view = self._views.pop()
            self._connection.execute(f"DROP VIEW IF EXISTS {quoted_name(view)}")
            with suppress(duckdb.Error):  # a local table is not registered
                self._connection.unregister(view)

    def batches(self, sql: str) -> Iterator[Any]:
        """Yield the rows of a query, batch by batch."""
        with self._spoken():
            yield from self._connection.sql(sql).to_arrow_reader(_BATCH)

    def rows(self, sql: str) -> Any:
        """Return the rows of a query as an Arrow table."""
        with self._spoken():
            return self._connection.sql(sql).to_arrow_table()

    def members(self, sql: str) -> list[str]:
        """Return the members of the structs in a query's only column."""
        with self._spoken():
            kind = self._connection.sql(sql).types[0]
        return [name for name, _ in kind.children]

    def _new_name(self, beginning: str) -> str:
        self._names += 1
        return f"{beginning} {self._names}"

    @contextmanager
    def _spoken(self) -> Iterator[None]:
        """Convert errors of DuckDB and Arrow to `PregaoError` with a one-line message."""
        try:
            yield
        except (duckdb.Error, pa.ArrowException, RuntimeError) as error:
            if is_interrupt(error):
                raise KeyboardInterrupt from None
            raise PregaoError(_sentence(error)) from error


def _sentence(error: BaseException) -> str:
    """Return the first line of an error of DuckDB, without the name of its class."""
    first = str(error).strip().partition("\n")[0]
    return re.sub(r"^[A-Z][A-Za-z/ ]* (?:Error|Exception): ", "", first)[:500]
