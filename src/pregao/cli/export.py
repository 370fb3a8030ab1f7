"""``pregao export``: write ticks, books and instrument days of a lake to files.

Instrument days are written in the formats of other tools: Databento's MBO and MBP-10, LOBSTER,
hftbacktest, NautilusTrader.
"""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO, NamedTuple

import typer

from pregao.cli import options
from pregao.errors import UsageError
from pregao.units import MARKET_ZONE

if TYPE_CHECKING:
    from pregao.lake.books.selection import BookSelection
    from pregao.lake.storage.lake_store import LakeStore

EPILOG = "\n\n".join(
    (
        "Examples:",
        "pregao export ticks --lake lake --symbol PETR4 -o ticks.csv",
        "pregao export ticks --lake lake -o ticks.parquet",
        "pregao export book --lake lake --date 2026-05-21 -o books.csv.zst",
        "pregao export book --lake lake --symbol PETR4 --at 2026-05-21T13:00:00 -o book.csv",
        "pregao export lobster --lake lake --symbol PETR4 -o lobster",
        "pregao export hftbacktest --lake lake --symbol PETR4 -o petr4.npz",
        "pregao export mbo --lake lake --symbol PETR4,VALE3 -o mbo.parquet",
        "pregao export nautilus --lake lake --symbol PETR4 -o catalog",
        "docs/exports.md describes the formats. In ticks and books, updateTime is the time of the "
        "event in seconds since 1970 (UTC) and updateNano its nanoseconds. Ticks are sorted by "
        "instrument. A book has one row per order: bids first, each side in order of priority.",
    )
)


class ExportKind(StrEnum):
    """Kinds of exports."""

    TICKS = "ticks"
    BOOK = "book"
    MBO = "mbo"
    MBP10 = "mbp-10"
    LOBSTER = "lobster"
    HFTBACKTEST = "hftbacktest"
    HFTBACKTEST_L2 = "hftbacktest-l2"
    NAUTILUS = "nautilus"

    @property
    def third_party(self) -> bool:
        """Whether it is a third-party format of an instrument day."""
        return self not in (ExportKind.TICKS, ExportKind.BOOK)


def export(
    what: Annotated[ExportKind, typer.Argument(help="Kind of export.")],
    lake: options.Lake,
    output: Annotated[
        str,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Output: a .csv, .csv.gz, .csv.zst, .parquet, .arrow or .feather file; - for CSV "
            "on standard output; .npz for hftbacktest; a folder for lobster and nautilus.",
        ),
    ],
    day: options.Days = None,
    channel: options.Channels = None,
    symbol: options.Symbols = None,
    depth: Annotated[
        int, typer.Option(min=1, max=100, help="Levels per side of ticks and lobster.")
    ] = 10,
    at: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Time of the books (default: end of the day)."),
    ] = None,
    checkpoints: Annotated[
        bool,
        typer.Option("--checkpoints", help="Export all full-book checkpoints, not only the last."),
    ] = False,
    tz: options.Zone = None,
    safe_csv: options.SafeCsv = False,
    force: Annotated[bool, typer.Option("--force", "-f", help="Replace an existing file.")] = False,
) -> None:
    """Export ticks, books or instrument days of a lake to files for other programs.

    The file extension determines the format of tables: CSV, Parquet or Arrow.
    """
    from pregao.cli import option_values
    from pregao.cli.output_files import NewFiles
    from pregao.lake.books.selection import BookSelection
    from pregao.lake.exports.tabular import ending_of
    from pregao.lake.storage.lake_store import LakeStore

    channels = option_values.numbers(channel, "--channel", 255)
    selection = BookSelection(
        tuple(option_values.days(day)),
        tuple(sorted(channels or ())),
        tuple(option_values.parts(symbol)),
    )
    when = option_values.moment(at, "--at", tz)
    if when is not None and (what is not ExportKind.BOOK or checkpoints or not selection.symbols):
        raise UsageError("--at requires `export book` with --symbol and without --checkpoints.")
    if checkpoints and what is not ExportKind.BOOK:
        raise UsageError(f"--checkpoints is for `export book`, not `export {what}`.")
    if what.third_party:
        write_third_party(
            what.value, lake, selection, output, depth, tz, force=force, safe_csv=safe_csv
        )
        return
    ending = ".csv" if output == "-" else ending_of(output)
    files = NewFiles(force=force)
    if output != "-":
        files.check(Path(output))
    store = LakeStore(lake)
    store.require()
    request = _ExportRequest(what, store, selection, depth, when, checkpoints, ending, safe_csv)
    if output == "-":
        _write(request, sys.stdout.buffer)
        sys.stdout.buffer.flush()
        return
    with files:
        rows = _write(request, files.create(Path(output)))
    typer.echo(f"pregao: {rows:,} rows in {output}", err=True)


