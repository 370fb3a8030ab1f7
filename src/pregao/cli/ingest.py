"""`pregao ingest`: captures into the tables of a lake, and on to its books and analytics."""

from __future__ import annotations

import os
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pregao.cli import options
from pregao.clock import parse_span
from pregao.errors import UsageError
from pregao.extras import installed, require

if TYPE_CHECKING:
    from pregao.lake.ingest import Options, Report
    from pregao.lake.spark import StartingSpark
    from pregao.lake.store import Lake

EPILOG = "\n\n".join(
    (
        "Examples:",
        "pregao ingest captures/ --lake lake",
        "pregao ingest captures/ --lake lake --only messages",
        "pregao ingest captures/ --lake lake --master here",
        'pregao query "SELECT count(*) FROM packets" --lake lake',
        "Without Java, captures of up to 1 GB are taken in by this process, as --master here does.",
    )
)
HERE = "here"
MOST_WITHOUT_JAVA = 1 << 30
"""Bytes of captures that are taken in without Spark when there is no Java and nobody asked."""


class Stage(StrEnum):
    """What an ingest does, one after the other."""

    MESSAGES = "messages"
    BOOKS = "books"
    ANALYTICS = "analytics"


@dataclass(frozen=True, slots=True)
class Session:
    """Where the stages run: on Spark, or in this process."""

    master: str | None = HERE
    starting: StartingSpark | None = None
    """None in this process."""
    chosen: bool = True
    """Did the user say where? Else what is faster in this process may be done in it."""

    @property
    def spark(self) -> Any:
        """The session of Spark, once it has started; None in this process."""
        return self.starting and self.starting.session()


