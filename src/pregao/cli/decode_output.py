"""Where decoded messages go: standard output, one file, or a folder with a file per template."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pregao.api.message_keys import KeyForm, key_form
from pregao.cli.decode_text import csv_header, csv_lines, json_lines, text_lines
from pregao.cli.new_files import NewFiles
from pregao.errors import UsageError
from pregao.sbe import Message, Schema, widened
from pregao.umdf.bulk import Batch
from pregao.umdf.tables import TemplateTable

ROW_GROUP = 1 << 17
"""Rows that a Parquet row group and an Arrow batch have, but for the last."""
MOST_WAITING = 1 << 20
"""Rows of all templates that may wait in memory until a row group is full."""

Lines = Callable[[Batch, Sequence[Any]], Any]


class Output(Protocol):
    """Takes batches of messages, block by block."""

    def write(self, batch: Batch, keys: Sequence[Any]) -> None:
        """Take the messages of one template and version, with their key columns."""

    def end_block(self) -> None:
        """Know that the next messages come later in the captures than all before."""

    def close(self) -> None:
        """Write what is waiting, and the end."""

    def abandon(self) -> None:
        """Give up: what was written so far is thrown away."""


class StandardOutput:
    """Standard output as bytes; a reader that went away (``| head``) ends the command."""

    def write(self, data: Any) -> None:
        """Write and show at once, so that a reader sees every line."""
        try:
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
        except BrokenPipeError:
            # What Python itself flushes at its end must not fail again.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise ReaderGoneError from None


class ReaderGoneError(Exception):
    """Nobody reads the output any more."""


class LineOutput:
    """Lines in the order of the messages in the captures."""

    def __init__(self, stream: BinaryIO | StandardOutput, lines: Lines) -> None:
        self._stream = stream
        self._lines = lines
        self._waiting: list[tuple[Any, Any]] = []

    def write(self, batch: Batch, keys: Sequence[Any]) -> None:
        """Keep the lines until the block is complete."""
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
        """Write what is waiting."""
        self.end_block()

    def abandon(self) -> None:
        """Forget what is waiting."""
        self._waiting = []


def text_bytes(lines: Any) -> memoryview:
    """All the bytes of a column of text."""
    _, offsets, data = lines.buffers()
    places = np.frombuffer(offsets, np.int32, len(lines) + 1, 4 * lines.offset)
    return memoryview(data)[places[0] : places[-1]] if data is not None else memoryview(b"")


class CsvOutput:
    """The CSV file of one template."""

    def __init__(
        self, stream: BinaryIO | StandardOutput, table: TemplateTable, form: KeyForm
    ) -> None:
        self._stream = stream
        self._table = table
        self._form = form
        stream.write(csv_header(table, form))

    def write(self, batch: Batch, keys: Sequence[Any]) -> None:
        """Write a line for each message."""
        fitted = self._table.fit(batch.message, batch.columns, len(batch.rows))
        self._stream.write(text_bytes(csv_lines(self._table, fitted, keys, self._form)))

    def end_block(self) -> None:
        """Do nothing: lines are written as they come."""

    def close(self) -> None:
        """Do nothing: the file is closed by its owner."""

    def abandon(self) -> None:
        """Do nothing: the file is closed by its owner."""


class TableOutput:
    """The Parquet or Arrow file of one template."""

    def __init__(self, stream: BinaryIO, table: TemplateTable, kind: str, form: KeyForm) -> None:
        self.waiting = 0
        self._table = table
        self._batches: list[Any] = []
        own = [_apart(field, form.schema.names) for field in table.schema]
        self._schema = pa.schema([*form.schema, *own])
        self._stored = self._schema
        self._writer: Any
        if kind == "parquet":
            self._writer = _parquet_writer(stream, self._schema)
        else:
            self._stored = pa.schema(
                [field.with_type(widened(field.type)) for field in self._schema]
            )
            options = pa.ipc.IpcWriteOptions(emit_dictionary_deltas=True)
            self._writer = pa.ipc.new_file(stream, self._stored, options=options)

    def write(self, batch: Batch, keys: Sequence[Any]) -> None:
        """Keep the messages until a row group is full."""
        fitted = self._table.fit(batch.message, batch.columns, len(batch.rows))
        arrays = [*keys, *fitted]
        self._batches.append(pa.RecordBatch.from_arrays(arrays, schema=self._schema))
        self.waiting += len(batch.rows)
        if self.waiting >= ROW_GROUP:
            self.flush()

    def flush(self) -> None:
        """Write a row group of what is waiting."""
        if self._batches:
            table = pa.Table.from_batches(self._batches)
            if self._stored is not self._schema:
                table = table.cast(self._stored)
                self._writer.write_table(table.combine_chunks(), max_chunksize=ROW_GROUP)
            else:
                self._writer.write_table(table, row_group_size=ROW_GROUP)
            self._batches = []
            self.waiting = 0

    def end_block(self) -> None:
        """Do nothing: row groups are larger than blocks."""

    def close(self) -> None:
        """Write what is waiting, and the file's end."""
        self.flush()
        self._writer.close()

    def abandon(self) -> None:
        """Close the writer, which would otherwise write into a file that is gone."""
        with suppress(Exception):
            self._writer.close()
        if isinstance(self._writer, pq.ParquetWriter):
            self._writer.is_open = False


