"""Flat tables, those of numbers and strings without lists: detection, rows, and file constants.

The constants are those of Parquet and Thrift's compact protocol, and the indexes into results of
kernels. Rows of a file are flat integer arrays, convertible to Arrow tables.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from pregao.arrays import BoolArray, Int64Array, arrow_numbers, arrow_texts

# Physical types of columns.
INT32, INT64, TEXT = 1, 2, 6

# Encodings of pages.
PLAIN, RLE, DELTA, DICTIONARY = 0, 3, 5, 8

# Compression of pages.
UNCOMPRESSED, ZSTD = 0, 6

# Types of pages.
DATA_PAGE, DICTIONARY_PAGE = 0, 2

# Types of fields in a Thrift struct.
TRUE, FALSE, BYTE, SHORT, SMALL_NUMBER, NUMBER, DOUBLE, BINARY, LIST, SET, STRUCT = (
    1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12,
)  # fmt: skip
MAX_MEMBERS = 24
"""Maximum fields read of a struct; later ones are skipped."""
RECORD_FACTS = 2 * MAX_MEMBERS
"""Size of a parsed struct: the value or position of each field, then the type of each."""
DEEPEST = 12
"""Maximum nesting of structs and lists."""

PAGE_ROWS = 16_384
BLOCK = 128
"""Deltas in a block; each quarter of it is packed with its own bit width."""

# Columns of results about a column chunk, and about a page.
(
    AT, DICTIONARY_BYTES, BYTES, ROWS, NULLS, CODING, LOW, HIGH, FIRST_PAGE, PAGES, COLUMN,
    INDEX_AT, INDEX_BYTES, OFFSETS_AT, OFFSETS_BYTES, CODEC, PLAIN_BYTES, CHUNK_FACTS,
) = range(18)  # fmt: skip
PAGE_AT, PAGE_BYTES, PAGE_ROW, PAGE_NULLS, PAGE_LOW, PAGE_HIGH, PAGE_VALUES, PAGE_FACTS = range(8)

# Columns of the footer's facts about a row group, and about a column chunk.
GROUP_ROWS, GROUP_FACTS = range(2)
(
    KNOWN_KIND, KNOWN_CODEC, KNOWN_AT, KNOWN_BYTES, KNOWN_NULLS, KNOWN_BOUNDED, KNOWN_LOW,
    KNOWN_HIGH, KNOWN_FACTS,
) = range(9)  # fmt: skip


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
            labels = arrow_numbers(self.values.astype(np.int32), mask)
            named = pa.DictionaryArray.from_arrays(labels, arrow_texts(self.texts))
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
