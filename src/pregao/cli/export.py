"""``pregao export``: ticks and books of a lake as files."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO, NamedTuple

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
        "pregao export ticks --lake lake -o ticks.parquet",
        "pregao export book --lake lake --date 2026-05-21 -o books.csv.zst",
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
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="A .csv, .csv.gz, .csv.zst, .parquet, .arrow or .feather file; - for CSV on "
            "standard output.",
        ),
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
    tz: options.Zone = None,
    force: Annotated[bool, typer.Option("--force", "-f", help="Replace an existing file.")] = False,
) -> None:
    """Write ticks, or full books, of a lake to a file; its name says in which format."""
    from pregao.cli import option_values
    from pregao.cli.new_files import NewFiles
    from pregao.lake.books.export import Selection
    from pregao.lake.books.table_files import ending_of
    from pregao.lake.store import Lake

    channels = option_values.numbers(channel, "--channel", 255)
    selection = Selection(
        tuple(option_values.days(day)),
        tuple(sorted(channels or ())),
        tuple(option_values.parts(symbol)),
    )
    when = option_values.moment(at, "--at", tz)
    if when is not None and (what is What.TICKS or checkpoints or not selection.symbols):
        raise UsageError("--at goes with `export book` and --symbol: it looks up single books.")
    ending = ".csv" if output == "-" else ending_of(output)
    files = NewFiles(force=force)
    if output != "-":
        files.check(Path(output))
    place = Lake(lake)
    place.require()
    wanted = _Wanted(what, place, selection, depth, when, checkpoints, ending)
    if output == "-":
        _write(wanted, sys.stdout.buffer)
        sys.stdout.buffer.flush()
        return
    with files:
        rows = _write(wanted, files.create(Path(output)))
    typer.echo(f"pregao: {rows:,} rows in {output}", err=True)


class _Wanted(NamedTuple):
    """What is to be written."""

    what: What
    lake: Lake
    selection: Selection
    depth: int
    when: int | None
    checkpoints: bool
    ending: str


def _write(wanted: _Wanted, sink: BinaryIO) -> int:
    from pregao.lake.books.export import export_checkpoints, export_moments, export_ticks
    from pregao.lake.books.lookup import book_at

    lake, selection, ending = wanted.lake, wanted.selection, wanted.ending
    if wanted.what is What.TICKS:
        return export_ticks(lake, selection, wanted.depth, sink, ending)
    if wanted.when is None:
        return export_checkpoints(lake, selection, sink, ending, all_of_them=wanted.checkpoints)
    day = selection.dates[0] if selection.dates else None
    channel = selection.channels[0] if selection.channels else None
    moments = (book_at(lake, name, wanted.when, day, channel) for name in selection.symbols)
    return export_moments(moments, sink, ending)
