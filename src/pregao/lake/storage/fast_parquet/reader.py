"""Reader of local files written by `FlatWriter`, whose encodings it knows.

It decodes columns directly to flat integer arrays, which books are built from, while pyarrow's
reader creates Arrow arrays first. Files of other writers or on remote storage are read with
pyarrow: there is no `FlatFile` of them.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pregao.arrays import Int64Array, Uint8Array
from pregao.lake.storage.fast_parquet import _decoding_kernels, _footer_kernels
from pregao.lake.storage.fast_parquet.columns import (
    BINARY,
    GROUP_FACTS,
    GROUP_ROWS,
    INT32,
    INT64,
    KNOWN_AT,
    KNOWN_BOUNDED,
    KNOWN_BYTES,
    KNOWN_CODEC,
    KNOWN_FACTS,
    KNOWN_HIGH,
    KNOWN_KIND,
    KNOWN_LOW,
    LIST,
    MAX_MEMBERS,
    NUMBER,
    RECORD_FACTS,
    SMALL_NUMBER,
    TEXT,
    UNCOMPRESSED,
    FlatColumn,
    FlatRows,
)

_WRITER = b"pregao version "
_TAIL = 64 << 10
"""Bytes at the end of a file that are read first; they usually contain the complete footer."""
_AFTER = 16
"""Readable bytes that kernels need after their data."""
_MAX_FILES = 1_000
_MAX_ROWS = 1 << 24
"""Maximum rows of a row group: a footer with more is damaged, and no memory is allocated for it."""
_GAP = 64 << 10
"""Maximum bytes between two columns that are read together instead of with two calls."""


class FlatFile:
    """Parsed footer of a file, with which its rows are read."""

    def __init__(self, path: str, schema: Any, groups: Int64Array, chunks: Int64Array) -> None:
        self._path = path
        self._schema = schema
        self._chunks = chunks
        self.group_rows: Int64Array = groups[:, GROUP_ROWS]
        """Number of rows of each row group."""
        self.names: list[str] = schema.names
        """Names of the columns."""
        self._indexes = {name: index for index, name in enumerate(self.names)}

    def bounds(
        self, name: str, default_min: int, default_max: int
    ) -> tuple[Int64Array, Int64Array]:
        """Return minima and maxima of a column by row group; the defaults where unknown."""
        index = self._indexes.get(name)
        if index is None:
            count = len(self.group_rows)
            return np.full(count, default_min, np.int64), np.full(count, default_max, np.int64)
        own = self._chunks[:, index]
        bounded = own[:, KNOWN_BOUNDED] != 0
        low, high = own[:, KNOWN_LOW], own[:, KNOWN_HIGH]
        return np.where(bounded, low, default_min), np.where(bounded, high, default_max)

    def read(self, groups: Sequence[int], names: Sequence[str], null: int) -> FlatRows | None:
        """Read columns of row groups, with ``null`` for nulls; return None if they are not in the
        form that `FlatWriter` writes."""
        indexes = [self._indexes[name] for name in names]
        rows = self.group_rows[list(groups)].tolist()
        count = sum(rows)
        try:
            builders = [_ColumnBuilder(self._schema.field(index), count) for index in indexes]
        except MemoryError:
            return None  # the footer is damaged: no file has that many rows
        facts = self._chunks[np.ix_(list(groups), indexes)]
        if (facts[..., KNOWN_CODEC] != UNCOMPRESSED).any():
            return None
        dictionary = _scratch(_KNOWN, max(rows, default=0) + 64)
        starts = [0, *accumulate(rows)]
        descriptor = os.open(self._path, os.O_RDONLY)
        try:
            for own, own_rows, first in zip(facts, rows, starts, strict=False):
                begins, sizes = own[:, KNOWN_AT], own[:, KNOWN_BYTES]
                for run in _runs(begins, sizes):
                    base = int(begins[run[0]])
                    end = int((begins[run] + sizes[run]).max())
                    data = _bytes(descriptor, base, end - base)
                    if data is None:
                        return None
                    for number in run:
                        begin = int(begins[number]) - base
                        if not builders[number].add(
                            data, begin, begin + int(sizes[number]), own_rows, first,
                            int(own[number, KNOWN_KIND]), null, dictionary,
                        ):  # fmt: skip
                            return None
        finally:
            os.close(descriptor)
        columns = {name: column.done() for name, column in zip(names, builders, strict=True)}
        return FlatRows(count, columns)


def _runs(begins: Int64Array, sizes: Int64Array) -> list[list[int]]:
    """Group columns that are near each other in the file, in file order."""
    runs: list[list[int]] = []
    end = 0
    for column in np.argsort(begins).tolist():
        begin = int(begins[column])
        if runs and begin - end <= _GAP:
            runs[-1].append(column)
        else:
            runs.append([column])
        end = max(end, begin + int(sizes[column]))
    return runs


class _ColumnBuilder:
    """Builds a column while it is read."""

    def __init__(self, entry: Any, count: int) -> None:
        self._entry = entry
        self._values = np.empty(count, np.int64)
        self._there = np.empty(count if entry.nullable else 0, np.uint8)
        self._texts: dict[str, int] = {}
        self._of_text = pa.types.is_string(entry.type)

    def add(
        self, data: Uint8Array, begin: int, end: int, rows: int, first: int, kind: int, null: int,
        known: Int64Array,
    ) -> bool:  # fmt: skip
        texts = np.empty(3, np.int64)
        if (kind == TEXT) != self._of_text:
            return False
        own = -1 if self._of_text else null
        if not _decoding_kernels.decode_chunk(
            data, begin, end, rows, kind, self._entry.nullable, own, known, self._values,
            self._there, first, texts,
        ):  # fmt: skip
            return False
        if self._of_text and texts[0]:
            found = _texts(int(texts[0]), data[texts[1] : texts[2]].tobytes())
            if found is None:
                return False
            numbers = [self._texts.setdefault(text, len(self._texts)) for text in found]
            if numbers != list(range(len(numbers))):
                labels = self._values[first : first + rows]
                labels[:] = np.array([*numbers, -1], np.int64)[labels]
        return True

    def done(self) -> FlatColumn:
        valid = self._there.view(np.bool_) if self._entry.nullable else None
        texts = list(self._texts) if self._of_text else None
        return FlatColumn(self._entry.type, self._values, valid, texts)


@lru_cache(1_000)
def _texts(count: int, page: bytes) -> tuple[str, ...] | None:
    """Decode the strings of a dictionary page; return None if it is invalid."""
    found = []
    at = 0
    for _ in range(count):
        begin = at + 4
        at = begin + int.from_bytes(page[at:begin], "little")
        if at > len(page):
            return None
        found.append(page[begin:at])
    try:
        return tuple(text.decode() for text in found)
    except UnicodeDecodeError:
        return None


_KEPT = threading.local()
_KNOWN, _DATA = ("known", np.int64), ("data", np.uint8)


def _scratch(what: tuple[str, Any], count: int) -> Any:
    """Return a buffer of at least ``count`` values, which the thread keeps for reuse."""
    name, kind = what
    kept = getattr(_KEPT, name, None)
    if kept is None or len(kept) < count:
        kept = np.empty(count + (count >> 2), kind)
        setattr(_KEPT, name, kept)
    return kept


def _bytes(descriptor: int, at: int, count: int) -> Uint8Array | None:
    """Read bytes of a file into a buffer with extra bytes; return None at the end of the file."""
    data: Uint8Array = _scratch(_DATA, count + _AFTER)
    read = os.preadv(descriptor, [data[:count].data], at)
    return data if read == count else None


_FILES: OrderedDict[tuple[str, int, int], FlatFile | None] = OrderedDict()
_LOCK = threading.Lock()


def open_flat(path: str) -> FlatFile | None:
    """Open a local file that `FlatWriter` wrote; return None if another writer did.

    Footers are cached for the next task.
    """
    found = Path(path).stat()
    key = (path, found.st_size, found.st_mtime_ns)
    with _LOCK:
        if key in _FILES:
            _FILES.move_to_end(key)
            return _FILES[key]
    file = _opened(path, found.st_size)
    with _LOCK:
        _FILES[key] = file
        while len(_FILES) > _MAX_FILES:
            _FILES.popitem(last=False)
    return file


def _opened(path: str, size: int) -> FlatFile | None:
    with Path(path).open("rb") as file:
        file.seek(max(0, size - _TAIL))
        tail = file.read()
        length = int.from_bytes(tail[-8:-4], "little")
        if tail[-4:] != b"PAR1" or length + 8 > size:
            return None
        if length + 8 > len(tail):
            file.seek(size - length - 8)
            tail = file.read()
    data = np.frombuffer(tail, np.uint8)
    begin, end = len(tail) - length - 8, len(tail) - 8
    found = np.empty(RECORD_FACTS, np.int64)
    if begin < 0 or _footer_kernels.read_record(data, begin, end, found) != end:
        return None
    if tuple(found[MAX_MEMBERS + 1 : MAX_MEMBERS + 10].tolist()) != _FOOTER_KINDS:
        return None
    # Fields 1 to 6: version, schema, number of rows, row groups, (metadata), writer.
    _, schema_at, rows, groups_at, _, writer_at = found[1:7].tolist()
    if tail[writer_at + 1 : writer_at + 1 + len(_WRITER)] != _WRITER:
        return None
    schema_end = _footer_kernels.end_of_records(data, schema_at, end)
    if schema_end < 0:
        return None
    parsed = _schema(tail[schema_at:schema_end], path)
    if parsed is None:
        return None
    schema, kinds = parsed
    count = _footer_kernels.count_of(data, groups_at, end)
    if count * len(schema) > end - groups_at:
        return None
    groups = np.zeros((count, GROUP_FACTS), np.int64)
    chunks = np.zeros((len(groups), len(schema), KNOWN_FACTS), np.int64)
    if not _footer_kernels.read_row_groups(data, groups_at, end, groups, chunks):
        return None
    group_rows = groups[:, GROUP_ROWS]
    if (group_rows > _MAX_ROWS).any() or group_rows.sum() != rows:
        return None
    if (chunks[..., KNOWN_KIND] != kinds).any():
        return None
    starts, sizes = chunks[..., KNOWN_AT], chunks[..., KNOWN_BYTES]
    if ((starts < 0) | (sizes > size) | (starts > size - sizes)).any():
        return None
    return FlatFile(path, schema, groups, chunks)


_FOOTER_KINDS = (SMALL_NUMBER, LIST, NUMBER, LIST, 0, BINARY, LIST, 0, 0)
"""Types of a footer's fields from the first on: no metadata, no encryption."""
_KINDS = {"INT32": INT32, "INT64": INT64, "BYTE_ARRAY": TEXT}


