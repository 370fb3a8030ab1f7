"""Columns as texts of SQL, with the operators and methods of Spark's columns."""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from typing import Any

from pregao.lake.analytics.here.types import duckdb_type
from pregao.lake.sql.duckdb_session import quoted_name, quoted_text

ROWS = "t"
"""What a step calls the rows that it is made of: columns never mix with names that it gives."""

_AVERAGE_SCALE = 100_000_000


class Column:
    """A value of each row, and the name that it has as a column."""

    def __init__(self, sql: str, name: str | None = None) -> None:
        self.sql = sql
        self.name = name

    def alias(self, name: str) -> Column:
        """The same value under a name."""
        return Column(self.sql, name)

    def cast(self, kind: str) -> Column:
        """The value in another type, by Spark's name of it."""
        return Column(f"CAST({self.sql} AS {duckdb_type(kind)})", self.name)

    def over(self, window: Window) -> Column:
        """An aggregate over the rows of a window."""
        return Column(f"{self.sql} OVER ({window.sql()})")

    def isin(self, *values: Any) -> Column:
        """Is it one of these?"""
        if len(values) == 1 and isinstance(values[0], list | tuple):
            values = tuple(values[0])
        if not values:
            return literal(False)
        return Column(f"({self.sql} IN ({', '.join(literal(one).sql for one in values)}))")

    def isNull(self) -> Column:  # noqa: N802 - Spark's name
        """Is there no value?"""
        return Column(f"({self.sql} IS NULL)")

    def isNotNull(self) -> Column:  # noqa: N802 - Spark's name
        """Is there a value?"""
        return Column(f"({self.sql} IS NOT NULL)")

    def eqNullSafe(self, other: Any) -> Column:  # noqa: N802 - Spark's name
        """Are both the same, or both null?"""
        return self._with("IS NOT DISTINCT FROM", other)

    def bitwiseAND(self, other: Any) -> Column:  # noqa: N802 - Spark's name
        """The bits that both have."""
        return self._with("&", other)

    def bitwiseOR(self, other: Any) -> Column:  # noqa: N802 - Spark's name
        """The bits that either has."""
        return self._with("|", other)

    def __getitem__(self, member: str) -> Column:
        return Column(f"struct_extract({self.sql}, {quoted_text(member)})", member)

    def __eq__(self, other: Any) -> Column:  # type: ignore[override]
        return self._with("=", other)

    def __ne__(self, other: Any) -> Column:  # type: ignore[override]
        return self._with("<>", other)

    def __hash__(self) -> int:
        return hash(self.sql)

    def __lt__(self, other: Any) -> Column:
        return self._with("<", other)

    def __le__(self, other: Any) -> Column:
        return self._with("<=", other)

    def __gt__(self, other: Any) -> Column:
        return self._with(">", other)

    def __ge__(self, other: Any) -> Column:
        return self._with(">=", other)

    def __add__(self, other: Any) -> Column:
        return self._with("+", other)

    def __sub__(self, other: Any) -> Column:
        return self._with("-", other)

    def __mul__(self, other: Any) -> Column:
        return self._with("*", other)

    def __rmul__(self, other: Any) -> Column:
        return literal(other)._with("*", self)

    def __truediv__(self, other: Any) -> Column:
        """An amount by a quantity, exact: eight decimals, rounded half away from zero.

        That is what Spark gives for the types that averages are made of, and there is no other
        division; DuckDB's own would go through floating-point numbers.
        """
        scale = f"CAST({_AVERAGE_SCALE} AS DECIMAL(9, 0))"
        amount = f"CAST({self.sql} * {scale} AS HUGEINT)"
        by = f"CAST({literal(other).sql} AS HUGEINT)"
        half_up = f"((2 * abs({amount}) + abs({by})) // (2 * abs({by})))"
        units = f"({half_up} * sign({amount}) * sign({by}))"
        whole = f"CAST({units} // {_AVERAGE_SCALE} AS DECIMAL(29, 0))"
        part = (
            f"CAST({units} % {_AVERAGE_SCALE} AS DECIMAL(8, 0)) * CAST(0.00000001 AS DECIMAL(8, 8))"
        )
        return Column(f"({whole} + {part})")

    def __and__(self, other: Any) -> Column:
        return self._with("AND", other)

    def __or__(self, other: Any) -> Column:
        return self._with("OR", other)

    def __invert__(self) -> Column:
        return Column(f"(NOT {self.sql})")

    def __bool__(self) -> bool:
        raise TypeError("A column has no truth of its own: use &, | and ~.")

    def _with(self, operator: str, other: Any) -> Column:
        return Column(f"({self.sql} {operator} {literal(other).sql})")


class Case(Column):
    """The value of the first condition that holds, else another or null."""

    def __init__(self, branches: tuple[tuple[Column, Column], ...]) -> None:
        self._branches = branches
        super().__init__(self._sql(""))

    def when(self, condition: Column, value: Any) -> Case:
        """Another condition, and its value."""
        return Case((*self._branches, (condition, literal(value))))

    def otherwise(self, value: Any) -> Column:
        """The value where no condition holds."""
        return Column(self._sql(f" ELSE {literal(value).sql}"))

    def _sql(self, rest: str) -> str:
        branches = "".join(f" WHEN {when.sql} THEN {then.sql}" for when, then in self._branches)
        return f"(CASE{branches}{rest} END)"


class Inline(Column):
    """The structs of a list: each makes a row, its members are columns."""


class Ordering(Column):
    """A column to sort by, from the largest to the smallest; nulls come last."""


class Window:
    """The rows that belong together, and their order."""

    def __init__(self, alike: tuple[Column, ...] = (), order: tuple[Column, ...] = ()) -> None:
        self._alike = alike
        self._order = order

    @staticmethod
    def partitionBy(*columns: str | Column) -> Window:  # noqa: N802 - Spark's name
        """The rows that are alike in these columns."""
        return Window(tuple(map(column, columns)))

    def orderBy(self, *columns: str | Column) -> Window:  # noqa: N802 - Spark's name
        """The rows up to each, in this order; those equal in it included."""
        return Window(self._alike, tuple(map(column, columns)))

    def sql(self) -> str:
        """As a query writes it."""
        alike = f"PARTITION BY {', '.join(one.sql for one in self._alike)}"
        return f"{alike} ORDER BY {ordered(self._order)}" if self._order else alike


def ordered(columns: Iterable[str | Column]) -> str:
    """What to sort by; nulls are where Spark puts them."""
    return ", ".join(
        f"{one.sql} {'DESC NULLS LAST' if isinstance(one, Ordering) else 'ASC NULLS FIRST'}"
        for one in map(column, columns)
    )


def column(name: str | Column) -> Column:
    """A column by its name, such as ``event`` or ``first.event``; or the column itself."""
    if isinstance(name, Column):
        return name
    first, *members = name.split(".")
    found = Column(f"{ROWS}.{quoted_name(first)}", first)
    for member in members:
        found = found[member]
    return found


def literal(value: Any) -> Column:
    """A value that is the same in each row; or the column itself."""
    if isinstance(value, Column):
        return value
    if value is None:
        return Column("NULL")
    if isinstance(value, bool):
        return Column("true" if value else "false")
    if isinstance(value, int):
        return Column(str(int(value)) if value >= 0 else f"({int(value)})")
    if isinstance(value, str):
        return Column(quoted_text(str(value)))
    if isinstance(value, datetime.date):
        return Column(f"DATE '{value.isoformat()}'")
    raise TypeError(f"A {type(value).__name__} is no value of a column.")
