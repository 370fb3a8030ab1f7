"""A feed handler that asks for lost messages of the legacy feed itself, over real sockets."""

from __future__ import annotations

import asyncio
import random
import socket
import threading
import time
import tomllib
from contextlib import ExitStack, contextmanager, suppress

import pytest

from pregao.clock import MILLISECOND, SECOND, system_clock
from pregao.errors import UsageError
from pregao.events import GapFound
from pregao.exchange.host.settings import parse_settings
from pregao.exchange.publisher.legacy.channel_publisher import LegacyChannelPublisher
from pregao.exchange.publisher.loops import LoopPace
from pregao.feed.channel.settings import ChannelSettings, LegacyFeed
from pregao.feed.legacy.channel import LegacyFeedChannel
from pregao.fix.session import FixSessionSettings
from pregao.legacy.recovery import MessageStore
from pregao.legacy.streams import LegacyStream
from pregao.live import FeedHandler, Line, LiveConfig, report
from pregao.live import legacy_recovery_requests as requests
from pregao.live.config import RecoveryGateways, parse_config
from pregao.live.legacy_recovery_requests import RecoveryRequester
from pregao.live.legacy_recovery_transport import recovery_server
from pregao.net.addresses import Address
from pregao.umdf.streams import Stream
from pregao.units import Side
from tests.exchange.floor import BUY, OTHER, SELL, SHARE, Floor, share
from tests.legacy.writing import message, news, reset
from tests.live.config_text import config_text
from tests.net.net_support import free_port
from tests.waiting import PATIENCE_S, until

HOST = "127.0.0.1"
CHANNEL = 1
SERVER = FixSessionSettings("BVMF", "CUSTOMER", acceptor=True)


class Publishing:
    """A floor whose events go out on feeds A and B of the legacy feed, unless they are lost."""

    def __init__(self, lines):
        instruments = (share(), share(OTHER, previous_close=10_0000_0000))
        self.floor = Floor(*instruments)
        self.floor.now = system_clock()
        self.store = MessageStore([str(CHANNEL)])
        self.publisher = LegacyChannelPublisher(
            CHANNEL, instruments, self.floor.now, pace=LoopPace(200, 0), store=self.store
        )
        self.rng = random.Random(5)
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.targets = [line.address for line in lines if line.stream is Stream.INCREMENTAL]
        self.sent = self.lost = 0

    def trade(self, share_lost=0.0):
        """An order, which may trade; its results are sent, or lost on both feeds."""
        rng = self.rng
        self.floor.now = max(self.floor.now, system_clock())
        self.floor.order(
            rng.choice((BUY, SELL)), 100 * rng.randrange(1, 9), 10 + rng.randrange(-5, 6) / 100,
            security_id=rng.choice((SHARE, OTHER)),
        )  # fmt: skip
        for stream, _, datagram in self.publisher.publish(self.floor.last.market, self.floor.now):
            if stream is LegacyStream.INCREMENTAL:
                self.sent += 1
                if rng.random() < share_lost:
                    self.lost += 1
                    continue
                for address in self.targets:
                    self.socket.sendto(datagram, (address.host, address.port))

    def book(self, security, side):
        view = self.floor.engine.book(security)
        entries = view.bids if side is Side.BID else view.offers
        return [(each.price, each.size, each.secondary_order_id) for each in entries]


def local_lines():
    """The lines of a channel at ports of this machine."""
    wanted = [(Stream.INCREMENTAL, "A"), (Stream.INCREMENTAL, "B"), (Stream.SNAPSHOT, "A"),
              (Stream.DEFINITION, "A")]  # fmt: skip
    return tuple(Line(CHANNEL, stream, feed, Address(HOST, free_port())) for stream, feed in wanted)


def config_of(lines, *ports, reorder_ns=20 * MILLISECOND):
    channel = ChannelSettings(
        CHANNEL, from_the_start=True, reorder_ns=reorder_ns, legacy=LegacyFeed(recovery=True)
    )
    gateways = RecoveryGateways(tuple(Address(HOST, port) for port in ports))
    return LiveConfig((channel,), lines, recoveries={CHANNEL: gateways})


