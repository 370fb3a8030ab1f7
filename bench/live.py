"""The feed on the network: datagrams sent, received, recorded and followed on loopback."""

from __future__ import annotations

import multiprocessing
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from bench.measure import Row, best
from pregao.capture import read_blocks
from pregao.clock import MINUTE
from pregao.exchange.publisher.channels import ChannelEndpoints as Endpoints
from pregao.exchange.simulation.settings import SimulationSettings
from pregao.exchange.simulation.simulation import Simulation
from pregao.feed.channel.channel_base import FeedChannel
from pregao.feed.channel.settings import ChannelSettings
from pregao.feed.fastpath.channel import FastChannel
from pregao.feed.fastpath.driver import DatagramColumns
from pregao.live import (
    FeedHandler,
    Line,
    LiveConfig,
    Recorder,
    RecordSettings,
    Replayer,
    ReplaySpeed,
    rare_collection,
    report,
)
from pregao.live.config import STREAMS
from pregao.net.addresses import Address, find_interface
from pregao.net.receiver import open_receiver
from pregao.net.sender import Sender
from pregao.net.sockets import dropped, receive_socket
from pregao.umdf.streams import Stream

SECTION = "live"
INSTRUMENTS = 500
MESSAGES = 200_000
SIZE = 114
"""Bytes of a packet with one order, the usual size."""
PYTHON_RATE = 5e3
"""Packets per second with which `Channel` in Python keeps up."""
FAST_PATH_RATE = 20e3
BUFFER = 64 * 1024 * 1024
LO = find_interface("lo")
_network = f"239.{160 + os.getpid() % 16}.{os.getpid() // 16 % 256}"


def group(last: int) -> Address:
    return Address(f"{_network}.{last}", 34_000 + last)


def run() -> Iterator[Row]:
    yield from drained()
    yield from lossless()
    with tempfile.TemporaryDirectory() as folder:
        yield from recorded(Path(folder) / "captures")
        day = Path(folder) / "day"
        settings: dict[str, Any] = {"instruments": INSTRUMENTS, "messages": MESSAGES}
        Simulation(SimulationSettings("stress", day, duration_ns=10 * MINUTE, **settings)).run()
        yield from replayed(day)
        yield from drained_with_books(day)
        yield from lossless_with_books(day)
        yield from followed(day)


def block(count: int, size: int = SIZE) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return datagrams as `Sender.send_all` accepts them."""
    buffer = np.random.default_rng(1).integers(0, 256, size, np.uint8)
    zeros = np.zeros(count, np.int64)
    return buffer, zeros, np.full(count, size, np.int32), np.zeros(count, np.int32)


def drained() -> Iterator[Row]:
    """Read a full socket buffer as fast as possible."""
    address = group(1)
    for compiled, words, target in (
        (True, "from compiled code", ""),
        (False, "one by one in Python", ""),
    ):
        receiver = open_receiver(compiled=compiled)
        receiver.add(receive_socket(address, interface=LO, buffer_bytes=BUFFER))
        fastest = 0.0
        with Sender([address], interface=LO) as sender:
            for _ in range(5):
                sender.send_all(*block(50_000))
                found = 0
                start = time.perf_counter()
                while got := len(receiver.receive(0)):
                    found += got
                fastest = max(fastest, found / (time.perf_counter() - start))
        receiver.close()
        what = f"drained from a full buffer with the kernel's times, {words}"
        yield Row(SECTION, what, fastest / 1e6, "M packets/s", target)


def flood(address: Address, count: int, rate: float, ready: Any) -> None:
    """Send datagrams at an even rate."""
    with Sender([address], interface=LO) as sender:
        piece = block(64)
        sender.send_all(*(each[:0] if each is not piece[0] else each for each in piece))
        ready.set()
        start, sent = time.perf_counter(), 0
        while sent < count:
            due = int((time.perf_counter() - start) * rate)
            if due - sent >= 64:
                sender.send_all(*piece)
                sent += 64


def lossless() -> Iterator[Row]:
    """Find the highest of several rates at which the process receives every datagram."""
    context = multiprocessing.get_context("spawn")
    address = group(2)
    reached = 0.0
    for rate in (120e3, 250e3, 350e3, 450e3):
        best_of_five = False
        for _ in range(5):
            listening = receive_socket(address, interface=LO, buffer_bytes=BUFFER)
            receiver = open_receiver()
            line = receiver.add(listening)
            ready = context.Event()
            count = int(2 * rate) // 64 * 64
            process = context.Process(target=flood, args=(address, count, rate, ready))
            process.start()
            ready.wait()
            start = time.perf_counter()
            while receiver.counts(line).packets + dropped(listening) < count:
                if not len(receiver.receive(1)) and not process.is_alive():
                    break
            seconds = time.perf_counter() - start
            process.join()
            counts = receiver.counts(line)
            receiver.close()
            if counts.dropped == 0 and counts.packets == count:
                best_of_five = True
                reached = max(reached, min(rate, count / seconds))
                break
        if not best_of_five:
            break
    what = "received without loss for two seconds, best of five (no books)"
    yield Row(SECTION, what, reached / 1e3, "k packets/s", "≥ 250")


def recorded(folder: Path) -> Iterator[Row]:
    """Record datagrams as pcap."""
    address = group(3)
    receiver = open_receiver()
    line = receiver.add(receive_socket(address, interface=LO, buffer_bytes=BUFFER))
    with Sender([address], interface=LO) as sender, Recorder(RecordSettings(folder)) as recorder:
        recorder.line(line, address)
        sender.send_all(*block(1000))
        batch = receiver.receive(1)
        seconds = best(lambda: recorder.write(batch))
    receiver.close()
    rate = len(batch) / seconds
    yield Row(SECTION, "recorded as pcap", rate / 1e6, "M packets/s")


def replayed(day: Path) -> Iterator[Row]:
    """Send captures merged by time."""
    captures = sorted(day.glob("*.pcap"))
    targets = targets_of(day)
    fastest = 0.0
    for _ in range(3):
        start = time.perf_counter()
        counts = Replayer(captures, targets, speed=ReplaySpeed(None), interface=LO).run()
        fastest = max(fastest, counts.packets / (time.perf_counter() - start))
    yield Row(SECTION, "pregao replay --speed max, four captures", fastest / 1e3, "k packets/s")


def channel_of(day: Path) -> int:
    """Return the busiest channel of a day."""
    largest = max(day.glob("*_Incremental_A.pcap"), key=lambda path: path.stat().st_size)
    return int(largest.name[:3])


def targets_of(day: Path) -> dict[Any, Address]:
    from pregao.umdf.survey.lines import Destination

    found: dict[Any, Address] = {}
    for path in day.glob("*_Incremental_A.pcap"):
        endpoints = Endpoints.numbered(int(path.name[:3]))
        for stream in STREAMS:
            for _, each in endpoints.endpoints(stream):
                found[Destination(each.address, each.port)] = group(10 + len(found))
    return found


def payloads_of(path: Path) -> list[bytes]:
    return [block.payload(at) for block in read_blocks(path) for at in range(len(block))]


class Times:
    """Listener that records the delay from the kernel's receive time to the event."""

    def __init__(self) -> None:
        self.delays: list[int] = []

    def on_events(self, channel: FeedChannel, events: list[Any]) -> None:  # noqa: ARG002
        received = events[-1].received_ns
        if received:
            self.delays.append(time.time_ns() - received)


