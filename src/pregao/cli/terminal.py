"""What is printed for people: the terminal, and tables on it, of which nothing is ever cut.

A table that is wider than the terminal has its texts wrapped, but never a number. Where even that
does not fit, columns that may be left out are, and are named; or each row is shown as a block with
a field on each line.
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
"""What a column takes besides its text: a space on each side, and the line between two columns."""
_SHORTEST = 10
"""Words up to this length are never broken."""


class PlainConsole(Console):
    """A console that escapes the control characters of what it prints, not those of its own."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Yield the segments of what is printed, with their texts escaped."""
        for segment in super().render(renderable, options):
            if segment.control:
                yield segment
            else:
                yield Segment(plain(segment.text), segment.style)


def console(stream: TextIO | None = None) -> Console:
    """Standard output, or another stream; wide enough for whole tables where it is no terminal.

    Escape codes are for terminals only, whatever the environment asks for.
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


def say(out: Console, words: str, style: str | None = None) -> None:
    """Print a line as it is; the terminal wraps it."""
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
    """Print a table; the columns in ``numbers`` (with spaces between) are aligned right.

    Those in ``optional`` are left out, the last one first, where there is no room for all, and
    that is told. ``framed`` draws lines around the table, without ``heading`` the columns have no
    names.
    """
    cells = [[shown(cell) for cell in row] for row in rows]
    right = set(numbers.split())
    kept = list(range(len(columns)))
    widths = _fitting(columns, cells, right, out, heading)
    for name in reversed(optional.split()):
        if widths is not None:
            break
        kept.remove(columns.index(name))
        chosen = [[row[place] for place in kept] for row in cells]
        widths = _fitting([columns[place] for place in kept], chosen, right, out, heading)
    if title:
        say(out, title, "bold")
    if widths is None:
        _print_blocks(out, columns if heading else None, cells)
        return
    made = Table(box=box.HEAVY_HEAD if framed else box.SIMPLE_HEAD, show_header=heading)
    for width, place in zip(widths, kept, strict=True):
        made.add_column(
            Text(columns[place]),
            justify="right" if columns[place] in right else "left",
            overflow="fold",
            width=width,
        )
    for row in cells:
        made.add_row(*(Text(row[place]) for place in kept))
    _wide(out, sum(widths) + _AROUND * len(widths) + 1).print(made)
    if left := [name for place, name in enumerate(columns) if place not in kept]:
        say(out, f"No room for: {', '.join(left)}.")


def _fitting(
    columns: Sequence[str],
    cells: Sequence[Sequence[str]],
    right: set[str],
    out: Console,
    heading: bool,
) -> list[int] | None:
    """The widths of columns on this console; a file has lines of any length."""
    names = columns if heading else [""] * len(columns)
    fixed = [place == 0 or column in right for place, column in enumerate(columns)]
    widths = column_widths(names, cells, fixed, out.width)
    if widths is None and not out.is_terminal:
        return column_widths(names, cells, fixed, sys.maxsize)
    return widths


def _wide(out: Console, width: int) -> Console:
    """A console that does not cut so wide a table."""
    if width <= out.width:
        return out
    return PlainConsole(
        file=out.file, width=width, force_terminal=out.is_terminal, highlight=False, markup=False
    )


def column_widths(
    names: Sequence[str], cells: Sequence[Sequence[str]], fixed: Sequence[bool], width: int
) -> list[int] | None:
    """How wide each column of a table is; None if it cannot be shown without breaking a word.

    Fixed columns are never wrapped; the others are wrapped between words, and within long words
    that have no digit.
    """
    whole, least = [], []
    for place, name in enumerate(names):
        texts = [name, *(row[place] for row in cells)]
        lines = [line for text in texts for line in text.split("\n")]
        longest = max(map(cell_len, lines))
        words = max((_least(word) for line in lines for word in line.split()), default=0)
        whole.append(longest)
        least.append(longest if fixed[place] else words)
    room = width - _AROUND * len(names) - 1
    if sum(whole) <= room:
        return whole
    spare = room - sum(least)
    if spare < 0:
        return None
    widths = list(least)
    # Those that lack least are served first, so that nobody gets more than it needs.
    lacking = sorted(range(len(names)), key=lambda place: whole[place] - least[place])
    for left, place in zip(range(len(lacking), 0, -1), lacking, strict=True):
        given = min(whole[place] - least[place], spare // left)
        widths[place] += given
        spare -= given
    return widths


def _least(word: str) -> int:
    """How much room a word needs: one with a digit must stay whole."""
    size = cell_len(word)
    return size if any(map(str.isdigit, word)) else min(size, _SHORTEST)


def _print_blocks(
    out: Console, columns: Sequence[str] | None, cells: Sequence[Sequence[str]]
) -> None:
    """Each row as a block, a field on each line."""
    indent = max((cell_len(column) for column in columns or ()), default=0)
    for at, row in enumerate(cells):
        if at:
            say(out, "")
        if columns is None:
            say(out, ": ".join(row))
            continue
        for column, cell in zip(columns, row, strict=True):
            padding = " " * (indent - cell_len(column))
            joined = cell.replace("\n", "; ")
            say(out, f"{column}{padding}  {joined}".rstrip())


def shown(cell: object) -> str:
    """A cell's text: whole numbers with commas, nothing for what is not there."""
    if cell is None:
        return ""
    return f"{cell:,}" if isinstance(cell, int) and not isinstance(cell, bool) else plain(str(cell))