@contextmanager
def serving(store, port, cut_after=None):
    """A recovery gateway in a thread; one that breaks its first connection after some bytes."""
    loop, ready = asyncio.new_event_loop(), threading.Event()
    cuts = [cut_after] if cut_after else []

    async def forward(reader, writer, max_bytes=None):
        try:
            while data := await reader.read(512 if max_bytes else 1 << 16):
                writer.write(data)
                await writer.drain()
                if max_bytes is not None and (max_bytes := max_bytes - len(data)) <= 0:
                    break
        except ConnectionError:
            pass
        finally:
            writer.close()

    async def serve():
        async with recovery_server(HOST, 0, SERVER, store) as inner:

            async def joined(reader, writer):
                max_bytes = cuts.pop() if cuts else None
                far_reader, far_writer = await asyncio.open_connection(HOST, inner)
                back = asyncio.create_task(forward(far_reader, writer, max_bytes))
                await forward(reader, far_writer)
                await back

            async with await asyncio.start_server(joined, HOST, port):
                ready.set()
                with suppress(asyncio.CancelledError):
                    await asyncio.Event().wait()

    task = loop.create_task(serve())
    thread = threading.Thread(target=lambda: loop.run_until_complete(task))
    thread.start()
    assert ready.wait(PATIENCE_S)
    try:
        yield cuts
    finally:
        loop.call_soon_threadsafe(task.cancel)
        thread.join()
        for left in asyncio.all_tasks(loop):
            left.cancel()
            with suppress(asyncio.CancelledError):
                loop.run_until_complete(left)
        loop.run_until_complete(asyncio.sleep(0.01))  # transports close in their turn
        loop.close()


def counted(handler, done):
    """Return the counters once a condition is true."""

    def counters():
        return handler.call(report).channels[0].counters

    return until(lambda: done(found := counters()) and found, counters)


def connected(handler):
    until(lambda: handler.call(lambda own: all(each.connected for each in own._requesters)))


class GapRecorder:
    def __init__(self):
        self.gaps = []

    def on_events(self, _channel, events):
        self.gaps += [event for event in events if isinstance(event, GapFound)]


@contextmanager
def handled(config, recorder):
    handler = FeedHandler(config)
    handler.add_listener(recorder)
    handler.start()
    try:
        yield handler
    finally:
        handler.stop()


def assert_same_books(handler, published):
    channel = handler.channels[CHANNEL].channel
    for security in (SHARE, OTHER):
        book = channel.book(security)
        assert book.trusted, (book.state, book.reason)
        for side in Side:
            found = [(one.price, one.size, one.order_id) for one in book.content.orders(side)]
            assert found == published.book(security, side)
    assert published.book(SHARE, Side.BID)


def test_002_6_2_messages_lost_on_both_feeds_are_requested_and_no_snapshot_is_needed():
    lines, port = local_lines(), free_port()
    published, recorder = Publishing(lines), GapRecorder()
    # Feed A's gateway does not answer: the other one is asked.
    with serving(published.store, port), handled(config_of(lines, 1, port), recorder) as handler:
        connected(handler)
        for _ in range(120):
            published.trade(0.15)
            time.sleep(0.002)
        published.trade()  # what comes last shows what was lost before
        counters = counted(handler, lambda found: found["delivered"] >= published.sent)
        assert published.lost > 10
        assert counters["delivered"] == published.sent
        assert (counters["recovered_messages"], counters["lost_packets"], counters["gaps"]) == (
            published.lost, 0, 0
        )  # fmt: skip
        assert counters["snapshots"] == 0
        assert_same_books(handler, published)
    published.socket.close()
    assert not recorder.gaps


def test_002_6_2_a_connection_that_breaks_during_an_answer_is_reopened():
    lines, port = local_lines(), free_port()
    published, recorder = Publishing(lines), GapRecorder()
    config = config_of(lines, port, reorder_ns=20 * SECOND)
    with (
        serving(published.store, port, cut_after=1200) as cuts,
        handled(config, recorder) as handler,
    ):
        connected(handler)
        published.trade()
        for _ in range(40):
            published.trade(1.0)
        published.trade()
        counters = counted(handler, lambda found: found["delivered"] >= published.sent)
        assert not cuts
        assert counters["delivered"] == published.sent
        assert counters["lost_packets"] == 0
        assert counters["recovered_messages"] == published.lost
        assert_same_books(handler, published)
    published.socket.close()
    assert not recorder.gaps


