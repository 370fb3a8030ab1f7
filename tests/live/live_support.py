"""A small simulated day, sent over loopback to a handler at groups of this test alone."""

import json
import time
from contextlib import contextmanager
from decimal import Decimal
from itertools import groupby

from pregao.clock import SECOND
from pregao.exchange.publisher.channels import ChannelEndpoints
from pregao.exchange.simulation.network_faults import fault_rates, parse_rates
from pregao.exchange.simulation.settings import SimulationSettings
from pregao.exchange.simulation.simulation import Simulation
from pregao.feed.channel.settings import ChannelSettings
from pregao.live import FeedHandler, Line, LiveConfig, Replayer, ReplaySpeed, report
from pregao.live.config import STREAMS
from pregao.net.addresses import Address
from pregao.umdf.survey.lines import Destination
from pregao.units import Side
from tests.net.net_support import LO, free_group, free_port

NUMBER = 51


def simulated(folder, *, loss=None, seed=1, seconds=20, rate=150.0, instruments=5):
    none = parse_rates("--reorder", None)
    settings = SimulationSettings(
        "equities",
        folder,
        seed=seed,
        instruments=instruments,
        duration_ns=seconds * SECOND,
        rate=rate,
        faults=fault_rates(parse_rates("--loss", loss), none, none),
    )
    return Simulation(settings).run()


def followed_at(number=NUMBER):
    """A configuration of one channel, and the targets of its captured packets."""
    lines, targets = [], {}
    for stream in STREAMS:
        for feed, endpoint in ChannelEndpoints.numbered(number).endpoints(stream):
            address = free_group()
            lines.append(Line(number, stream, feed.value, address, "lo"))
            targets[Destination(endpoint.address, endpoint.port)] = address
    # Nothing is sent between two looks at it: on a busy machine that may be for some seconds.
    settings = ChannelSettings(number, heartbeat_ns=20 * SECOND)
    return LiveConfig((settings,), tuple(lines)), targets


def replayer(folder, targets, speed=20.0, **settings):
    captures = sorted(folder.glob(f"{NUMBER:03d}_*.pcap"))
    return Replayer(captures, targets, speed=ReplaySpeed(speed), interface=LO, **settings)


@contextmanager
def running(config, *listeners, **settings):
    handler = FeedHandler(config, **settings)
    for each in listeners:
        handler.add_listener(each)
    handler.start()
    try:
        yield handler
    finally:
        handler.stop()


def settled(handler, packets, seconds=60):
    """The report once the incremental feeds have received ``packets``; or after a minute.

    Packets that the system dropped never arrive: the test must account for them.
    """
    stop = time.monotonic() + seconds
    while True:
        made = handler.call(report)
        received = sum(feed["packets"] for feed in made.channels[0].feeds.values())
        if received >= packets or time.monotonic() > stop:
            return made
        time.sleep(0.02)


def books_of(handler):
    """All books, by number: the levels of both sides."""
    channel = handler.channels[NUMBER].channel
    return {
        number: tuple(
            [(level.price, level.size, level.orders) for level in channel.book(number).levels(side)]
            for side in (Side.BID, Side.ASK)
        )
        for number in channel.security_ids
    }


def trusted_of(handler):
    """The numbers of the trusted books."""
    channel = handler.channels[NUMBER].channel
    return {number for number in channel.security_ids if channel.book(number).trusted}


def true_books(folder):
    """The books of the engine at the end of the day, in the same form."""
    found = {}
    for line in (folder / "truth" / "books.jsonl").read_text().splitlines():
        data = json.loads(line)
        if data["final"]:
            found[data["security_id"]] = (levels(data["bids"]), levels(data["asks"]))
    return found


def levels(orders):
    """Orders of the truth as levels."""
    grouped = groupby(orders, key=lambda order: order[0])
    found = [(price, [order[1] for order in own]) for price, own in grouped]
    return [(ten_thousandths(price), sum(sizes), len(sizes)) for price, sizes in found]


def ten_thousandths(text):
    return None if text is None else int(Decimal(text) * 10_000)


def unicast(config):
    """The lines at addresses of localhost instead of groups."""
    lines = tuple(
        Line(line.channel, line.stream, line.feed, Address("127.0.0.1", free_port()))
        for line in config.lines
    )
    return LiveConfig(config.channels, lines)
