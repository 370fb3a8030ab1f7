"""The lake: captures to committed tables on Spark, next to alternatives."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from bench import days
from bench.measure import Row, best
from pregao.capture import PcapWriter, read_packets
from pregao.lake.execution.spark import SparkRunner
from pregao.lake.execution.spark_session import spark_session
from pregao.lake.ingest.pipeline import ingest
from pregao.lake.ingest.report import IngestReport

SECTION = "lake"
_RUNS = 5
_GIGABYTE = 1e9
_SMALL_DAY = 80_000
"""Messages of a day as the demonstration has it."""


def run() -> Iterator[Row]:
    capture = days.one_feed()
    with tempfile.TemporaryDirectory(dir=days.folder()) as name:
        folder = Path(name)
        small = folder / "small.pcap"
        head_of(capture, small, 80_000)
        yield from first_result(small, folder)
        yield from everything(folder)
        start = time.perf_counter()
        spark = spark_session("local[2]")
        spark.range(1).count()
        yield Row(SECTION, "session start and first job", time.perf_counter() - start, "s")
        yield from ingests(spark, capture, folder)
        yield from data_source(spark, capture)
        yield from streaming(spark, capture, folder)
        spark.stop()
        yield from whole_command(folder)


def whole_command(folder: Path) -> Iterator[Row]:
    """Ingest a whole day, both feeds, and build its books in one command; then query it."""
    lake = str(folder / "whole")
    command = [sys.executable, "-m", "pregao", "ingest", str(days.simulated_day())]
    command += ["--only", "messages,books"]
    shortest, largest = float("inf"), 0
    for _ in range(3):
        shutil.rmtree(lake, ignore_errors=True)
        start = time.perf_counter()
        with subprocess.Popen([*command, "--quiet", "--lake", lake]) as running:
            while running.poll() is None:
                largest = max(largest, largest_worker())
                time.sleep(0.1)
        if running.returncode:
            raise RuntimeError("the ingest failed")
        shortest = min(shortest, time.perf_counter() - start)
    gigabytes = sum(path.stat().st_size for path in days.simulated_day().glob("*.pcap")) / _GIGABYTE
    what = f"pregao ingest --only messages,books of {gigabytes:.1f} GB, the whole command"
    yield Row(SECTION, what, shortest, "s", "≤ 25")
    yield Row(SECTION, "  largest worker", largest / 1e6, "MB", "≤ 1000")
    query = (
        "SELECT security_id, count(*) AS n, sum(md_entry_size) AS size FROM umdf_order_mbo_50 "
        "GROUP BY security_id ORDER BY n DESC LIMIT 5"
    )
    command = [sys.executable, "-m", "pregao", "query", query, "--lake", lake]
    seconds = best(
        lambda: subprocess.run(command, check=True, capture_output=True), seconds=0, min_runs=3
    )
    yield Row(SECTION, "pregao query of an aggregate over its orders", seconds, "s", "≤ 2")


def largest_worker() -> int:
    """Return the highest peak memory of a Python worker of Spark so far."""
    largest = 0
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if b"pyspark.worker" in (process / "cmdline").read_bytes():
                status = (process / "status").read_text(encoding="utf-8")
                peak = [line for line in status.splitlines() if line.startswith("VmHWM")]
                largest = max([largest, *(int(line.split()[1]) * 1024 for line in peak)])
    return largest


def head_of(capture: Path, path: Path, packets: int) -> None:
    """Write the first packets of a capture to another one."""
    with read_packets(capture) as reader, PcapWriter(path) as writer:
        for packet, _ in zip(reader, range(packets), strict=False):
            writer.write(packet.time_ns, packet.data)


def first_result(capture: Path, folder: Path) -> Iterator[Row]:
    """Time an ingest into a new lake, including the start of Spark."""
    start = time.perf_counter()
    command = [
        sys.executable,
        "-m",
        "pregao",
        "ingest",
        str(capture),
        "--only",
        "messages",
        "--lake",
    ]
    subprocess.run([*command, str(folder / "first")], check=True, capture_output=True)
    yield Row(
        SECTION,
        f"time to the first result on {capture.stat().st_size / 1e6:.0f} MB, with Spark's start",
        time.perf_counter() - start,
        "s",
        "≤ 15",
    )


def everything(folder: Path) -> Iterator[Row]:
    """Time the whole command on a small day: messages, books and analytics."""
    day = days.simulated(_SMALL_DAY)
    for engine, target in (("spark", "≤ 14"), ("local", "≤ 4")):
        lake = folder / f"everything-{engine}"
        command = [sys.executable, "-m", "pregao", "ingest", str(day), "--quiet"]
        start = time.perf_counter()
        subprocess.run([*command, "--lake", str(lake), "--engine", engine], check=True)
        seconds = time.perf_counter() - start
        what = f"{_SMALL_DAY:,} messages to all tables, --engine {engine}, the whole command"
        yield Row(SECTION, what, seconds, "s", target)


def ingests(spark: Any, capture: Path, folder: Path) -> Iterator[Row]:
    """Time warm ingests of a capture and of four times its size, and alternatives."""
    reports = [ingest_on_spark(spark, [capture], folder) for _ in range(_RUNS)]
    best = max(rate(report) for report in reports[1:])
    size = capture.stat().st_size / _GIGABYTE
    yield Row(SECTION, f"ingest of {size:.2f} GB, the first in a session", rate(reports[0]), "M/s")
    yield Row(
        SECTION,
        f"ingest of {size:.2f} GB to committed tables, packets included, warm",
        best,
        "M messages/s",
        "≥ 3.5",
    )
    yield Row(SECTION, "  largest worker", reports[-1].worker_memory / 1e6, "MB", "≤ 1500")
    large = days.repeated(capture, 4)
    report = ingest_on_spark(spark, [large], folder)
    size = large.stat().st_size / _GIGABYTE
    yield Row(SECTION, f"ingest of {size:.2f} GB", rate(report), "M messages/s")
    yield Row(SECTION, "  largest worker", report.worker_memory / 1e6, "MB", "≤ 1500")
    yield from spark_writer(spark, capture, folder, best)
    yield from tshark(capture, folder, best)


def ingest_on_spark(spark: Any, captures: list[Path], folder: Path) -> IngestReport:
    lake = folder / "lake"
    shutil.rmtree(lake, ignore_errors=True)
    return ingest(map(str, captures), str(lake), runner=SparkRunner(spark))


def rate(report: IngestReport) -> float:
    return report.messages / report.seconds / 1e6


def part_of(capture: Path, folder: Path, share: int) -> Path:
    """Return the first part of a capture; it may end within a packet."""
    part = folder / "part.pcap"
    with capture.open("rb") as whole, part.open("wb") as cut:
        left = capture.stat().st_size // share
        while left:
            left -= cut.write(whole.read(min(left, 1 << 24)))
    return part


def spark_writer(spark: Any, capture: Path, folder: Path, ours: float) -> Iterator[Row]:
    """Time Spark's own Parquet writer on order messages from the data source."""
    from pregao.lake.datasource.data_source import register

    register(spark)
    part = part_of(capture, folder, 8)
    out = folder / "spark-parquet"
    frame = spark.read.format("b3").option("template", "Order_MBO_50").load(str(part))
    shortest = float("inf")
    for _ in range(2):
        start = time.perf_counter()
        frame.write.mode("overwrite").parquet(str(out))
        shortest = min(shortest, time.perf_counter() - start)
    theirs = spark.read.parquet(str(out)).count() / shortest / 1e6
    yield Row(SECTION, "  order messages through Spark's own writer", theirs, "M messages/s")
    yield Row(SECTION, "  ours / Spark's writer", ours / theirs, "ratio", "≥ 4")


