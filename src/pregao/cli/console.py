"""Terminal output of commands: escaped text, tables that never truncate a cell, progress bars.

A symbol, a headline or a file name can contain escape codes that move the cursor, retitle the
window or reverse the direction of a line. `guard` replaces standard output and standard error with
streams that escape all text of a command; the consoles of this module escape their input and add
their own colors afterwards.

If a table is wider than the terminal, its text is wrapped, but numbers are not. If that does not
suffice, optional columns are omitted and listed below the table; otherwise each row is printed as
a block with one field per line.

Progress bars are shown on standard error, if that is a terminal.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from functools import cache
from types import TracebackType
from typing import TYPE_CHECKING, Any, TextIO, cast

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType

# C0 except tab and line feed, DEL, C1, marks and overrides of direction, line and paragraph
# separators, and lone surrogates, which are bytes of file names that are not UTF-8.
_CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff]"
)

_PIPE_WIDTH = 160
_COLUMN_PADDING = 3
"""Width of a column in addition to its text: a space on each side and the separator."""
_MIN_WIDTH = 10
"""Words up to this length are never broken."""


# --- Escaping of control characters ---


def plain(text: str) -> str:
    """Return text with control characters written as ``\\u001b``, which JSON parsers decode."""
    return _CONTROL.sub(_escaped, text)


def _escaped(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"


class GuardedStream:
    """A text stream that escapes control characters; its ``buffer`` writes bytes unchanged."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        # Rich consoles, including the one for help texts, write their colors to this stream.
        self.rich_proxied_file = stream

    def write(self, text: str) -> int:
        """Write text with control characters escaped."""
        return self._stream.write(plain(text))

    def writelines(self, lines: Iterable[str]) -> None:
        """Write lines with control characters escaped."""
        self._stream.writelines(map(plain, lines))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def guard() -> None:
    """Pass all text that this process writes to standard output and error through `plain`."""
    if not isinstance(sys.stdout, GuardedStream):
        sys.stdout = cast(TextIO, GuardedStream(sys.stdout))
    if not isinstance(sys.stderr, GuardedStream):
        sys.stderr = cast(TextIO, GuardedStream(sys.stderr))


# --- Consoles and tables ---


@cache
def _console_class() -> type[Console]:
    # Imported on first use: rich takes 0.1 s to import, which scripts should not pay.
    from rich.console import Console
    from rich.segment import Segment

    class PlainConsole(Console):
        """A console that escapes control characters in printed text but keeps its own."""

        def render(
            self, renderable: RenderableType, options: ConsoleOptions | None = None
        ) -> Iterable[Segment]:
            """Yield the segments to print, with their text escaped."""
            for segment in super().render(renderable, options):
                if segment.control:
                    yield segment
                else:
                    yield Segment(plain(segment.text), segment.style)

    return PlainConsole


def console(stream: TextIO | None = None) -> Console:
    """Return a console on standard output or another stream, 160 columns wide if no terminal.

    Escape codes are written to terminals only, regardless of the environment (`FORCE_COLOR`).
    """
    file = sys.stdout if stream is None else stream
    terminal = file.isatty()
    return _console_class()(
        file=file,
        width=None if terminal else _PIPE_WIDTH,
        force_terminal=terminal,
        highlight=False,
        markup=False,
        emoji=False,
    )


def print_line(out: Console, words: str, style: str | None = None) -> None:
    """Print a line without wrapping it; the terminal does that."""
    from rich.text import Text

    out.print(Text(plain(words), style or ""), soft_wrap=True)


def print_table(
    out: Console,
    title: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    numbers: str = "",
    optional: str = "",
    framed: bool = False,
    heading: bool = True,
) -> None:
    """Print a table.

    Args:
        out: Console to print to.
        title: Line above the table; empty for none.
        columns: Column names.
        rows: Cells of each row.
        numbers: Space-separated names of columns to align right.
        optional: Space-separated names of columns to omit, last one first, if the table is too
            wide; omitted columns are listed below the table.
        framed: Draw lines around the table.
        heading: Print the column names.
    """
    cells = [[shown(cell) for cell in row] for row in rows]
    right = set(numbers.split())
    kept = list(range(len(columns)))
    widths = _fitting(columns, cells, right, out, heading)
    for name in reversed(optional.split()):
        if widths is not None:
            break
        kept.remove(columns.index(name))
        chosen = [[row[index] for index in kept] for row in cells]
        widths = _fitting([columns[index] for index in kept], chosen, right, out, heading)
    if title:
        print_line(out, title, "bold")
    if widths is None:
        _print_blocks(out, columns if heading else None, cells)
        return
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.HEAVY_HEAD if framed else box.SIMPLE_HEAD, show_header=heading)
    for width, index in zip(widths, kept, strict=True):
        table.add_column(
            Text(columns[index]),
            justify="right" if columns[index] in right else "left",
            overflow="fold",
            width=width,
        )
    for row in cells:
        table.add_row(*(Text(row[index]) for index in kept))
    _wide(out, sum(widths) + _COLUMN_PADDING * len(widths) + 1).print(table)
    if omitted := [name for index, name in enumerate(columns) if index not in kept]:
        print_line(out, f"Omitted for lack of width: {', '.join(omitted)}.")


def _fitting(
    columns: Sequence[str],
    cells: Sequence[Sequence[str]],
    right: set[str],
    out: Console,
    heading: bool,
) -> list[int] | None:
    """Return column widths for this console, or None; files have no width limit."""
    names = columns if heading else [""] * len(columns)
    fixed = [index == 0 or column in right for index, column in enumerate(columns)]
    widths = column_widths(names, cells, fixed, out.width)
    if widths is None and not out.is_terminal:
        return column_widths(names, cells, fixed, sys.maxsize)
    return widths