def ingest(
    captures: Annotated[
        list[str],
        typer.Argument(
            metavar="CAPTURE…",
            callback=options.without_url_secrets,
            help="Capture files, folders or patterns; s3:// and others too.",
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
    skip_damaged: Annotated[
        bool,
        typer.Option("--skip-damaged", help="Leave captures out that cannot be read, and say so."),
    ] = False,
    only: Annotated[
        list[str] | None,
        typer.Option(
            metavar="STAGES",
            help="Only these stages: messages, books, analytics. All by default.",
        ),
    ] = None,
    books: Annotated[
        bool, typer.Option("--books", help="The same as --only messages,books.")
    ] = False,
    quiet: options.Quiet = False,
) -> None:
    """Take captures into a lake of Delta tables, exactly once; then make its books and analytics.

    Feeds A and B are merged: each message once, with which feed brought it first. A capture that
    is there already, under whatever name, is left alone. The run fails, committing nothing, if
    not every packet and message is accounted for. Books and analytics of days that did not change
    are left alone.
    """
    from pregao.cli import option_values
    from pregao.cli.ingest_dumps import dumps_as_captures
    from pregao.cli.reports import check_report
    from pregao.lake.ingest import Options, find_captures
    from pregao.lake.source import parse_size

    stages = wanted_stages(only, books)
    channels = option_values.numbers(channel, "--channel", 255)
    settings = Options(
        target_bytes=parse_size(range_size, "--range-size") or 1,
        skew_ns=parse_span(skew, "--skew"),
        channels=None if channels is None else tuple(sorted(channels)),
        schema_files=tuple(schema or ()),
        streams=tuple((str(d), s.value) for d, s in option_values.streams(stream).items()),
        feeds=tuple(option_values.feeds(feed)),
        skip_damaged=skip_damaged,
    )
    check_report(report)
    if Stage.MESSAGES in stages:
        find_captures(captures)  # a mistake in their names shows before Spark is started
    with dumps_as_captures(captures, master, quiet=quiet) as files:
        _take_in(stages, files, lake, settings, report, (master, conf), quiet=quiet)


def _take_in(
    stages: list[Stage],
    captures: list[str],
    lake: str,
    settings: Options,
    report: Path | None,
    where: tuple[str | None, list[str] | None],
    *,
    quiet: bool,
) -> None:
    session = open_session(*where, captures, quiet=quiet)
    try:
        _run_all(stages, session, captures, lake, settings, report, quiet)
    except BaseException:
        if session.starting is not None:
            session.starting.abandon()
        raise


def _run_all(
    stages: list[Stage],
    session: Session,
    captures: list[str],
    lake: str,
    settings: Options,
    report: Path | None,
    quiet: bool,
) -> None:
    """Do the stages one after the other, and tell how long each took."""
    from pregao.cli.reports import write_report

    told: dict[str, Any] = {}
    seconds: dict[str, float] = {}
    for stage in stages:
        began = perf_counter()
        told |= _run(stage, session, captures, lake, settings, quiet)
        seconds[stage] = round(perf_counter() - began, 3)
        # Written after every stage: what is done stays told if a later one fails.
        write_report(report, {**told, "stages": seconds})
        if not quiet and len(stages) > 1:
            typer.echo(f"{stage}: done in {seconds[stage]:.1f} s")


def wanted_stages(only: list[str] | None, books: bool) -> list[Stage]:
    """The stages that are asked for, in their order."""
    from pregao.cli import option_values

    names = option_values.parts(only)
    if unknown := [name for name in names if name not in list(Stage)]:
        known = ", ".join(Stage)
        raise UsageError(f"--only takes {known}, not {unknown[0]!r}.")
    if books and names:
        raise UsageError("--books is --only messages,books: give one of the two.")
    if books:
        return [Stage.MESSAGES, Stage.BOOKS]
    return [stage for stage in Stage if not names or stage in names]


def open_session(
    master: str | None, conf: list[str] | None, captures: list[str], *, quiet: bool = False
) -> Session:
    """Start Spark; or stay in this process, if that is asked for or there is no other way.

    Without Java more than a gigabyte of captures is left for the user to decide about.
    """
    from pregao.lake.spark import parse_conf

    wishes = parse_conf(conf)
    if master == HERE:
        return Session()
    if master is None and not wishes and "PYSPARK_GATEWAY_PORT" not in os.environ:
        from pregao.lake.ingest import find_captures
        from pregao.lake.spark import find_java

        try:
            require("pyspark")
            find_java()
        except UsageError as error:
            size = sum(entry.size for entry in find_captures(captures)) if captures else 0
            if size > MOST_WITHOUT_JAVA:
                raise UsageError(
                    f"{error} Or give --master here, which needs no Java and does the work in "
                    "this process."
                ) from error
            lacking = "no Java" if installed("pyspark") else "no Spark"
            _say(f"there is {lacking}: working in this process, as with --master here", quiet)
            return Session()
    from pregao.lake.spark import StartingSpark

    return Session(master, StartingSpark(master, wishes), chosen=_is_chosen(master, wishes))


def _is_chosen(master: str | None, conf: dict[str, str]) -> bool:
    """Was something said about where to run: here, in Spark's own settings, by spark-submit?"""
    from pregao.lake.spark import spark_defaults

    told = ("PYSPARK_GATEWAY_PORT", "MASTER", "SPARK_REMOTE")
    return (
        master is not None
        or bool(conf)
        or any(name in os.environ for name in told)
        or "spark.master" in spark_defaults()
    )


def analytics_session(
    master: str | None, conf: list[str] | None, lake: Lake, *, quiet: bool = False
) -> Session:
    """Where analytics are made: on Spark if anything was said about it, else in this process.

    On one machine that takes a third of the time.
    """
    from pregao.lake.spark import parse_conf

    if _is_chosen(master, parse_conf(conf)) or not _read_by_duckdb(lake):
        return open_session(master, conf, [], quiet=quiet)
    return Session()


def _read_by_duckdb(lake: Lake) -> bool:
    from pregao.lake.sql import EngineName, choose_engine

    return choose_engine(lake, None, spark_wanted=False) is EngineName.DUCKDB


def _run(
    stage: Stage, session: Session, captures: list[str], lake: str, options: Options, quiet: bool
) -> dict[str, Any]:
    """Do a stage and show what came of it; gives its part of the report."""
    if stage is Stage.MESSAGES:
        done = _messages(session, captures, lake, options, quiet)
        if not quiet:
            show(done, lake)
        return done.json()
    if stage is Stage.BOOKS:
        return {"books": _books(session, lake, quiet)}
    from pregao.cli import analytics
    from pregao.lake.analytics.analyse import analyse
    from pregao.lake.store import Lake

    place = Lake(lake)
    spark = session.spark if session.chosen or not _read_by_duckdb(place) else None
    made = analyse(spark, place, progress=analytics.progress(quiet))
    if not quiet:
        analytics.show(made)
    return {
        "analytics": [
            {"date": one.date.isoformat(), "table": one.table, "rows": one.rows} for one in made
        ]
    }


def _messages(
    session: Session, captures: list[str], lake: str, options: Options, quiet: bool
) -> Report:
    from pregao.cli.ingest_progress import ingest_progress
    from pregao.lake.ingest import Merger, Runner, merge_here, run_here
    from pregao.lake.ingest import ingest as take_in

    run: Runner = run_here
    merge: Merger = merge_here
    if session.starting is not None:
        run, merge = session.starting.run, session.starting.merge
    with ingest_progress(quiet) as progress:
        return take_in(captures, lake, options, run=run, merge=merge, progress=progress)


def _books(session: Session, lake: str, quiet: bool) -> list[dict[str, Any]]:
    from pregao.cli import books as order_books
    from pregao.lake.books.catalogue import Catalogue
    from pregao.lake.store import Lake

    place = Lake(lake)
    place.require()
    if not Catalogue(place).dates():
        _say("there are no orders and no snapshots, so there are no books to build", quiet)
        return []
    built = order_books.build(lake, master=session.master, spark=session.spark, quiet=quiet)
    if not quiet:
        order_books.show(built)
    return [one.json() for one in built]


def _say(words: str, quiet: bool = False) -> None:
    if not quiet:
        typer.echo(f"pregao: {words}", err=True)


def show(report: Report, lake: str) -> None:
    """Print what an ingest did."""
    from pregao.cli.terminal import console, print_table, say

    out = console()
    for name, unit in report.skipped.items():
        say(out, f"{name}: there already ({unit})")
    for reason in report.damaged.values():
        say(out, f"left out, {reason}")
    if not report.captures:
        say(out, f"Nothing new for {lake}.")
        return
    told = report.json()
    rows = [(f"packets {name}", f"{count:,}") for name, count in told["packets"].items()]
    rows.append(("messages decoded", f"{report.messages:,}"))
    for label, key in (("of unknown templates", "unknown_template"), ("rejected", "rejected")):
        rows.append((f"messages {label}", f"{told['messages'][key]:,}"))
    withheld = told["messages"].get("withheld", {})
    if withheld:
        rows.append(("values too large for a column", f"{sum(withheld.values()):,}"))
    open_gaps = sum(1 for gap in report.gaps if gap["closed_by"] is None)
    rows.append(("gaps (open)", f"{len(report.gaps):,} ({open_gaps:,})"))
    if report.damaged:
        rows.append(("damaged captures left out", f"{len(report.damaged):,}"))
    rows += [
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