def _apart(field: Any, taken: Sequence[str]) -> Any:
    """A field of a message, called otherwise than the columns of its key."""
    return field.with_name(f"{field.name}_field") if field.name in taken else field


def _parquet_writer(stream: BinaryIO, schema: Any) -> Any:
    dictionaries: list[str] = []
    deltas: dict[str, str] = {}
    for field in schema:
        for path, kind in _leaves(field.name, field.type):
            wide = pa.types.is_integer(kind) and kind.bit_width > 16
            if wide or pa.types.is_decimal(kind) or pa.types.is_date(kind):
                deltas[path] = "DELTA_BINARY_PACKED"
            else:
                dictionaries.append(path)
    # Without the Arrow schema, whose 64-bit decimals older readers do not know.
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
    """The columns that Parquet has for an Arrow column."""
    if pa.types.is_struct(kind):
        return [leaf for field in kind for leaf in _leaves(f"{path}.{field.name}", field.type)]
    if pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind):
        return _leaves(f"{path}.list.element", kind.value_type)
    return [(path, kind)]


Versions = dict[tuple[int, int], list[tuple[Schema, Message]]]
"""By schema id and template id: the schema versions in which its messages come."""
Opening = Callable[[TemplateTable, KeyForm], Output]


class SingleFile:
    """One file for the messages of one template, or a stream of them."""

    def __init__(self, open_output: Opening, versions: Versions) -> None:
        self._open = open_output
        self._versions = versions
        self._output: Output | None = None
        self._template: tuple[int, int] | None = None

    def write(self, batch: Batch, keys: Sequence[Any]) -> None:
        """Take messages, all of one template."""
        template = (batch.schema.id, batch.message.id)
        if self._output is None or self._template is None:
            self.begin(template)
        elif self._template != template:
            names = [self._versions[each][0][1].name for each in (self._template, template)]
            raise several_templates(names)
        assert self._output is not None
        self._output.write(batch, keys)

    def begin(self, template: tuple[int, int]) -> None:
        """Open the file for a template, by its schema id and its own."""
        self._template = template
        table = TemplateTable(self._versions[template])
        self._output = self._open(table, key_form(template[0]))

    def end_block(self) -> None:
        """Know that the block is complete."""
        if self._output is not None:
            self._output.end_block()

    def close(self) -> None:
        """Write what is waiting."""
        if self._output is not None:
            self._output.close()

    def abandon(self) -> None:
        """Give up."""
        if self._output is not None:
            self._output.abandon()


