"""Queries of the plots on a lake, with results as numpy columns."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pregao.api.arguments import Time, day_from, moment_ns
from pregao.api.lake import Lake
from pregao.errors import NothingFoundError
from pregao.lake.sql.duckdb_engine import bound_rows
from pregao.lake.storage.lake_store import LakeStore

_NUMBER = re.compile("[0-9]{1,18}")

LakeLike = Lake | str | os.PathLike[str]


@dataclass(frozen=True, slots=True)
class ChartRange:
    """Instrument, day and time range of a plot; None means all."""

    symbol: str | None = None
    day: date | None = None
    since_ns: int | None = None
    until_ns: int | None = None

    @property
    def values(self) -> dict[str, Any]:
        """Bound values of a query by name; null means no condition."""
        name = None if self.symbol is None else self.symbol.upper()
        number = int(name) if name is not None and _NUMBER.fullmatch(name) else None
        return {
            "symbol": name,
            "security_id": number,
            "day": self.day,
            "since_ns": self.since_ns,
            "until_ns": self.until_ns,
        }


def span_of(
    symbol: str | None, day: date | str | None, since: Time | None, until: Time | None, zone: str
) -> ChartRange:
    """Return the span that the arguments of a plot denote."""
    return ChartRange(
        symbol,
        None if day is None else day_from(day),
        None if since is None else moment_ns(since, zone),
        None if until is None else moment_ns(until, zone),
    )


def opened(lake: LakeLike) -> Lake:
    """Return a lake, opened if it is given by its path."""
    return lake if isinstance(lake, Lake) else Lake(lake)


def answer(
    lake: LakeLike, table: str, sql: str, values: Mapping[str, Any], of: str
) -> dict[str, npt.NDArray[Any]]:
    """Return the columns of a query, decimals as floats.

    Raises:
        NothingFoundError: There are no rows; ``of`` is the reason in the message.
    """
    rows = bound_rows(LakeStore(opened(lake).location), [table], sql, values)
    if not rows.num_rows:
        raise NothingFoundError(f"There is nothing to draw: {of}.")
    return {name: _numbers(rows[name]) for name in rows.column_names}


def _numbers(column: Any) -> npt.NDArray[Any]:
    if pa.types.is_decimal(column.type):
        column = column.cast(pa.float64())
    return np.asarray(column.to_numpy())
