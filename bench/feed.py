"""A channel followed live, in plain Python: datagrams in, books and events out, without sockets."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from bench.measure import Row, best
from pregao.capture import datagrams, read_packets
from pregao.clock import MINUTE
from pregao.exchange.simulation import Settings, Simulation
from pregao.feed import Channel, ChannelSettings
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
            Settings(
                profile="equities", out=out, instruments=INSTRUMENTS, duration_ns=10 * MINUTE,
                messages=MESSAGES, books=1, force=True,
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


def follow(sent: Datagrams, feeds: str) -> None:
    """Follow a day from its first packet on; each feed brings every packet."""
    channel = Channel(ChannelSettings(CHANNEL, from_the_start=True))
    channel.start(sent[0][0])
    for count, (time_ns, payload) in enumerate(sent):
        for feed in feeds:
            channel.receive(Stream.INCREMENTAL, feed, payload, time_ns)
        if not count % 64:
            channel.take_events()
    if channel.counters.gaps or channel.counters.delivered < len(sent) // 2:
        raise RuntimeError("the day was not followed to its end")
