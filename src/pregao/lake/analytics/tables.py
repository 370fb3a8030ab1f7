"""What an analytics table is: its columns, how its rows are made, and of what."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from pregao.lake.analytics.engine import Column, DataFrame, F
from pregao.lake.analytics.reading import Day
from pregao.lake.analytics.spark_types import spark_type as spark_type
from pregao.lake.ingest import DATE_FIELD, bounded_spec
from pregao.lake.store import TableSpec

PRICE = pa.decimal128(18, 4)
AVERAGE = pa.decimal128(22, 8)
"""An average price: as many whole digits as a price has, and eight decimals."""
NOTIONAL = pa.decimal128(34, 4)

DEFAULT_INTERVALS = ("1s", "1m", "5m", "1h", "1d")


@dataclass(frozen=True, slots=True)
class Wanted:
    """What can be chosen."""

    intervals: tuple[str, ...] = DEFAULT_INTERVALS
    """How long bars are."""


@dataclass(frozen=True, slots=True)
class AnalyticsTable:
    """A table, and how a day of it is made."""

    name: str
    description: str
    columns: tuple[Any, ...]
    build: Callable[[Day, Wanted], DataFrame]
    templates: tuple[int, ...] = ()
    """The messages it is made of."""
    others: tuple[str, ...] = ()
    """The other tables it is made of, where they exist."""
    needs: tuple[str, ...] = ()
    """The analytics tables it is made of: they are made first."""
    spread_by: tuple[str, ...] = ("channel", "security_id")
    """Rows alike in these columns (or expressions of SQL) stand in the same file."""
    sort_by: tuple[str, ...] = ("channel", "security_id")

    @property
    def spec(self) -> TableSpec:
        """The table as the lake keeps it."""
        return bounded_spec(self.name, pa.schema([*self.columns, DATE_FIELD]), self.description)


def column(name: str, kind: Any, comment: str) -> Any:
    """A column of a table, with what it means."""
    return pa.field(name, kind, metadata={"comment": comment})


def conform(frame: DataFrame, columns: Iterable[Any]) -> DataFrame:
    """Exactly these columns, in their order and types."""
    return frame.select(
        [F.col(field.name).cast(spark_type(field.type)).alias(field.name) for field in columns]
    )


def missing(columns: Iterable[Any]) -> list[Column]:
    """Columns of nulls."""
    return [F.lit(None).cast(spark_type(field.type)).alias(field.name) for field in columns]
