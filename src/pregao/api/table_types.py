"""Types of the columns that tables of a lake have in Arrow, pandas and Polars.

Times are timestamps with nanoseconds and a time zone; prices are exact decimals, or floats for
libraries that do not calculate with decimals; integers stay integers where values are missing.
"""

from __future__ import annotations

from typing import Any, Literal

from pregao.extras import require

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
