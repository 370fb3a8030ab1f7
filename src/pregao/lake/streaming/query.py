"""A streaming ingest at work: batch after batch, by Spark's Structured Streaming or without it.

Spark's part is to find what is new, to keep to its checkpoint and triggers, and to do the tasks;
the rows themselves never cross over to it.
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
from pregao.lake.ingest import Report
from pregao.lake.source import RANGES, Offset, Range, next_offset, ranges_between, register
from pregao.lake.spark import is_remote, missing_interpreter, sentence
from pregao.lake.store import Location
from pregao.lake.streaming.stream_ingest import StreamIngest

CHECKPOINTS = "_streams"
"""The folder of a lake in which Spark keeps the checkpoints of its streams."""

_STEP_S = 0.2
"""How often a stream that waits looks whether it is to end."""

Told = Callable[[Report], None]


@dataclass(frozen=True, slots=True)
class StreamPace:
    """How a stream goes: once over what is there, or on and on."""

    once: bool = False
    interval_ns: int = 5 * SECOND
    max_bytes: int = 512 * 1024 * 1024
    """About how many bytes a batch takes."""
    holdback_ns: int = SECOND
    """What is newer than this waits for the other feed, unless no file grows any more."""


def follow_here(
    ingest: StreamIngest,
    pace: StreamPace,
    told: Told,
    ending: Callable[[], bool] = lambda: False,
) -> None:
    """Follow the files in this process, without Spark; it ends if it is to go once.

    When ``ending`` says so, what is there by then is taken in, and that is the end too.
    """
    offset: Offset = {}
    once = pace.once or ending()
    available = ingest.files.look()
    while True:
        until = None if once else ingest.files.until(available, pace.holdback_ns)
        later = next_offset(offset, available, max_bytes=pace.max_bytes, until_ns=until)
        if later != offset:
            for report in ingest.take(ranges_between(ingest.files, offset, later)):
                told(report)
            offset = later
            continue
        if once:
            return
        _sleep(pace.interval_ns / SECOND, ending)
        once = ending()  # asked first: what was written before is there to be seen
        available = ingest.files.look()


def _sleep(seconds: float, ending: Callable[[], bool]) -> None:
    """Wait, but not for long once the end has come."""
    stop = time.monotonic() + seconds
    while not ending() and (left := stop - time.monotonic()) > 0:
        time.sleep(min(left, _STEP_S))


def follow_on_spark(
    spark: Any, ingest: StreamIngest, pace: StreamPace, told: Told, checkpoint: str | None = None
) -> None:
    """Follow the files with a streaming query; it ends if it is to go once.

    Spark Connect would run the batches on its server. There, and where the workers' Python is not
    on this machine, this process looks for what is new itself; Spark does the tasks all the same,
    and the lake knows how far each file was taken.
    """
    if is_remote(spark) or missing_interpreter(spark) is not None:
        if checkpoint is not None:
            raise UsageError(
                "There is no checkpoint without Spark's streaming, which does not run here: leave "
                "--checkpoint out; the lake knows how far each file was taken."
            )
        follow_here(ingest, pace, told)
        return
    query = start(spark, ingest, pace, told, checkpoint)
    try:
        query.awaitTermination()
    except PregaoError:
        raise
    except Exception as error:
        # Spark's own exceptions carry Java's stack; the user's question is why.
        raise PregaoError(f"The stream stopped: {sentence(error)}") from error
    finally:
        query.stop()


def start(
    spark: Any, ingest: StreamIngest, pace: StreamPace, told: Told, checkpoint: str | None = None
) -> Any:
    """Start the streaming query, and give it back."""
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
            Range(
                row["name"],
                ingest.files.place(row["name"]),
                row["head"],
                row["begin"],
                row["end"],
                row["whole"],
            )
            for row in rows.collect()
        ]
        for report in ingest.take(ranges):
            told(report)

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
    """Where the checkpoint is kept: in the lake, or for the time of this run.

    Spark needs jars to write to other than local places. Without a checkpoint it asks for
    everything again, of which the lake then takes only what is new.
    """
    name = hashlib.sha256(folder.uri.encode()).hexdigest()[:16]
    if not lake.is_local:
        return tempfile.mkdtemp(prefix="pregao-stream-")
    place = Path(lake.uri) / CHECKPOINTS / name
    place.mkdir(parents=True, exist_ok=True)
    return str(place)
