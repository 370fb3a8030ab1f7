"""`pregao ingest`: captures into the tables of a lake."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pregao.cli import options
from pregao.clock import parse_span

if TYPE_CHECKING:
    from pregao.lake.ingest import Report

EPILOG = "\n\n".join(
    (
        "Examples:",
        "pregao ingest captures/ --lake lake",
        "pregao ingest captures/ --lake lake --books",
        'pregao query "SELECT count(*) FROM umdf_trade_53" --lake lake',
    )
)


def ingest(
    captures: Annotated[
        list[str],
        typer.Argument(
            metavar="CAPTURE…", help="Capture files, folders or patterns; s3:// and others too."
        ),
    ],
    lake: options.NewLake,
    master: options.Master = None,
    conf: options.Conf = None,
    report: Annotated[
        Path | None, typer.Option("--report", metavar="FILE", help="Write the report as JSON.")
    ] = None,
    skew: Annotated[
        str, typer.Option(help="How far apart the feeds may bring the same packet.")
    ] = "1s",
    range_size: options.RangeSize = "64M",
    channel: options.TakenChannels = None,
    stream: options.Streams = None,
    feed: options.Feeds = None,
    schema: options.Schemas = None,
    books: Annotated[
        bool,
        typer.Option("--books", help="Then rebuild the order books, as `pregao books` does."),
    ] = False,
    quiet: options.Quiet = False,
) -> None:
    """Take captures into a lake of Delta tables, exactly once.

    Feeds A and B are merged: each message once, with which feed brought it first. A capture that
    is there already, under whatever name, is left alone. The run fails, committing nothing, if
    not every packet and message is accounted for.
    """
    from pregao.cli import option_values
    from pregao.lake.ingest import Merger, Options, Runner, merge_here, run_here
    from pregao.lake.ingest import ingest as take_in
    from pregao.lake.source import parse_size

    channels = option_values.numbers(channel, "--channel", 255)
    options = Options(
        target_bytes=parse_size(range_size, "--range-size") or 1,
        skew_ns=parse_span(skew, "--skew"),
        channels=None if channels is None else tuple(sorted(channels)),
        schema_files=tuple(schema or ()),
        streams=tuple((str(d), s) for d, s in option_values.streams(stream).items()),
        feeds=tuple(option_values.feeds(feed)),
    )
    run: Runner = run_here
    merge: Merger = merge_here
    spark = None
    if master != "here":
        from pregao.lake.spark import merge_on_spark, on_spark, parse_conf, spark_session

        spark = spark_session(master, parse_conf(conf))
        run, merge = on_spark(spark), merge_on_spark(spark)
    with _shown(quiet) as progress:
        done = take_in(captures, lake, options, run=run, merge=merge, progress=progress)
    if report is not None:
        report.write_text(json.dumps(done.json(), indent=1) + "\n")
    if not quiet:
        show(done, lake)
    if books:
        from pregao.cli import books as order_books

        built = order_books.build(lake, master=master, spark=spark, quiet=quiet)
        if not quiet:
            order_books.show(built)


def _shown(quiet: bool) -> Any:
    """Progress on standard error, where that is a terminal."""
    from pregao.lake.ingest import TaskProgress

    class Silent(TaskProgress):
        def __enter__(self) -> TaskProgress:
            return self

        def __exit__(self, *_error: object) -> None:
            return None

    if quiet or not sys.stderr.isatty():
        return Silent()
    return _Bar()


class _Bar:
    """A bar with bytes, messages per second and the time left."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            DownloadColumn,
            TextColumn,
            TimeRemainingColumn,
        )
        from rich.progress import Progress as RichProgress

        self._bar = RichProgress(
            TextColumn("{task.description}"),
            BarColumn(),
            DownloadColumn(),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self._task = self._bar.add_task("starting", total=None, rate="")

    def __enter__(self) -> _Bar:
        self._bar.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._bar.stop()

    def started(self, total_bytes: int, tasks: int) -> None:
        """The tasks are about to run."""
        self._bar.reset(
            self._task, total=total_bytes, description=f"decoding in {tasks} tasks", rate=""
        )

    def advanced(self, done_bytes: int, messages: int) -> None:
        """So much was done so far."""
        seconds = self._bar.tasks[0].elapsed or 0
        rate = f"{messages / seconds / 1e6:.2f} M messages/s" if seconds and messages else ""
        self._bar.update(self._task, completed=done_bytes, rate=rate)

    def step(self, words: str) -> None:
        """Something else is being done."""
        self._bar.update(self._task, description=words)


def show(report: Report, lake: str) -> None:
    """Print what an ingest did."""
    from pregao.cli.terminal import console, print_table, say

    out = console()
    for name, unit in report.skipped.items():
        say(out, f"{name}: there already ({unit})")
    if not report.captures:
        say(out, f"Nothing new for {lake}.")
        return
    told = report.json()
    rows = [(f"packets {name}", f"{count:,}") for name, count in told["packets"].items()]
    rows.append(("messages decoded", f"{report.messages:,}"))
    for label, key in (("of unknown templates", "unknown_template"), ("rejected", "rejected")):
        rows.append((f"messages {label}", f"{told['messages'][key]:,}"))
    open_gaps = sum(1 for gap in report.gaps if gap["closed_by"] is None)
    rows += [
        ("gaps (open)", f"{len(report.gaps):,} ({open_gaps:,})"),
        ("bytes read", f"{report.bytes_read:,}"),
        ("files written", f"{report.files:,} ({report.bytes_written:,} bytes)"),
        ("largest worker", f"{report.worker_memory / 1e6:,.0f} MB"),
        ("seconds", f"{report.seconds:.1f}"),
        ("messages per second", f"{told['messages_per_second'] or 0:,}"),
    ]
    columns = ("what", "count")
    title = f"taken into {lake}"
    print_table(out, title, columns, rows, numbers="count", framed=True, heading=False)
    for capture in report.captures:
        if capture.truncated_tail is not None:
            position, length = capture.truncated_tail
            say(
                out,
                f"{capture.name}: the last {length} bytes, at {position}, are not a whole packet.",
            )
    for note in report.notes:
        say(out, note)
    for reason, count in report.sums.reasons.most_common(5):
        say(out, f"rejected {count:,}: {reason}")
