"""The feed on the network: datagrams in and out on loopback, recorded, and followed."""

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
from pregao.exchange.publisher import Channel as Endpoints
from pregao.exchange.simulation import Settings, Simulation
from pregao.feed.channel import Channel
from pregao.feed.channel_settings import ChannelSettings
from pregao.live import FeedHandler, Line, LiveConfig, Recorder, RecordSettings, Replayer, Speed
from pregao.live.config import STREAMS
from pregao.net import Address, Sender, dropped, find_interface, open_receiver, receive_socket

SECTION = "live"
INSTRUMENTS = 500
MESSAGES = 200_000
SIZE = 114
"""Bytes of a packet with one order, as most are."""
PLAIN_RATE = 5e3
"""Packets a second that the plain machine is never behind with."""
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
        Simulation(Settings("stress", day, duration_ns=10 * MINUTE, **settings)).run()
        yield from replayed(day)
        yield from followed(day)


def block(count: int, size: int = SIZE) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Datagrams as a sender takes them."""
    buffer = np.random.default_rng(1).integers(0, 256, size, np.uint8)
    zeros = np.zeros(count, np.int64)
    return buffer, zeros, np.full(count, size, np.int32), np.zeros(count, np.int32)


def drained() -> Iterator[Row]:
    """What a full buffer holds, taken out as fast as possible."""
    address = group(1)
    for compiled, words, target in (
        (True, "from compiled code", "≥ 0.7 with books"),
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
    """Send datagrams with an even pace."""
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
    """The highest rate, of some, at which nothing is lost on its way to the process."""
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
    """Datagrams written down as they come."""
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
    """Captures merged by time and sent."""
    captures = sorted(day.glob("*.pcap"))
    targets = targets_of(day)
    fastest = 0.0
    for _ in range(3):
        start = time.perf_counter()
        counts = Replayer(captures, targets, speed=Speed(None), interface=LO).run()
        fastest = max(fastest, counts.packets / (time.perf_counter() - start))
    yield Row(SECTION, "pregao replay --speed max, four captures", fastest / 1e3, "k packets/s")


def channel_of(day: Path) -> int:
    """The busiest channel of a day."""
    largest = max(day.glob("*_Incremental_A.pcap"), key=lambda path: path.stat().st_size)
    return int(largest.name[:3])


def targets_of(day: Path) -> dict[Any, Address]:
    from pregao.umdf.survey import Destination

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
    """How long after the kernel received a packet its events reached a listener."""

    def __init__(self) -> None:
        self.delays: list[int] = []

    def told(self, channel: Channel, events: list[Any]) -> None:  # noqa: ARG002
        received = events[-1].received_ns
        if received:
            self.delays.append(time.time_ns() - received)


def steady(address: Address, path: Path, rate: float, ready: Any) -> None:
    """Send the packets of a capture with an even pace."""
    payloads = payloads_of(path)
    with Sender([address], interface=LO) as sender:
        ready.set()
        start = time.perf_counter()
        for number, payload in enumerate(payloads):
            while (time.perf_counter() - start) * rate < number:
                pass
            sender.send(0, payload)


def followed(day: Path) -> Iterator[Row]:
    """The plain machine behind sockets: how late it tells what happened."""
    number = channel_of(day)
    path = day / f"{number:03d}_Incremental_A.pcap"
    context = multiprocessing.get_context("spawn")
    lines = tuple(
        Line(number, stream, "A", group(100 + at), "lo") for at, stream in enumerate(STREAMS)
    )
    settings = ChannelSettings(number, ("A",), from_the_start=True)
    for spin in (False, True):
        times = Times()
        handler = FeedHandler(LiveConfig((settings,), lines, BUFFER), spin=spin)
        handler.listen(times)
        handler.start()
        ready = context.Event()
        given = (lines[0].address, path, PLAIN_RATE, ready)
        process = context.Process(target=steady, args=given)
        process.start()
        process.join()
        time.sleep(0.3)
        handler.stop()
        for share in (50, 99):
            value = float(np.percentile(times.delays, share)) / 1e3
            how = "spinning" if spin else "blocking"
            what = f"kernel's time to event, plain machine, 5 k packets/s, {how}, p{share}"
            yield Row(SECTION, what, value, "µs")
