"""Statistics of Parquet files in the format of Delta logs."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

INDEXED_COLUMNS = 32
"""Number of leading columns with statistics in Delta; readers use no more."""

_MAX_TEXT = 32
_LAST_CHARACTER = "\U0010ffff"
_EPOCH = date(1970, 1, 1).toordinal()


@dataclass(frozen=True, slots=True)
class ColumnBounds:
    """Null count, minimum and maximum of a column."""

    nulls: int
    low: Any = None
    high: Any = None

    def with_more(self, more: ColumnBounds) -> ColumnBounds:
        """Merge with the bounds of more rows."""
        ends = [end for end in (self.low, self.high, more.low, more.high) if end is not None]
        nulls = self.nulls + more.nulls
        return ColumnBounds(nulls, min(ends), max(ends)) if ends else ColumnBounds(nulls)


def bounds_of(column: Any) -> ColumnBounds:
    """Return the bounds of a column of integers, or of decimals stored as integers."""
    scale = column.type.scale if pa.types.is_decimal(column.type) else None
    found = ColumnBounds(0)
    for chunk in column.chunks:
        ends = pc.min_max(chunk if scale is None else chunk.view(pa.int64()))
        low, high = ends["min"].as_py(), ends["max"].as_py()
        if scale is not None and low is not None:
            low, high = (Decimal(end).scaleb(-scale) for end in (low, high))
        found = found.with_more(ColumnBounds(chunk.null_count, low, high))
    return found


def name_bounds(rows: Any) -> dict[str, ColumnBounds]:
    """Return the bounds of dictionary-encoded string columns, from the dictionaries alone.

    Some readers of Delta tables treat a column without bounds as one without values.
    """
    found = {}
    for name, column in zip(rows.column_names, rows.columns, strict=True):
        if pa.types.is_dictionary(column.type) and pa.types.is_string(column.type.value_type):
            texts = {text for chunk in column.chunks for text in chunk.dictionary.to_pylist()}
            texts.discard(None)
            if column.null_count == len(column) or not texts:
                found[name] = ColumnBounds(column.null_count)
            else:
                found[name] = ColumnBounds(column.null_count, min(texts), max(texts))
    return found


def stats_json(metadata: Any, schema: Any, known: Mapping[str, ColumnBounds] | None = None) -> str:
    """Return Delta's statistics of a file: rows; minima, maxima and null counts of leading columns.

    ``metadata`` is the file's pyarrow ``FileMetaData``, ``schema`` the table's declared schema,
    ``known`` has bounds of columns without statistics in the file. Decimals are written as exact
    numbers. Columns without exact bounds are omitted.
    """
    index_of = {metadata.schema.column(index).path: index for index in range(metadata.num_columns)}
    minima: list[str] = []
    maxima: list[str] = []
    nulls: list[str] = []
    for field in list(schema)[:INDEXED_COLUMNS]:
        index = index_of.get(field.name)
        if index is None or pa.types.is_nested(field.type):
            continue
        chunks = [
            metadata.row_group(group).column(index) for group in range(metadata.num_row_groups)
        ]
        statistics = [chunk.statistics for chunk in chunks]
        name = json.dumps(field.name)
        if any(found is None or not found.has_null_count for found in statistics):
            given = (known or {}).get(field.name)
            if given is not None:
                nulls.append(f"{name}:{given.nulls}")
                bounds = None if given.low is None else _as_json(given.low, given.high, field.type)
                if bounds is not None:
                    minima.append(f"{name}:{bounds[0]}")
                    maxima.append(f"{name}:{bounds[1]}")
            continue
        nulls.append(f"{name}:{sum(found.null_count for found in statistics)}")
        # A row group of only nulls has no bounds and needs none.
        valued = [found for found in statistics if found.num_values]
        if not valued or not all(found.has_min_max for found in valued):
            continue
        bounds = _bounds(valued, field.type)
        if bounds is not None:
            minima.append(f"{name}:{bounds[0]}")
            maxima.append(f"{name}:{bounds[1]}")
    return (
        f'{{"numRecords":{metadata.num_rows},"minValues":{{{",".join(minima)}}},'
        f'"maxValues":{{{",".join(maxima)}}},"nullCount":{{{",".join(nulls)}}}}}'
    )


def _bounds(statistics: list[Any], kind: Any) -> tuple[str, str] | None:
    """Return the bounds over all row groups as JSON; None if there are none."""
    if pa.types.is_date32(kind):
        low = min(found.min_raw for found in statistics)
        high = max(found.max_raw for found in statistics)
        days = _day(low), _day(high)
        return None if days[0] is None or days[1] is None else (days[0], days[1])
    if pa.types.is_floating(kind):
        values = [value for found in statistics for value in (found.min, found.max)]
        if not all(math.isfinite(value) for value in values):
            return None
        return repr(float(min(values))), repr(float(max(values)))
    if not any(is_kind(kind) for is_kind in _ORDERED):
        return None
    low = min(found.min for found in statistics)
    high = max(found.max for found in statistics)
    return _as_json(low, high, kind)


_ORDERED = (
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_decimal,
    pa.types.is_integer,
)


def _as_json(low: Any, high: Any, kind: Any) -> tuple[str, str] | None:
    """Return bounds of strings, decimals and integers as JSON."""
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _text_bounds(low, high)
    if pa.types.is_decimal(kind):
        if not (isinstance(low, Decimal) and isinstance(high, Decimal)):
            return None
        return f"{low:f}", f"{high:f}"
    return str(low), str(high)


def _day(days: int) -> str | None:
    """Return a day in ISO format; None outside the years that ISO format supports."""
    ordinal = days + _EPOCH
    if not date.min.toordinal() <= ordinal <= date.max.toordinal():
        return None
    return json.dumps(date.fromordinal(ordinal).isoformat())


def _text_bounds(low: str, high: str) -> tuple[str, str] | None:
    """Return truncated bounds of strings; a truncated maximum is raised above its prefix."""
    if len(high) > _MAX_TEXT:
        if high[_MAX_TEXT] == _LAST_CHARACTER:
            return None
        high = high[:_MAX_TEXT] + _LAST_CHARACTER
    return json.dumps(low[:_MAX_TEXT]), json.dumps(high)
