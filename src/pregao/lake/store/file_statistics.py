"""A Parquet file's statistics in the form in which a Delta table keeps them."""

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
"""Delta keeps statistics of this many leading columns; readers look at no more."""

_LONGEST = 32
_LAST_CHARACTER = "\U0010ffff"
_EPOCH = date(1970, 1, 1).toordinal()


@dataclass(frozen=True, slots=True)
class Bounds:
    """Of a column: how many values are null, and between what the others are."""

    nulls: int
    low: Any = None
    high: Any = None

    def with_more(self, more: Bounds) -> Bounds:
        """The same of this and more rows."""
        ends = [end for end in (self.low, self.high, more.low, more.high) if end is not None]
        nulls = self.nulls + more.nulls
        return Bounds(nulls, min(ends), max(ends)) if ends else Bounds(nulls)


def bounds_of(column: Any) -> Bounds:
    """Bounds of a column of whole numbers or of decimals that files hold as such."""
    scale = column.type.scale if pa.types.is_decimal(column.type) else None
    found = Bounds(0)
    for chunk in column.chunks:
        ends = pc.min_max(chunk if scale is None else chunk.view(pa.int64()))
        low, high = ends["min"].as_py(), ends["max"].as_py()
        if scale is not None and low is not None:
            low, high = (Decimal(end).scaleb(-scale) for end in (low, high))
        found = found.with_more(Bounds(chunk.null_count, low, high))
    return found


def name_bounds(rows: Any) -> dict[str, Bounds]:
    """Bounds of the columns that are dictionaries of texts, from the dictionaries alone.

    Some readers of Delta tables take a column without bounds for one without values.
    """
    found = {}
    for name, column in zip(rows.column_names, rows.columns, strict=True):
        if pa.types.is_dictionary(column.type) and pa.types.is_string(column.type.value_type):
            texts = {text for chunk in column.chunks for text in chunk.dictionary.to_pylist()}
            texts.discard(None)
            if column.null_count == len(column) or not texts:
                found[name] = Bounds(column.null_count)
            else:
                found[name] = Bounds(column.null_count, min(texts), max(texts))
    return found


def stats_json(metadata: Any, schema: Any, known: Mapping[str, Bounds] | None = None) -> str:
    """Delta's statistics of a file: rows, and smallest, largest and nulls of the leading columns.

    ``metadata`` is the file's pyarrow ``FileMetaData``, ``schema`` the table's declared schema,
    ``known`` what is known of columns of which the file keeps no statistics. Decimals are written
    as exact numbers. What cannot be bounded for certain is left out.
    """
    places = {metadata.schema.column(place).path: place for place in range(metadata.num_columns)}
    smallest: list[str] = []
    largest: list[str] = []
    nulls: list[str] = []
    for field in list(schema)[:INDEXED_COLUMNS]:
        place = places.get(field.name)
        if place is None or pa.types.is_nested(field.type):
            continue
        chunks = [
            metadata.row_group(group).column(place) for group in range(metadata.num_row_groups)
        ]
        statistics = [chunk.statistics for chunk in chunks]
        name = json.dumps(field.name)
        if any(found is None or not found.has_null_count for found in statistics):
            told = (known or {}).get(field.name)
            if told is not None:
                nulls.append(f"{name}:{told.nulls}")
                bounds = None if told.low is None else _as_json(told.low, told.high, field.type)
                if bounds is not None:
                    smallest.append(f"{name}:{bounds[0]}")
                    largest.append(f"{name}:{bounds[1]}")
            continue
        nulls.append(f"{name}:{sum(found.null_count for found in statistics)}")
        # A row group of nulls alone has no bounds and needs none.
        valued = [found for found in statistics if found.num_values]
        if not valued or not all(found.has_min_max for found in valued):
            continue
        bounds = _bounds(valued, field.type)
        if bounds is not None:
            smallest.append(f"{name}:{bounds[0]}")
            largest.append(f"{name}:{bounds[1]}")
    return (
        f'{{"numRecords":{metadata.num_rows},"minValues":{{{",".join(smallest)}}},'
        f'"maxValues":{{{",".join(largest)}}},"nullCount":{{{",".join(nulls)}}}}}'
    )


def _bounds(statistics: list[Any], kind: Any) -> tuple[str, str] | None:
    """The bounds over all row groups, as JSON; None where none can be given."""
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
    """Bounds of texts, decimals and whole numbers as JSON."""
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _text_bounds(low, high)
    if pa.types.is_decimal(kind):
        if not (isinstance(low, Decimal) and isinstance(high, Decimal)):
            return None
        return f"{low:f}", f"{high:f}"
    return str(low), str(high)


def _day(days: int) -> str | None:
    """A day in ISO form; None beyond the years that have one."""
    ordinal = days + _EPOCH
    if not date.min.toordinal() <= ordinal <= date.max.toordinal():
        return None
    return json.dumps(date.fromordinal(ordinal).isoformat())


def _text_bounds(low: str, high: str) -> tuple[str, str] | None:
    """Bounds of texts, cut short; a cut upper bound is raised above all that begins like it."""
    if len(high) > _LONGEST:
        if high[_LONGEST] == _LAST_CHARACTER:
            return None
        high = high[:_LONGEST] + _LAST_CHARACTER
    return json.dumps(low[:_LONGEST]), json.dumps(high)
