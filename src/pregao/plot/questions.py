"""What pictures ask of a lake, and how the answers become columns of numbers."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import date
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pregao.api import Lake
from pregao.api.values import Time, day_from, moment_ns
from pregao.errors import NothingFoundError

Place = Lake | str | os.PathLike[str]


@dataclass(frozen=True, slots=True)
class Span:
    """The instrument, day and times that a picture is about; None means all."""

    symbol: str | None = None
    day: date | None = None
    since_ns: int | None = None
    until_ns: int | None = None

    def condition(self, time: str) -> str:
        """The same in SQL, where ``time`` is the column of nanoseconds."""
        parts = ["true"]
        if self.symbol is not None:
            name = self.symbol.upper().replace("'", "''")
            if name.isdigit():
                parts.append(f"(upper(symbol) = '{name}' OR security_id = {int(name)})")
            else:
                parts.append(f"upper(symbol) = '{name}'")
        if self.day is not None:
            parts.append(f"date = DATE '{self.day.isoformat()}'")
        if self.since_ns is not None:
            parts.append(f"{time} >= {self.since_ns}")
        if self.until_ns is not None:
            parts.append(f"{time} < {self.until_ns}")
        return " AND ".join(parts)


def span_of(
    symbol: str | None, day: date | str | None, since: Time | None, until: Time | None, zone: str
) -> Span:
    """What is meant by the arguments of a picture."""
    return Span(
        symbol,
        None if day is None else day_from(day),
        None if since is None else moment_ns(since, zone),
        None if until is None else moment_ns(until, zone),
    )


def opened(place: Place) -> Lake:
    """A lake, or the one in a folder."""
    return place if isinstance(place, Lake) else Lake(place)


def answer(place: Place, sql: str, of: str) -> dict[str, npt.NDArray[Any]]:
    """The columns of a query, decimals as floating-point numbers; no rows are an error."""
    rows = opened(place).sql(sql)
    if not rows.num_rows:
        raise NothingFoundError(f"There is nothing to draw: {of}.")
    return {name: _numbers(rows[name]) for name in rows.column_names}


def _numbers(column: Any) -> npt.NDArray[Any]:
    if pa.types.is_decimal(column.type):
        column = column.cast(pa.float64())
    return np.asarray(column.to_numpy())
