"""The legacy feed: captures of UMDF FIX/FAST to committed tables and books."""

from __future__ import annotations

import io
import random
import shutil
import tempfile
import time
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np

from bench import days
from bench.measure import Row
from pregao.capture import PcapWriter, UdpFramer, read_packets
from pregao.clock import MILLISECOND, SECOND
from pregao.exchange.publisher.channels import ChannelEndpoints
from pregao.fast.codec import Encoder
from pregao.lake.books.build import BookOptions, build_books
from pregao.lake.execution.spark import SparkRunner
from pregao.lake.execution.spark_session import spark_session
from pregao.lake.ingest.pipeline import ingest
from pregao.lake.ingest.report import IngestReport
from pregao.legacy.messages import MessageReader
from pregao.legacy.reassembly import Assembler, read_chunks, write_chunks
from pregao.legacy.times import timestamp_digits
from pregao.schemas.fast_templates import bundled_templates

SECTION = "legacy"
MESSAGES = 3_400_000
_TURNS = 10
_START_NS = 1_779_361_200_000_000_000
_FIRST = 3_000_000
"""First sequence number; all of them take four bytes."""
_RUNS = 4
_INSTRUMENTS = 200
_SECURITY = 200_000_000_000
"""First security ID; all of them take six bytes."""
_PLAIN = 20_000
_HEADER, _RECORD = 24, 16
"""Bytes of the file header of a capture, and of the header of each packet."""


def run() -> Iterator[Row]:
    capture = one_feed()
    with tempfile.TemporaryDirectory(dir=days.folder()) as name:
        folder = Path(name)
        spark = spark_session("local[2]")
        reports = [ingest_on_spark(spark, capture, folder) for _ in range(_RUNS)]
        best = max(MESSAGES / report.seconds / 1e6 for report in reports[1:])
        size = capture.stat().st_size / 1e6
        yield Row(
            SECTION,
            f"ingest of {size:.0f} MB to committed tables, packets included, warm",
            best,
            "M messages/s",
            "≥ 1.2",
        )
        plain = read_one_by_one(capture)
        yield Row(SECTION, "  read message by message in Python", plain / 1e3, "k messages/s")
        yield Row(SECTION, "  ours / message by message", best * 1e6 / plain, "ratio")
        build_books(str(folder / "lake"), BookOptions(depth=5))  # includes compilation
        start = time.perf_counter()
        build_books(str(folder / "lake"), BookOptions(depth=10))
        seconds = time.perf_counter() - start
        yield Row(SECTION, "books of it, two threads", MESSAGES / seconds / 1e6, "M messages/s")
        spark.stop()


def ingest_on_spark(spark: Any, capture: Path, folder: Path) -> IngestReport:
    lake = folder / "lake"
    shutil.rmtree(lake, ignore_errors=True)
    return ingest([str(capture)], str(lake), runner=SparkRunner(spark))


