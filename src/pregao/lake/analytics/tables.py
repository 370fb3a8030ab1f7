"""Definition of an analytics table: its columns, its inputs, and how its rows are built."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import pyarrow as pa

from pregao.lake.analytics.legacy import LEGACY_SOURCES, LEGACY_TABLES
from pregao.lake.analytics.local import functions as F  # noqa: N812 - the conventional name
from pregao.lake.analytics.local.columns import Column, spark_type
from pregao.lake.analytics.local.frames import DataFrame
from pregao.lake.analytics.reading import LakeDay, message_table
from pregao.lake.ingest.schemas import DATE_FIELD, bounded_spec
from pregao.lake.storage.commit_unit import TableSpec

PRICE = pa.decimal128(18, 4)
AVERAGE = pa.decimal128(22, 8)
"""Average price: as many integer digits as a price has, and eight decimals."""
NOTIONAL = pa.decimal128(34, 4)

DEFAULT_INTERVALS = ("1s", "1m", "5m", "1h", "1d")


@dataclass(frozen=True, slots=True)
class AnalyticsOptions:
    """Settings of a build."""

    intervals: tuple[str, ...] = DEFAULT_INTERVALS
    """Lengths of bars."""


class Scope(Enum):
    """Unit for which a task builds a table."""

    CHANNEL = "channels"
    """A channel's day: its rows span instruments."""
    INSTRUMENTS = "instruments"
    """Some instruments of a channel's day."""
    EVENTS = "events"
    """Some events of a channel's day, of all instruments."""
    MINUTES = "minutes"
    """The events of some minutes of a channel's day."""


@dataclass(frozen=True, slots=True)
class AnalyticsTable:
    """Analytics table, and how a day of it is built."""

    name: str
    description: str
    columns: tuple[Any, ...]
    build: Callable[[LakeDay, AnalyticsOptions], Any]
    """Returns a frame, or an Arrow table or several in the order ``sort_by``."""
    templates: tuple[int, ...] = ()
    """Templates of its input messages."""
    others: tuple[str, ...] = ()
    """Its other input tables, where they exist."""
    needs: tuple[str, ...] = ()
    """Its input analytics tables, which are built first."""
    scope: Scope = Scope.INSTRUMENTS
    """What a task builds it for."""
    sort_by: tuple[str, ...] = ("channel", "security_id")

    @property
    def inputs(self) -> Sequence[str]:
        """Tables whose files it depends on."""
        return [
            *map(message_table, self.templates), *self.legacy_inputs, *self.others, *self.needs
        ]  # fmt: skip

    @property
    def legacy_inputs(self) -> Sequence[str]:
        """Tables of the legacy feed that it depends on."""
        return LEGACY_TABLES if LEGACY_SOURCES.keys() & set(self.templates) else ()

    @property
    def spec(self) -> TableSpec:
        """Specification of the table in the lake."""
        return bounded_spec(self.name, pa.schema([*self.columns, DATE_FIELD]), self.description)


def column(name: str, kind: Any, comment: str) -> Any:
    """Return a column of a table, with its comment."""
    return pa.field(name, kind, metadata={"comment": comment})


def conform(frame: DataFrame, columns: Iterable[Any]) -> DataFrame:
    """Return exactly these columns, in their order and types."""
    return frame.select(
        [F.col(field.name).cast(spark_type(field.type)).alias(field.name) for field in columns]
    )


def missing(columns: Iterable[Any]) -> list[Column]:
    """Return columns of nulls."""
    return [F.lit(None).cast(spark_type(field.type)).alias(field.name) for field in columns]
