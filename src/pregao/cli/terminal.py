"""What is printed for people: the terminal, and tables on it."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

_PIPE_WIDTH = 160


def console() -> Console:
    """Standard output; wide enough for whole tables where it is not a terminal."""
    return Console(
        file=sys.stdout, width=None if sys.stdout.isatty() else _PIPE_WIDTH, highlight=False
    )


def print_table(
    out: Console,
    title: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    numbers: str = "",
) -> None:
    """Print a table; the columns in ``numbers`` (with spaces between) are aligned right."""
    right = set(numbers.split())
    made = Table(box=box.SIMPLE_HEAD)
    for place, column in enumerate(columns):
        made.add_column(
            column,
            justify="right" if column in right else "left",
            overflow="fold",
            no_wrap=place == 0 or column in right,
        )
    for row in rows:
        made.add_row(*(escape(shown(cell)) for cell in row))
    out.print(escape(title), style="bold")
    out.print(made)


def shown(cell: object) -> str:
    """A cell's text: whole numbers with commas, nothing for what is not there."""
    if cell is None:
        return ""
    return f"{cell:,}" if isinstance(cell, int) and not isinstance(cell, bool) else str(cell)
