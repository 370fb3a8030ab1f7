"""Detection of flat tables: those of numbers and strings, without lists."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from pregao.lake.store.flat_parquet.numbers import INT32, INT64, TEXT


def is_flat(schema: Any) -> bool:
    """Whether tables of a schema can be written by `FlatWriter`."""
    return len(schema) > 0 and all(kind_of(entry.type) is not None for entry in schema)


def kind_of(kind: Any) -> int | None:
    """Return the physical Parquet type of an Arrow type; None if it is not supported."""
    if pa.types.is_dictionary(kind):
        return TEXT if pa.types.is_string(kind.value_type) else None
    if pa.types.is_int64(kind) or (pa.types.is_decimal64(kind) and kind.precision > 9):
        return INT64
    if pa.types.is_int32(kind) or pa.types.is_int16(kind) or pa.types.is_date32(kind):
        return INT32
    return None
