"""Terminal output for people: consoles and tables that never truncate a cell.

If a table is wider than the terminal, its text is wrapped, but numbers are not. If that does not
suffice, optional columns are omitted and listed below the table; otherwise each row is printed as
a block with one field per line.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import TextIO

from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from pregao.cli.printing import plain

_PIPE_WIDTH = 160
_AROUND = 3
"""Width of a column in addition to its text: a space on each side and the separator."""
_MIN_WIDTH = 10
"""Words up to this length are never broken."""


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


def console(stream: TextIO | None = None) -> Console:
    """Return a console on standard output or another stream, 160 columns wide if no terminal.

    Escape codes are written to terminals only, regardless of the environment (`FORCE_COLOR`).
    """
    file = sys.stdout if stream is None else stream
    terminal = file.isatty()
    return PlainConsole(
        file=file,
        width=None if terminal else _PIPE_WIDTH,
        force_terminal=terminal,
        highlight=False,
        markup=False,
        emoji=False,
    )


def print_line(out: Console, words: str, style: str | None = None) -> None:
    """Print a line without wrapping it; the terminal does that."""
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
    _wide(out, sum(widths) + _AROUND * len(widths) + 1).print(table)
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
    return PlainConsole(
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
    for place, name in enumerate(names):
        texts = [name, *(row[place] for row in cells)]
        lines = [line for text in texts for line in text.split("\n")]
        longest = max(map(cell_len, lines))
        words = max((_min_width(word) for line in lines for word in line.split()), default=0)
        full.append(longest)
        minimum.append(longest if fixed[place] else words)
    available = width - _AROUND * len(names) - 1
    if sum(full) <= available:
        return full
    spare = available - sum(minimum)
    if spare < 0:
        return None
    widths = list(minimum)
    # Columns that need the least extra width go first, so that none gets more than it needs.
    order = sorted(range(len(names)), key=lambda place: full[place] - minimum[place])
    for left, place in zip(range(len(order), 0, -1), order, strict=True):
        given = min(full[place] - minimum[place], spare // left)
        widths[place] += given
        spare -= given
    return widths


def _min_width(word: str) -> int:
    """Return the minimum width of a word; words with a digit are never broken."""
    size = cell_len(word)
    return size if any(map(str.isdigit, word)) else min(size, _MIN_WIDTH)


def _print_blocks(
    out: Console, columns: Sequence[str] | None, cells: Sequence[Sequence[str]]
) -> None:
    """Print each row as a block with one field per line."""
    indent = max((cell_len(column) for column in columns or ()), default=0)
    for index, row in enumerate(cells):
        if index:
            print_line(out, "")
        if columns is None:
            print_line(out, ": ".join(row))
            continue
        for column, cell in zip(columns, row, strict=True):
            padding = " " * (indent - cell_len(column))
            joined = cell.replace("\n", "; ")
            print_line(out, f"{column}{padding}  {joined}".rstrip())


def shown(cell: object) -> str:
    """Return the text of a cell: integers with thousands separators, None as empty."""
    if cell is None:
        return ""
    return f"{cell:,}" if isinstance(cell, int) and not isinstance(cell, bool) else plain(str(cell))