def tshark(capture: Path, folder: Path, ours: float) -> Iterator[Row]:
    """Time tshark to JSON to Parquet, with payloads as hex."""
    program = shutil.which("tshark")
    if program is None:
        yield Row(SECTION, "  tshark to JSON to Parquet", float("nan"), "", note="not installed")
        return
    sample = folder / "sample.pcap"
    head_of(capture, sample, 20_000)
    report = ingest([str(sample)], str(folder / "sample-lake"))
    start = time.perf_counter()
    done = subprocess.run(
        [program, "-r", str(sample), "-T", "json"], check=True, capture_output=True
    )
    rows = [
        {
            "time": packet["_source"]["layers"]["frame"]["frame.time_epoch"],
            "destination": packet["_source"]["layers"]["ip"]["ip.dst"],
            "payload": packet["_source"]["layers"]["udp"].get("udp.payload"),
        }
        for packet in json.loads(done.stdout)
    ]
    pq.write_table(pa.Table.from_pylist(rows), folder / "tshark.parquet")
    theirs = report.messages / (time.perf_counter() - start) / 1e6
    yield Row(SECTION, "  tshark to JSON to Parquet, messages left as hex", theirs, "M messages/s")
    yield Row(SECTION, "  ours / tshark", ours / theirs, "ratio", "≥ 100")


def data_source(spark: Any, capture: Path) -> Iterator[Row]:
    """Time the data source into Spark's noop sink."""
    frame = spark.read.format("b3").option("template", "Order_MBO_50").load(str(capture))
    count = frame.count()
    shortest = float("inf")
    for _ in range(_RUNS + 1):
        start = time.perf_counter()
        frame.write.format("noop").mode("overwrite").save()
        shortest = min(shortest, time.perf_counter() - start)
    yield Row(
        SECTION,
        "data source, order messages into a noop sink",
        count / shortest / 1e6,
        "M messages/s",
        "≥ 3",
    )


def streaming(spark: Any, capture: Path, folder: Path) -> Iterator[Row]:
    """Time Structured Streaming over existing files, batch by batch."""
    from pregao.lake.datasource.rolling_files import RollingFiles
    from pregao.lake.ingest.options import IngestOptions
    from pregao.lake.streaming.stream import StreamPace, follow_on_spark
    from pregao.lake.streaming.stream_ingest import StreamIngest

    rolling = folder / "rolling"
    rolling.mkdir()
    part = part_of(capture, folder, 2)
    part.rename(rolling / "day.pcap")
    reports: list[IngestReport] = []
    ends: list[float] = []

    def on_report(report: IngestReport) -> None:
        reports.append(report)
        ends.append(time.perf_counter())

    files = RollingFiles(str(rolling), 0)
    stream = StreamIngest(
        files, str(folder / "streamed"), IngestOptions(), runner=SparkRunner(spark)
    )
    pace = StreamPace(once=True, interval_ns=0, max_bytes=64 << 20, holdback_ns=10**9)
    follow_on_spark(spark, stream, pace, on_report, str(folder / "checkpoint"))
    messages = sum(report.messages for report in reports[1:])
    seconds = ends[-1] - ends[0]
    yield Row(
        SECTION,
        f"streaming, sustained over {len(reports) - 1} batches of 64 MB",
        messages / seconds / 1e6,
        "M messages/s",
        "≥ 0.5",
    )
