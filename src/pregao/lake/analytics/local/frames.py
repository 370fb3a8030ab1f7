"""Frames: rows defined by an SQL query, with the methods of Spark's DataFrames."""

# ruff: noqa: S608 - SQL is built only from names and values of our own

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pregao.lake.analytics.local.columns import ROWS, Column, Inline, column, ordered
from pregao.lake.sql.duckdb_session import quoted_name

if TYPE_CHECKING:
    from pregao.lake.analytics.local.session import LocalSession

# Temporary columns, which no table has.
_STRUCT = "pregao struct"
_GROUP = "pregao group"
_JOINS = {"inner": "JOIN", "left": "LEFT JOIN", "left_semi": "SEMI JOIN"}


class DataFrame:
    """Rows with named columns, evaluated when rows are read."""

    def __init__(self, session: LocalSession, sql: str, columns: Iterable[str]) -> None:
        self._session = session
        self._sql = sql
        self.columns = list(columns)
        if len(set(self.columns)) < len(self.columns):
            raise ValueError(f"Columns must have different names: {self.columns}")

    # Columns and rows.

    def select(self, *wanted: Any) -> DataFrame:
        """Return these columns, in this order."""
        chosen: list[Column] = []
        for one in _flat(wanted):
            if isinstance(one, Inline):
                chosen.append(Column(f"unnest({one.sql})", _STRUCT))
            elif isinstance(one, str):
                chosen += self._named(one)
            else:
                chosen.append(one)
        found = self._derived(chosen)
        if _STRUCT not in found.columns:
            return found
        at = found.columns.index(_STRUCT)
        return found.select(found.columns[:at], f"{_STRUCT}.*", found.columns[at + 1 :])

    def withColumn(self, name: str, value: Column) -> DataFrame:  # noqa: N802 - Spark's name
        """Add a column, or replace the one of that name."""
        if name not in self.columns:
            return self.select("*", value.alias(name))
        return self.select(
            [value.alias(name) if other == name else column(other) for other in self.columns]
        )

    def drop(self, *names: str) -> DataFrame:
        """Return the rows without some columns."""
        return self.select([name for name in self.columns if name not in names])

    def where(self, condition: Column | str) -> DataFrame:
        """Return the rows that satisfy a condition."""
        holds = condition if isinstance(condition, str) else condition.sql
        return self._with(f"SELECT * FROM {self._rows()} WHERE {holds}", self.columns)

    def dropna(self) -> DataFrame:
        """Return the rows without any null."""
        holds = " AND ".join(column(name).isNotNull().sql for name in self.columns)
        return self._with(f"SELECT * FROM {self._rows()} WHERE {holds}", self.columns)

    def distinct(self) -> DataFrame:
        """Return distinct rows."""
        return self._with(f"SELECT DISTINCT * FROM {self._rows()}", self.columns)

    def dropDuplicates(self, names: list[str]) -> DataFrame:  # noqa: N802 - Spark's name
        """Return any one of the rows that are equal in some columns."""
        alike = ", ".join(column(name).sql for name in names)
        return self._with(f"SELECT DISTINCT ON ({alike}) * FROM {self._rows()}", self.columns)

    # Joins and groups.

    def join(self, other: DataFrame, on: str | list[str], how: str = "inner") -> DataFrame:
        """Join with the rows of another frame that are equal in some columns."""
        keys = [on] if isinstance(on, str) else on
        rest = [name for name in self.columns if name not in keys]
        more = [name for name in other.columns if name not in keys]
        if how == "left_semi":
            more = []
        names = [*keys, *rest, *more]
        sides = ["l"] * (len(keys) + len(rest)) + ["r"] * len(more)
        chosen = (f"{s}.{quoted_name(name)}" for s, name in zip(sides, names, strict=True))
        equal = (f"l.{quoted_name(key)} = r.{quoted_name(key)}" for key in keys)
        sql = (
            f"SELECT {', '.join(chosen)} FROM ({self._sql}) AS l {_JOINS[how]} ({other._sql}) AS r "
            f"ON {' AND '.join(equal)}"
        )
        return self._with(sql, names)

    def unionByName(self, other: DataFrame, allowMissingColumns: bool = False) -> DataFrame:  # noqa: N802, N803
        """Return the rows of both."""
        if not allowMissingColumns and set(self.columns) != set(other.columns):
            different = sorted(set(self.columns) ^ set(other.columns))
            raise ValueError(f"Columns are not in both frames: {', '.join(different)}")
        names = [*self.columns, *(name for name in other.columns if name not in self.columns)]
        sql = " UNION ALL ".join(f"({frame._filled(names)})" for frame in (self, other))
        return self._with(sql, names)

    def _filled(self, names: list[str]) -> str:
        """Return these columns as SQL; those that the frame lacks are null."""
        chosen = (
            column(name).sql if name in self.columns else f"NULL AS {quoted_name(name)}"
            for name in names
        )
        return f"SELECT {', '.join(chosen)} FROM {self._rows()}"

    def groupBy(self, *names: str | Column) -> GroupedData:  # noqa: N802 - Spark's name
        """Group the rows that are equal in some columns."""
        return GroupedData(self, [column(name) for name in names])

    # Storage and output.

    def persist(self) -> DataFrame:
        """Evaluate the rows now, and keep them."""
        return self._session.stored(self)

    def unpersist(self) -> DataFrame:
        """Return the frame itself: the session drops stored rows after each table."""
        return self

    def sortWithinPartitions(self, *names: str) -> DataFrame:  # noqa: N802 - Spark's name
        """Return the rows in order."""
        return self._with(f"SELECT * FROM {self._rows()} ORDER BY {ordered(names)}", self.columns)

    def mapInArrow(  # noqa: N802 - Spark's name
        self, work: Callable[[Iterator[Any]], Iterator[Any]], schema: str
    ) -> DataFrame:
        """Return the results of a function on the batches of rows, evaluated immediately."""
        results = list(work(self._session.batches(self._sql)))
        return self._session.from_arrow([pa.Table.from_batches([one]) for one in results], schema)

    def isEmpty(self) -> bool:  # noqa: N802 - Spark's name
        """Whether there are no rows."""
        return not any(batch.num_rows for batch in self._session.batches(f"{self._sql} LIMIT 1"))

    def table(self) -> Any:
        """Return all rows as an Arrow table."""
        return self._session.rows(self._sql)

    def collect(self) -> list[dict[str, Any]]:
        """Return all rows."""
        return [row for batch in self._session.batches(self._sql) for row in batch.to_pylist()]

    def batches(self) -> Iterator[Any]:
        """Yield the rows as Arrow batches."""
        return self._session.batches(self._sql)

    def sql(self) -> str:
        """Return the query of the rows."""
        return self._sql

    def _rows(self) -> str:
        return f"({self._sql}) AS {ROWS}"

    def _with(self, sql: str, columns: Iterable[str]) -> DataFrame:
        return DataFrame(self._session, sql, columns)

    def _derived(self, chosen: list[Column]) -> DataFrame:
        names = []
        for one in chosen:
            if one.name is None:
                raise ValueError(f"A column needs a name: {one.sql}")
            names.append(one.name)
        texts = (f"{one.sql} AS {quoted_name(one.name or '')}" for one in chosen)
        return self._with(f"SELECT {', '.join(texts)} FROM {self._rows()}", names)

    def _named(self, name: str) -> list[Column]:
        """Return the columns of a name: ``*`` is all, ``first.*`` the members of a struct."""
        if name == "*":
            return [column(each) for each in self.columns]
        whole, star, rest = name.partition(".*")
        if not star or rest:
            return [column(name)]
        members = self._session.members(f"SELECT {column(whole).sql} FROM {self._rows()}")
        return [column(f"{whole}.{member}") for member in members]


