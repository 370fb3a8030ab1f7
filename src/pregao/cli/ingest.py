"""`pregao ingest`: ingest captures into a lake, then build its books and analytics."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pregao.cli import options
from pregao.errors import UsageError
from pregao.extras import installed, require
from pregao.lake.execution.runner import EngineName
from pregao.units import parse_duration

if TYPE_CHECKING:
    from pregao.lake.execution.runner import Runner
    from pregao.lake.ingest.options import IngestOptions
    from pregao.lake.ingest.report import IngestReport

EPILOG = "\n\n".join(
    (
        "Examples:",
        "pregao ingest captures/ --lake lake",
        "pregao ingest captures/ --lake lake --only messages",
        "pregao ingest captures/ --lake lake --engine local",
        'pregao query "SELECT count(*) FROM packets" --lake lake',
        "Without Java, captures of up to 1 GB are ingested without Spark, as with --engine local.",
    )
)


MAX_LOCAL_BYTES = 1 << 30
"""Maximum bytes of captures to ingest without Spark if Java is missing and no engine is given."""


class IngestStage(StrEnum):
    """Stages of an ingest, in order."""

    MESSAGES = "messages"
    BOOKS = "books"
    ANALYTICS = "analytics"


def ingest(
    captures: Annotated[
        list[str],
        typer.Argument(
            metavar="CAPTURE…",
            callback=options.without_url_secrets,
            help="Capture files, folders or glob patterns; also s3:// and other URIs.",
        ),
    ],
    lake: options.NewLake,
    engine: options.Engine = None,
    master: options.Master = None,
    conf: options.Conf = None,
    report: Annotated[
        Path | None,
        typer.Option("--report", metavar="FILE", help="Write a JSON report to this file."),
    ] = None,
    max_feed_skew: Annotated[
        str,
        typer.Option(
            metavar="DURATION", help="Maximum delay between feeds A and B for the same packet."
        ),
    ] = "1s",
    range_size: options.RangeSize = "64M",
    channel: options.TakenChannels = None,
    stream: options.Streams = None,
    feed: options.Feeds = None,
    schema: options.Schemas = None,
    skip_damaged: Annotated[
        bool,
        typer.Option("--skip-damaged", help="Skip captures that cannot be read, with a warning."),
    ] = False,
    only: Annotated[
        list[str] | None,
        typer.Option(
            metavar="STAGES",
            help="Only these stages: messages, books, analytics (default: all).",
        ),
    ] = None,
    quiet: options.Quiet = False,
) -> None:
    """Ingest captures into a lake, exactly once; then build books and analytics.

    Feeds A and B are merged: each message is stored once, with the feed that received it first. A
    capture that was already ingested, under any name, is skipped. The run fails without a commit
    unless every packet and message is accounted for. Books and analytics of unchanged days are not
    rebuilt.
    """
    from pregao.cli import option_values
    from pregao.cli.decode.raw_dumps import dumps_as_captures
    from pregao.lake.datasource.options import parse_size
    from pregao.lake.ingest.discovery import find_captures
    from pregao.lake.ingest.options import IngestOptions
    from pregao.safe_io.output_files import check_report

    option_values.check_engine(engine, master, conf)
    stages = selected_stages(only)
    channels = option_values.numbers(channel, "--channel", 255)
    settings = IngestOptions(
        target_bytes=parse_size(range_size, "--range-size") or 1,
        skew_ns=parse_duration(max_feed_skew, "--max-feed-skew"),
        channels=None if channels is None else tuple(sorted(channels)),
        schema_files=tuple(schema or ()),
        streams=tuple((str(d), s.value) for d, s in option_values.streams(stream).items()),
        feeds=tuple(option_values.feeds(feed)),
        skip_damaged=skip_damaged,
    )
    check_report(report)
    if IngestStage.MESSAGES in stages:
        find_captures(captures)  # reports invalid names before Spark starts
    with dumps_as_captures(captures, master, quiet=quiet) as files:
        _take_in(stages, files, lake, settings, report, (engine, master, conf), quiet=quiet)


def _take_in(
    stages: list[IngestStage],
    captures: list[str],
    lake: str,
    settings: IngestOptions,
    report: Path | None,
    where: tuple[EngineName | None, str | None, list[str] | None],
    *,
    quiet: bool,
) -> None:
    with open_runner(*where, captures, quiet=quiet) as runner:
        _run_all(stages, runner, captures, lake, settings, report, quiet)


def _run_all(
    stages: list[IngestStage],
    runner: Runner,
    captures: list[str],
    lake: str,
    settings: IngestOptions,
    report: Path | None,
    quiet: bool,
) -> None:
    """Run the stages in order and print the duration of each."""
    from pregao.safe_io.output_files import write_report

    data: dict[str, Any] = {}
    seconds: dict[str, float] = {}
    for stage in stages:
        started = perf_counter()
        data |= _run(stage, runner, captures, lake, settings, quiet)
        seconds[stage] = round(perf_counter() - started, 3)
        # Written after every stage, so that the report survives the failure of a later one.
        write_report(report, {**data, "stages": seconds})
        if not quiet and len(stages) > 1:
            typer.echo(f"{stage}: done in {seconds[stage]:.1f} s")


def selected_stages(only: list[str] | None) -> list[IngestStage]:
    """Return the requested stages, in order."""
    from pregao.cli import option_values

    names = option_values.parts(only)
    if unknown := [name for name in names if name not in list(IngestStage)]:
        known = ", ".join(IngestStage)
        raise UsageError(f"--only must be one or more of {known}; was {unknown[0]!r}.")
    return [stage for stage in IngestStage if not names or stage in names]


@contextmanager
def open_runner(
    engine: EngineName | None,
    master: str | None,
    conf: list[str] | None,
    captures: Sequence[str] = (),
    *,
    quiet: bool = False,
) -> Iterator[Runner]:
    """Start Spark, or use processes if requested, or if nothing is and Spark or Java is missing.

    All stages of a command share the runner. Spark starts in the background. Without Java, raise
    `UsageError` for more than `MAX_LOCAL_BYTES` bytes of captures, so that the user decides.
    """
    from pregao.lake.execution.spark_session import parse_conf

    settings = parse_conf(conf)
    unset = engine is None and master is None and not settings
    if engine is EngineName.LOCAL or (unset and _without_spark(captures, quiet)):
        from pregao.lake.execution.processes import ProcessRunner

        with ProcessRunner() as processes:
            yield processes
        return
    from pregao.lake.execution.background_start import BackgroundSpark
    from pregao.lake.execution.spark import SparkRunner

    starting = BackgroundSpark(master, settings)
    try:
        with SparkRunner(starting) as spark:
            yield spark
    except BaseException:
        starting.abandon()
        raise


def _without_spark(captures: Sequence[str], quiet: bool) -> bool:
    """Whether Spark or Java is missing, which is printed."""
    from pregao.lake.execution.spark_session import find_java
    from pregao.lake.ingest.discovery import find_captures

    if "PYSPARK_GATEWAY_PORT" in os.environ:
        return False
    try:
        require("pyspark")
        find_java()
    except UsageError as error:
        size = sum(entry.size for entry in find_captures(captures)) if captures else 0
        if size > MAX_LOCAL_BYTES:
            raise UsageError(f"{error} Or use --engine local, which does not need Java.") from error
        if not quiet:
            missing = "no Java" if installed("pyspark") else "no Spark"
            typer.echo(
                f"pregao: {missing} found: running without Spark, as with --engine local", err=True
            )
        return True
    return False


def _run(
    stage: IngestStage,
    runner: Runner,
    captures: list[str],
    lake: str,
    options: IngestOptions,
    quiet: bool,
) -> dict[str, Any]:
    """Run a stage and print its result; return its part of the report."""
    if stage is IngestStage.MESSAGES:
        report = _messages(runner, captures, lake, options, quiet)
        if not quiet:
            show(report, lake)
        return report.json()
    if stage is IngestStage.BOOKS:
        return {"books": _books(runner, lake, quiet)}
    from pregao.cli import analytics
    from pregao.lake.analytics.run import analyse
    from pregao.lake.storage.lake_store import LakeStore

    store = LakeStore(lake)
    built = analyse(store, runner, progress=analytics.progress(quiet))
    if not quiet:
        analytics.show(built)
    return {
        "analytics": [
            {"date": one.date.isoformat(), "table": one.table, "rows": one.rows} for one in built
        ]
    }


def _messages(
    runner: Runner, captures: list[str], lake: str, options: IngestOptions, quiet: bool
) -> IngestReport:
    from pregao.cli.console import ingest_progress
    from pregao.lake.ingest.pipeline import ingest as take_in

    with ingest_progress(quiet) as progress:
        return take_in(captures, lake, options, runner=runner, progress=progress)


def _books(runner: Runner, lake: str, quiet: bool) -> list[dict[str, Any]]:
    from pregao.cli import books as order_books
    from pregao.lake.books.catalog import FileCatalog
    from pregao.lake.storage.lake_store import LakeStore

    store = LakeStore(lake)
    store.require()
    if not FileCatalog(store).dates():
        _print_line("no orders and no snapshots: no books to build", quiet)
        return []
    built = order_books.build(lake, runner, quiet=quiet)
    if not quiet:
        order_books.show(built)
    return [one.json() for one in built]


def _print_line(words: str, quiet: bool = False) -> None:
    if not quiet:
        typer.echo(f"pregao: {words}", err=True)


def show(report: IngestReport, lake: str) -> None:
    """Print the report of an ingest."""
    from pregao.cli.console import console, print_line, print_table

    out = console()
    for name, unit in report.skipped.items():
        print_line(out, f"{name}: already ingested ({unit})")
    for reason in report.damaged.values():
        print_line(out, f"skipped: {reason}")
    if not report.captures:
        print_line(out, f"Nothing new to ingest into {lake}.")
        return
    data = report.json()
    rows = [(f"packets {name}", f"{count:,}") for name, count in data["packets"].items()]
    rows.append(("messages decoded", f"{report.messages:,}"))
    for label, key in (("of unknown templates", "unknown_template"), ("rejected", "rejected")):
        rows.append((f"messages {label}", f"{data['messages'][key]:,}"))
    withheld = data["messages"].get("nulled_values", {})
    if withheld:
        rows.append(("values replaced by null (out of range)", f"{sum(withheld.values()):,}"))
    open_gaps = sum(1 for gap in report.gaps if gap["closed_by"] is None)
    rows.append(("gaps (open)", f"{len(report.gaps):,} ({open_gaps:,})"))
    if report.damaged:
        rows.append(("damaged captures skipped", f"{len(report.damaged):,}"))
    rows += [
        ("bytes read", f"{report.bytes_read:,}"),
        ("files written", f"{report.files:,} ({report.bytes_written:,} bytes)"),
        ("peak worker memory", f"{report.worker_memory / 1e6:,.0f} MB"),
        ("seconds", f"{report.seconds:.1f}"),
        ("messages per second", f"{data['messages_per_second'] or 0:,}"),
    ]
    columns = ("what", "count")
    title = f"ingested into {lake}"
    print_table(out, title, columns, rows, numbers="count", framed=True, heading=False)
    for capture in report.captures:
        if capture.truncated_tail is not None:
            position, length = capture.truncated_tail
            print_line(
                out,
                f"{capture.name}: the last {length} bytes, at offset {position}, are an incomplete "
                "packet.",
            )
    for note in report.notes:
        print_line(out, note)
    for reason, count in report.sums.reasons.most_common(5):
        print_line(out, f"rejected {count:,}: {reason}")
