"""A Parquet file's statistics in the form in which a Delta table keeps them."""

from __future__ import annotations

import json
import math
from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa

INDEXED_COLUMNS = 32
"""Delta keeps statistics of this many leading columns; readers look at no more."""

_LONGEST = 32
_LAST_CHARACTER = "\U0010ffff"
_EPOCH = date(1970, 1, 1).toordinal()


def stats_json(metadata: Any, schema: Any) -> str:
    """Delta's statistics of a file: rows, and smallest, largest and nulls of the leading columns.

    ``metadata`` is the file's pyarrow ``FileMetaData``, ``schema`` the table's declared schema.
    Decimals are written as exact numbers. What cannot be bounded for certain is left out.
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
        if any(found is None or not found.has_null_count for found in statistics):
            continue
        name = json.dumps(field.name)
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
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _text_bounds(
            min(found.min for found in statistics), max(found.max for found in statistics)
        )
    if pa.types.is_decimal(kind):
        low = min(found.min for found in statistics)
        high = max(found.max for found in statistics)
        if not (isinstance(low, Decimal) and isinstance(high, Decimal)):
            return None
        return f"{low:f}", f"{high:f}"
    if pa.types.is_integer(kind):
        return (
            str(min(found.min for found in statistics)),
            str(max(found.max for found in statistics)),
        )
    if pa.types.is_floating(kind):
        values = [value for found in statistics for value in (found.min, found.max)]
        if not all(math.isfinite(value) for value in values):
            return None
        return repr(float(min(values))), repr(float(max(values)))
    return None


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
