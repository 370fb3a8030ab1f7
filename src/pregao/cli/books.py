"""``pregao books``: rebuild the order books of a lake."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pregao.cli import options
from pregao.units import parse_duration

if TYPE_CHECKING:
    from pregao.lake.books.build import BookOptions, DayReport
    from pregao.lake.execution.runner import Runner

EPILOG = "\n\n".join(
    (
        "Examples:",
        "pregao books --lake lake",
        "pregao books --lake lake --date 2026-05-21 --channel 51 --depth 5",
        "pregao book PETR4 --lake lake --at 2026-05-21T13:00:00",
        "Tables written per channel and day: ticks (the best levels after every event that changed "
        "them), book_checkpoints (full books), book_audit (every snapshot in the captures compared "
        "with the rebuilt book), gaps (stale instruments, and what healed them) and books (first "
        "source and final state of each book).",
    )
)


def books(
    lake: options.Lake,
    day: options.Days = None,
    channel: options.Channels = None,
    symbol: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SYMBOL",
            help="Only these instruments, by symbol or security ID; other instruments keep their "
            "rows.",
        ),
    ] = None,
    depth: Annotated[int, typer.Option(help="Levels per side of a tick, 1 to 100.")] = 10,
    checkpoint_every: Annotated[
        str,
        typer.Option(metavar="DURATION", help="Interval between full-book checkpoints, e.g. 10m."),
    ] = "10m",
    engine: options.Engine = None,
    master: options.Master = None,
    conf: options.Conf = None,
    report: Annotated[
        Path | None,
        typer.Option("--report", metavar="FILE", help="Write a JSON report to this file."),
    ] = None,
    quiet: options.Quiet = False,
) -> None:
    """Rebuild the order books of a lake from its messages, and audit them.

    A book starts from a snapshot in the captures, an EmptyBook or ChannelReset, or empty at the
    start of the sequence. A day is rebuilt, and its rows replaced, only if more data was ingested
    since the last build or the settings differ.
    """
    from pregao.cli import option_values
    from pregao.cli.ingest import open_runner
    from pregao.lake.books.build import BookOptions
    from pregao.lake.storage.lake_store import LakeStore
    from pregao.safe_io.output_files import check_report, write_report

    option_values.check_engine(engine, master, conf)
    channels = option_values.numbers(channel, "--channel", 255)
    options = BookOptions(
        dates=tuple(option_values.days(day)),
        channels=tuple(sorted(channels or ())),
        symbols=tuple(option_values.parts(symbol)),
        depth=depth,
        interval_ns=parse_duration(checkpoint_every, "--checkpoint-every"),
    )
    options.check()
    check_report(report)
    LakeStore(lake).require()
    with open_runner(engine, master, conf, quiet=quiet) as runner:
        reports = build(lake, runner, options, quiet=quiet)
    write_report(report, [one.json() for one in reports])
    if not quiet:
        show(reports)


def build(
    lake: str, runner: Runner, options: BookOptions | None = None, *, quiet: bool = False
) -> list[DayReport]:
    """Build books, with the progress on standard error."""
    from pregao.lake.books.build import build_books

    progress = _progress(shown=not quiet and sys.stderr.isatty())
    return build_books(lake, options, runner=runner, progress=progress)


def _progress(shown: bool) -> Any:
    """Return the progress of a build, which prints a line per step if `shown`."""
    from pregao.lake.execution.runner import TaskProgress

    class PrintedProgress(TaskProgress):
        def started(self, total_bytes: int, tasks: int) -> None:  # noqa: ARG002 - not shown
            typer.echo(f"replaying in {tasks} tasks", err=True)

        def step(self, words: str) -> None:
            typer.echo(words, err=True)

    return PrintedProgress() if shown else TaskProgress()


def show(reports: Iterable[DayReport]) -> None:
    """Print the reports of a build."""
    for report in reports:
        name = f"{report.date.isoformat()}, channel {report.channel}"
        if not report.built:
            typer.echo(f"{name}: up to date")
            continue
        counts = report.counts
        rate = counts["messages"] / report.seconds if report.seconds else 0.0
        typer.echo(
            f"{name}: {counts['instruments']:,} instruments, {counts['messages']:,} messages, "
            f"{counts['ticks']:,} ticks, {counts['checkpoints']:,} checkpoints in "
            f"{report.seconds:.1f} s ({rate:,.0f} messages/s)"
        )
        origins = ", ".join(
            f"{count:,} with {what}" for what, count in report.origins.most_common()
        )
        typer.echo(f"  started: {origins}")
        typer.echo(f"  gaps: {counts['gaps']:,}; stale at the end: {counts['stale']:,}")
        audit = ", ".join(f"{count:,} {result}" for result, count in report.audit.most_common())
        typer.echo(f"  snapshots: {audit or 'none in the captures'}")
