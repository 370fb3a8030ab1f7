"""Bytes that no exchange sends, over sockets: no packet ends a handler."""

import socket
from collections import Counter

import numpy as np
import pytest

from pregao.events import BookUnconfirmed, GapFound
from pregao.feed.channel.follower import Follower
from pregao.feed.channel.settings import ChannelSettings
from pregao.feed.fastpath.message_reader import FastPathEventDecoder
from pregao.live import FeedHandler, Line, LiveConfig, metrics_text, report
from pregao.live.config import STREAMS
from pregao.live.live_channel import LOG_INTERVAL_NS, MAX_LOGGED_BYTES, FailureLog
from pregao.net.addresses import Address
from tests.feed.channel_days import CHANNEL, Faults, arrivals, content, simulated_day
from tests.feed.test_feed_fastpath import datagrams
from tests.live.live_support import running
from tests.net.net_support import free_port
from tests.waiting import until

NO_BLOCK = bytes.fromhex("0700010000000000000064a7b3b6e00d0c0050eb0000020002001000")
"""A heartbeat of channel 7 whose block has no bytes."""


@pytest.mark.parametrize("compiled", [False, None])
def test_a_heartbeat_without_a_block_is_counted_on_every_stream(compiled):
    lines = [Line(7, each, "A", Address("127.0.0.1", free_port())) for each in STREAMS]
    config = LiveConfig((ChannelSettings(7, feeds=("A",)),), tuple(lines))
    with (
        running(config, compiled=compiled) as handler,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sending,
    ):
        for line in lines:
            for _ in range(3):
                sending.sendto(NO_BLOCK, (line.address.host, line.address.port))

        def counters():
            return handler.call(report).channels[0].counters

        until(lambda: counters()["packets"] == 9)
        assert counters()["undecoded_messages"] == 3  # heartbeats of other streams say nothing
        assert counters()["failures"] == 0
        assert handler.failure is None


@pytest.fixture(scope="module")
def day():
    return simulated_day(4, seconds=2, rate=60.0)


def failing(method, at):
    """A method that fails in one of its calls, after it has done its work."""
    calls = iter(range(1 << 30))

    def fails(*args, **named):
        found = method(*args, **named)
        if next(calls) == at:
            raise ZeroDivisionError("of this test")
        return found

    return fails


def at_free_ports(number):
    lines = [
        Line(number, stream, feed, Address("127.0.0.1", free_port()))
        for stream, feeds in zip(STREAMS, ("AB", "A", "A"), strict=True)
        for feed in feeds
    ]
    return LiveConfig((ChannelSettings(number),), tuple(lines))


def bring(handler, found):
    """Bring packets to a handler as its sockets would, one by one, and let time pass."""
    (followed,) = handler.channels.values()
    channel = followed.channel
    for when, _, stream, feed, payload in found:
        while (deadline := channel.deadline()) is not None and deadline <= when:
            channel.tick(deadline)
            handler._act(followed)
        joined = handler._joined.get(handler._lines[CHANNEL, stream, feed])
        if joined is not None:
            one = datagrams([(when, stream, feed, payload)])
            handler._take_of(followed, one._replace(line=np.full(1, joined.number, np.int32)))
            handler._act(followed)
    return channel


@pytest.mark.parametrize(
    ("compiled", "owner", "name", "at", "bytes_of"),
    [
        (False, Follower, "deliver", 70, True),
        (None, Follower, "deliver", 5, True),
        (None, FastPathEventDecoder, "on_rows", 9, False),
    ],
)
def test_a_packet_that_fails_counts_as_lost_and_its_channel_is_rebuilt(
    day, monkeypatch, caplog, compiled, owner, name, at, bytes_of
):
    monkeypatch.setattr(owner, name, failing(getattr(owner, name), at))
    found, _, joined_ns = arrivals(day, Faults(), 1)
    handler = FeedHandler(at_free_ports(CHANNEL), compiled=compiled, clock=lambda: joined_ns)
    counter = EventCounter()
    handler.add_listener(counter)
    try:
        channel = bring(handler, found)
        made = handler.call(report)
    finally:
        handler._close()
    assert f'pregao_channel_failures_total{{channel="{CHANNEL}"}} 1' in metrics_text(made)
    assert counter.kinds[GapFound] == 1
    assert counter.kinds[BookUnconfirmed] >= len(day.books)
    assert made.ready
    for security_id in day.books:
        assert channel.book(security_id).trusted
        assert content(channel.book(security_id).content) == day.final(security_id)
    (record,) = caplog.records
    assert "ZeroDivisionError: 'of this test'" in record.getMessage()
    assert ("Packet of" in record.getMessage()) is bytes_of


class EventCounter:
    """Counts the events of a handler."""

    def __init__(self):
        self.kinds = Counter()

    def on_events(self, _channel, events):
        self.kinds.update(map(type, events))


def test_failures_are_logged_with_their_bytes_seldom_and_in_bounds(caplog):
    log = FailureLog(7)
    for at in range(5):
        log.add(ValueError("x" * 999), bytes([at]) * 2000, at)
    log.add(ValueError("later"), NO_BLOCK, LOG_INTERVAL_NS)
    log.add(ValueError("none"), None, 3 * LOG_INTERVAL_NS)
    first, later, none = (each.getMessage() for each in caplog.records)
    assert "Packet of 2000 bytes: " + "00" * MAX_LOGGED_BYTES + " …" in first
    assert len(first) < 4 * MAX_LOGGED_BYTES
    assert f"Packet of 28 bytes: {NO_BLOCK.hex()} 4 earlier failures were not logged." in later
    assert none.endswith("It concerns no single packet.")
