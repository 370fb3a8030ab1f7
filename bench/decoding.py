"""Decoding: columns against C, a mixed stream, the packet walk, `pregao decode`, the codec."""

from __future__ import annotations

import itertools
import shutil
import struct
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np

from bench import native, traffic
from bench.measure import Row, best
from pregao.capture import PacketBlock, read_blocks
from pregao.sbe.codec import SchemaCodec
from pregao.sbe.columns import ColumnDecoder
from pregao.sbe.value_specs import readings
from pregao.schemas.bundle import UMDF_SCHEMA_ID, bundled
from pregao.umdf.bulk_decoder import BulkDecoder, MessageBatch, Walker
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
    """Return the rate of a Python loop that unpacks orders, without nulls and scales."""
    layout = struct.Struct("<QBBcxqq4xIQQIQq")
    count = 200_000

    def loop() -> None:
        rows = []
        for position in range(8, 8 + count * stride, stride):
            rows.append(layout.unpack_from(raw, position))

    return count / best(loop, seconds=1) / 1e6


ORDERS = ("SimpleNewOrder", "NewOrderSingle", "ExecutionReport_New", "ExecutionReport_Trade")
"""The most frequent EntryPoint messages."""


def codec() -> Iterator[Row]:
    """Time the message codec: named values and wire integers, decode and encode."""
    yield from named_values("message codec", SchemaCodec(bundled("umdf", 16)), "Order_MBO_50")
    schema = SchemaCodec(bundled("entrypoint"))
    for name in ORDERS:
        yield from named_values(f"  {name}", schema, name)
        yield from numbers(f"  {name} as numbers", schema, name)


def one_by_one(function: Callable[..., Any], *arguments: Iterable[Any]) -> None:
    """Call the function for each item and discard the results, so as not to time the collector."""
    deque(map(function, *arguments), maxlen=0)


def named_values(label: str, codec: SchemaCodec, name: str) -> Iterator[Row]:
    values = traffic.plain_orders(codec.schema.by_name[name], 2000)
    encoded = [codec.encode(name, each) for each in values]
    seconds = best(lambda: one_by_one(codec.decode, encoded))
    target = "≥ 800" if codec.schema.id == UMDF_SCHEMA_ID else ""
    yield Row(SECTION, f"{label}, decode", 2 / seconds, "k messages/s", target)
    seconds = best(lambda: one_by_one(codec.encode, repeat(name), values))
    yield Row(SECTION, f"{label}, encode", 2 / seconds, "k messages/s", target)


def numbers(label: str, codec: SchemaCodec, name: str) -> Iterator[Row]:
    """Time all fields of these messages with prices as integers, as a gateway uses them."""
    message = codec.schema.by_name[name]
    given = traffic.plain_orders(message, 1)[0]
    fields = [
        f"{field.name}.{part.name}" if part is not field else field.name
        for field in readings(message)
        if field.name in given
        for part in field.members or (field,)
    ]
    template = codec.codec(message.id)
    assert template is not None
    size, length = len(template.header), message.block_length
    encoded = [codec.encode(name, each) for each in traffic.plain_orders(message, 2000)]
    unpack, pack = template.unpacker(*fields), template.packer(*fields)
    ends = [len(raw) for raw in encoded]
    seconds = best(lambda: one_by_one(unpack, encoded, repeat(size), repeat(length), ends))
    yield Row(SECTION, f"{label}, decode", 2 / seconds, "k messages/s", "≥ 800")
    rows = [unpack(raw, size, length, len(raw)) for raw in encoded]
    columns = list(zip(*rows, strict=True))
    seconds = best(lambda: one_by_one(pack, *columns))
    yield Row(SECTION, f"{label}, encode", 2 / seconds, "k messages/s", "≥ 800")


class Decoding:
    """Decode the keys of packets and the columns of messages, block by block."""

    def __init__(self) -> None:
        self._decoder = BulkDecoder()
        self._walker = Walker()

    def __call__(self, blocks: Iterable[PacketBlock]) -> int:
        total = 0
        for block in blocks:
            walked = self._walker.walk(block.buffer, block.offset, block.length)
            for item in self._decoder.decode(walked):
                assert isinstance(item, MessageBatch)
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
        f"  the same with cold caches ({count:,} messages)",
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
        min_runs=2,
    )
    yield Row(
        SECTION,
        "tshark raw dissection (payload as hex, no messages)",
        len(payloads) / seconds / 1e6,
        "M packets/s",
    )
