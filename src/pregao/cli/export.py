"""``pregao export``: ticks and books of a lake as CSV."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO

import typer

from pregao.cli import options
from pregao.errors import UsageError

if TYPE_CHECKING:
    from pregao.lake.books.export import Selection
    from pregao.lake.store import Lake

EPILOG = "\n\n".join(
    (
        "Examples:",
        "pregao export ticks --lake lake --symbol PETR4 -o ticks.csv",
        "pregao export book --lake lake --date 2026-05-21 -o books.csv",
        "pregao export book --lake lake --symbol PETR4 --at 2026-05-21T13:00:00 -o book.csv",
        "updateTime is the second of the event since 1970 (UTC), updateNano the nanoseconds "
        "within it. Ticks come instrument by instrument. A book has a row for each order: bids "
        "first, each side in the order in which it would trade.",
    )
)


class What(StrEnum):
    """What can be exported."""

    TICKS = "ticks"
    BOOK = "book"


def export(
    what: Annotated[What, typer.Argument(help="ticks, or book.")],
    lake: options.Lake,
    output: Annotated[
        str,
        typer.Option("--output", "-o", metavar="FILE", help="The CSV file; - for standard output."),
    ],
    day: options.Days = None,
    channel: options.Channels = None,
    symbol: options.Symbols = None,
    depth: Annotated[int, typer.Option(min=1, max=100, help="Levels of ticks.")] = 10,
    at: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="The books at this time; their end by default."),
    ] = None,
    checkpoints: Annotated[
        bool, typer.Option("--checkpoints", help="Every full book that is kept, not the last one.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", "-f", help="Replace an existing file.")] = False,
) -> None:
    """Write ticks, or full books, of a lake as CSV."""
    from pregao.cli import option_values
    from pregao.lake.books.export import Selection, export_checkpoints, export_ticks
    from pregao.lake.store import Lake

    channels = option_values.numbers(channel, "--channel", 255)
    selection = Selection(
        tuple(option_values.days(day)),
        tuple(sorted(channels or ())),
        tuple(option_values.parts(symbol)),
    )
    when = option_values.moment(at, "--at")
    if when is not None and (what is What.TICKS or checkpoints or not selection.symbols):
        raise UsageError("--at goes with `export book` and --symbol: it looks up single books.")
    place = Lake(lake)
    place.require()
    with _opened(output, force) as sink:
        if what is What.TICKS:
            rows = export_ticks(place, selection, depth, sink)
        elif when is not None:
            rows = _moments(place, selection, when, sink)
        else:
            rows = export_checkpoints(place, selection, sink, all_of_them=checkpoints)
    if output != "-":
        typer.echo(f"pregao: {rows:,} rows in {output}", err=True)


def _moments(lake: Lake, selection: Selection, when: int, sink: BinaryIO) -> int:
    from pregao.lake.books.export import export_moments
    from pregao.lake.books.lookup import book_at

    day = selection.dates[0] if selection.dates else None
    channel = selection.channels[0] if selection.channels else None
    moments = (book_at(lake, name, when, day, channel) for name in selection.symbols)
    return export_moments(moments, sink)


class _opened:  # noqa: N801 - reads like the function it is used as
    """A file to write, or standard output; nothing is left of a file if the work fails."""

    def __init__(self, output: str, force: bool) -> None:
        self._output = output
        self._path = Path(output)
        if output != "-" and self._path.exists() and not force:
            raise UsageError(f"{output} exists already: give --force to replace it.")

    def __enter__(self) -> BinaryIO:
        if self._output == "-":
            return sys.stdout.buffer
        try:
            self._file = self._path.open("wb")
        except OSError as error:
            raise UsageError(f"{self._output} cannot be written: {error.strerror}") from error
        return self._file

    def __exit__(self, kind: type[BaseException] | None, *_error: object) -> None:
        if self._output == "-":
            sys.stdout.buffer.flush()
            return
        self._file.close()
        if kind is not None:
            self._path.unlink()