class GroupedData:
    """Rows of a frame grouped by some columns."""

    def __init__(self, frame: DataFrame, keys: list[Column]) -> None:
        self._frame = frame
        self._keys = keys

    def agg(self, *values: Column) -> DataFrame:
        """Return a row of aggregates for each group."""
        made = self._frame._derived([*self._keys, *values])
        alike = ", ".join(key.sql for key in self._keys)
        return self._frame._with(f"{made.sql()} GROUP BY {alike}", made.columns)

    def applyInArrow(self, work: Callable[[Any], Any], schema: str) -> DataFrame:  # noqa: N802
        """Return the results of a function on the rows of each group, one group at a time."""
        frame, session = self._frame, self._frame._session
        alike = ordered(self._keys)
        number = Column(f"dense_rank() OVER (ORDER BY {alike})", _GROUP)
        numbered = frame.select("*", number).sortWithinPartitions(_GROUP)
        groups = _groups(session.batches(numbered.sql()))
        return session.from_arrow([work(rows.drop_columns([_GROUP])) for rows in groups], schema)


def _groups(batches: Iterator[Any]) -> Iterator[Any]:
    """Yield the rows of each group as a table; rows of a group are consecutive."""
    held: list[Any] = []
    current = None
    for batch in batches:
        numbers = batch.column(_GROUP).to_numpy()
        cuts = [0, *(int(at) + 1 for at in (numbers[1:] != numbers[:-1]).nonzero()[0])]
        for begin, end in zip(cuts, [*cuts[1:], len(numbers)], strict=True):
            if begin == end:
                continue
            if held and numbers[begin] != current:
                yield pa.Table.from_batches(held)
                held = []
            current = numbers[begin]
            held.append(batch.slice(begin, end - begin))
    if held:
        yield pa.Table.from_batches(held)


def _flat(wanted: Iterable[Any]) -> Iterator[Any]:
    for one in wanted:
        if isinstance(one, list | tuple):
            yield from one
        else:
            yield one
