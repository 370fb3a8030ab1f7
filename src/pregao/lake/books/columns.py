"""Arrow columns of message tables as flat numbers, the form in which books are replayed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pregao.book.rows import NULL

Numbers = npt.NDArray[np.int64]
Codes = npt.NDArray[np.uint8]
Flags = npt.NDArray[np.bool_]


def integers(column: Any, null: int = NULL) -> Numbers:
    """A column of integers or decimals as 64-bit numbers; decimals as their mantissas."""
    parts = [_integers(chunk, null) for chunk in _chunks(column)]
    if len(parts) == 1:
        return parts[0]
    return np.concatenate(parts) if parts else np.empty(0, np.int64)


def _integers(chunk: Any, null: int) -> Numbers:
    if pa.types.is_decimal(chunk.type):
        words = chunk.type.bit_width // 64
        raw = np.frombuffer(chunk.buffers()[1], np.int64)
        values: Numbers = raw[chunk.offset * words : (chunk.offset + len(chunk)) * words : words]
        if chunk.null_count:
            return np.where(chunk.is_null().to_numpy(zero_copy_only=False), null, values)
        return np.ascontiguousarray(values)
    if pa.types.is_date32(chunk.type):
        chunk = chunk.view(pa.int32())
    if chunk.null_count == len(chunk):
        return np.full(len(chunk), null, np.int64)
    if chunk.null_count:
        chunk = pc.fill_null(chunk.cast(pa.int64()), null)
    numbers: Numbers = chunk.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    return numbers


def codes(column: Any, known: Mapping[str, int], other: int) -> Codes:
    """The numbers that stand for the names in a column; names that are not known, and null."""
    parts = []
    for chunk in _chunks(column):
        names = chunk if pa.types.is_dictionary(chunk.type) else chunk.dictionary_encode()
        of_name = [known.get(name, other) for name in names.dictionary.to_pylist()]
        table = np.array([*of_name, other], np.uint8)
        indexes = pc.fill_null(names.indices, len(of_name)) if names.null_count else names.indices
        parts.append(table[indexes.to_numpy(zero_copy_only=False)])
    return np.concatenate(parts) if parts else np.empty(0, np.uint8)


def _chunks(column: Any) -> list[Any]:
    return column.chunks if isinstance(column, pa.ChunkedArray) else [column]


def nulled(values: npt.NDArray[Any], null: Flags | None = None) -> Any:
    """An Arrow column; where the number stands for no value, or the flags say so, it is null."""
    if null is None:
        null = values == NULL
    return pa.array(values, mask=null if null.any() else None)


def prices(values: Numbers, null: Flags | None = None, kind: Any = None) -> Any:
    """Mantissas as a column of prices; NULL, or where the flags say so, is null."""
    whole = nulled(np.ascontiguousarray(values), null)
    buffers = whole.buffers()
    kind = pa.decimal64(18, 4) if kind is None else kind
    return pa.Array.from_buffers(kind, len(whole), buffers, whole.null_count)


def named(indexes: npt.NDArray[Any], names: list[str | None]) -> Any:
    """A column of few distinct texts by their numbers; None is null."""
    texts = list(dict.fromkeys(name for name in names if name is not None))
    places = {name: place for place, name in enumerate(texts)}
    table = np.array([-1 if name is None else places[name] for name in names], np.int32)
    chosen = table[indexes]
    null = chosen < 0
    kept = pa.array(np.maximum(chosen, 0), mask=null if null.any() else None)
    return pa.DictionaryArray.from_arrays(kept, pa.array(texts or [""], pa.string()))
