"""Engine that builds the tables: Spark, or DuckDB in this process.

A table is defined once, with PySpark's functions and methods. They are resolved when called: to
PySpark's own, or to those of `pregao.lake.analytics.local` within `local_engine`.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import reduce
from typing import TYPE_CHECKING, Any

import pyarrow as pa

__all__ = ["Column", "DataFrame", "F", "Window", "all_of", "local_engine", "spark_type"]

_LOCAL = "pregao.lake.analytics.local"
_in_process: ContextVar[bool] = ContextVar("in_process", default=False)


class _Chosen:
    """Names of a module or class of PySpark, or of its local replacement."""

    def __init__(self, spark: str, local: str) -> None:
        self._homes = spark, local

    def __getattr__(self, name: str) -> Any:
        home, _, owner = self._homes[_in_process.get()].partition(":")
        module = importlib.import_module(home)
        return getattr(getattr(module, owner) if owner else module, name)


if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Window
    from pyspark.sql import functions as F  # noqa: N812 - the conventional name
else:
    Column = DataFrame = Any
    F = _Chosen("pyspark.sql.functions", f"{_LOCAL}.functions")
    Window = _Chosen("pyspark.sql:Window", f"{_LOCAL}.columns:Window")


@contextmanager
def local_engine() -> Iterator[None]:
    """Use the columns and windows of the local engine instead of Spark's."""
    before = _in_process.set(True)
    try:
        yield
    finally:
        _in_process.reset(before)


def all_of(frames: Iterable[DataFrame]) -> DataFrame:
    """Return the rows of all frames, which have equal columns."""
    return reduce(lambda some, more: some.unionByName(more), frames)


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
