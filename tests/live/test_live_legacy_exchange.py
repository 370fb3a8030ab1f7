"""A running exchange with a legacy feed: receivers request lost packets over TCP."""

from __future__ import annotations

import asyncio
import random
import socket
import tomllib

import pytest

from pregao.clock import SECOND, system_clock
from pregao.errors import UsageError
from pregao.exchange.host.market_data import FeedOutput
from pregao.exchange.host.settings import ExchangeSettings, parse_settings
from pregao.exchange.publisher.legacy.channel_publisher import LegacyChannelPublisher
from pregao.exchange.publisher.loops import LoopPace
from pregao.exchange.simulation.settings import LegacyDepth
from pregao.feed.legacy.channel import LegacyStreamFollower, LegacyStreamSettings
from pregao.fix.session import FixSessionSettings
from pregao.legacy.recovery import GapFiller, MessageStore
from pregao.legacy.streams import LegacyStream
from pregao.live.config import parse_config
from pregao.live.legacy_recovery_transport import connect_recovery, recovery_server
from pregao.units import Side
from tests.exchange.floor import BUY, OTHER, SELL, SHARE, Floor, share
from tests.net.net_support import free_port
from tests.waiting import PATIENCE_S

HOST = "127.0.0.1"
CHANNEL = "1"


class Publishing:
    """A floor whose events go out on the legacy feed, over a socket, and into the store."""

    def __init__(self, port):
        instruments = (share(), share(OTHER, previous_close=10_0000_0000))
        self.floor = Floor(*instruments)
        self.floor.now = system_clock()
        self.store = MessageStore([CHANNEL])
        self.publisher = LegacyChannelPublisher(
            int(CHANNEL), instruments, self.floor.now, pace=LoopPace(200, 0), store=self.store
        )
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.connect((HOST, port))

    def trade(self, rng):
        """An order, which may trade; its results are sent."""
        side, security = rng.choice((BUY, SELL)), rng.choice((SHARE, OTHER))
        self.floor.now = max(self.floor.now, system_clock())
        price = 10 + rng.randrange(-5, 6) / 100
        self.floor.order(side, 100 * rng.randrange(1, 9), price, security_id=security)
        market = self.floor.last.market
        for stream, _, datagram in self.publisher.publish(market, self.floor.now):
            if stream is LegacyStream.INCREMENTAL:
                self.socket.send(datagram)

    def book(self, security, side):
        view = self.floor.engine.book(security)
        entries = view.bids if side is Side.BID else view.offers
        return [(each.price, each.size, each.secondary_order_id) for each in entries]


def test_002_6_2_lost_packets_are_requested_from_the_running_publisher():
    async def run():
        rng = random.Random(5)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as feed:
            feed.bind((HOST, 0))
            feed.setblocking(False)
            published = Publishing(feed.getsockname()[1])
            server = FixSessionSettings("BVMF", "CUSTOMER", acceptor=True)
            async with recovery_server(HOST, 0, server, published.store) as port:
                names = FixSessionSettings("CUSTOMER", "BVMF", 10 * SECOND)
                connection = await connect_recovery(HOST, port, names)
                settings = LegacyStreamSettings(from_the_start=True, max_wait_ns=10 * SECOND)
                channel = LegacyStreamFollower(settings)
                filler = GapFiller(CHANNEL, connection.client)
                lost = await follow(rng, feed, published, channel, filler, connection)
                await connection.close()
            published.socket.close()
            return published, channel, lost

    published, channel, lost = asyncio.run(asyncio.wait_for(run(), PATIENCE_S))
    assert lost > 20
    assert channel.incremental.counters.lost == 0
    for security in (SHARE, OTHER):
        for side in Side:
            found = [
                (one.price, one.size, one.order_id) for one in channel.book(security).orders(side)
            ]
            assert found == published.book(security, side)
    assert published.book(SHARE, Side.BID)


async def follow(rng, feed, published, channel, filler, connection):
    """Send, lose a fifth of it, and continue until nothing is missing; return the losses."""
    loop, lost, sent, quiet = asyncio.get_running_loop(), 0, 0, 0

    async def recovered():
        async for event in connection.events():
            channel.take(filler.take([event], channel.incremental, system_clock()))

    listening = asyncio.create_task(recovered())
    while quiet < 60:
        if sent < 200:
            published.trade(rng)
            sent += 1
        try:
            datagram = await asyncio.wait_for(loop.sock_recv(feed, 65536), 0.01)
        except TimeoutError:
            datagram = None
        now = system_clock()
        # The last message is not lost: no later one would show that.
        if datagram is not None and sent < 195 and rng.random() < 0.2:
            lost += 1
        elif datagram is not None:
            channel.receive(LegacyStream.INCREMENTAL, "A", datagram, now)
        channel.tick(now)
        filler.watch(channel.incremental, now)
        await connection.flush()
        idle = datagram is None and channel.incremental.awaited is None
        quiet = quiet + 1 if idle and sent == 200 else 0
        await asyncio.sleep(0)
    listening.cancel()
    return lost


def test_settings_configure_the_legacy_feed():
    port = free_port()
    settings = parse_settings({"feed": {"legacy": "prices", "recovery": f"{HOST}:{port}"}})
    assert settings.legacy is LegacyDepth.PRICES
    assert settings.recovery.port == port
    assert set(settings.legacy_targets()) == set(settings.targets())
    every = [
        address
        for targets in (settings.targets(), settings.legacy_targets())
        for feeds in targets.values()
        for _, address in feeds
    ]
    assert len(every) == len(set(every))
    FeedOutput(settings).close()
    config = parse_config(tomllib.loads(settings.legacy_live_config()))
    assert {each.legacy.market_depth for each in config.channels} == {5}
    for wrong, words in (
        ({"legacy": "all"}, "orders, prices, top"),
        ({"recovery": "127.0.0.1:1"}, "requires the legacy feed"),
    ):
        with pytest.raises(UsageError, match=words):
            parse_settings({"feed": wrong})
    assert ExchangeSettings().legacy_targets() == {}
