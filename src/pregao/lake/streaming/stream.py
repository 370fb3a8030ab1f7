"""Running streaming ingest: batch by batch, with Spark's Structured Streaming or without it.

Spark finds new data, manages its checkpoint and triggers, and runs the tasks; the rows themselves
never pass through it.
"""

from __future__ import annotations

import hashlib
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pregao.clock import SECOND
from pregao.errors import PregaoError, UsageError
from pregao.lake.datasource.data_source import register
from pregao.lake.datasource.options import RANGES
from pregao.lake.datasource.rolling_files import FileRange, Offset, next_offset, ranges_between
from pregao.lake.execution.spark_session import is_remote, missing_interpreter, sentence
from pregao.lake.ingest.report import IngestReport
from pregao.lake.storage.filesystem import Location
from pregao.lake.streaming.stream_ingest import StreamIngest

CHECKPOINTS = "_streams"
"""Folder of a lake with the checkpoints of Spark's streams."""

_STEP_S = 0.2
"""Interval at which a waiting stream checks whether to end."""

OnReport = Callable[[IngestReport], None]


@dataclass(frozen=True, slots=True)
class StreamPace:
    """Pace of a stream: one pass over the existing data, or continuous."""

    once: bool = False
    interval_ns: int = 5 * SECOND
    max_bytes: int = 512 * 1024 * 1024
    """Approximate number of bytes per batch."""
    holdback_ns: int = SECOND
    """Newer packets wait for the other feed, unless no file grows."""


def follow_locally(
    ingest: StreamIngest,
    pace: StreamPace,
    on_report: OnReport,
    ending: Callable[[], bool] = lambda: False,
) -> None:
    """Follow the files in this process, without Spark; ends after one pass if `once` is set.

    When ``ending`` returns True, ingests the data available by then and ends.
    """
    offset: Offset = {}
    once = pace.once or ending()
    available = ingest.files.look()
    while True:
        until = None if once else ingest.files.until(available, pace.holdback_ns)
        later = next_offset(offset, available, max_bytes=pace.max_bytes, until_ns=until)
        if later != offset:
            for report in ingest.take(ranges_between(ingest.files, offset, later)):
                on_report(report)
            offset = later
            continue
        if once:
            return
        _sleep(pace.interval_ns / SECOND, ending)
        once = ending()  # checked before the scan, which then sees all earlier writes
        available = ingest.files.look()


def _sleep(seconds: float, ending: Callable[[], bool]) -> None:
    """Wait, but end soon after `ending` returns True."""
    stop = time.monotonic() + seconds
    while not ending() and (left := stop - time.monotonic()) > 0:
        time.sleep(min(left, _STEP_S))


def follow_on_spark(
    spark: Any,
    ingest: StreamIngest,
    pace: StreamPace,
    on_report: OnReport,
    checkpoint: str | None = None,
) -> None:
    """Follow the files with a streaming query; ends after one pass if `once` is set.

    Spark Connect would run the batches on its server. There, and where the workers' Python is not
    on the local machine, this process finds new data itself; Spark still runs the tasks, and the
    lake records how far each file was ingested.
    """
    if is_remote(spark) or missing_interpreter(spark) is not None:
        if checkpoint is not None:
            raise UsageError(
                "--checkpoint requires Spark's streaming, which is not available in this session: "
                "omit it. The lake records how far each file was ingested."
            )
        follow_locally(ingest, pace, on_report)
        return
    query = start(spark, ingest, pace, on_report, checkpoint)
    try:
        query.awaitTermination()
    except PregaoError:
        raise
    except Exception as error:
        # Spark's exceptions carry Java's stack trace; the user needs only the reason.
        raise PregaoError(f"The stream stopped: {sentence(error)}") from error
    finally:
        query.stop()


def start(
    spark: Any,
    ingest: StreamIngest,
    pace: StreamPace,
    on_report: OnReport,
    checkpoint: str | None = None,
) -> Any:
    """Start the streaming query and return it."""
    register(spark)
    ingest.prepare()
    folder = ingest.files.folder
    frame = (
        spark.readStream.format("b3")
        .option("template", RANGES)
        .option("maxBytesPerBatch", pace.max_bytes)
        .option("holdback", f"{pace.holdback_ns}ns")
        .option("quietPeriod", f"{ingest.files.quiet_ns}ns")
        .load(folder.uri)
    )

    def batch(rows: Any, _number: int) -> None:
        ranges = [
            FileRange(
                row["name"],
                ingest.files.location(row["name"]),
                row["head"],
                row["begin"],
                row["end"],
                row["whole"],
            )
            for row in rows.collect()
        ]
        for report in ingest.take(ranges):
            on_report(report)

    trigger: dict[str, Any] = {"availableNow": True}
    if not pace.once:
        trigger = {"processingTime": f"{max(1, pace.interval_ns // 1_000_000)} milliseconds"}
    return (
        frame.writeStream.foreachBatch(batch)
        .option("checkpointLocation", checkpoint or checkpoint_of(folder, ingest.lake.location))
        .trigger(**trigger)
        .start()
    )


def checkpoint_of(folder: Location, lake: Location) -> str:
    """Return the checkpoint folder: in the lake, or a temporary one for this run.

    Spark needs jars to write to remote storage. Without a checkpoint it requests everything again,
    of which the lake ingests only the new part.
    """
    name = hashlib.sha256(folder.uri.encode()).hexdigest()[:16]
    if not lake.is_local:
        return tempfile.mkdtemp(prefix="pregao-stream-")
    path = Path(lake.uri) / CHECKPOINTS / name
    path.mkdir(parents=True, exist_ok=True)
    return str(path)