def send_at(
    addresses: list[Address], path: Path, rate: float, piece: int, ready: Any, took: Any,
    *, gives_way: bool = False,
) -> None:  # fmt: skip
    """Send the packets of a capture at an even rate, each to every address.

    With ``gives_way`` the sender yields its core to other processes: it spins, and they would
    otherwise run on the core of the feed. It sends delayed packets immediately afterwards.
    """
    pin_to(1)
    payloads = payloads_of(path)
    if gives_way and hasattr(os, "SCHED_IDLE"):
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    length = np.array([len(each) for each in payloads], np.int32)
    buffer = np.frombuffer(b"".join(payloads), np.uint8)
    offset = np.cumsum(length, dtype=np.int64) - length
    copies = len(addresses)
    offset, length = np.repeat(offset, copies), np.repeat(length, copies)
    target = np.tile(np.arange(copies, dtype=np.int32), len(payloads))
    with Sender(addresses, interface=LO) as sender:
        sender.send_all(buffer, offset[:0], length[:0], target[:0])
        ready.set()
        start, done = time.perf_counter(), 0
        while done < len(offset):
            due = int((time.perf_counter() - start) * rate) * copies
            if due - done >= piece * copies or (piece == 1 and due > done):
                end = min(done + piece * copies, len(offset))
                sender.send_all(buffer, offset[done:end], length[done:end], target[done:end])
                done = end
        took.value = time.perf_counter() - start


def pin_to(core: int) -> None:
    """Pin this thread, and those it starts, to one core, apart from the spinning sender."""
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[core % len(cores)]})


def lines_of(number: int, feeds: str, first: int) -> tuple[Line, ...]:
    wanted = [(stream, feed) for stream in STREAMS for feed in feeds]
    return tuple(
        Line(number, stream, feed, group(first + at), "lo")
        for at, (stream, feed) in enumerate(wanted)
    )


