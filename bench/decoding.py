"""Decoding: columns against C, the mixed stream, the packet walk, the tool, the codec."""

from __future__ import annotations

import itertools
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from bench import native, traffic
from bench.measure import Row, best
from pregao.capture import PacketBlock, read_blocks
from pregao.sbe.codec import SchemaCodec
from pregao.sbe.columns import ColumnDecoder
from pregao.schemas import bundled
from pregao.umdf.bulk import Batch, BulkDecoder, Walker
from pregao.umdf.key_columns import keys

SECTION = "decoding"
BLOCK = 16 * 1024 * 1024
COPIES = 60


def run() -> Iterator[Row]:
    yield from columns()
    yield from codec()
    with tempfile.TemporaryDirectory() as folder:
        capture = Path(folder) / "mixed.pcap"
        payloads = traffic.packets(60_000)
        traffic.write_capture(str(capture), payloads, copies=COPIES)
        yield from mixed(capture)
        yield from packet_walk(capture)
        yield from tool(capture, Path(folder))
        yield from tshark(Path(folder))


def columns() -> Iterator[Row]:
    count = 250_000  # about a block of a capture
    raw, message = traffic.order_messages(count)
    buffer = np.frombuffer(raw + bytes(8), np.uint8)
    stride = len(raw) // count
    positions = np.arange(count, dtype=np.int64) * stride + 8
    blocks = np.full(count, message.block_length, np.int64)
    decoder = ColumnDecoder(bundled("umdf", 16), message, 16)
    decoder.decode(buffer, positions[:100], blocks[:100], positions[:100] + 72)
    ends = positions + message.block_length
    ours = best(lambda: decoder.decode(buffer, positions, blocks, ends))
    yield Row(
        SECTION, "order messages to Arrow columns", count / ours / 1e6, "M messages/s", "≥ 40"
    )
    reference = native.order_columns(buffer, positions)
    if reference is not None:
        theirs = best(reference)
        yield Row(SECTION, "  the same in C (cc -O3)", count / theirs / 1e6, "M messages/s")
        yield Row(SECTION, "  ours / C", theirs / ours, "ratio", "≥ 0.6")
    yield Row(SECTION, "  struct in a Python loop", struct_loop(raw, stride), "M messages/s")


def struct_loop(raw: bytes, stride: int) -> float:
    """What a script would do: unpack each order into a tuple, nulls and scales left undone."""
    layout = struct.Struct("<QBBcxqq4xIQQIQq")
    count = 200_000

    def loop() -> None:
        rows = []
        for position in range(8, 8 + count * stride, stride):
            rows.append(layout.unpack_from(raw, position))

    return count / best(loop, seconds=1) / 1e6


def codec() -> Iterator[Row]:
    schema = bundled("umdf", 16)
    codec = SchemaCodec(schema)
    encoded = traffic.message_pool(20)[50]
    decoded = [codec.decode(message).values for message in encoded]
    count = 400 * len(encoded)
    seconds = best(lambda: [codec.decode(message) for message in encoded * 400])
    yield Row(SECTION, "message codec, decode", count / seconds / 1e3, "k messages/s", "≥ 150")
    seconds = best(lambda: [codec.encode("Order_MBO_50", values) for values in decoded * 400])
    yield Row(SECTION, "message codec, encode", count / seconds / 1e3, "k messages/s", "≥ 150")


class Decoding:
    """Every packet's key and every message's columns, block by block."""

    def __init__(self) -> None:
        self._decoder = BulkDecoder()
        self._walker = Walker()

    def __call__(self, blocks: Iterable[PacketBlock]) -> int:
        total = 0
        for block in blocks:
            walked = self._walker.walk(block.buffer, block.offset, block.length)
            for item in self._decoder.decode(walked):
                assert isinstance(item, Batch)
                total += len(keys(walked, item.rows, block.time_ns)["sequence_number"])
        return total


def mixed(capture: Path) -> Iterator[Row]:
    decode = Decoding()
    blocks = list(itertools.islice(read_blocks(capture, block_bytes=BLOCK), 15))
    few = blocks[:1]
    count = decode(few)
    seconds = best(lambda: decode(few), seconds=3)
    yield Row(
        SECTION,
        f"mixed stream of all templates: packet walk, keys, columns ({count:,} messages)",
        count / seconds / 1e6,
        "M messages/s",
        "≥ 15",
    )
    count = decode(blocks)
    seconds = best(lambda: decode(blocks), seconds=3)
    yield Row(
        SECTION,
        f"  the same where nothing is in the caches ({count:,} messages)",
        count / seconds / 1e6,
        "M messages/s",
    )
    count = decode(read_blocks(capture, block_bytes=BLOCK))
    seconds = best(lambda: decode(read_blocks(capture, block_bytes=BLOCK)), seconds=4)
    yield Row(SECTION, "  the same from the capture file", count / seconds / 1e6, "M messages/s")


def packet_walk(capture: Path) -> Iterator[Row]:
    def work() -> int:
        return sum(len(block.offset) for block in read_blocks(capture))

    packets = work()
    seconds = best(work, seconds=3)
    size = capture.stat().st_size
    yield Row(SECTION, "packet walk of a pcap in page cache", size / seconds / 1e9, "GB/s", "≥ 2")
    yield Row(SECTION, "  the same in packets", packets / seconds / 1e6, "M packets/s")


def tool(capture: Path, folder: Path) -> Iterator[Row]:
    count = Decoding()(read_blocks(capture))
    command = [sys.executable, "-m", "pregao", "decode", str(capture), "--force", "-o"]

    def work() -> None:
        subprocess.run([*command, f"{folder / 'out'}/"], check=True, capture_output=True)

    seconds = best(work, seconds=6)
    yield Row(
        SECTION,
        f"pregao decode of {capture.stat().st_size / 1e9:.2f} GB to Parquet, the whole command",
        count / seconds / 1e6,
        "M messages/s",
        "≥ 1",
    )


def tshark(folder: Path) -> Iterator[Row]:
    program = shutil.which("tshark")
    if program is None:
        yield Row(SECTION, "tshark raw dissection", float("nan"), "", note="not installed here")
        return
    sample = folder / "sample.pcap"
    payloads = traffic.packets(60_000)
    traffic.write_capture(str(sample), payloads, copies=1)
    seconds = best(
        lambda: subprocess.run(
            [program, "-r", str(sample), "-T", "fields", "-e", "data"],
            check=True,
            capture_output=True,
        ),
        seconds=2,
        least=2,
    )
    yield Row(
        SECTION,
        "tshark raw dissection (payload as hex, no messages)",
        len(payloads) / seconds / 1e6,
        "M packets/s",
    )
