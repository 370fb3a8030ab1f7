"""Files of a lake's tables as DuckDB views, by the tables' logs.

The files of a table are a value: they can be sent to a task, which then reads them as they were
when the task was planned.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pregao.lake.sql.duckdb_session import quoted_name, quoted_text
from pregao.lake.storage.commit_unit import DATE
from pregao.lake.storage.delta import arrow_schema, dataset, visible_files
from pregao.lake.storage.filesystem import Location
from pregao.lake.storage.lake_store import LakeStore
from pregao.lake.storage.local_files import check_links

_DAY = f"partition.{DATE}"
_KEPT = ("path", "size_bytes", "num_records", _DAY)


@dataclass(frozen=True, slots=True)
class TableFiles:
    """A table according to its Delta log: location, columns, files."""

    name: str
    location: Location
    declared: Any
    dated: bool
    actions: Any

    @classmethod
    def from_lake(cls, lake: LakeStore, name: str) -> TableFiles:
        """Return the current files of a table."""
        table = lake.delta(name)
        declared = arrow_schema(table).remove_metadata()
        dated = DATE in table.metadata().partition_columns
        return cls(name, lake.table_location(name), declared, dated, visible_files(table))

    def days(self) -> set[datetime.date]:
        """Return the days that have files."""
        return set(self.actions[_DAY].to_pylist()) if _DAY in self.actions.column_names else set()

    def of_day(self, day: datetime.date, bounded: Iterable[str] = ()) -> TableFiles:
        """Return the files of a day, with the bounds of some columns only."""
        actions = self.actions
        if self.dated and actions.num_rows:
            actions = actions.filter(pc.equal(actions[_DAY], day))
        return self._bounded(actions, bounded)

    def of_other_days(self, day: datetime.date, bounded: Iterable[str] = ()) -> TableFiles:
        """Return the files of all days but one, with the bounds of some columns only."""
        actions = self.actions
        if self.dated and actions.num_rows:
            actions = actions.filter(pc.not_equal(actions[_DAY], day))
        return self._bounded(actions, bounded)

    def _bounded(self, actions: Any, bounded: Iterable[str]) -> TableFiles:
        wanted = [*_KEPT, *(f"{end}.{name}" for name in bounded for end in ("min", "max"))]
        names = [name for name in wanted if name in actions.column_names]
        return replace(self, actions=actions.select(names))

    def within(self, column: str, first: Any, last: Any) -> TableFiles:
        """Return the files that may have values of a column in a range."""
        low, high = f"min.{column}", f"max.{column}"
        actions = self.actions
        if not actions.num_rows or not {low, high} <= set(actions.column_names):
            return self
        outside = pc.or_(pc.greater(actions[low], last), pc.less(actions[high], first))
        return replace(self, actions=actions.filter(pc.invert(pc.fill_null(outside, False))))

    def paths(self) -> list[str]:
        """Return the paths of the files within the table's folder."""
        return sorted(self.actions["path"].to_pylist())

    def local_files(self) -> list[str]:
        """Return the paths that DuckDB opens itself; none if the table is remote."""
        if not self.location.is_local:
            return []
        paths = self.paths()
        check_links(self.location, paths)
        return [self.location.join(path).uri for path in paths]


def open_files(connection: Any, view: str, table: TableFiles) -> None:
    """Create a DuckDB view of a table's files."""
    location, actions = table.location, table.actions
    quoted = quoted_name(view)
    kinds = column_kinds(connection, table.declared)
    if not actions.num_rows:
        connection.execute(f"CREATE TEMP VIEW {quoted} AS {no_rows(kinds)}")
        return
    if not location.is_local:
        # DuckDB's own S3 client is an extension that would have to be downloaded.
        connection.register(view, dataset(location, table.declared, actions))
        return
    files = ", ".join(map(quoted_text, table.local_files()))
    source = f"read_parquet([{files}], union_by_name = true, "
    if table.dated:
        source += f"hive_partitioning = true, hive_types = {{'{DATE}': DATE}})"
    else:
        source += "hive_partitioning = false)"
    stored = connection.sql(f"SELECT * FROM {source}")  # noqa: S608 - files of the lake's own log
    stored_types = dict(zip(stored.columns, map(str, stored.types), strict=True))
    columns = ", ".join(_column(column, kind, stored_types) for column, kind in kinds.items())
    connection.execute(f"CREATE TEMP VIEW {quoted} AS SELECT {columns} FROM {source}")  # noqa: S608


def column_kinds(connection: Any, declared: Any) -> dict[str, str]:
    """Return the DuckDB type names of a table's columns."""
    # `empty_table` would import pandas.
    columns = [pa.nulls(0, field.type) for field in declared]
    empty = connection.from_arrow(pa.Table.from_arrays(columns, schema=declared))
    return dict(zip(empty.columns, map(str, empty.types), strict=True))


def no_rows(kinds: dict[str, str]) -> str:
    """Return a query with columns of these types and no rows."""
    nulls = ", ".join(f"CAST(NULL AS {kind}) AS {quoted_name(col)}" for col, kind in kinds.items())
    return f"SELECT {nulls} WHERE false"


def _column(name: str, kind: str, there: dict[str, str]) -> str:
    """Return a view's column, cast to its declared type; null if no file has the column."""
    quoted = quoted_name(name)
    if name not in there:
        return f"CAST(NULL AS {kind}) AS {quoted}"
    return quoted if there[name] == kind else f"CAST({quoted} AS {kind}) AS {quoted}"