def drained_with_books(day: Path) -> Iterator[Row]:
    """Read and follow a full socket buffer as fast as possible."""
    number = channel_of(day)
    payloads = payloads_of(day / f"{number:03d}_Incremental_A.pcap")
    buffer = np.frombuffer(b"".join(payloads), np.uint8)
    length = np.array([len(each) for each in payloads], np.int32)
    offset = np.cumsum(length, dtype=np.int64) - length
    target = np.zeros(len(payloads), np.int32)
    # The capacity of a buffer of 4 MB, which systems grant without configuration.
    address, piece = group(4), 4_900
    fastest = 0.0
    for _ in range(3):
        receiver = open_receiver()
        line = receiver.add(receive_socket(address, interface=LO, buffer_bytes=BUFFER))
        channel = FastChannel(ChannelSettings(number, ("A",), from_the_start=True))
        channel.enable_events(enabled=False)
        channel.start(time.time_ns())
        channel.set_lines({line: (Stream.INCREMENTAL, "A")})
        with Sender([address], interface=LO) as sender:
            for begin in range(0, len(payloads) - piece, piece):
                part = slice(begin, begin + piece)
                sender.send_all(buffer, offset[part], length[part], target[part])
                found = 0
                start = time.perf_counter()
                while len(batch := receiver.receive(0)):
                    channel.receive_many(DatagramColumns(*batch.columns))
                    found += len(batch)
                if begin:  # books are filled first
                    fastest = max(fastest, found / (time.perf_counter() - start))
        if channel.counters.gaps:
            raise RuntimeError("packets were lost")
        receiver.close()
    what = "drained from a full buffer with the kernel's times, followed with books"
    yield Row(SECTION, what, fastest / 1e6, "M packets/s", "≥ 0.7")


def lossless_with_books(day: Path) -> Iterator[Row]:
    """Find the highest of several rates at which a handler loses no packet, best of five."""
    number = channel_of(day)
    path = day / f"{number:03d}_Incremental_A.pcap"
    count = len(payloads_of(path))
    context = multiprocessing.get_context("spawn")
    for feeds, rates, target in (
        ("A", (120e3, 250e3, 350e3, 450e3), "≥ 250"),
        ("AB", (60e3, 120e3, 180e3, 240e3), "≥ 120"),
    ):
        reached = 0.0
        for rate in rates:
            if not any(_lossless(context, number, feeds, path, count, rate) for _ in range(5)):
                break
            reached = rate
        what = f"followed live without loss, feed{'s' * (len(feeds) > 1)} {' and '.join(feeds)}"
        yield Row(SECTION, f"{what}, best of five", reached / 1e3, "k packets/s", target)


def _lossless(context: Any, number: int, feeds: str, path: Path, count: int, rate: float) -> bool:
    lines = lines_of(number, feeds, 120)
    settings = ChannelSettings(number, tuple(feeds), from_the_start=True)
    handler = FeedHandler(LiveConfig((settings,), lines, BUFFER))
    handler.start()
    ready = context.Event()
    addresses = [line.address for line in lines[: len(feeds)]]
    took = context.Value("d", 0.0)
    process = context.Process(target=send_at, args=(addresses, path, rate, 32, ready, took))
    process.start()
    process.join()
    sent_at = count / took.value
    time.sleep(0.3)
    handler.stop()
    made = handler.call(report).channels[0]
    lost = made.counters["gaps"] + made.dropped + (made.counters["packets"] < count)
    return not lost and sent_at > 0.9 * rate


def followed(day: Path) -> Iterator[Row]:
    """Measure the delay of events of a handler that reads sockets, best of several runs."""
    number = channel_of(day)
    path = day / f"{number:03d}_Incremental_A.pcap"
    for compiled, rate, how, runs, targets in (
        (False, PYTHON_RATE, "blocking", 1, ("", "")),
        (None, FAST_PATH_RATE, "blocking", 5, ("≤ 40", "")),
        (None, FAST_PATH_RATE, "blocking, realtime", 5, ("≤ 40", "≤ 250")),
        (None, FAST_PATH_RATE, "spinning", 5, ("", "")),
    ):
        found = [delays_of(number, path, rate, how, compiled) for _ in range(runs)]
        path_name = "Python channel" if compiled is False else "fast path"
        for share, target in zip((50, 99), targets, strict=True):
            value = min(float(np.percentile(delays, share)) for delays in found) / 1e3
            at = f"{rate / 1e3:.0f} k packets/s"
            what = f"kernel's time to event in Python, {path_name}, {at}, {how}, p{share}"
            note = f"best of {runs}" if runs > 1 else ""
            yield Row(SECTION, what, value, "µs", target, note)


def delays_of(number: int, path: Path, rate: float, how: str, compiled: bool | None) -> list[int]:
    """Return the delays of the events of the second half of a capture."""
    context = multiprocessing.get_context("spawn")
    lines = lines_of(number, "A", 100)
    settings = ChannelSettings(number, ("A",), from_the_start=True)
    cores = os.sched_getaffinity(0)
    times = Times()
    config = LiveConfig((settings,), lines, BUFFER, realtime="realtime" in how)
    handler = FeedHandler(config, spin=how == "spinning", compiled=compiled)
    handler.add_listener(times)
    pin_to(0)
    handler.start()
    os.sched_setaffinity(0, cores)
    given = ([lines[0].address], path, rate, 1, context.Event(), context.Value("d", 0.0))
    process = context.Process(target=send_at, args=given, kwargs={"gives_way": True})
    with rare_collection():  # as `pregao live` does
        process.start()
        process.join()
    time.sleep(0.3)
    handler.stop()
    return times.delays[len(times.delays) // 2 :]