_SCHEMAS: dict[bytes, tuple[Any, Int64Array]] = {}


def _schema(coded: bytes, path: str) -> tuple[Any, Int64Array] | None:
    """Return the Arrow schema of a file, and the physical types of its columns.

    Cached by its bytes, since most files share a schema. None if it is damaged, or has types that
    `FlatWriter` does not write.
    """
    cached = _SCHEMAS.get(coded)
    if cached is None:
        try:
            parquet_schema = pq.read_metadata(path).schema
            schema = parquet_schema.to_arrow_schema()
            kinds = [
                _KINDS.get(parquet_schema.column(index).physical_type, -1)
                for index in range(len(schema))
            ]
        except (pa.ArrowException, OSError, ValueError):
            return None
        if not all(pa.types.is_string(entry.type) or _is_number(entry.type) for entry in schema):
            return None
        if len(schema.names) != len(set(schema.names)):
            return None
        cached = schema, np.array(kinds, np.int64)
        if len(_SCHEMAS) < _MAX_FILES:
            _SCHEMAS[coded] = cached
    return cached


def _is_number(kind: Any) -> bool:
    """Whether pyarrow reads numbers of `FlatWriter` as this type."""
    decimal = pa.types.is_decimal128(kind)
    return bool(pa.types.is_signed_integer(kind) or decimal or pa.types.is_date32(kind))