def several_templates(names: Iterable[str]) -> UsageError:
    """The error of several templates for one file."""
    shown = sorted(names)
    listed = ", ".join(shown[:4]) + (f" and {len(shown) - 4} more" if len(shown) > 4 else "")
    return UsageError(
        f"A file of this kind holds the messages of one template, and there are several: {listed}. "
        "Name one with --template, or give a folder (-o folder/) for one file per template."
    )


class Folder:
    """A folder with one file per template."""

    def __init__(self, open_output: Opening, versions: Versions) -> None:
        self._open = open_output
        self._versions = versions
        self._outputs: dict[tuple[int, int], Output] = {}

    def write(self, batch: Batch, keys: Sequence[Any]) -> None:
        """Take messages of any template."""
        template = (batch.schema.id, batch.message.id)
        output = self._outputs.get(template)
        if output is None:
            table = TemplateTable(self._versions[template])
            output = self._outputs[template] = self._open(table, key_form(batch.schema.id))
        output.write(batch, keys)

    def end_block(self) -> None:
        """Write the fullest templates if too much is waiting."""
        for output in self._outputs.values():
            output.end_block()
        tables = [each for each in self._outputs.values() if isinstance(each, TableOutput)]
        while sum(table.waiting for table in tables) > MOST_WAITING:
            max(tables, key=lambda table: table.waiting).flush()

    def close(self) -> None:
        """Write what is waiting."""
        for output in self._outputs.values():
            output.close()

    def abandon(self) -> None:
        """Give up."""
        for output in self._outputs.values():
            output.abandon()


FORMATS = ("text", "jsonl", "csv", "parquet", "arrow")
_SUFFIXES = {f".{name}": name for name in FORMATS[1:]}


def open_output(
    files: NewFiles, target: Path | None, folder: bool, kind: str, versions: Versions
) -> Output | SingleFile | Folder:
    """The output of that kind: on standard output, in a file, or in a folder."""
    if folder:
        assert target is not None
        return Folder(
            lambda table, form: _open(
                kind, files.create(target / f"{table.name}.{kind}"), table, form
            ),
            versions,
        )
    if kind == "text":
        return LineOutput(StandardOutput(), text_lines)
    if kind == "jsonl":
        stream = StandardOutput() if target is None else files.create(target)
        return LineOutput(stream, json_lines)
    if target is None:
        return SingleFile(lambda table, form: CsvOutput(StandardOutput(), table, form), versions)
    return SingleFile(lambda table, form: _open(kind, files.create(target), table, form), versions)


def _open(kind: str, stream: BinaryIO, table: TemplateTable, form: KeyForm) -> Output:
    if kind == "jsonl":
        return LineOutput(stream, json_lines)
    if kind == "csv":
        return CsvOutput(stream, table, form)
    return TableOutput(stream, table, kind, form)


def output_kind(output: str | None, wanted: str | None) -> tuple[Path | None, bool, str]:
    """Where to write (nowhere is standard output), whether that is a folder, and what kind."""
    if wanted is not None and wanted not in FORMATS:
        raise UsageError(f"--format is one of {', '.join(FORMATS)}; not {wanted!r}.")
    if output is None or output == "-":
        kind = wanted or "text"
        if kind in ("parquet", "arrow"):
            raise UsageError(f"{kind} goes to a file or a folder: name it with -o.")
        return None, False, kind
    path = Path(output)
    kind = _SUFFIXES.get(path.suffix.lower(), "")
    if output.endswith(("/", os.sep)) or path.is_dir() or (not path.suffix and not path.exists()):
        kind = wanted or "parquet"
        if kind == "text":
            raise UsageError(
                "A folder holds parquet, csv, arrow or jsonl files: name one of these."
            )
        return path, True, kind
    if not kind:
        raise UsageError(
            f"{output}: the name tells what to write, and must end in .jsonl, .csv, .parquet or "
            ".arrow; a folder (-o folder/) gets one file per template."
        )
    if wanted not in (None, kind):
        raise UsageError(f"{output} is named as {kind}, but --format says {wanted}; leave one out.")
    return path, False, kind