def test_without_a_gateway_nothing_is_waited_for_longer():
    lines = local_lines()
    published, recorder = Publishing(lines), GapRecorder()
    with handled(config_of(lines, 1), recorder) as handler:
        published.trade()
        published.trade(1.0)
        published.trade()
        counters = counted(handler, lambda found: found["gaps"] > 0)
        assert counters["lost_packets"] == published.lost > 0
        assert counters["recovered_messages"] == 0
    published.socket.close()
    assert recorder.gaps


def test_messages_that_the_gateway_no_longer_has_are_abandoned():
    lines, port = local_lines(), free_port()
    published, recorder = Publishing(lines), GapRecorder()
    with serving(published.store, port), handled(config_of(lines, port), recorder) as handler:
        connected(handler)
        published.trade()
        published.trade(1.0)
        published.store.reset(str(CHANNEL))
        published.trade()
        counters = counted(handler, lambda found: found["gaps"] > 0)
        assert counters["lost_packets"] == published.lost > 0
    published.socket.close()


def test_the_configuration_names_gateways_and_clients():
    lines = local_lines()
    config = config_of(lines, 9620, 9621)
    table = {
        stream.value: {line.feed: str(line.address) for line in lines if line.stream is stream}
        for stream in (Stream.INCREMENTAL, Stream.SNAPSHOT, Stream.DEFINITION)
    }
    own = {"B": f"{HOST}:9621", "A": f"{HOST}:9620", "sender": "ME"}
    parsed = parse_config({"channel": {"1": {**table, "protocol": "legacy", "recovery": own}}})
    addresses = (Address(HOST, 9620), Address(HOST, 9621))
    expected = RecoveryGateways(addresses, "ME", feeds=("A", "B"))
    assert parsed.recoveries == {CHANNEL: expected}
    assert parsed.channels[0].legacy.recovery
    assert parsed.only([CHANNEL]).recoveries == {CHANNEL: expected}
    assert "[channel.1.recovery]" in config_text(config)
    for wrong, words in (
        ({"sender": "ME"}, "has no gateway"),
        ({"A": "nowhere"}, "recovery"),
        ({"a": f"{HOST}:9620"}, "is not a known entry"),
    ):
        with pytest.raises(UsageError, match=words):
            parse_config({"channel": {"1": {**table, "protocol": "legacy", "recovery": wrong}}})
    with pytest.raises(UsageError, match='protocol = "legacy"'):
        parse_config({"channel": {"1": {**table, "recovery": own}}})


def test_the_exchange_reports_the_address_of_its_recovery():
    data = {"feed": {"legacy": "orders", "recovery": f"{HOST}:9620"}}
    text = parse_settings(data).legacy_live_config()
    parsed = parse_config(tomllib.loads(text))
    assert {own.addresses for own in parsed.recoveries.values()} == {(Address(HOST, 9620),)}
    assert len(parsed.recoveries) == len(parsed.channels)


def test_002_6_2_megabolsa_asks_the_gateway_of_the_feed_that_it_follows():
    now = system_clock()
    addresses = (Address(HOST, free_port()), Address(HOST, free_port()))
    gateways = RecoveryGateways(addresses, feeds=("A", "B"))
    for platform, expected in (
        ("MEGABOLSA", [addresses[:1], addresses[1:]]),
        ("PUMA", [addresses] * 2),
    ):
        legacy = LegacyFeed(platform, recovery=True)
        channel = LegacyFeedChannel(ChannelSettings(CHANNEL, from_the_start=True, legacy=legacy))
        channel.start(now)
        channel.receive(Stream.INCREMENTAL, "A", news(1), now)
        requester = RecoveryRequester([channel], gateways, lambda: None)
        found = [requester.addresses]
        channel.receive(Stream.INCREMENTAL, "B", news(500), now + 31 * SECOND)
        requester.work(now + 31 * SECOND)
        found.append(requester.addresses)
        requester.close(now + 31 * SECOND)
        assert found == expected


def news_store(feed, *numbers):
    """The gateway's messages of a feed, whose headlines name it."""
    store = MessageStore([str(CHANNEL)])
    for number in numbers:
        store.add(str(CHANNEL), number, message("News_143", number, Headline=f"{feed} {number}"))
    return store


