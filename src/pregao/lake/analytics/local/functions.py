"""Functions of ``pyspark.sql.functions`` that our tables use, as DuckDB SQL expressions.

They have Spark's names and semantics.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count as numbers
from typing import Any

from pregao.lake.analytics.local.columns import Case, Column, Inline, Ordering, column, literal
from pregao.lake.sql.duckdb_session import quoted_name

Named = str | Column

_PARAMETERS = numbers()


def col(name: str) -> Column:
    """Return a column by name; ``first.event`` is the member of a struct."""
    return column(name)


def lit(value: Any) -> Column:
    """Return a constant."""
    return literal(value)


def expr(sql: str) -> Column:
    """Return an SQL expression that both engines support."""
    return Column(f"({sql})")


def desc(name: Named) -> Column:
    """Return a descending sort key."""
    return Ordering(column(name).sql)


def broadcast(frame: Any) -> Any:
    """Return the frame itself: one process has no broadcast."""
    return frame


def when(condition: Column, value: Any) -> Case:
    """Return a value where a condition is true."""
    return Case(((condition, literal(value)),))


def coalesce(*names: Named) -> Column:
    """Return the first value that is not null."""
    return _call("coalesce", *names)


def greatest(*names: Named) -> Column:
    """Return the largest value that is not null."""
    return _call("greatest", *names)


def least(*names: Named) -> Column:
    """Return the smallest value that is not null."""
    return _call("least", *names)


def abs(name: Named) -> Column:
    """Return the absolute value."""
    return _call("abs", name)


def pmod(name: Named, by: Named) -> Column:
    """Return a remainder that is never negative."""
    value, divisor = column(name).sql, column(by).sql
    return Column(f"((({value} % {divisor}) + {divisor}) % {divisor})")


def struct(*names: Named) -> Column:
    """Return a struct of values under their names."""
    members = []
    for one in map(column, names):
        if one.name is None:
            raise ValueError(f"A member of a struct needs a name: {one.sql}")
        members.append(f"{quoted_name(one.name)} := {one.sql}")
    return Column(f"struct_pack({', '.join(members)})")


# Lists.


def array(*names: Named) -> Column:
    """Return a list of values."""
    return _call("list_value", *names)


def array_compact(name: Named) -> Column:
    """Return a list without its nulls."""
    return filter(name, lambda one: one.isNotNull())


def filter(name: Named, keep: Callable[[Column], Column]) -> Column:
    """Return the members of a list that satisfy a condition."""
    return _each("list_filter", name, keep)


def transform(name: Named, make: Callable[[Column], Column]) -> Column:
    """Apply a function to each member of a list."""
    return _each("list_transform", name, make)


def sort_array(name: Named) -> Column:
    """Return a list in ascending order."""
    return Column(f"list_sort({column(name).sql}, 'ASC', 'NULLS FIRST')")


def size(name: Named) -> Column:
    """Return the length of a list."""
    return _call("len", name)


def get(name: Named, index: Column) -> Column:
    """Return the member at an index from 0; null where there is none."""
    return Column(f"list_extract({column(name).sql}, {index.sql} + 1)")


def try_element_at(name: Named, index: Column) -> Column:
    """Return the member at an index from 1, or from -1 backwards; null where there is none."""
    return Column(f"list_extract({column(name).sql}, {index.sql})")


def explode(name: Named) -> Column:
    """Return a row for each member of a list."""
    return _call("unnest", name)


def inline(name: Named) -> Column:
    """Return a row for each struct of a list, with its members as columns."""
    return Inline(column(name).sql)


# Aggregates.


def count(name: Named) -> Column:
    """Count the values that are not null."""
    return _call("count", name)


def count_distinct(name: Named) -> Column:
    """Count distinct values."""
    return Column(f"count(DISTINCT {column(name).sql})")


def count_if(condition: Named) -> Column:
    """Count the rows that satisfy a condition."""
    return Column(f"count(CASE WHEN {column(condition).sql} THEN 1 END)")


def sum(name: Named) -> Column:
    """Sum the values that are not null; null if all are. Integer sums have 128 bits."""
    return _call("sum", name)


def min(name: Named) -> Column:
    """Return the smallest value."""
    return _call("min", name)


def max(name: Named) -> Column:
    """Return the largest value."""
    return _call("max", name)


def min_by(name: Named, by: Named) -> Column:
    """Return the value, null or not, of the row in which another is smallest."""
    return _call("arg_min_null", name, by)


def max_by(name: Named, by: Named) -> Column:
    """Return the value, null or not, of the row in which another is largest."""
    return _call("arg_max_null", name, by)


def any_value(name: Named) -> Column:
    """Return the value of any row."""
    return _call("any_value", name)


def collect_list(name: Named) -> Column:
    """Return a list of the values that are not null; empty if all are."""
    value = column(name).sql
    return Column(f"coalesce(list({value}) FILTER (WHERE {value} IS NOT NULL), [])")


def percentile(name: Named, shares: Sequence[float]) -> Column:
    """Return percentiles, interpolated between values.

    DuckDB's own function interpolates with another rounding.
    """
    value = column(name).sql
    values = f"list({value} ORDER BY {value}) FILTER (WHERE {value} IS NOT NULL)"
    found = (f"percentile_of({values}, CAST({share} AS DOUBLE))" for share in shares)
    return Column(f"list_value({', '.join(found)})")


# Windows.


def lag(name: Named) -> Column:
    """Return the value of the previous row."""
    return _call("lag", name)


def lead(name: Named) -> Column:
    """Return the value of the next row."""
    return _call("lead", name)


def last(name: Named, *, ignorenulls: bool = False) -> Column:
    """Return the value of the last row of a window."""
    return Column(f"last_value({column(name).sql}{' IGNORE NULLS' * ignorenulls})")


def _call(function: str, *names: Named) -> Column:
    return Column(f"{function}({', '.join(column(name).sql for name in names)})")


def _each(function: str, name: Named, work: Callable[[Column], Column]) -> Column:
    parameter = f"one_{next(_PARAMETERS)}"
    return Column(
        f"{function}({column(name).sql}, lambda {parameter}: {work(Column(parameter)).sql})"
    )
