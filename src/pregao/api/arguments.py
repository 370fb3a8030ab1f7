"""Conversion of arguments: times, days and lists as callers may write them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import date, datetime
from enum import Enum
from typing import Any, Literal, TypeVar

from pregao.clock import nanoseconds, parse_ns
from pregao.errors import UsageError
from pregao.extras import require
from pregao.units import parse_day, parse_zone

UTC = "UTC"
Time = int | str | datetime
"""Nanoseconds since 1970 UTC, ISO 8601, or a datetime (also one of pandas or numpy)."""

Path = str | os.PathLike[str]
T = TypeVar("T", int, str)
E = TypeVar("E", bound=Enum)
_OPTION = re.compile(r"(?<![\w-])--([a-z][a-z-]*)(?: (spark|local)\b)?")


def moment_ns(at: Time | Any, tz: str = UTC) -> int:
    """Return a time in nanoseconds since 1970; one without an offset is in the time zone ``tz``."""
    if isinstance(at, int) and not isinstance(at, bool):
        return nanoseconds(at)
    text = at.isoformat() if isinstance(at, datetime) else str(at)
    try:
        return parse_ns(text, parse_zone(tz, "tz"))
    except (ValueError, OverflowError):
        raise UsageError(
            f"{text!r} is not a valid time: use ISO 8601 such as '2026-05-21 10:00:00.5', "
            "nanoseconds since 1970, or a datetime."
        ) from None


def day_from(day: date | str) -> date:
    """Return a day as a date, from itself or from text such as ``2026-05-21``."""
    if isinstance(day, datetime):
        return day.date()
    if isinstance(day, date):
        return day
    return parse_day(day, "day")


def listed(values: T | Iterable[T] | None) -> tuple[T, ...]:
    """Return one value or several as a tuple; empty for None."""
    if values is None:
        return ()
    return (values,) if isinstance(values, int | str) else tuple(values)


def numbers(values: int | Iterable[int] | None, what: str) -> tuple[int, ...]:
    """Return one number or several, also from text; ``what`` is the name of the argument."""
    try:
        return tuple(int(value) for value in listed(values))
    except (TypeError, ValueError):
        raise UsageError(f"{what} must be an integer or several, was {values!r}.") from None


def paths(named: Path | Iterable[Path] | None) -> Iterator[str]:
    """Yield one path or several as text."""
    if isinstance(named, str | os.PathLike):
        yield os.fspath(named)
    elif named is not None:
        yield from map(str, named)


@contextmanager
def parameters(**renamed: str) -> Iterator[None]:
    """Name parameters where an error names options of the command line: ``late_join``.

    ``renamed`` are the parameters that have another name than their options. Commands, which are in
    backticks, stay as they are.
    """

    def parameter(option: re.Match[str]) -> str:
        if option[2]:
            return f"{option[1]}={option[2]!r}"
        name = option[1].replace("-", "_")
        return renamed.get(name, name)

    try:
        yield
    except UsageError as error:
        parts = str(error).split("`")
        parts[::2] = [_OPTION.sub(parameter, part) for part in parts[::2]]
        if (text := "`".join(parts)) == str(error):
            raise
        raise type(error)(text) from error


def choice(kind: type[E], value: str, what: str) -> E:
    """Return the member of an enumeration by its value; ``what`` is the name of the argument."""
    try:
        return kind(value)
    except ValueError:
        known = ", ".join(repr(each.value) for each in kind)
        raise UsageError(f"{what} must be one of {known}, was {value!r}.") from None


Prices = Literal["decimal", "float"]
PRICES = ("decimal", "float")


def timestamps_in(rows: Any, tz: str) -> Any:
    """Return an Arrow table or batch whose timestamps without a zone, in UTC, have this zone."""
    import pyarrow as pa

    columns = [
        column.cast(pa.timestamp(column.type.unit, tz))
        if pa.types.is_timestamp(column.type) and column.type.tz is None
        else column
        for column in rows.columns
    ]
    return type(rows).from_arrays(columns, names=rows.schema.names)


def pandas_frame(rows: Any) -> Any:
    """Return an Arrow table as a DataFrame whose integers and booleans may be missing."""
    require("pandas")
    import pandas as pd
    import pyarrow as pa

    kinds = {
        pa.int8(): pd.Int8Dtype(),
        pa.int16(): pd.Int16Dtype(),
        pa.int32(): pd.Int32Dtype(),
        pa.int64(): pd.Int64Dtype(),
        pa.uint8(): pd.UInt8Dtype(),
        pa.uint16(): pd.UInt16Dtype(),
        pa.uint32(): pd.UInt32Dtype(),
        pa.uint64(): pd.UInt64Dtype(),
        pa.bool_(): pd.BooleanDtype(),
    }
    return rows.to_pandas(types_mapper=kinds.get)


def polars_typed(frame: Any, tz: str, prices: Prices) -> Any:
    """Return a Polars frame with timestamps in a zone, and prices as requested."""
    import polars as pl

    changed = []
    for name, kind in frame.collect_schema().items():
        column = pl.col(name)
        if isinstance(kind, pl.Datetime) and kind.time_zone is None:
            changed.append(column.dt.replace_time_zone("UTC").dt.convert_time_zone(tz))
        elif isinstance(kind, pl.Decimal) and prices == "float":
            changed.append(column.cast(pl.Float64))
    return frame.with_columns(changed) if changed else frame
