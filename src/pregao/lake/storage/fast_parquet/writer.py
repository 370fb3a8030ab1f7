"""Parquet writer for tables of numbers and repeated strings, several times faster than pyarrow's.

Such tables are most of a lake: messages, packets, ticks. pyarrow's writer takes more time of an
ingest than all decoding; here one kernel encodes a column, and dictionary-encoded strings are
written by their indexes. The files are plain Parquet, with page indexes.
"""

from __future__ import annotations

import threading
from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from pregao._version import __version__
from pregao.arrays import Int64Array, Uint8Array
from pregao.lake.storage.fast_parquet import _chunk_kernels, _index_kernels
from pregao.lake.storage.fast_parquet.columns import (
    AT,
    BLOCK,
    BYTES,
    CHUNK_FACTS,
    CODEC,
    COLUMN,
    DELTA,
    DICTIONARY,
    DICTIONARY_BYTES,
    FIRST_PAGE,
    PAGE_AT,
    PAGE_BYTES,
    PAGE_FACTS,
    PAGE_ROWS,
    PLAIN,
    TEXT,
    ZSTD,
    kind_of,
)
from pregao.lake.storage.fast_parquet.thrift import ThriftStruct, record, varint

_MAGIC = b"PAR1"
_WIDEST = 20
"""Maximum bytes of a value, with its dictionary index and its share of the page overhead."""
MIN_GROUP = 8_192
"""Minimum number of rows with one value that get a separate row group."""
_HELD = 4 << 20
"""Bytes buffered before a write."""
_CODEC = pa.Codec("zstd", compression_level=3)
_NONE = np.empty(0, np.uint8)
_NOTHING = np.zeros(1, np.int64)


def group_starts(rows: int, max_rows: int, sorted_by: Int64Array | None = None) -> list[int]:
    """Return the starts of row groups of at most ``max_rows`` rows.

    If rows are sorted by a column, frequent values get separate row groups, so that a lookup of one
    value reads few rows of others.
    """
    cuts = [0]
    if sorted_by is not None and rows >= MIN_GROUP:
        steps = np.diff(sorted_by)
        if steps.min(initial=0) >= 0:
            begins = [0, *(np.flatnonzero(steps) + 1).tolist(), rows]
            for begin, end in pairwise(begins):
                if begin > cuts[-1] and max(begin - cuts[-1], end - begin) >= MIN_GROUP:
                    cuts.append(begin)
    return [
        start for begin, end in pairwise([*cuts, rows]) for start in range(begin, end, max_rows)
    ]