def read_one_by_one(capture: Path) -> float:
    """Return the messages per second of the reader that decodes one message at a time."""
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
    """Return a capture of an incremental stream, mostly with one order in a message.

    One segment is encoded, and repeated with later times and numbers and other instruments.
    """
    path = days.folder() / f"legacy-{MESSAGES}.pcap"
    if path.exists():
        return path
    making = path.with_suffix(".part")
    segment = Segment(MESSAGES // _TURNS)
    with making.open("wb") as out:
        out.write(segment.header)
        for turn in range(_TURNS):
            out.write(segment.repetition(turn))
    making.rename(path)
    return path


class Segment:
    """Records of a number of messages, with the offsets of the values that repetitions change."""

    def __init__(self, messages: int) -> None:
        self.messages = messages
        capture, records, offset = io.BytesIO(), [], _HEADER
        writer = PcapWriter(capture)
        numbers, times, securities, known = [], [], [], []
        encoder = Encoder(bundled_templates(), reset_each_message=True)
        endpoint = ChannelEndpoints.numbered(72, legacy=True).incremental_a
        framer = UdpFramer("10.0.0.1", 9, endpoint.address, endpoint.port)
        market = Market(random.Random(1))
        for index in range(messages):
            number, sent = _FIRST + index, _START_NS + index * MILLISECOND
            body = encoder.encode("IncrementalRefresh_152", market.message(number, sent))
            frame = framer.frame(write_chunks(number, body, 1420)[0])
            writer.write(sent, frame)
            records.append(offset - _HEADER)
            offset += _RECORD + len(frame)
            begin = offset - _HEADER - len(body)
            at = body.index(stop_bits([number], 4).tobytes())
            numbers.append(begin + at)
            times.append(begin + at + 4)
            for security in market.securities:
                at = body.index(stop_bits([security], 6).tobytes())
                securities.append(begin + at)
                known.append(security)
        writer.close()
        whole = capture.getvalue()
        self.header, self.data = whole[:_HEADER], np.frombuffer(whole[_HEADER:], np.uint8)
        self.records, self.numbers, self.times, self.securities, self.known = (
            np.array(each, np.int64) for each in (records, numbers, times, securities, known)
        )

    def repetition(self, turn: int) -> bytes:
        """Return the records with the times, numbers and instruments of a repetition."""
        data = self.data.copy()
        steps = np.arange(self.messages, dtype=np.int64) + turn * self.messages
        sent = _START_NS + steps * MILLISECOND
        put(data, self.records, (sent // SECOND).astype("<u4"))
        put(data, self.records + 4, (sent % SECOND).astype("<u4"))
        number = _FIRST + steps
        # The technical header follows the Ethernet, IPv4 and UDP headers.
        put(data, self.records + _RECORD + 42, number.astype(">u4"))
        put(data, self.numbers, stop_bits(number, 4))
        seconds, inside = np.unique(sent // SECOND, return_inverse=True)
        digits = np.array([timestamp_digits(int(each) * SECOND) for each in seconds])
        put(data, self.times, stop_bits(digits[inside] + sent % SECOND // MILLISECOND, 8))
        put(data, self.securities, stop_bits(self.known + turn * _INSTRUMENTS, 6))
        return data.tobytes()


def stop_bits(numbers: Any, size: int) -> Any:
    """Return numbers as FAST integers of ``size`` bytes, one row each."""
    values = np.asarray(numbers, np.int64)[:, None]
    found = (values >> 7 * np.arange(size - 1, -1, -1) & 127).astype(np.uint8)
    found[:, -1] |= 128
    return found


def put(data: Any, offsets: Any, rows: Any) -> None:
    """Write the bytes of each row at its offset."""
    raw = np.ascontiguousarray(rows).view(np.uint8).reshape(len(offsets), -1)
    data[offsets[:, None] + np.arange(raw.shape[1])] = raw


class Market:
    """Order updates at existing positions, near the price of each book."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._depths: dict[tuple[int, str], int] = {}
        self._counts = [0] * _INSTRUMENTS
        self._prices = [rng.randrange(1_000, 90_000) for _ in range(_INSTRUMENTS)]
        self.securities: set[int] = set()
        """Instruments of the last message."""

    def message(self, number: int, sent: int) -> dict[str, Any]:
        """Return the next message."""
        count = self._rng.choice([1] * 9 + [3])
        entries = [self.entry(timestamp_digits(sent)) for _ in range(count)]
        self.securities = {entry["SecurityID"] for entry in entries}
        return {"MsgSeqNum": number, "SendingTime": timestamp_digits(sent), "MDEntries": entries}

    def entry(self, digits: int) -> dict[str, Any]:
        """Return a book update."""
        rng = self._rng
        instrument = min(int(rng.expovariate(0.05)), _INSTRUMENTS - 1)
        side = rng.choice("01")
        depth = self._depths.get((instrument, side), 0)
        self._counts[instrument] += 1
        action = 0 if depth < 5 else rng.choice([0, 1, 2, 2] if depth > 60 else [0, 0, 1, 2])
        found: dict[str, Any] = {
            "MDEntryType": side,
            "SecurityID": _SECURITY + instrument,
            "RptSeq": self._counts[instrument],
            "MDEntryDate": digits // 10**9,
            "MDEntryTime": digits % 10**9,
            "MDUpdateAction": action,
            "MDEntryPositionNo": rng.randrange(depth + (action == 0)) + 1,
        }
        if action != 2:
            self._prices[instrument] += rng.choice((-1, 0, 0, 1))
            price = abs(self._prices[instrument] + rng.randrange(-40, 41)) + 1
            found |= {
                "MDEntryPx": Decimal(price).scaleb(-2),
                "MDEntrySize": 100 * rng.randrange(1, 90),
                "OrderID": str(rng.randrange(10**10)),
                "MDEntryBuyer" if side == "0" else "MDEntrySeller": str(rng.randrange(3, 400)),
                "MDInsertDate": digits // 10**9,
                "MDInsertTime": digits % 10**9,
            }
        self._depths[instrument, side] = depth + {0: 1, 1: 0, 2: -1}[action]
        return found