def _wide(out: Console, width: int) -> Console:
    """Return a console that is wide enough not to truncate a table of this width."""
    if width <= out.width:
        return out
    return _console_class()(
        file=out.file, width=width, force_terminal=out.is_terminal, highlight=False, markup=False
    )


def column_widths(
    names: Sequence[str], cells: Sequence[Sequence[str]], fixed: Sequence[bool], width: int
) -> list[int] | None:
    """Return the width of each column, or None if the table does not fit.

    Fixed columns are never wrapped; the others are wrapped between words, and inside long words
    without digits.
    """
    full, minimum = [], []
    for column, name in enumerate(names):
        texts = [name, *(row[column] for row in cells)]
        lines = [line for text in texts for line in text.split("\n")]
        longest = max(map(_cell_width, lines))
        words = max((_min_width(word) for line in lines for word in line.split()), default=0)
        full.append(longest)
        minimum.append(longest if fixed[column] else words)
    available = width - _COLUMN_PADDING * len(names) - 1
    if sum(full) <= available:
        return full
    spare = available - sum(minimum)
    if spare < 0:
        return None
    widths = list(minimum)
    # Columns that need the least extra width go first, so that none gets more than it needs.
    order = sorted(range(len(names)), key=lambda column: full[column] - minimum[column])
    for left, column in zip(range(len(order), 0, -1), order, strict=True):
        given = min(full[column] - minimum[column], spare // left)
        widths[column] += given
        spare -= given
    return widths


def _min_width(word: str) -> int:
    """Return the minimum width of a word; words with a digit are never broken."""
    size = _cell_width(word)
    return size if any(map(str.isdigit, word)) else min(size, _MIN_WIDTH)


def _cell_width(text: str) -> int:
    """Return the number of terminal cells that a text takes."""
    from rich.cells import cell_len

    return cell_len(text)


def _print_blocks(
    out: Console, columns: Sequence[str] | None, cells: Sequence[Sequence[str]]
) -> None:
    """Print each row as a block with one field per line."""
    indent = max((_cell_width(column) for column in columns or ()), default=0)
    for index, row in enumerate(cells):
        if index:
            print_line(out, "")
        if columns is None:
            print_line(out, ": ".join(row))
            continue
        for column, cell in zip(columns, row, strict=True):
            padding = " " * (indent - _cell_width(column))
            joined = cell.replace("\n", "; ")
            print_line(out, f"{column}{padding}  {joined}".rstrip())


def shown(cell: object) -> str:
    """Return the text of a cell: integers with thousands separators, None as empty."""
    if cell is None:
        return ""
    return f"{cell:,}" if isinstance(cell, int) and not isinstance(cell, bool) else plain(str(cell))


# --- Progress bars ---


class ReadingProgress:
    """Progress bar for each capture while it is read; does nothing without a terminal."""

    def __init__(self, what: str, *, quiet: bool = False) -> None:
        self._what = what
        self._bar: Any = None
        self._task: Any = None
        self._name: Any = None
        if not quiet and sys.stderr.isatty():
            # Imported late: rich takes 0.1 s to import, which scripts should not pay.
            from rich.markup import escape
            from rich.progress import Progress as Bar

            self._name = escape
            self._bar = Bar(console=console(sys.stderr), transient=True)

    def begin(self, name: str, size: int | None) -> None:
        """Start the bar of a capture; `size` is in bytes, None if unknown."""
        if self._bar is not None:
            if self._task is not None:
                self._bar.remove_task(self._task)
            self._task = self._bar.add_task(f"{self._what} {self._name(name)}", total=size)

    def reached(self, position: int) -> None:
        """Move the bar to a byte position in the capture."""
        if self._bar is not None:
            self._bar.update(self._task, completed=position)

    def __enter__(self) -> ReadingProgress:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()


def ingest_progress(quiet: bool) -> Any:
    """Return a progress bar on standard error, or a silent one if that is not a terminal."""
    from pregao.lake.execution.runner import TaskProgress

    class Silent(TaskProgress):
        def __enter__(self) -> TaskProgress:
            return self

        def __exit__(self, *_error: object) -> None:
            return None

    if quiet or not sys.stderr.isatty():
        return Silent()
    return IngestBar()


class IngestBar:
    """Progress bar with bytes, messages per second and remaining time."""

    def __init__(self) -> None:
        from rich.progress import (
            BarColumn,
            DownloadColumn,
            TextColumn,
            TimeRemainingColumn,
        )
        from rich.progress import Progress as RichProgress

        self._bar = RichProgress(
            TextColumn("{task.description}"),
            BarColumn(),
            DownloadColumn(),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(),
            console=console(sys.stderr),
            transient=True,
        )
        self._task = self._bar.add_task("starting", total=None, rate="")

    def __enter__(self) -> IngestBar:
        self._bar.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._bar.stop()

    def started(self, total_bytes: int, tasks: int) -> None:
        """Start the bar for tasks that read `total_bytes` in total."""
        self._bar.reset(
            self._task, total=total_bytes, description=f"decoding in {tasks} tasks", rate=""
        )

    def advanced(self, done_bytes: int, messages: int) -> None:
        """Update the bar with the bytes and messages processed so far."""
        seconds = self._bar.tasks[0].elapsed or 0
        rate = f"{messages / seconds / 1e6:.2f} M messages/s" if seconds and messages else ""
        self._bar.update(self._task, completed=done_bytes, rate=rate)

    def step(self, words: str) -> None:
        """Show the name of the current step."""
        self._bar.update(self._task, description=words)
