"""Channels of the legacy feed with messages that cannot be processed: they are rebuilt."""

from __future__ import annotations

import random
import socket

import numpy as np
import pytest

from pregao.clock import MILLISECOND, SECOND, system_clock
from pregao.exchange.publisher.legacy.channel_publisher import LegacyChannelPublisher
from pregao.exchange.publisher.loops import LoopPace
from pregao.feed.channel.settings import ChannelSettings, ChannelState, LegacyFeed
from pregao.feed.legacy.channel import LegacyStreamFollower
from pregao.legacy.recovery import GapFiller, RecoveryClient
from pregao.legacy.streams import LegacyStream
from pregao.live import FeedHandler, LiveConfig, legacy_recovery_requests, report
from pregao.live.config import RecoveryGateways
from pregao.live.legacy_recovery_requests import RecoveryRequester
from pregao.net.addresses import Address
from pregao.umdf.streams import Stream
from pregao.units import Side
from tests.exchange.floor import BUY, OTHER, SELL, SHARE, Floor, share
from tests.feed.test_feed_fastpath import datagrams
from tests.live.test_live_hostile import failing
from tests.live.test_live_legacy_asking import (
    CHANNEL,
    HOST,
    GapRecorder,
    Publishing,
    assert_same_books,
    config_of,
    connected,
    handled,
    local_lines,
    serving,
)
from tests.net.net_support import free_port
from tests.waiting import until

STREAMS = {
    LegacyStream.INCREMENTAL: Stream.INCREMENTAL,
    LegacyStream.MARKET_RECOVERY: Stream.SNAPSHOT,
    LegacyStream.INSTRUMENT_DEFINITION: Stream.DEFINITION,
}


class Market:
    """A floor whose packets are given to a handler, one by one, as its sockets would do it."""

    def __init__(self, handler, start_ns):
        instruments = (share(), share(OTHER, previous_close=10_0000_0000))
        self.floor = Floor(*instruments)
        self.floor.now = start_ns
        self.publisher = LegacyChannelPublisher(
            CHANNEL, instruments, start_ns, pace=LoopPace(200, 0)
        )
        self.handler = handler
        self.rng = random.Random(5)

    def trade(self):
        """Send an order, and what the loops say until then."""
        rng = self.rng
        self.floor.now += 20 * MILLISECOND
        self.floor.order(
            rng.choice((BUY, SELL)), 100 * rng.randrange(1, 9), 10 + rng.randrange(-5, 6) / 100,
            security_id=rng.choice((SHARE, OTHER)),
        )  # fmt: skip
        self.bring(self.publisher.publish(self.floor.last.market, self.floor.now))
        self.bring(self.publisher.advance(self.floor.now))

    def bring(self, sent):
        handler = self.handler
        (followed,) = handler.channels.values()
        for stream, when, payload in sent:
            joined = handler._joined.get(handler._lines[CHANNEL, STREAMS[stream], "A"])
            if joined is not None:
                one = datagrams([(when, STREAMS[stream], "A", payload)])
                handler._take_of(followed, one._replace(line=np.full(1, joined.number, np.int32)))
                handler._act(followed)

    def book(self, security, side):
        view = self.floor.engine.book(security)
        entries = view.bids if side is Side.BID else view.offers
        return [(each.price, each.size, each.secondary_order_id) for each in entries]


def failing_midway(method, at):
    """A method that fails in one of its calls, and leaves books from which orders are gone."""
    calls = iter(range(1 << 30))

    def fails(channel, *args, **named):
        found = method(channel, *args, **named)
        if next(calls) == at:
            for security_id in channel.follower.books:
                for orders in channel.book(security_id)._sides:
                    del orders[1:]
            raise ZeroDivisionError("of this test")
        return found

    return fails