@pytest.mark.parametrize("answering", [True, False], ids=["gateway A answers", "A is gone"])
def test_002_6_2_megabolsa_fills_a_gap_of_the_feed_that_replaces_the_silent_one(
    monkeypatch, answering
):
    # Feed B numbers other messages: A's gateway has other ones with the numbers that are missing.
    monkeypatch.setattr(requests, "AGAIN_S", 600.0)  # nothing may wait for the next attempt
    shift_ns = 0

    def now():
        return system_clock() + shift_ns

    ports = free_port(), free_port()
    gateways = RecoveryGateways(tuple(Address(HOST, port) for port in ports), feeds=("A", "B"))
    legacy = LegacyFeed("MEGABOLSA", recovery=True)
    channel = LegacyFeedChannel(
        ChannelSettings(CHANNEL, from_the_start=True, reorder_ns=300 * SECOND, legacy=legacy)
    )
    channel.start(now())
    stores = news_store("A", *range(1, 510)), news_store("B", *range(498, 504))
    with ExitStack() as stack:
        if answering:
            stack.enter_context(serving(stores[0], ports[0]))
        stack.enter_context(serving(stores[1], ports[1]))
        requester = RecoveryRequester([channel], gateways, lambda: None)
        stack.callback(lambda: requester.close(now()))

        def works(done):
            def step():
                requester.work(now())
                return done()

            until(step, lambda: (requester.connected, channel.counters), seconds=30)

        for number in (1, 3):
            channel.receive(Stream.INCREMENTAL, "A", news(number, f"A {number}"), now())
        if answering:
            works(lambda: channel.counters.recovered_messages == 1)
        shift_ns = 31 * SECOND
        for number in (500, 503):
            channel.receive(Stream.INCREMENTAL, "B", news(number, f"B {number}"), now())
        recovered = 3 if answering else 2
        works(lambda: channel.counters.recovered_messages == recovered)
        headlines = [each["Headline"] for each in channel._channel.state.news]
        first = ["A 1", "A 2", "A 3"] if answering else ["A 1", "A 3"]
        assert headlines == [*first, "B 500", "B 501", "B 502", "B 503"]
        assert channel.incremental.counters.lost == (0 if answering else 1)
        assert requester.addresses == gateways.addresses[1:]


@pytest.mark.parametrize("restarted", [True, False], ids=["A restarted", "same numbers"])
def test_002_5_3_7_a_gateway_whose_feed_has_other_numbers_is_not_asked(restarted):
    # Only feed B's gateway can be reached.
    now, port = system_clock(), free_port()
    addresses = (Address(HOST, 1), Address(HOST, port))
    gateways = RecoveryGateways(addresses, feeds=("A", "B"))
    channel = LegacyFeedChannel(
        ChannelSettings(CHANNEL, from_the_start=True, legacy=LegacyFeed(recovery=True))
    )
    channel.start(now)
    for feed in "AB":
        channel.receive(Stream.INCREMENTAL, feed, news(1), now)
    with serving(news_store("B", *range(1, 10)), port):
        requester = RecoveryRequester([channel], gateways, lambda: None)
        try:

            def works(done):
                def step():
                    requester.work(system_clock())
                    return done()

                until(step, lambda: (requester.connected, channel.counters), seconds=30)

            works(lambda: requester.connected)
            if restarted:
                channel.receive(Stream.INCREMENTAL, "A", reset(), system_clock())
                channel.receive(Stream.INCREMENTAL, "A", news(1, "A 1"), system_clock())
            channel.receive(Stream.INCREMENTAL, "A", news(3, "A 3"), system_clock())
            works(lambda: channel.incremental.awaited is None)
        finally:
            requester.close(system_clock())
    lost = channel.counters.recovered_messages, channel.counters.lost_packets
    assert lost == ((0, 1) if restarted else (1, 0))


def test_002_6_2_channels_of_megabolsa_have_sessions_of_their_own():
    numbers = (CHANNEL, CHANNEL + 1)
    for platform, expected in (("MEGABOLSA", [[1], [2]]), ("PUMA", [[1, 2]])):
        legacy = LegacyFeed(platform, recovery=True)
        lines = [Line(number, line.stream, line.feed, Address(HOST, free_port()))
                 for number in numbers for line in local_lines()]  # fmt: skip
        gateways = RecoveryGateways((Address(HOST, 1), Address(HOST, 1)), feeds=("A", "B"))
        channels = tuple(ChannelSettings(number, legacy=legacy) for number in numbers)
        config = LiveConfig(channels, tuple(lines), recoveries=dict.fromkeys(numbers, gateways))
        with handled(config, GapRecorder()) as handler:
            found = handler.call(
                lambda own: [[each.settings.number for each in asker.channels]
                             for asker in own._requesters]
            )  # fmt: skip
        assert found == expected
