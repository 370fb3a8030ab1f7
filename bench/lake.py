"""The lake: captures to committed tables on Spark, beside the ways it could be done otherwise."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench import traffic
from bench.measure import Row
from pregao.lake.ingest import ingest
from pregao.lake.runner import merge_on_spark, on_spark
from pregao.lake.session import spark_session

SECTION = "lake"
COPIES = int(os.environ.get("PREGAO_BENCH_COPIES", "90"))
"""How often the sample is repeated: 90 make about 1 GB."""


def run() -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        small = folder / "small.pcap"
        payloads = traffic.packets(60_000)
        traffic.write_capture(str(small), payloads, copies=1)
        yield from first_result(small, folder)
        yield from ingests(folder)


def first_result(capture: Path, folder: Path) -> Iterator[Row]:
    """From nothing to the first committed table, Spark's start included."""
    start = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "pregao", "ingest", str(capture), "--lake", str(folder / "first")],
        check=True,
        capture_output=True,
    )
    yield Row(
        SECTION, "time to the first result on a 10 MB capture", time.perf_counter() - start,
        "s", "≤ 15",
    )  # fmt: skip


def ingests(folder: Path) -> Iterator[Row]:
    capture = folder / "large.pcap"
    large_capture(capture, COPIES)
    start = time.perf_counter()
    spark = spark_session("local[2]")
    spark.range(1).count()
    yield Row(SECTION, "session start and first job", time.perf_counter() - start, "s")
    best = 0.0
    for number in range(3):
        lake = folder / f"lake{number}"
        report = ingest([str(capture)], str(lake), run=on_spark(spark), merge=merge_on_spark(spark))
        best = max(best, report.messages / report.seconds)
        shutil.rmtree(lake)
    size = capture.stat().st_size / 1e9
    yield Row(
        SECTION, f"ingest of {size:.2f} GB to committed tables, packets included", best / 1e6,
        "M messages/s", "≥ 3",
    )  # fmt: skip
    children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    yield Row(SECTION, "  largest worker", children, "MB", "≤ 1500")
    yield from spark_writer(spark, capture, folder, best)


def spark_writer(spark: Any, capture: Path, folder: Path, ours: float) -> Iterator[Row]:
    """The same decoding handed to Spark's own Parquet writer, on a part of the capture."""
    from pregao.lake.source import register

    register(spark)
    part = folder / "part.pcap"
    with capture.open("rb") as whole, part.open("wb") as cut:
        shutil.copyfileobj(_Head(whole, capture.stat().st_size // 8), cut)
    out = folder / "spark-parquet"
    frame = spark.read.format("b3").option("template", "50").load(str(part))
    start = time.perf_counter()
    frame.write.mode("overwrite").parquet(str(out))
    seconds = time.perf_counter() - start
    rows = spark.read.parquet(str(out)).count()
    theirs = rows / seconds
    yield Row(SECTION, "  order messages through Spark's own writer", theirs / 1e6, "M messages/s")
    yield Row(SECTION, "  ingest / Spark's writer", ours / theirs, "ratio", "≥ 4")
    start = time.perf_counter()
    frame.write.format("noop").mode("overwrite").save()
    seconds = time.perf_counter() - start
    yield Row(
        SECTION, "data source, order messages into a noop sink", rows / seconds / 1e6,
        "M messages/s", "≥ 1.5",
    )  # fmt: skip


class _Head:
    """The first bytes of a file."""

    def __init__(self, file: Any, size: int) -> None:
        self._file = file
        self._left = size

    def read(self, size: int = -1, /) -> bytes:
        data: bytes = self._file.read(min(size, self._left))
        self._left -= len(data)
        return data


def large_capture(path: Path, copies: int) -> None:
    """The sample repeated, with sequence numbers that go on."""
    from pregao.capture import PcapWriter, UdpFramer
    from pregao.umdf.layout import PACKET_HEADER, PACKET_HEADER_SIZE

    payloads = traffic.packets(60_000)
    framer = UdpFramer("10.0.0.1", 40000, "233.252.14.1", 30001)
    number = 0
    when = traffic.START
    with PcapWriter(path) as writer:
        for _ in range(copies):
            for payload in payloads:
                number += 1
                when += 8_000
                header = PACKET_HEADER.pack(84, 0, 1, number, when)
                writer.write(when, framer.frame(header + payload[PACKET_HEADER_SIZE:]))
