"""The legacy feed: captures of UMDF FIX/FAST into committed tables, and on to books."""

from __future__ import annotations

import random
import shutil
import tempfile
import time
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

from bench import days
from bench.measure import Row
from pregao.capture import PcapWriter, read_packets, udp_frame
from pregao.clock import MILLISECOND
from pregao.exchange.publisher import Channel
from pregao.fast import Encoder
from pregao.lake.books import build_books
from pregao.lake.books.build import BookOptions
from pregao.lake.ingest import Report, ingest
from pregao.lake.spark import merge_on_spark, on_spark, spark_session
from pregao.legacy import MessageReader, read_chunks, timestamp_digits, write_chunks
from pregao.legacy.assembly import Assembler
from pregao.schemas import bundled_templates

SECTION = "legacy"
MESSAGES = 600_000
_START_NS = 1_779_361_200_000_000_000
_RUNS = 4
_INSTRUMENTS = 200
_PLAIN = 20_000


def run() -> Iterator[Row]:
    capture = one_feed()
    with tempfile.TemporaryDirectory(dir=days.folder()) as name:
        folder = Path(name)
        spark = spark_session("local[2]")
        reports = [take_in(spark, capture, folder) for _ in range(_RUNS)]
        best = max(MESSAGES / report.seconds / 1e6 for report in reports[1:])
        size = capture.stat().st_size / 1e6
        yield Row(
            SECTION,
            f"ingest of {size:.0f} MB to committed tables, packets included, warm",
            best,
            "M messages/s",
            "≥ 1.2",
        )
        plain = read_plainly(capture)
        yield Row(SECTION, "  read message by message in Python", plain / 1e3, "k messages/s")
        yield Row(SECTION, "  ours / message by message", best * 1e6 / plain, "ratio")
        build_books(str(folder / "lake"), BookOptions(depth=5))  # with the compiling
        start = time.perf_counter()
        build_books(str(folder / "lake"), BookOptions(depth=10))
        seconds = time.perf_counter() - start
        yield Row(SECTION, "books of it, two threads", MESSAGES / seconds / 1e6, "M messages/s")
        spark.stop()


def take_in(spark: Any, capture: Path, folder: Path) -> Report:
    lake = folder / "lake"
    shutil.rmtree(lake, ignore_errors=True)
    return ingest([str(capture)], str(lake), run=on_spark(spark), merge=merge_on_spark(spark))


def read_plainly(capture: Path) -> float:
    """Messages a second by the plain reader, one at a time."""
    reader, assembler, count = MessageReader(), Assembler(), 0
    with read_packets(capture) as packets:
        payloads = [packet.data[42:] for packet, _ in zip(packets, range(_PLAIN), strict=False)]
    start = time.perf_counter()
    for payload in payloads:
        for chunk in read_chunks(payload):
            whole = assembler.add(chunk, 0)
            if whole is not None:
                reader.read(whole)
                count += 1
    return count / (time.perf_counter() - start)


def one_feed() -> Path:
    """A capture of an incremental stream: orders that come and go, mostly one in a message."""
    place = days.folder() / f"legacy-{MESSAGES}.pcap"
    if place.exists():
        return place
    rng = random.Random(1)
    encoder = Encoder(bundled_templates(), reset_each_message=True)
    endpoint = Channel.numbered(72, legacy=True).incremental_a
    depths: dict[tuple[int, str], int] = {}
    counts = [0] * _INSTRUMENTS
    with PcapWriter(place.with_suffix(".part")) as writer:
        for number in range(1, MESSAGES + 1):
            sent = _START_NS + number * MILLISECOND
            entries = [entry(rng, depths, counts, sent) for _ in range(rng.choice([1] * 9 + [3]))]
            values = {
                "MsgSeqNum": number, "SendingTime": timestamp_digits(sent), "MDEntries": entries,
            }  # fmt: skip
            (payload,) = write_chunks(
                number, encoder.encode("IncrementalRefresh_152", values), 1420
            )
            frame = udp_frame("10.0.0.1", 9, endpoint.address, endpoint.port, payload)
            writer.write(sent, frame)
    place.with_suffix(".part").rename(place)
    return place


def entry(
    rng: random.Random, depths: dict[tuple[int, str], int], counts: list[int], sent: int
) -> dict[str, Any]:
    """An order that comes, changes or goes, at a place that there is."""
    instrument = min(int(rng.expovariate(0.05)), _INSTRUMENTS - 1)
    side = rng.choice("01")
    depth = depths.get((instrument, side), 0)
    counts[instrument] += 1
    digits = timestamp_digits(sent)
    found: dict[str, Any] = {
        "MDEntryType": side,
        "SecurityID": 200_000_000_000 + instrument,
        "RptSeq": counts[instrument],
        "MDEntryDate": digits // 10**9,
        "MDEntryTime": digits % 10**9,
    }
    action = 0 if depth < 5 else rng.choice([0, 1, 2, 2] if depth > 60 else [0, 0, 1, 2])
    place = rng.randrange(depth + (action == 0)) + 1
    found |= {"MDUpdateAction": action, "MDEntryPositionNo": place}
    if action != 2:
        found |= {
            "MDEntryPx": Decimal(rng.randrange(1_000, 90_000)).scaleb(-2),
            "MDEntrySize": 100 * rng.randrange(1, 90),
            "OrderID": str(rng.randrange(10**10)),
            "MDEntryBuyer" if side == "0" else "MDEntrySeller": str(rng.randrange(3, 400)),
            "MDInsertDate": digits // 10**9,
            "MDInsertTime": digits % 10**9,
        }
    depths[instrument, side] = depth + {0: 1, 1: 0, 2: -1}[action]
    return found
