"""Columns as SQL expressions, with the operators and methods of Spark's columns."""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from functools import cache
from typing import Any

import pyarrow as pa

from pregao.lake.sql.duckdb_session import quoted_name, quoted_text

_NAMES = {
    "smallint": "SMALLINT",
    "int": "INTEGER",
    "bigint": "BIGINT",
    "string": "VARCHAR",
    "boolean": "BOOLEAN",
    "date": "DATE",
    "double": "DOUBLE",
    "binary": "BLOB",
}


@cache
def duckdb_type(kind: str) -> str:
    """Return DuckDB's type for one such as ``array<struct<price:decimal(18,4)>>``."""
    kind = kind.strip()
    if kind.startswith("array<"):
        return f"{duckdb_type(kind[len('array<') : -1])}[]"
    if kind.startswith("struct<"):
        members = (part.partition(":") for part in _parts(kind[len("struct<") : -1]))
        named = (f"{quoted_name(name.strip())} {duckdb_type(of)}" for name, _, of in members)
        return f"STRUCT({', '.join(named)})"
    return kind.upper() if kind.startswith("decimal(") else _NAMES[kind]


_SPARK_NAMES = {
    pa.int16(): "smallint",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.string(): "string",
    pa.bool_(): "boolean",
    pa.date32(): "date",
    pa.float64(): "double",
}


def spark_type(kind: Any) -> str:
    """Return Spark's name of a type."""
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if pa.types.is_list(kind):
        return f"array<{spark_type(kind.value_type)}>"
    if pa.types.is_struct(kind):
        return f"struct<{','.join(f'{field.name}:{spark_type(field.type)}' for field in kind)}>"
    return _SPARK_NAMES[kind]


def columns_of(schema: str) -> dict[str, str]:
    """Return columns and types of a schema such as ``channel smallint, price decimal(18,4)``."""
    pairs = (part.split(maxsplit=1) for part in _parts(schema))
    return {name: duckdb_type(kind) for name, kind in pairs}


def _parts(text: str) -> list[str]:
    """Split a text at the commas outside of brackets."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "<(") - (letter in ">)")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


ROWS = "t"
"""Alias of the input rows in a step, so that its columns never clash with names it defines."""

_AVERAGE_SCALE = 100_000_000


class Column:
    """Value of each row, and its name as a column."""

    def __init__(self, sql: str, name: str | None = None) -> None:
        self.sql = sql
        self.name = name

    def alias(self, name: str) -> Column:
        """Return the value under a name."""
        return Column(self.sql, name)

    def cast(self, kind: str) -> Column:
        """Return the value in another type, by Spark's type name."""
        return Column(f"CAST({self.sql} AS {duckdb_type(kind)})", self.name)

    def over(self, window: Window) -> Column:
        """Return an aggregate over the rows of a window."""
        return Column(f"{self.sql} OVER ({window.sql()})")

    def isin(self, *values: Any) -> Column:
        """Whether it is one of these values."""
        if len(values) == 1 and isinstance(values[0], list | tuple):
            values = tuple(values[0])
        if not values:
            return literal(False)
        return Column(f"({self.sql} IN ({', '.join(literal(one).sql for one in values)}))")

    def isNull(self) -> Column:  # noqa: N802 - Spark's name
        """Whether it is null."""
        return Column(f"({self.sql} IS NULL)")

    def isNotNull(self) -> Column:  # noqa: N802 - Spark's name
        """Whether it is not null."""
        return Column(f"({self.sql} IS NOT NULL)")

    def eqNullSafe(self, other: Any) -> Column:  # noqa: N802 - Spark's name
        """Whether both are equal, or both null."""
        return self._with("IS NOT DISTINCT FROM", other)

    def bitwiseAND(self, other: Any) -> Column:  # noqa: N802 - Spark's name
        """Return the bits that both have."""
        return self._with("&", other)

    def bitwiseOR(self, other: Any) -> Column:  # noqa: N802 - Spark's name
        """Return the bits that either has."""
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
        """Divide an amount by a quantity exactly: eight decimals, rounded half away from zero.

        Spark does the same for the types of averages, and no other division is used; DuckDB's own
        would use floating-point numbers.
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
        raise TypeError("A column cannot be converted to bool: use &, | and ~.")

    def _with(self, operator: str, other: Any) -> Column:
        return Column(f"({self.sql} {operator} {literal(other).sql})")


class Case(Column):
    """Value of the first condition that is true, else another or null."""

    def __init__(self, branches: tuple[tuple[Column, Column], ...]) -> None:
        self._branches = branches
        super().__init__(self._sql(""))

    def when(self, condition: Column, value: Any) -> Case:
        """Add a condition and its value."""
        return Case((*self._branches, (condition, literal(value))))

    def otherwise(self, value: Any) -> Column:
        """Set the value where no condition is true."""
        return Column(self._sql(f" ELSE {literal(value).sql}"))

    def _sql(self, rest: str) -> str:
        branches = "".join(f" WHEN {when.sql} THEN {then.sql}" for when, then in self._branches)
        return f"(CASE{branches}{rest} END)"


class Inline(Column):
    """Structs of a list: each becomes a row, its members columns."""


class Ordering(Column):
    """Column to sort by in descending order, nulls last."""


class Window:
    """Window: partition columns and an order."""

    def __init__(self, alike: tuple[Column, ...] = (), order: tuple[Column, ...] = ()) -> None:
        self._alike = alike
        self._order = order

    @staticmethod
    def partitionBy(*columns: str | Column) -> Window:  # noqa: N802 - Spark's name
        """Return a window of the rows that are equal in these columns."""
        return Window(tuple(map(column, columns)))

    def orderBy(self, *columns: str | Column) -> Window:  # noqa: N802 - Spark's name
        """Return a window of the rows up to each, in this order, with its ties."""
        return Window(self._alike, tuple(map(column, columns)))

    def sql(self) -> str:
        """Return the window as SQL."""
        alike = f"PARTITION BY {', '.join(one.sql for one in self._alike)}"
        return f"{alike} ORDER BY {ordered(self._order)}" if self._order else alike


def ordered(columns: Iterable[str | Column]) -> str:
    """Return the ORDER BY list, with nulls in Spark's order."""
    return ", ".join(
        f"{one.sql} {'DESC NULLS LAST' if isinstance(one, Ordering) else 'ASC NULLS FIRST'}"
        for one in map(column, columns)
    )


def column(name: str | Column) -> Column:
    """Return a column by name, such as ``event`` or ``first.event``; or the column itself."""
    if isinstance(name, Column):
        return name
    first, *members = name.split(".")
    found = Column(f"{ROWS}.{quoted_name(first)}", first)
    for member in members:
        found = found[member]
    return found


def literal(value: Any) -> Column:
    """Return a constant as a column; or the column itself."""
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
    raise TypeError(f"Unsupported column value of type {type(value).__name__}.")
