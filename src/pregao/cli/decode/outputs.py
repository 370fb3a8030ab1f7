"""Outputs of decoded messages: standard output, one file, or a folder with a file per template."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

from pregao.api.reading.keys import MessageKeyFormat, key_form
from pregao.errors import UsageError
from pregao.extras import installed, require
from pregao.safe_io.output_files import NewFiles
from pregao.sbe.model import MessageTemplate, Schema
from pregao.umdf.bulk_decoder import MessageBatch

if TYPE_CHECKING:
    from pregao.umdf.tables import TemplateTable


MAX_PENDING = 1 << 20
"""Maximum number of rows, of all templates together, buffered until a row group is full."""


class MessageOutput(Protocol):
    """Destination of message batches, which arrive block by block."""

    def write(self, batch: MessageBatch, keys: Sequence[Any]) -> None:
        """Write the messages of one template and version, with their key columns."""

    def end_block(self) -> None:
        """End a block: all further messages are later in the captures."""

    def close(self) -> None:
        """Write the buffered messages and the end of the file."""

    def abandon(self) -> None:
        """Discard the output after an error."""


class StandardOutput:
    """Standard output as bytes; a closed pipe (``| head``) ends the command."""

    def write(self, data: Any) -> None:
        """Write and flush, so that a reader sees every line immediately."""
        try:
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
        except BrokenPipeError:
            # Python's final flush must not fail again.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise OutputClosedError from None


class OutputClosedError(Exception):
    """The reader of standard output closed the pipe."""


class PlainLineOutput:
    """Output of lines formatted one by one, in the order of the messages in the captures."""

    def __init__(
        self,
        stream: BinaryIO | StandardOutput,
        lines: Callable[[MessageBatch, Sequence[Sequence[Any]]], list[str]],
    ) -> None:
        self._stream = stream
        self._lines = lines
        self._waiting: list[tuple[int, str]] = []

    def write(self, batch: MessageBatch, keys: Sequence[Any]) -> None:
        """Buffer the lines until the block is complete."""
        self._waiting += zip(batch.rows.tolist(), self._lines(batch, keys), strict=True)

    def end_block(self) -> None:
        """Write the lines of the block, in order."""
        if self._waiting:
            self._waiting.sort(key=itemgetter(0))
            self._stream.write("".join(line for _, line in self._waiting).encode())
            self._waiting = []

    def close(self) -> None:
        """Write the buffered lines."""
        self.end_block()

    def abandon(self) -> None:
        """Discard the buffered lines."""
        self._waiting = []


Versions = dict[tuple[int, int], list[tuple[Schema, MessageTemplate]]]
"""Schema versions of the messages of a template, by schema ID and template ID."""
Opening = Callable[["TemplateTable", MessageKeyFormat], MessageOutput]


class SingleFileOutput:
    """Output to one file, or standard output, of messages of one template."""

    def __init__(self, open_output: Opening, versions: Versions) -> None:
        self._open = open_output
        self._versions = versions
        self._output: MessageOutput | None = None
        self._template: tuple[int, int] | None = None

    def write(self, batch: MessageBatch, keys: Sequence[Any]) -> None:
        """Write messages; raise `UsageError` at a second template."""
        template = (batch.schema.id, batch.message.id)
        if self._output is None or self._template is None:
            self.begin(template)
        elif self._template != template:
            names = [self._versions[each][0][1].name for each in (self._template, template)]
            raise several_templates(names)
        assert self._output is not None
        self._output.write(batch, keys)

    def begin(self, template: tuple[int, int]) -> None:
        """Open the file for a template, given as schema ID and template ID."""
        from pregao.umdf.tables import TemplateTable

        self._template = template
        table = TemplateTable(self._versions[template])
        self._output = self._open(table, key_form(template[0]))

    def end_block(self) -> None:
        """End a block."""
        if self._output is not None:
            self._output.end_block()

    def close(self) -> None:
        """Write the buffered messages and close the output."""
        if self._output is not None:
            self._output.close()

    def abandon(self) -> None:
        """Discard the output."""
        if self._output is not None:
            self._output.abandon()


def several_templates(names: Iterable[str]) -> UsageError:
    """Return the error for messages of several templates in one file."""
    shown = sorted(names)
    listed = ", ".join(shown[:4]) + (f" and {len(shown) - 4} more" if len(shown) > 4 else "")
    return UsageError(
        f"An output file has messages of one template, but several were found: {listed}. "
        "Select one with --template, or write to a folder (-o folder/) with a file per template."
    )


class FolderOutput:
    """Output to a folder with one file per template."""

    def __init__(self, open_output: Opening, versions: Versions) -> None:
        self._open = open_output
        self._versions = versions
        self._outputs: dict[tuple[int, int], MessageOutput] = {}

    def write(self, batch: MessageBatch, keys: Sequence[Any]) -> None:
        """Write messages of any template."""
        template = (batch.schema.id, batch.message.id)
        output = self._outputs.get(template)
        if output is None:
            from pregao.umdf.tables import TemplateTable

            table = TemplateTable(self._versions[template])
            output = self._outputs[template] = self._open(table, key_form(batch.schema.id))
        output.write(batch, keys)

    def end_block(self) -> None:
        """Flush the largest buffers if too many rows are buffered."""
        from pregao.cli.decode.tables import TableOutput

        for output in self._outputs.values():
            output.end_block()
        tables = [each for each in self._outputs.values() if isinstance(each, TableOutput)]
        while sum(table.waiting for table in tables) > MAX_PENDING:
            max(tables, key=lambda table: table.waiting).flush()

    def close(self) -> None:
        """Write the buffered messages and close all files."""
        for output in self._outputs.values():
            output.close()

    def abandon(self) -> None:
        """Discard all files."""
        for output in self._outputs.values():
            output.abandon()


FORMATS = ("text", "jsonl", "csv", "parquet", "arrow")
_SUFFIXES = {f".{name}": name for name in FORMATS[1:]}


def open_output(
    files: NewFiles,
    target: Path | None,
    folder: bool,
    kind: str,
    versions: Versions,
    *,
    safe_csv: bool = False,
) -> MessageOutput | SingleFileOutput | FolderOutput:
    """Open an output of a format: standard output, a file, or a folder."""
    if folder or kind not in ("text", "jsonl"):
        require("pyarrow")
    if folder:
        assert target is not None
        return FolderOutput(
            lambda table, form: _open(
                kind, files.create(target / f"{table.name}.{kind}"), table, form, safe_csv
            ),
            versions,
        )
    if kind == "text":
        return _lines(kind, StandardOutput())
    if kind == "jsonl":
        return _lines(kind, StandardOutput() if target is None else files.create(target))

    def opened(table: TemplateTable, form: MessageKeyFormat) -> MessageOutput:
        stream = StandardOutput() if target is None else files.create(target)
        return _open(kind, stream, table, form, safe_csv)

    return SingleFileOutput(opened, versions)


def _lines(kind: str, stream: BinaryIO | StandardOutput) -> MessageOutput:
    """Return an output of text or JSON lines: columnar, or message by message without Arrow."""
    if not installed("pyarrow"):
        return row_output(kind, stream)
    from pregao.cli.decode.tables import LineOutput
    from pregao.cli.decode.text import json_lines, text_lines

    return LineOutput(stream, json_lines if kind == "jsonl" else text_lines)


def row_output(kind: str, stream: BinaryIO | StandardOutput) -> MessageOutput:
    """Return an output of text or JSON lines, message by message."""
    from pregao.cli.decode.rows import json_rows, text_rows

    return PlainLineOutput(stream, json_rows if kind == "jsonl" else text_rows)


def _open(
    kind: str,
    stream: BinaryIO | StandardOutput,
    table: TemplateTable,
    form: MessageKeyFormat,
    safe_csv: bool,
) -> MessageOutput:
    from pregao.cli.decode.tables import CsvOutput, TableOutput

    if kind == "jsonl":
        return _lines(kind, stream)
    if kind == "csv":
        return CsvOutput(stream, table, form, safe=safe_csv)
    return TableOutput(stream, table, kind, form)


def output_kind(output: str | None, wanted: str | None) -> tuple[Path | None, bool, str]:
    """Return the path (None: standard output), whether it is a folder, and the format."""
    if wanted is not None and wanted not in FORMATS:
        raise UsageError(f"--format must be one of {', '.join(FORMATS)}; was {wanted!r}.")
    if output is None or output == "-":
        kind = wanted or "text"
        if kind in ("parquet", "arrow"):
            raise UsageError(f"--format {kind} requires a file or folder: add -o PATH.")
        return None, False, kind
    path = Path(output)
    kind = _SUFFIXES.get(path.suffix.lower(), "")
    if output.endswith(("/", os.sep)) or path.is_dir() or (not path.suffix and not path.exists()):
        kind = wanted or "parquet"
        if kind == "text":
            raise UsageError(
                "--format for a folder must be parquet, csv, arrow or jsonl, was text."
            )
        return path, True, kind
    if not kind:
        raise UsageError(
            f"{output}: the file name must end in .jsonl, .csv, .parquet or .arrow. "
            "Use a folder (-o folder/) for one file per template."
        )
    if wanted not in (None, kind):
        raise UsageError(
            f"{output} has the extension of {kind}, but --format is {wanted}: omit --format."
        )
    return path, False, kind
