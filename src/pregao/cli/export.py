"""``pregao export``: write ticks, books and instrument days of a lake to files.

Instrument days are written in the formats of other tools: Databento's MBO and MBP-10, LOBSTER,
hftbacktest, NautilusTrader.
"""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import Annotated

import typer

from pregao.cli import options

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
    from pregao.lake.books.selection import BookSelection
    from pregao.lake.exports.formats import ExportRequest, write_export
    from pregao.lake.storage.lake_store import LakeStore

    channels = option_values.numbers(channel, "--channel", 255)
    selection = BookSelection(
        tuple(option_values.days(day)),
        tuple(sorted(channels or ())),
        tuple(option_values.parts(symbol)),
    )
    request = ExportRequest(
        what=what.value,
        selection=selection,
        output=output,
        depth=depth,
        at_ns=option_values.moment(at, "--at", tz),
        checkpoints=checkpoints,
        zone=tz,
        safe_csv=safe_csv,
        force=force,
    )
    if output == "-":
        write_export(LakeStore(lake), request, sys.stdout.buffer)
        sys.stdout.buffer.flush()
        return
    written = write_export(LakeStore(lake), request)
    if what in (ExportKind.TICKS, ExportKind.BOOK):
        typer.echo(f"pregao: {written.rows:,} rows in {output}", err=True)
        return
    for path in written.paths:
        typer.echo(f"pregao: {path}", err=True)
    if written.rows:
        typer.echo(f"pregao: {written.rows:,} rows", err=True)
