"""``pregao stream``: ingest growing capture files into a lake."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pregao.cli import options
from pregao.errors import UsageError
from pregao.lake.execution.runner import EngineName
from pregao.safe_io.output_files import open_output
from pregao.safe_io.urls import without_secrets

if TYPE_CHECKING:
    from pregao.lake.ingest.report import IngestReport

EPILOG = "\n\n".join(
    (
        "Examples:",
        "pregao stream captures --lake lake",
        "pregao stream captures --lake lake --once",
        "Plain pcap files are followed while they grow; compressed and pcapng files are ingested "
        "when they have not grown for the quiet period. The lake records how far each file was "
        "ingested: a restart resumes from there, however the command ended.",
    )
)


def stream(
    captures: Annotated[
        str,
        typer.Argument(
            metavar="CAPTURES",
            callback=without_secrets,
            help="Folder or glob pattern of the capture files.",
        ),
    ],
    lake: options.NewLake,
    once: Annotated[
        bool, typer.Option("--once", help="Ingest the existing data, then exit.")
    ] = False,
    interval: Annotated[str, typer.Option(help="Polling interval, e.g. 5s.")] = "5s",
    engine: options.Engine = None,
    master: options.Master = None,
    conf: options.Conf = None,
    batch_size: Annotated[
        str, typer.Option("--batch-size", help="Approximate maximum size of a batch.")
    ] = "512M",
    range_size: options.RangeSize = "64M",
    max_feed_skew: Annotated[
        str,
        typer.Option(
            metavar="DURATION",
            help="Maximum delay between feeds A and B for the same packet; newer packets are held "
            "back while a file grows.",
        ),
    ] = "1s",
    quiet_period: Annotated[
        str,
        typer.Option("--quiet-period", help="Idle time after which a file is complete."),
    ] = "5s",
    checkpoint: Annotated[
        str | None,
        typer.Option(metavar="DIR", help="Spark checkpoint directory (default: in the lake)."),
    ] = None,
    channel: options.TakenChannels = None,
    stream: options.Streams = None,
    feed: options.Feeds = None,
    schema: options.Schemas = None,
    report: Annotated[
        Path | None,
        typer.Option(
            "--report", metavar="FILE", help="Append one line of JSON per batch to this file."
        ),
    ] = None,
    quiet: options.Quiet = False,
) -> None:
    """Ingest growing and rolling capture files into the same tables as `pregao ingest`.

    Each batch ingests the new data of all files, up to their last complete packets, and commits it
    atomically, exactly once: nothing is lost or duplicated if the command is killed.
    """
    from pregao.cli import option_values
    from pregao.lake.datasource.options import parse_size
    from pregao.lake.datasource.rolling_files import RollingFiles
    from pregao.lake.ingest.options import IngestOptions
    from pregao.lake.streaming.stream import StreamPace, follow_locally, follow_on_spark
    from pregao.lake.streaming.stream_ingest import StreamIngest
    from pregao.safe_io.output_files import check_report
    from pregao.units import parse_duration

    option_values.check_engine(engine, master, conf)
    check_report(report)
    channels = option_values.numbers(channel, "--channel", 255)
    skew_ns = parse_duration(max_feed_skew, "--max-feed-skew")
    options = IngestOptions(
        target_bytes=parse_size(range_size, "--range-size") or 1,
        skew_ns=skew_ns,
        channels=None if channels is None else tuple(sorted(channels)),
        schema_files=tuple(schema or ()),
        streams=tuple((str(d), s.value) for d, s in option_values.streams(stream).items()),
        feeds=tuple(option_values.feeds(feed)),
    )
    pace = StreamPace(
        once=once,
        interval_ns=parse_duration(interval, "--interval"),
        max_bytes=parse_size(batch_size, "--batch-size") or 1,
        holdback_ns=skew_ns,
    )
    files = RollingFiles(captures, parse_duration(quiet_period, "--quiet-period"))
    if not set("*?[") & set(captures) and files.folder.info() is None:
        raise UsageError(f"{captures}: no such folder; create it first.")

    def report_ingest(done: IngestReport) -> None:
        if report is not None:
            with open_output(report, append=True) as lines:
                lines.write((json.dumps(done.json()) + "\n").encode())
        if not quiet:
            sys.stdout.write(line_of(done) + "\n")
            sys.stdout.flush()

    try:
        if engine is EngineName.LOCAL:
            from pregao.lake.execution.processes import ProcessRunner

            with ProcessRunner() as runner:
                ingest = StreamIngest(files, lake, options, runner=runner)
                follow_locally(ingest, pace, report_ingest)
            return
        from pregao.lake.execution.spark import SparkRunner
        from pregao.lake.execution.spark_session import parse_conf, spark_session

        spark = spark_session(master, parse_conf(conf))
        ingest = StreamIngest(files, lake, options, runner=SparkRunner(spark))
        follow_on_spark(spark, ingest, pace, report_ingest, checkpoint)
    except KeyboardInterrupt:
        if once:
            raise
        # Ctrl-C is the regular way to end a stream.
        if not quiet:
            sys.stdout.write("stopped; run the command again to resume\n")


def line_of(done: IngestReport) -> str:
    """Summarize a batch in one line."""
    outcome = done.sums.packets
    parts = [
        f"{done.bytes_read:,} bytes of {len(done.captures)} files",
        f"{outcome.total():,} packets",
        f"{done.messages:,} messages",
    ]
    for name in ("duplicate", "rejected", "filtered"):
        if outcome.get(name):
            parts.append(f"{outcome[name]:,} {name}")
    open_gaps = sum(1 for gap in done.gaps if gap["closed_by"] is None)
    if open_gaps:
        parts.append(f"{open_gaps:,} open gaps")
    parts.append(f"{done.seconds:.1f} s")
    return ", ".join(parts)
