"""`pregao analytics`: build tables of trades, bars, statistics, auctions, latencies, orders."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Iterator
from datetime import date as Date  # noqa: N812 - a parameter is called date
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pregao.cli import options

if TYPE_CHECKING:
    from pregao.lake.analytics.run import TableBuild
    from pregao.lake.execution.runner import TaskProgress
    from pregao.lake.storage.lake_store import LakeStore

EPILOG = "\n\n".join(
    (
        "Examples:",
        "pregao analytics --lake lake",
        "pregao analytics --lake lake --engine spark",
        "pregao analytics --lake lake --date 2026-05-21 --table bars --interval 15m",
        "pregao query \"SELECT * FROM bars WHERE symbol = 'PETR4'\" --lake lake",
    )
)


def analytics(
    lake: options.Lake,
    date: Annotated[
        list[str] | None,
        typer.Option(metavar="DATE", help="Only this date, e.g. 2026-05-21. Repeatable."),
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
            metavar="DURATIONS",
            help="Bar lengths, e.g. 500ms, 15m, 1d (default 1s, 1m, 5m, 1h, 1d). Existing lengths "
            "are updated too.",
        ),
    ] = None,
    force: Annotated[
        bool,
        typer.Option("--force", "-f", help="Rebuild days whose inputs have not changed."),
    ] = False,
    engine: options.Engine = None,
    master: options.Master = None,
    conf: options.Conf = None,
    quiet: options.Quiet = False,
) -> None:
    """Build tables of trades, bars, statistics, statuses, auctions, latencies and orders.

    A day is rebuilt, and its rows replaced, only if more data was ingested since the last build.
    """
    from pregao.cli import option_values
    from pregao.cli.ingest import open_runner
    from pregao.lake.analytics.bars import known_intervals
    from pregao.lake.analytics.registry import ANALYTICS, in_order
    from pregao.lake.analytics.run import analyse
    from pregao.lake.analytics.tables import AnalyticsOptions
    from pregao.lake.execution.spark_session import parse_conf
    from pregao.lake.storage.lake_store import LakeStore

    # Validate options before starting Spark.
    option_values.check_engine(engine, master, conf)
    names = list(ANALYTICS) if table is None else option_values.parts(table)
    in_order(names)
    wanted = (
        AnalyticsOptions()
        if interval is None
        else AnalyticsOptions(known_intervals(option_values.parts(interval)))
    )
    dates = None if date is None else option_values.days(date)
    parse_conf(conf)
    store = LakeStore(lake)
    store.require()
    with open_runner(engine, master, conf, quiet=quiet) as runner:
        built = analyse(
            store,
            runner,
            dates=dates,
            tables=names,
            wanted=wanted,
            force=force,
            progress=progress(quiet),
        )
    if not quiet:
        show(built)
        print_clock_offsets(store, built)
        print_level_only_channels(store, built)


def progress(quiet: bool) -> TaskProgress:
    """Return the progress of a build, which prints its steps if standard error is a terminal."""
    from pregao.lake.execution.runner import TaskProgress

    class PrintedProgress(TaskProgress):
        def step(self, words: str) -> None:
            typer.echo(words, err=True)

    return PrintedProgress() if not quiet and sys.stderr.isatty() else TaskProgress()


def show(made: Iterable[TableBuild]) -> None:
    """Print the tables built, with their rows."""
    from pregao.cli.console import console, print_table

    rows = [
        (one.date.isoformat(), one.table, "up to date" if one.rows is None else one.rows)
        for one in made
    ]
    columns = ("date", "table", "rows")
    print_table(console(), "", columns, rows, numbers="rows", framed=True)


_MAX_CLOCKS = 10


def print_clock_offsets(lake: LakeStore, made: Iterable[TableBuild]) -> None:
    """Print the offsets between the clocks of the captures and the exchange's clock."""
    for line in _clocks(lake, {one.date for one in made if one.table == "clock_offsets"}):
        typer.echo(line)


def print_level_only_channels(lake: LakeStore, made: Iterable[TableBuild]) -> None:
    """Print the channels without orders, because their feed publishes price levels."""
    from pregao.lake.analytics.legacy import channels_of_levels

    for day in sorted({one.date for one in made if one.table == "orders"}):
        for channel in channels_of_levels(lake, day):
            typer.echo(
                f"{day} channel {channel}: the feed publishes price levels, not orders, so the "
                "table orders has no rows of it."
            )


def _clocks(lake: LakeStore, dates: Collection[Date]) -> Iterator[str]:
    """Yield a line per capture clock, largest offset from the exchange's clock first."""
    if not dates:
        return
    found = lake.delta("clock_offsets").to_pyarrow_table(
        filters=[("date", "in", sorted(dates)), ("stream", "=", "incremental")]
    )
    rows = sorted(found.to_pylist(), key=lambda row: -abs(row["offset_ns"]))
    for row in rows[:_MAX_CLOCKS]:
        yield _clock(row)
    if len(rows) > _MAX_CLOCKS:
        yield f"{len(rows) - _MAX_CLOCKS} more captures and feeds are in the table clock_offsets."
    if rows:
        yield "These offsets are subtracted from network_ns in latency and latency_minutes."


def _clock(row: dict[str, Any]) -> str:
    offset = row["offset_ns"]
    name = row["name"] or row["capture_id"]
    relation = "ahead of" if offset >= 0 else "behind"
    return (
        f"{row['date']} {name}, channel {row['channel']}, feed {row['feed']}: the capture's clock "
        f"is {abs(offset):,} ns {relation} the exchange's, including the minimum network latency."
    )
