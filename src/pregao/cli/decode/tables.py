"""Outputs of decoded messages that need Arrow: lines, CSV, Parquet and Arrow files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pregao.api.reading.keys import MessageKeyFormat
from pregao.cli.decode.outputs import StandardOutput
from pregao.cli.decode.text import csv_header, csv_lines
from pregao.sbe.arrow import widened
from pregao.umdf.bulk_decoder import MessageBatch
from pregao.umdf.tables import TemplateTable

if TYPE_CHECKING:
    from pregao.umdf.tables import TemplateTable


ROW_GROUP = 1 << 17
"""Rows of a Parquet row group or Arrow batch, except the last."""

_WRITERS = 2
"""Number of files that are written at the same time, while further messages are decoded."""

Lines = Callable[[MessageBatch, Sequence[Any]], Any]


class LineOutput:
    """Lines in the order of the messages in the captures."""

    def __init__(self, stream: BinaryIO | StandardOutput, lines: Lines) -> None:
        self._stream = stream
        self._lines = lines
        self._waiting: list[tuple[Any, Any]] = []

    def write(self, batch: MessageBatch, keys: Sequence[Any]) -> None:
        """Buffer the lines until the block is complete."""
        self._waiting.append((batch.rows, self._lines(batch, keys)))

    def end_block(self) -> None:
        """Write the lines of the block, in order."""
        if self._waiting:
            lines = pa.concat_arrays([lines for _, lines in self._waiting])
            if len(self._waiting) > 1:
                rows = np.concatenate([rows for rows, _ in self._waiting])
                lines = lines.take(pa.array(np.argsort(rows, kind="stable")))
            self._stream.write(text_bytes(lines))
            self._waiting = []

    def close(self) -> None:
        """Write the buffered lines."""
        self.end_block()

    def abandon(self) -> None:
        """Discard the buffered lines."""
        self._waiting = []


def text_bytes(lines: Any) -> memoryview:
    """Return the bytes of all strings of a column, concatenated."""
    _, offsets, data = lines.buffers()
    bounds = np.frombuffer(offsets, np.int32, len(lines) + 1, 4 * lines.offset)
    return memoryview(data)[bounds[0] : bounds[-1]] if data is not None else memoryview(b"")


class CsvOutput:
    """The CSV file of one template."""

    def __init__(
        self,
        stream: BinaryIO | StandardOutput,
        table: TemplateTable,
        form: MessageKeyFormat,
        *,
        safe: bool = False,
    ) -> None:
        self._stream = stream
        self._table = table
        self._form = form
        self._safe = safe
        stream.write(csv_header(table, form))

    def write(self, batch: MessageBatch, keys: Sequence[Any]) -> None:
        """Write a line for each message."""
        fitted = self._table.fit(batch.message, batch.columns, len(batch.rows))
        lines = csv_lines(self._table, fitted, keys, self._form, safe=self._safe)
        self._stream.write(text_bytes(lines))

    def end_block(self) -> None:
        """Do nothing: `write` writes lines immediately."""

    def close(self) -> None:
        """Do nothing: the file is closed by its owner."""

    def abandon(self) -> None:
        """Do nothing: the file is closed by its owner."""


@cache
def _writers() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_WRITERS)


class TableOutput:
    """The Parquet or Arrow file of one template; a thread writes each row group."""

    def __init__(
        self,
        stream: BinaryIO | StandardOutput,
        table: TemplateTable,
        kind: str,
        form: MessageKeyFormat,
    ) -> None:
        self.waiting = 0
        self._table = table
        self._batches: list[Any] = []
        own = [_in_process(field, form.schema.names) for field in table.schema]
        self._schema = pa.schema([*form.schema, *own])
        self._stored = self._schema
        self._writing: Future[None] | None = None
        self._writer: Any
        if kind == "parquet":
            self._writer = _parquet_writer(stream, self._schema)
        else:
            self._stored = pa.schema(
                [field.with_type(widened(field.type)) for field in self._schema]
            )
            options = pa.ipc.IpcWriteOptions(emit_dictionary_deltas=True)
            self._writer = pa.ipc.new_file(stream, self._stored, options=options)

    def write(self, batch: MessageBatch, keys: Sequence[Any]) -> None:
        """Buffer the messages until a row group is full."""
        fitted = self._table.fit(batch.message, batch.columns, len(batch.rows))
        arrays = [*keys, *fitted]
        self._batches.append(pa.RecordBatch.from_arrays(arrays, schema=self._schema))
        self.waiting += len(batch.rows)
        if self.waiting >= ROW_GROUP:
            self.flush()

    def flush(self) -> None:
        """Write the buffered messages as a row group, after those before."""
        if self._batches:
            self._finish_writing()
            self._writing = _writers().submit(self._write, pa.Table.from_batches(self._batches))
            self._batches = []
            self.waiting = 0

    def _write(self, table: Any) -> None:
        if self._stored is not self._schema:
            table = table.cast(self._stored)
            self._writer.write_table(table.combine_chunks(), max_chunksize=ROW_GROUP)
        else:
            self._writer.write_table(table, row_group_size=ROW_GROUP)

    def _finish_writing(self) -> None:
        writing, self._writing = self._writing, None
        if writing is not None:
            writing.result()

    def end_block(self) -> None:
        """Do nothing: row groups are larger than blocks."""

    def close(self) -> None:
        """Write the buffered messages and the footer of the file."""
        self.flush()
        self._finish_writing()
        self._writer.close()

    def abandon(self) -> None:
        """Close the writer, which would otherwise write to a closed file later."""
        with suppress(Exception):
            self._finish_writing()
        with suppress(Exception):
            self._writer.close()
        if isinstance(self._writer, pq.ParquetWriter):
            self._writer.is_open = False


def _in_process(field: Any, taken: Sequence[str]) -> Any:
    """Rename a message field whose name is also that of a key column."""
    return field.with_name(f"{field.name}_field") if field.name in taken else field


def _parquet_writer(stream: Any, schema: Any) -> Any:
    dictionaries: list[str] = []
    deltas: dict[str, str] = {}
    for field in schema:
        for path, kind in _leaves(field.name, field.type):
            wide = pa.types.is_integer(kind) and kind.bit_width > 16
            if wide or pa.types.is_decimal(kind) or pa.types.is_date(kind):
                deltas[path] = "DELTA_BINARY_PACKED"
            else:
                dictionaries.append(path)
    # Without the Arrow schema, whose 64-bit decimals older readers do not support.
    return pq.ParquetWriter(
        stream,
        schema,
        compression="zstd",
        compression_level=1,
        use_dictionary=dictionaries,
        column_encoding=deltas,
        store_decimal_as_integer=True,
        store_schema=False,
        write_page_index=True,
    )


def _leaves(path: str, kind: Any) -> list[tuple[str, Any]]:
    """Return the Parquet columns of an Arrow column, with their types."""
    if pa.types.is_struct(kind):
        return [leaf for field in kind for leaf in _leaves(f"{path}.{field.name}", field.type)]
    if pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind):
        return _leaves(f"{path}.list.element", kind.value_type)
    return [(path, kind)]
