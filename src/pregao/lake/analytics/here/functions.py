"""The functions of ``pyspark.sql.functions`` that our tables use, as texts of DuckDB's SQL.

They have Spark's names and mean what they mean there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count as numbers
from typing import Any

from pregao.lake.analytics.here.columns import Case, Column, Inline, Ordering, column, literal
from pregao.lake.sql.duckdb_session import quoted_name

Named = str | Column

_PARAMETERS = numbers()


def col(name: str) -> Column:
    """A column by its name; ``first.event`` is the member of a struct."""
    return column(name)


def lit(value: Any) -> Column:
    """The same value in each row."""
    return literal(value)


def expr(sql: str) -> Column:
    """An expression of SQL that both engines understand."""
    return Column(f"({sql})")


def desc(name: Named) -> Column:
    """To sort from the largest to the smallest."""
    return Ordering(column(name).sql)


def broadcast(frame: Any) -> Any:
    """The same rows: in one process there is nowhere to send them."""
    return frame


def when(condition: Column, value: Any) -> Case:
    """A value where a condition holds."""
    return Case(((condition, literal(value)),))


def coalesce(*names: Named) -> Column:
    """The first that is not null."""
    return _call("coalesce", *names)


def greatest(*names: Named) -> Column:
    """The largest that is not null."""
    return _call("greatest", *names)


def least(*names: Named) -> Column:
    """The smallest that is not null."""
    return _call("least", *names)


def abs(name: Named) -> Column:
    """How far from zero."""
    return _call("abs", name)


def pmod(name: Named, by: Named) -> Column:
    """A remainder that is never negative."""
    value, divisor = column(name).sql, column(by).sql
    return Column(f"((({value} % {divisor}) + {divisor}) % {divisor})")


def struct(*names: Named) -> Column:
    """Values as members of one, under their names."""
    members = []
    for one in map(column, names):
        if one.name is None:
            raise ValueError(f"A member of a struct needs a name: {one.sql}")
        members.append(f"{quoted_name(one.name)} := {one.sql}")
    return Column(f"struct_pack({', '.join(members)})")


# Lists.


def array(*names: Named) -> Column:
    """Values as a list."""
    return _call("list_value", *names)


def array_compact(name: Named) -> Column:
    """A list without its nulls."""
    return filter(name, lambda one: one.isNotNull())


def filter(name: Named, keep: Callable[[Column], Column]) -> Column:
    """The members of a list of which a condition holds."""
    return _each("list_filter", name, keep)


def transform(name: Named, make: Callable[[Column], Column]) -> Column:
    """Something made of each member of a list."""
    return _each("list_transform", name, make)


def sort_array(name: Named) -> Column:
    """A list from its smallest to its largest member."""
    return Column(f"list_sort({column(name).sql}, 'ASC', 'NULLS FIRST')")


def size(name: Named) -> Column:
    """How many members a list has."""
    return _call("len", name)


def get(name: Named, place: Column) -> Column:
    """The member at a place from 0; null where there is none."""
    return Column(f"list_extract({column(name).sql}, {place.sql} + 1)")


def try_element_at(name: Named, place: Column) -> Column:
    """The member at a place from 1, or from -1 backwards; null where there is none."""
    return Column(f"list_extract({column(name).sql}, {place.sql})")


def explode(name: Named) -> Column:
    """A row for each member of a list."""
    return _call("unnest", name)


def inline(name: Named) -> Column:
    """A row for each struct of a list, its members as columns."""
    return Inline(column(name).sql)


# Aggregates.


def count(name: Named) -> Column:
    """How many are not null."""
    return _call("count", name)


def count_distinct(name: Named) -> Column:
    """How many different ones there are."""
    return Column(f"count(DISTINCT {column(name).sql})")


def count_if(condition: Named) -> Column:
    """Of how many a condition holds."""
    return Column(f"count(CASE WHEN {column(condition).sql} THEN 1 END)")


def sum(name: Named) -> Column:
    """The sum of what is not null; null if nothing is. Of whole numbers it has 128 bits."""
    return _call("sum", name)


def min(name: Named) -> Column:
    """The smallest."""
    return _call("min", name)


def max(name: Named) -> Column:
    """The largest."""
    return _call("max", name)


def min_by(name: Named, by: Named) -> Column:
    """The value, null or not, of the row in which another is smallest."""
    return _call("arg_min_null", name, by)


def max_by(name: Named, by: Named) -> Column:
    """The value, null or not, of the row in which another is largest."""
    return _call("arg_max_null", name, by)


def any_value(name: Named) -> Column:
    """The value of some row."""
    return _call("any_value", name)


def collect_list(name: Named) -> Column:
    """All that are not null; an empty list if nothing is."""
    value = column(name).sql
    return Column(f"coalesce(list({value}) FILTER (WHERE {value} IS NOT NULL), [])")


def percentile(name: Named, shares: Sequence[float]) -> Column:
    """Values not exceeded by these shares of all, between two values interpolated.

    DuckDB's own interpolates with another rounding.
    """
    value = column(name).sql
    values = f"list({value} ORDER BY {value}) FILTER (WHERE {value} IS NOT NULL)"
    found = (f"percentile_of({values}, CAST({share} AS DOUBLE))" for share in shares)
    return Column(f"list_value({', '.join(found)})")


# Windows.


def lag(name: Named) -> Column:
    """The value of the row before."""
    return _call("lag", name)


def lead(name: Named) -> Column:
    """The value of the row behind."""
    return _call("lead", name)


def last(name: Named, *, ignorenulls: bool = False) -> Column:
    """The value of the last row of a window."""
    return Column(f"last_value({column(name).sql}{' IGNORE NULLS' * ignorenulls})")


def _call(function: str, *names: Named) -> Column:
    return Column(f"{function}({', '.join(column(name).sql for name in names)})")


def _each(function: str, name: Named, work: Callable[[Column], Column]) -> Column:
    parameter = f"one_{next(_PARAMETERS)}"
    return Column(
        f"{function}({column(name).sql}, lambda {parameter}: {work(Column(parameter)).sql})"
    )