@pytest.mark.parametrize(
    ("name", "at", "gaps"),
    [
        ("take", 40, [None]),
        ("take", 1, [None]),
        ("receive", 0, []),  # of the incremental stream nothing has come that could be lost
    ],
)
def test_a_legacy_packet_that_fails_counts_as_lost_and_its_channel_is_rebuilt(
    monkeypatch, caplog, name, at, gaps
):
    monkeypatch.setattr(
        LegacyStreamFollower, name, failing_midway(getattr(LegacyStreamFollower, name), at)
    )
    start_ns, recorder = 1_800_000_000 * SECOND, GapRecorder()
    settings = ChannelSettings(CHANNEL, legacy=LegacyFeed(), from_the_start=True)
    handler = FeedHandler(LiveConfig((settings,), local_lines()), clock=lambda: start_ns)
    handler.add_listener(recorder)
    market = Market(handler, start_ns)
    try:
        for _ in range(80):
            market.trade()
        made = handler.call(report).channels[0]
        assert_same_books(handler, market)
    finally:
        handler._close()
    assert made.counters["failures"] == 1
    assert made.state is ChannelState.LIVE
    assert made.instruments == 2
    assert [gap.last for gap in recorder.gaps] == gaps
    (record,) = caplog.records
    assert "ZeroDivisionError: 'of this test'" in record.getMessage()
    assert "Packet of" in record.getMessage()


@pytest.mark.parametrize(
    ("owner", "name"), [(RecoveryClient, "receive"), (GapFiller, "take")], ids=["FIX", "filler"]
)
def test_an_answer_of_the_recovery_port_that_fails_ends_the_connection_alone(
    monkeypatch, caplog, owner, name
):
    monkeypatch.setattr(legacy_recovery_requests, "AGAIN_S", 0.01)
    lines, port = local_lines(), free_port()
    published, recorder = Publishing(lines), GapRecorder()
    loops = {line.stream: line.address for line in lines if line.stream is not Stream.INCREMENTAL}
    with serving(published.store, port), handled(config_of(lines, port), recorder) as handler:
        connected(handler)
        published.trade()
        first = handler.call(lambda own: own._requesters[0]._connection)
        monkeypatch.setattr(owner, name, failing(getattr(owner, name), 0))
        published.trade(1.0)
        published.trade()

        def channel():
            return handler.call(report).channels[0]

        until(lambda: channel().counters["failures"] == 1, channel)
        connected(handler)
        assert handler.call(lambda own: own._requesters[0]._connection) is not first
        assert first.fileno() == -1

        published.trade()

        def rebuilt():
            published.floor.now = max(published.floor.now, system_clock())
            for stream, _, datagram in published.publisher.advance(published.floor.now):
                if stream is not LegacyStream.INCREMENTAL:
                    address = loops[STREAMS[stream]]
                    published.socket.sendto(datagram, (address.host, address.port))
            made = channel()
            came = made.feeds["A"]["packets"] == published.sent - published.lost
            return came and made.state is ChannelState.LIVE

        until(rebuilt, channel)
        assert_same_books(handler, published)
        # Messages that are lost now are asked for over the new connection.
        before = channel().counters["recovered_messages"]
        published.trade(1.0)
        published.trade()
        until(lambda: channel().counters["recovered_messages"] > before, channel)
        assert handler.failure is None
        assert channel().counters["failures"] == 1
    published.socket.close()
    assert any("ZeroDivisionError" in each for each in caplog.messages)


def test_a_connection_that_waits_after_an_answer_that_fails_is_used(monkeypatch):
    gateways = RecoveryGateways((Address(HOST, 1),))
    asker = RecoveryRequester([], gateways, lambda: None)
    (old, far), (new, other) = socket.socketpair(), socket.socketpair()
    try:
        monkeypatch.setattr(RecoveryClient, "receive", failing(RecoveryClient.receive, 0))
        first, second = (
            legacy_recovery_requests._Opened(each, gateways.addresses[0]) for each in (old, new)
        )
        for item in (first, b"8=FIX", legacy_recovery_requests._Closed(), second):
            asker._link._put(item)
        with pytest.raises(ZeroDivisionError):
            asker.work(0)
        asker.abandon()
        assert not asker.connected
        asker.work(SECOND)
        assert asker._connection is new
        assert b"35=A" in other.recv(4096)
    finally:
        asker._link.close()
        for each in (old, far, new, other):
            each.close()