class FlatWriter:
    """Writes a Parquet file row group by row group.

    ``delta_coded`` are the columns stored with delta encoding, ``plain`` those stored with plain
    encoding; all others are dictionary-encoded. ``bounded`` are those with minima and maxima. Rows
    sorted by the column ``separate`` are split into row groups by `group_starts`. With ``compress``
    columns that get smaller are compressed.
    """

    def __init__(
        self,
        sink: Any,
        schema: Any,
        delta_coded: Collection[str],
        plain: Collection[str],
        bounded: Collection[str],
        separate: str | None = None,
        *,
        compress: bool = False,
    ) -> None:
        self._sink = sink
        self._compress = compress
        self._schema = schema
        coding = {**dict.fromkeys(plain, PLAIN), **dict.fromkeys(delta_coded, DELTA)}
        kinds = [kind_of(entry.type) for entry in schema]
        self._kinds = np.array(kinds, np.int64)
        self._coding = [
            DICTIONARY if kind == TEXT else coding.get(name, DICTIONARY)
            for name, kind in zip(schema.names, kinds, strict=True)
        ]
        self._bounded = np.array([name in bounded for name in schema.names], np.bool_)
        self._bounded &= self._kinds != TEXT
        self._separate = None if separate is None else schema.names.index(separate)
        self._chunks: list[Int64Array] = []
        self._pages: list[Int64Array] = []
        self._page_count = 0
        self._rows = 0
        self._base = sink.write(_MAGIC)

    def write_table(self, rows: Any, row_group_size: int) -> None:
        """Write rows as row groups of at most ``row_group_size`` rows."""
        for entry, column in zip(self._schema, rows.columns, strict=True):
            if column.null_count and not entry.nullable:
                raise ValueError(f"{entry.name} has nulls, but is declared not nullable.")
        columns = [_Column.from_arrow(column) for column in rows.columns]
        scratch = _scratch(min(row_group_size, rows.num_rows), max(len(c.texts) for c in columns))
        sorted_by = None if self._separate is None else columns[self._separate].values
        starts = group_starts(rows.num_rows, row_group_size, sorted_by)
        end_of_buffer = 0
        for first, end in pairwise([*starts, rows.num_rows]):
            end_of_buffer = self._write_group(columns, first, end - first, scratch, end_of_buffer)
        self._flush(scratch.out, end_of_buffer)
        self._rows += rows.num_rows

    def _write_group(
        self, columns: list[_Column], first: int, count: int, scratch: _Scratch, at: int
    ) -> int:
        chunks = np.zeros((len(columns), CHUNK_FACTS), np.int64)
        for number, column in enumerate(columns):
            pages = np.zeros((-(-count // PAGE_ROWS), PAGE_FACTS), np.int64)
            chunk = chunks[number]
            chunk[COLUMN], chunk[FIRST_PAGE] = number, self._page_count
            begin = at
            at = _chunk_kernels.encode_chunk(
                column.values, column.validity, column.offset + first, first, count,
                self._coding[number], self._kinds[number], self._schema[number].nullable,
                column.texts, column.starts, scratch.slots, scratch.known, scratch.labels,
                scratch.dense, scratch.work, scratch.out, at, self._base, chunk, pages,
            )  # fmt: skip
            if self._compress:
                at = _compress(scratch.out, begin, at, chunk, pages)
            self._page_count += len(pages)
            self._pages.append(pages)
            if at > _HELD:
                at = self._flush(scratch.out, at)
        self._chunks.append(chunks)
        return at

    def _flush(self, out: Uint8Array, end: int) -> int:
        self._base += self._sink.write(out[:end].data)
        return 0

    def close(self) -> None:
        """Write the indexes and the footer."""
        chunks = np.concatenate(self._chunks) if self._chunks else np.zeros((0, 1), np.int64)
        pages = np.concatenate(self._pages) if self._pages else np.zeros((0, 1), np.int64)
        names = [entry.name.encode() for entry in self._schema]
        blob, starts = _joined(names)
        capacity = 256 * (len(chunks) + len(pages)) + len(self._chunks) * (64 + len(blob)) + 64
        out = np.empty(capacity, np.uint8)
        self._flush(
            out,
            _index_kernels.put_indexes(chunks, pages, self._kinds, self._bounded, out, self._base),
        )
        end = _index_kernels.put_row_groups(chunks, self._kinds, self._bounded, blob, starts, out)
        footer = self._footer(out[:end].data)
        self._sink.write(footer + len(footer).to_bytes(4, "little") + _MAGIC)

    def _footer(self, groups: memoryview) -> bytes:
        footer = ThriftStruct()
        footer.number(1, 2)
        elements = [_element(entry) for entry in self._schema]
        root = ThriftStruct().number(3, 0).text(4, "schema").number(5, len(elements)).end()
        footer.records(2, [root, *elements])
        footer.number(3, self._rows, wide=True)
        footer.records(4, [bytes(groups)], len(self._chunks))
        footer.text(6, f"pregao version {__version__}")
        # Column orders: bounds are in the natural order of each column's type.
        footer.records(7, [record(1)] * len(elements))
        return footer.end()


def _compress(out: Uint8Array, begin: int, end: int, chunk: Int64Array, pages: Int64Array) -> int:
    """Compress the pages of a column that is at ``begin`` in ``out``; return its end."""
    sizes = pages[:, PAGE_BYTES].tolist()
    has_dictionary = bool(chunk[DICTIONARY_BYTES])
    if has_dictionary:
        sizes.insert(0, int(chunk[DICTIONARY_BYTES]))
    ends = np.cumsum([begin, *sizes]).tolist()
    packed = [_compressed(out[first:last].tobytes()) for first, last in pairwise(ends)]
    data = b"".join(packed)
    if len(data) >= end - begin:
        return end
    out[begin : begin + len(data)] = np.frombuffer(data, np.uint8)
    new_sizes = np.array([len(page) for page in packed], np.int64)
    starts = chunk[AT] + np.cumsum(new_sizes) - new_sizes
    pages[:, PAGE_AT], pages[:, PAGE_BYTES] = starts[has_dictionary:], new_sizes[has_dictionary:]
    chunk[DICTIONARY_BYTES] = new_sizes[0] if has_dictionary else 0
    chunk[BYTES], chunk[CODEC] = len(data), ZSTD
    return begin + len(data)


def _compressed(page: bytes) -> bytes:
    """Return a page with a compressed body; its header states both lengths after its kind."""
    begin = at = 3
    while page[at] > 127:
        at += 1
    at += 1
    length = sum((byte & 127) << 7 * place for place, byte in enumerate(page[begin:at])) >> 1
    body: bytes = _CODEC.compress(page[len(page) - length :], asbytes=True)
    rest = page[at + 1 + at - begin : len(page) - length]
    return page[: at + 1] + varint(len(body) << 1) + rest + body


@lru_cache(4_096)
def _element(entry: Any) -> bytes:
    """Encode a column for the file's schema."""
    kind, element = entry.type, ThriftStruct()
    element.number(1, kind_of(kind) or 0)
    element.number(3, int(entry.nullable))
    element.text(4, entry.name)
    if pa.types.is_dictionary(kind):
        element.number(6, 0).inner(10, record(1))
    elif pa.types.is_decimal(kind):
        element.number(6, 5).number(7, kind.scale).number(8, kind.precision)
        decimal = ThriftStruct().number(1, kind.scale).number(2, kind.precision).end()
        element.inner(10, ThriftStruct().inner(5, decimal).end())
    elif pa.types.is_date32(kind):
        element.number(6, 6).inner(10, record(6))
    elif pa.types.is_int16(kind):
        element.number(6, 16).inner(
            10, ThriftStruct().inner(10, ThriftStruct().byte(1, 16).true(2).end()).end()
        )
    return element.end()


@dataclass(frozen=True, slots=True)
class _Column:
    """A column in the form that kernels need."""

    values: Int64Array
    validity: Uint8Array
    """Bit mask of non-null values; empty without nulls."""
    offset: int
    """Offset of the first bit."""
    texts: Uint8Array
    starts: Int64Array

    @staticmethod
    def from_arrow(column: Any) -> _Column:
        """Convert an Arrow column."""
        chunks = column.chunks
        if len(chunks) == 1:
            (array,) = chunks
        elif pa.types.is_dictionary(column.type):
            array = column.unify_dictionaries().combine_chunks()
        else:
            array = column.combine_chunks()
        texts, starts = _NONE, _NOTHING
        if pa.types.is_dictionary(array.type):
            texts, starts = _joined([text.encode() for text in array.dictionary.to_pylist()])
            array = array.indices
        kind, count = array.type, len(array)
        width = kind.bit_width // 8
        bits, data = array.buffers()
        raw = np.frombuffer(data, np.dtype(f"<i{width}"))[array.offset : array.offset + count]
        validity, offset = _NONE, 0
        if array.null_count:
            validity, offset = np.frombuffer(bits, np.uint8), array.offset
        values = raw.astype(np.int64, copy=False)
        return _Column(_fixed(values), _fixed(validity), offset, _fixed(texts), starts)


def _fixed(array: Any) -> Any:
    """Return the array as read-only, like those of Arrow: kernels are compiled for each kind."""
    fixed = array.view()
    fixed.flags.writeable = False
    return fixed


def _joined(texts: list[bytes]) -> tuple[Uint8Array, Int64Array]:
    """Concatenate strings; return the bytes and the start of each string."""
    starts = np.zeros(len(texts) + 1, np.int64)
    np.cumsum([len(text) for text in texts], out=starts[1:])
    return np.frombuffer(b"".join(texts), np.uint8), starts


class _Scratch:
    """Working memory of kernels for row groups of at most ``rows`` rows."""

    def __init__(self, rows: int, text_bytes: int) -> None:
        self.rows, self.text_bytes = rows, text_bytes
        self.slots = np.zeros((2 << rows.bit_length()) + 1, np.int64)
        self.known, self.labels, self.dense = (np.empty(rows + 64, np.int64) for _ in range(3))
        self.work = np.empty(BLOCK, np.int64)
        self.out = np.empty(_HELD + _WIDEST * rows + 2 * text_bytes + (64 << 10), np.uint8)


_KEPT = threading.local()


def _scratch(rows: int, text_bytes: int) -> _Scratch:
    """Return working memory, which the thread keeps for its next file."""
    kept: _Scratch | None = getattr(_KEPT, "scratch", None)
    if kept is None or kept.rows < rows or kept.text_bytes < text_bytes:
        kept = _KEPT.scratch = _Scratch(rows, text_bytes)
    return kept
