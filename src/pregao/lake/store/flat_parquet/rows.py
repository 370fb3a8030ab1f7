"""Rows of a file as flat integer arrays, convertible to Arrow tables."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from pregao.arrays import BoolArray, Int64Array


@dataclass(frozen=True, slots=True)
class FlatColumn:
    """A column as integers; strings as indexes into ``texts``."""

    kind: Any
    """Arrow type with which pyarrow reads the column."""
    values: Int64Array
    there: BoolArray | None
    """Mask of non-null values; None if the column has no nulls."""
    texts: list[str] | None = None

    def take(self, chosen: slice | Int64Array) -> FlatColumn:
        """Return selected values."""
        valid = None if self.there is None else self.there[chosen]
        return FlatColumn(self.kind, self.values[chosen], valid, self.texts)

    def arrow(self, *, as_dictionary: bool) -> Any:
        """Return the column as pyarrow would read it."""
        count, valid = len(self.values), self.there
        if valid is not None and valid.all():
            valid = None
        if self.texts is not None:
            mask = None if valid is None else ~valid
            labels = pa.array(self.values.astype(np.int32), mask=mask)
            named = pa.DictionaryArray.from_arrays(labels, pa.array(self.texts, pa.string()))
            return named if as_dictionary else named.cast(pa.string())
        bits = None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))
        if pa.types.is_decimal128(self.kind):
            wide = np.empty((count, 2), np.int64)
            wide[:, 0] = self.values
            np.right_shift(self.values, 63, out=wide[:, 1])
        else:
            width = self.kind.bit_width // 8
            wide = np.ascontiguousarray(self.values, np.dtype(f"<i{width}"))
        return pa.Array.from_buffers(self.kind, count, [bits, pa.py_buffer(wide)])


@dataclass(frozen=True, slots=True)
class FlatRows:
    """Rows of a file, by column."""

    count: int
    columns: dict[str, FlatColumn]

    def numbers(self, name: str) -> Int64Array:
        """Return a column as integers."""
        return self.columns[name].values

    def take(self, chosen: slice | Int64Array) -> FlatRows:
        """Return selected rows."""
        columns = {name: column.take(chosen) for name, column in self.columns.items()}
        count = (
            len(range(*chosen.indices(self.count))) if isinstance(chosen, slice) else len(chosen)
        )
        return FlatRows(count, columns)

    def table(self, names: Sequence[str], dictionaries: Collection[str]) -> Any:
        """Return columns as an Arrow table; those in ``dictionaries`` stay dictionary-encoded."""
        arrays = [self.columns[name].arrow(as_dictionary=name in dictionaries) for name in names]
        fields = [
            pa.field(name, array.type, self.columns[name].there is not None)
            for name, array in zip(names, arrays, strict=True)
        ]
        return pa.Table.from_arrays(arrays, schema=pa.schema(fields))
