"""`pregao analytics`: tables of trades, bars, statistics, states, auctions, latencies, orders."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from datetime import date as Date  # noqa: N812 - a parameter is called date
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pregao.cli import options

if TYPE_CHECKING:
    from pregao.lake.analytics.analyse import Made
    from pregao.lake.store import Lake

EPILOG = "\n\n".join(
    (
        "Examples:",
        "pregao analytics --lake lake",
        "pregao analytics --lake lake --master local[*]",
        "pregao analytics --lake lake --date 2026-05-21 --table bars --interval 15m",
        "pregao query \"SELECT * FROM bars WHERE symbol = 'PETR4'\" --lake lake",
        "If nothing is said about Spark, a lake on this machine or S3 is read by this process, as "
        "--master here does: the rows are the same, in a third of the time.",
    )
)


def analytics(
    lake: options.Lake,
    date: Annotated[
        list[str] | None,
        typer.Option(metavar="DAY", help="Only this day, such as 2026-05-21; may be repeated."),
    ] = None,
    table: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAMES",
            help="Only these tables: trades, bars, session_stats, status, auctions, "
            "clock_offsets, latency, latency_minutes, orders.",
        ),
    ] = None,
    interval: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SPANS",
            help="How long bars are, such as 500ms, 15m or 1d; 1s, 1m, 5m, 1h and 1d by default. "
            "Bars of other lengths that are there are kept up to date.",
        ),
    ] = None,
    again: Annotated[
        bool, typer.Option("--again", help="Make days anew whose data has not changed.")
    ] = False,
    master: options.Master = None,
    conf: options.Conf = None,
    quiet: options.Quiet = False,
) -> None:
    """Make tables of trades, bars, statistics, states, auctions, latencies and orders.

    Each day is made of what was ingested of it. A day that was made already is made again only if
    more was ingested since, and then replaces the one before as a whole.
    """
    from pregao.cli import option_values
    from pregao.cli.ingest import analytics_session
    from pregao.lake.analytics.analyse import ANALYTICS, analyse, in_order
    from pregao.lake.analytics.intervals import known_intervals
    from pregao.lake.analytics.tables import Wanted
    from pregao.lake.spark import parse_conf
    from pregao.lake.store import Lake

    # Mistakes show before Spark is started.
    names = list(ANALYTICS) if table is None else option_values.parts(table)
    in_order(names)
    wanted = (
        Wanted() if interval is None else Wanted(known_intervals(option_values.parts(interval)))
    )
    dates = None if date is None else option_values.days(date)
    parse_conf(conf)
    place = Lake(lake)
    place.require()
    session = analytics_session(master, conf, place, quiet=quiet)
    made = analyse(
        session.spark,
        place,
        dates=dates,
        tables=names,
        wanted=wanted,
        again=again,
        progress=progress(quiet),
    )
    if not quiet:
        show(made)
        tell_clocks(place, made)
        tell_levels(place, made)


def progress(quiet: bool) -> Callable[[str, Date], None]:
    """What tells which table is being made, where somebody looks."""
    shown = not quiet and sys.stderr.isatty()

    def tell(name: str, day: Date) -> None:
        if shown:
            typer.echo(f"{day}: making {name}", err=True)

    return tell


def show(made: Iterable[Made]) -> None:
    """Print what was made."""
    from pregao.cli.terminal import console, print_table

    rows = [
        (one.date.isoformat(), one.table, "up to date" if one.rows is None else one.rows)
        for one in made
    ]
    columns = ("date", "table", "rows")
    print_table(console(), "", columns, rows, numbers="rows", framed=True)


_MOST_CLOCKS = 10


def tell_clocks(lake: Lake, made: Iterable[Made]) -> None:
    """Print how far the clocks of the captures are from the exchange's."""
    for line in _clocks(lake, {one.date for one in made if one.table == "clock_offsets"}):
        typer.echo(line)


def tell_levels(lake: Lake, made: Iterable[Made]) -> None:
    """Print which channels have no orders, because their feed tells price levels."""
    from pregao.lake.analytics.legacy_left_out import channels_of_levels

    for day in sorted({one.date for one in made if one.table == "orders"}):
        for channel in channels_of_levels(lake, day):
            typer.echo(
                f"{day} channel {channel}: the feed tells price levels and no orders, so there "
                "are none of it in orders."
            )


def _clocks(lake: Lake, dates: Collection[Date]) -> Iterator[str]:
    """Sentences about the clocks of the captures, those furthest from the exchange's first."""
    if not dates:
        return
    found = lake.delta("clock_offsets").to_pyarrow_table(
        filters=[("date", "in", sorted(dates)), ("stream", "=", "incremental")]
    )
    rows = sorted(found.to_pylist(), key=lambda row: -abs(row["offset_ns"]))
    for row in rows[:_MOST_CLOCKS]:
        yield _clock(row)
    if len(rows) > _MOST_CLOCKS:
        yield f"{len(rows) - _MOST_CLOCKS} more captures and feeds are in the table clock_offsets."
    if rows:
        yield "Network times in latency and latency_minutes are less these offsets (network_ns)."


def _clock(row: dict[str, Any]) -> str:
    offset = row["offset_ns"]
    name = row["name"] or row["capture_id"]
    what = "ahead of" if offset >= 0 else "behind"
    return (
        f"{row['date']} {name}, channel {row['channel']}, feed {row['feed']}: the capture's clock "
        f"is {abs(offset):,} ns {what} the exchange's, the shortest network time included."
    )
