"""Frames and columns that the tables are defined with: SQL expressions that DuckDB evaluates."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from typing import Any

import pyarrow as pa

from pregao.lake.analytics.local import functions as F  # noqa: N812 - the conventional name
from pregao.lake.analytics.local.columns import Column, Window
from pregao.lake.analytics.local.frames import DataFrame

__all__ = ["Column", "DataFrame", "F", "Window", "all_of", "spark_type"]


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
