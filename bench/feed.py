"""A channel followed without sockets: by `Channel` in Python, and by the fast path.

The fast path is measured with the whole day in memory, in batches of one packet and of many.
*Compiled call* is the kernel alone; *with events* includes the event objects.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from bench.days import one_feed
from bench.measure import Row, best
from pregao.capture import datagrams, read_blocks, read_packets
from pregao.clock import MINUTE
from pregao.exchange.simulation.settings import SimulationSettings
from pregao.exchange.simulation.simulation import Simulation
from pregao.feed.channel.channel import Channel
from pregao.feed.channel.settings import ChannelSettings
from pregao.feed.fastpath.channel import FastChannel
from pregao.feed.fastpath.driver import DatagramColumns as Batch
from pregao.umdf.streams import Stream

SECTION = "feed"
CHANNEL = 51
MESSAGES = 60_000
INSTRUMENTS = 500

Datagrams = Sequence[tuple[int, bytes]]


def run() -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        Simulation(
            SimulationSettings(
                profile="equities", out=out, instruments=INSTRUMENTS, duration_ns=10 * MINUTE,
                messages=MESSAGES, truth_books=1, force=True,
            )
        ).run()  # fmt: skip
        capture = out / f"{CHANNEL:03d}_Incremental_A.pcap"
        sent = [(each.time_ns, bytes(each.payload)) for each in datagrams(read_packets(capture))]
    for feeds, target in (("A", "≥ 25"), ("AB", "")):
        seconds = best(partial(follow, sent, feeds))
        what = "one feed" if feeds == "A" else "both feeds"
        rate = len(sent) / seconds / 1000
        yield Row(
            SECTION, f"a channel followed in plain Python, {what}", rate, "kpackets/s", target
        )
    yield from fast_path(sent)
    yield from memory()


def fast_path(sent: Datagrams) -> Iterator[Row]:
    batch = batch_of(sent)
    for size, target in ((1, "≤ 2"), (16, ""), (1024, "≤ 0.2")):
        found = min(fast_path_times(batch, size) for _ in range(3))
        what = f"fast path, batches of {size}, per packet"
        yield Row(SECTION, f"{what}, compiled call", found[0], "µs", target)
        yield Row(SECTION, f"{what}, as called from Python", found[1], "µs")
    for size in (1, 1024):
        seconds = best(partial(follow_with_events, batch, size))
        rate = len(sent) / seconds / 1000
        what = f"a channel followed by the fast path, batches of {size}, with events"
        yield Row(SECTION, what, rate, "kpackets/s")


def batch_of(sent: Datagrams) -> Batch:
    """Return all datagrams as a receiver returns them, on one line."""
    length = np.array([len(payload) for _, payload in sent], np.int32)
    buffer = np.frombuffer(
        bytearray(b"".join(payload for _, payload in sent) + bytes(64)), np.uint8
    )
    offset = np.cumsum(length, dtype=np.int64) - length
    times = np.array([time_ns for time_ns, _ in sent], np.int64)
    return Batch(buffer, offset, length, times, np.zeros(len(sent), np.int32))


def new_channel(first_ns: int) -> FastChannel:
    channel = FastChannel(ChannelSettings(CHANNEL, ("A",), from_the_start=True))
    channel.start(first_ns)
    channel.set_lines({0: (Stream.INCREMENTAL, "A")})
    return channel


def fast_path_times(batch: Batch, size: int) -> tuple[float, float]:
    """Return the µs per packet of the second half of a day: in the kernel, and in total."""
    count = len(batch.offset)
    half = count // 2
    channel = new_channel(int(batch.time_ns[0]))
    channel.enable_events(enabled=False)
    channel.receive_many(batch, 0, half)
    inner = channel._driver
    run, spent, packets = inner.run, 0.0, 0

    def timed(datagrams: Batch, first: int, last: int) -> int:
        nonlocal spent, packets
        start = time.perf_counter()
        stopped = run(datagrams, first, last)
        spent += time.perf_counter() - start
        packets += stopped - first
        return stopped

    start = time.perf_counter()
    for at in range(half, count, size):
        channel.receive_many(batch, at, min(at + size, count))
    whole = time.perf_counter() - start
    before = channel.fast_path_packets
    channel = new_channel(int(batch.time_ns[0]))
    channel.enable_events(enabled=False)
    channel.receive_many(batch, 0, half)
    inner = channel._driver
    run = inner.run
    inner.run = timed  # type: ignore[method-assign]
    for at in range(half, count, size):
        channel.receive_many(batch, at, min(at + size, count))
    if channel.counters.gaps or channel.fast_path_packets != before or before < 0.8 * count:
        raise RuntimeError("the day was not followed by the fast path")
    return spent / packets * 1e6, whole / (count - half) * 1e6


def memory() -> Iterator[Row]:
    """Measure the memory for following a whole day, after a tenth of it and at its end."""
    capture = one_feed()
    channel = FastChannel(ChannelSettings(int(capture.name[:3]), ("A",), from_the_start=True))
    channel.enable_events(enabled=False)
    size, begun, early = capture.stat().st_size, False, 0.0
    for block in read_blocks(capture):
        if not begun:
            channel.start(int(block.time_ns[0]))
            channel.set_lines({0: (Stream.INCREMENTAL, "A")})
            begun = True
        lines = np.zeros(len(block), np.int32)
        batch = Batch(block.buffer, block.offset, block.length, block.time_ns, lines)
        for at in range(0, len(block), 1024):
            channel.receive_many(batch, at, min(at + 1024, len(block)))
            channel.catch_up(1024)
        if not early and int(block.position[-1]) > size // 10:
            early = rss_mb()
    if channel.counters.gaps:
        raise RuntimeError("the day was not followed to its end")
    what = f"memory with {channel.counters.delivered / 1e6:.1f} M packets of a day followed"
    yield Row(SECTION, f"{what}, after a tenth", early, "MB")
    yield Row(SECTION, f"{what}, at the end", rss_mb(), "MB")


def rss_mb() -> float:
    """Return the resident memory of this process in MB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def follow_with_events(batch: Batch, size: int) -> None:
    channel = new_channel(int(batch.time_ns[0]))
    count = len(batch.offset)
    for at in range(0, count, size):
        channel.receive_many(batch, at, min(at + size, count))
        channel.take_events()
    if channel.counters.gaps or channel.counters.delivered < count // 2:
        raise RuntimeError("the day was not followed to its end")


def follow(sent: Datagrams, feeds: str) -> None:
    """Follow a day from its first packet; every feed delivers every packet."""
    channel = Channel(ChannelSettings(CHANNEL, from_the_start=True))
    channel.start(sent[0][0])
    for count, (time_ns, payload) in enumerate(sent):
        for feed in feeds:
            channel.receive(Stream.INCREMENTAL, feed, payload, time_ns)
        if not count % 64:
            channel.take_events()
    if channel.counters.gaps or channel.counters.delivered < len(sent) // 2:
        raise RuntimeError("the day was not followed to its end")
