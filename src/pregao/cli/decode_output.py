"""Where decoded messages go: standard output, one file, or a folder with a file per template."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

from pregao.api.message_keys import KeyForm, key_form
from pregao.cli.new_files import NewFiles
from pregao.errors import UsageError
from pregao.extras import installed, require
from pregao.sbe import Message, Schema
from pregao.umdf.bulk import Batch

if TYPE_CHECKING:
    from pregao.umdf.tables import TemplateTable

MOST_WAITING = 1 << 20
"""Rows of all templates that may wait in memory until a row group is full."""


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


class PlainLines:
    """Lines that were written one by one, in the order of the messages in the captures."""

    def __init__(
        self,
        stream: BinaryIO | StandardOutput,
        lines: Callable[[Batch, Sequence[Sequence[Any]]], list[str]],
    ) -> None:
        self._stream = stream
        self._lines = lines
        self._waiting: list[tuple[int, str]] = []

    def write(self, batch: Batch, keys: Sequence[Any]) -> None:
        """Keep the lines until the block is complete."""
        self._waiting += zip(batch.rows.tolist(), self._lines(batch, keys), strict=True)

    def end_block(self) -> None:
        """Write the lines of the block, in order."""
        if self._waiting:
            self._waiting.sort(key=itemgetter(0))
            self._stream.write("".join(line for _, line in self._waiting).encode())
            self._waiting = []

    def close(self) -> None:
        """Write what is waiting."""
        self.end_block()

    def abandon(self) -> None:
        """Forget what is waiting."""
        self._waiting = []


Versions = dict[tuple[int, int], list[tuple[Schema, Message]]]
"""By schema id and template id: the schema versions in which its messages come."""
Opening = Callable[["TemplateTable", KeyForm], Output]


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
        from pregao.umdf.tables import TemplateTable

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
            from pregao.umdf.tables import TemplateTable

            table = TemplateTable(self._versions[template])
            output = self._outputs[template] = self._open(table, key_form(batch.schema.id))
        output.write(batch, keys)

    def end_block(self) -> None:
        """Write the fullest templates if too much is waiting."""
        from pregao.cli.decode_tables import TableOutput

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
    files: NewFiles,
    target: Path | None,
    folder: bool,
    kind: str,
    versions: Versions,
    *,
    safe_csv: bool = False,
) -> Output | SingleFile | Folder:
    """The output of that kind: on standard output, in a file, or in a folder."""
    if folder or kind not in ("text", "jsonl"):
        require("pyarrow")
    if folder:
        assert target is not None
        return Folder(
            lambda table, form: _open(
                kind, files.create(target / f"{table.name}.{kind}"), table, form, safe_csv
            ),
            versions,
        )
    if kind == "text":
        return _lines(kind, StandardOutput())
    if kind == "jsonl":
        return _lines(kind, StandardOutput() if target is None else files.create(target))

    def opened(table: TemplateTable, form: KeyForm) -> Output:
        stream = StandardOutput() if target is None else files.create(target)
        return _open(kind, stream, table, form, safe_csv)

    return SingleFile(opened, versions)


def _lines(kind: str, stream: BinaryIO | StandardOutput) -> Output:
    """Text or JSON: whole columns at a time, or message by message without Arrow."""
    if not installed("pyarrow"):
        from pregao.cli.decode_lines import json_rows, text_rows

        return PlainLines(stream, json_rows if kind == "jsonl" else text_rows)
    from pregao.cli.decode_tables import LineOutput
    from pregao.cli.decode_text import json_lines, text_lines

    return LineOutput(stream, json_lines if kind == "jsonl" else text_lines)


def _open(
    kind: str,
    stream: BinaryIO | StandardOutput,
    table: TemplateTable,
    form: KeyForm,
    safe_csv: bool,
) -> Output:
    from pregao.cli.decode_tables import CsvOutput, TableOutput

    if kind == "jsonl":
        return _lines(kind, stream)
    if kind == "csv":
        return CsvOutput(stream, table, form, safe=safe_csv)
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