class _ExportRequest(NamedTuple):
    """Settings of an export of ticks or books."""

    what: ExportKind
    lake: LakeStore
    selection: BookSelection
    depth: int
    when: int | None
    checkpoints: bool
    ending: str
    safe_csv: bool


def _write(wanted: _ExportRequest, sink: BinaryIO) -> int:
    from pregao.lake.books.book_at import book_at
    from pregao.lake.exports.tabular import export_checkpoints, export_moments, export_ticks

    lake, selection, ending, safe = wanted.lake, wanted.selection, wanted.ending, wanted.safe_csv
    if wanted.what is ExportKind.TICKS:
        return export_ticks(lake, selection, wanted.depth, sink, ending, safe_csv=safe)
    if wanted.when is None:
        every = wanted.checkpoints
        return export_checkpoints(lake, selection, sink, ending, all_of_them=every, safe_csv=safe)
    day = selection.dates[0] if selection.dates else None
    channel = selection.channels[0] if selection.channels else None
    moments = (book_at(lake, name, wanted.when, day, channel) for name in selection.symbols)
    return export_moments(moments, sink, ending, safe_csv=safe)


def write_third_party(
    format_name: str,
    lake: str,
    selection: BookSelection,
    output: str,
    depth: int,
    zone: str | None,
    *,
    force: bool,
    safe_csv: bool,
) -> None:
    """Write one or more instrument days in a third-party format."""
    from pregao.cli.output_files import NewFiles
    from pregao.lake.books.book_at import find_instrument
    from pregao.lake.books.catalog import FileCatalog
    from pregao.lake.exports.formats import ExportFormat, check_output, files_of
    from pregao.lake.storage.lake_store import LakeStore

    wanted = ExportFormat(format_name)
    check_output(wanted, output)
    if not selection.symbols:
        raise UsageError(f"`export {wanted}` requires --symbol.")
    if len(selection.channels) > 1:
        raise UsageError(
            f"`export {wanted}` accepts one --channel, was {len(selection.channels)}. Use it "
            "if a symbol is on several channels."
        )
    store = LakeStore(lake)
    store.require()
    catalogue = FileCatalog(store)
    channel = selection.channels[0] if selection.channels else None
    instruments = [
        find_instrument(catalogue, name, day, channel)
        for name in selection.symbols
        for day in selection.dates or (None,)
    ]
    found = files_of(
        store, wanted, instruments, output, depth, zone or MARKET_ZONE, safe_csv=safe_csv
    )
    if output == "-":
        for each in found:
            each.write(sys.stdout.buffer)
        sys.stdout.buffer.flush()
        return
    rows = 0
    with NewFiles(force=force) as files:
        for each in found:
            each.path.parent.mkdir(parents=True, exist_ok=True)
            rows += each.write(files.create(Path(each.path)))
        paths = files.paths
    for path in paths:
        typer.echo(f"pregao: {path}", err=True)
    if rows:
        typer.echo(f"pregao: {rows:,} rows", err=True)
