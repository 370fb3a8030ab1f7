"""Arrow columns of message tables as flat integers, the form in which books are replayed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from zlib import crc32

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pregao.arrays import BoolArray, Int64Array, Uint8Array
from pregao.book.update_rows import NULL


def integers(column: Any, null: int = NULL) -> Int64Array:
    """Return a column of integers, dates or decimals as 64-bit integers; decimals as mantissas."""
    parts = [_integers(chunk, null) for chunk in _chunks(column)]
    if len(parts) == 1:
        return parts[0]
    return np.concatenate(parts) if parts else np.empty(0, np.int64)


# Buffers are read directly: to_numpy converts integers with nulls to floats, and pyarrow's
# conversions import pandas, which a command that shows one book need not wait for.


def _integers(chunk: Any, null: int) -> Int64Array:
    if chunk.null_count == len(chunk):
        return np.full(len(chunk), null, np.int64)
    values = _values(chunk)
    if chunk.null_count:
        # As 64 bits: numpy would truncate it to the width of narrower values.
        return np.where(_nulls(chunk), np.int64(null), values)
    return np.ascontiguousarray(values, np.int64)


def _values(chunk: Any) -> npt.NDArray[Any]:
    """Return the values of a chunk; those of nulls are undefined."""
    kind = chunk.type
    words = kind.bit_width // 64 if pa.types.is_decimal(kind) else 1
    width = 8 if pa.types.is_decimal(kind) else kind.bit_width // 8
    raw = np.frombuffer(chunk.buffers()[1], np.dtype(f"<i{width}"))
    return raw[chunk.offset * words : (chunk.offset + len(chunk)) * words : words]


def _bits(buffer: Any, offset: int, count: int) -> BoolArray:
    packed = np.frombuffer(buffer, np.uint8)
    return np.unpackbits(packed, bitorder="little")[offset : offset + count].view(np.bool_)


def _nulls(chunk: Any) -> BoolArray:
    return ~_bits(chunk.buffers()[0], chunk.offset, len(chunk))


def booleans(chunk: Any) -> BoolArray:
    """Return a column of booleans, in one chunk and without nulls."""
    return _bits(chunk.buffers()[1], chunk.offset, len(chunk))


def codes(column: Any, known: Mapping[str, int], other: int) -> Uint8Array:
    """Return the code of each name in a column; `other` for unknown names and null."""
    parts = []
    for chunk in _chunks(column):
        names = chunk if pa.types.is_dictionary(chunk.type) else chunk.dictionary_encode()
        of_name = [known.get(name, other) for name in names.dictionary.to_pylist()]
        table = np.array([*of_name, other], np.uint8)
        parts.append(table[_integers(names.indices, len(of_name))])
    return np.concatenate(parts) if parts else np.empty(0, np.uint8)


def checksums(column: Any) -> Int64Array:
    """Return a checksum for each text of a column; 0 for null."""
    parts = []
    for chunk in _chunks(column):
        names = chunk if pa.types.is_dictionary(chunk.type) else chunk.dictionary_encode()
        of_name = [crc32(name.encode()) for name in names.dictionary.to_pylist()]
        table = np.array([*of_name, 0], np.int64)
        parts.append(table[_integers(names.indices, len(of_name))])
    return np.concatenate(parts) if parts else np.empty(0, np.int64)


def take(rows: Any, chosen: Int64Array) -> Any:
    """Return rows of a table, or values of a column, by index."""
    chosen = np.ascontiguousarray(chosen, np.int64)
    indices = pa.Array.from_buffers(pa.int64(), len(chosen), [None, pa.py_buffer(chosen)])
    return rows.take(indices)


def _chunks(column: Any) -> list[Any]:
    return column.chunks if isinstance(column, pa.ChunkedArray) else [column]


def nulled(values: npt.NDArray[Any], null: BoolArray | None = None) -> Any:
    """Return an Arrow column that is null where a value is `NULL` or its flag is set."""
    if null is None:
        null = values == NULL
    return pa.array(values, mask=null if null.any() else None)


def prices(values: Int64Array) -> Any:
    """Return mantissas as a column of prices; `NULL` becomes null."""
    column = nulled(np.ascontiguousarray(values))
    kind = pa.decimal64(18, 4)
    return pa.Array.from_buffers(kind, len(column), column.buffers(), column.null_count)


def named(indexes: npt.NDArray[Any], names: list[str | None]) -> Any:
    """Return a dictionary column of texts by their codes; None becomes null."""
    texts = list(dict.fromkeys(name for name in names if name is not None))
    index_of = {name: index for index, name in enumerate(texts)}
    table = np.array([-1 if name is None else index_of[name] for name in names], np.int32)
    chosen = table[indexes]
    null = chosen < 0
    indices = pa.array(np.maximum(chosen, 0), mask=null if null.any() else None)
    return pa.DictionaryArray.from_arrays(indices, pa.array(texts or [""], pa.string()))
