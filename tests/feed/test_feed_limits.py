"""Limits of a channel: security IDs come from the wire, and memory is bounded."""

from collections import Counter

import pytest

from pregao.errors import UsageError
from pregao.feed.channel.channel import Channel
from pregao.feed.channel.settings import ChannelSettings, LegacyFeed
from pregao.feed.fastpath.channel import FastChannel
from pregao.feed.legacy.channel import LegacyFeedChannel
from pregao.umdf import templates
from pregao.umdf.streams import Stream
from tests.feed.channel_messages import (
    CHANNEL,
    DAY,
    DEFINITION,
    INCREMENTAL,
    SNAPSHOT,
    definition,
    encode,
    loop,
    order,
    packet,
    snapshot,
)
from tests.feed.test_feed_legacy_state import row
from tests.legacy.writing import datagram, entry, incremental

LIMIT = 20
FORGED = 10 * LIMIT
LINES = {0: (INCREMENTAL, "A"), 1: (SNAPSHOT, "A"), 2: (DEFINITION, "A")}


def status(security, rpt):
    return encode(
        templates.SECURITY_STATUS, securityID=security, rptSeq=rpt, securityTradingStatus="OPEN",
        securityTradingEvent=None, tradeDate=DAY, matchEventIndicator=templates.END_OF_EVENT,
        tradingSessionID="REGULAR_TRADING_SESSION", tradSesOpenTime=None, transactTime=1,
    )  # fmt: skip


@pytest.mark.parametrize("kind", [Channel, FastChannel])
@pytest.mark.parametrize("listened", [True, False])
def test_instruments_beyond_the_limit_are_counted_and_dropped(kind, listened):
    channel = kind(ChannelSettings(CHANNEL, feeds=("A",), max_instruments=LIMIT))
    if kind is FastChannel:
        channel.set_lines(LINES)
    channel.start(10**18)
    channel.enable_events(enabled=listened)
    now, number = 10**18, 0

    def send(stream, payload):
        nonlocal now
        now += 1000
        channel.receive(stream, "A", payload, now)

    for forged in range(FORGED):
        for message in (order(1, 1, security=1000 + forged), status(1000 + forged, 2)):
            number += 1
            send(INCREMENTAL, packet(number, message))
    assert len(set(channel.security_ids)) == LIMIT
    assert channel.counters.instruments_dropped == 2 * (FORGED - LIMIT)
    for forged in range(FORGED):
        number += 1
        send(INCREMENTAL, packet(number, definition(5000 + forged, f"S{forged}")))
    parts = [[snapshot(number, 1, security=9000 + at, reports=FORGED)] for at in range(FORGED)]
    for each in loop(1, *parts):
        send(SNAPSHOT, each)
    parts = [[definition(7000 + at, f"T{at}", total=FORGED)] for at in range(FORGED)]
    for each in loop(1, *parts):
        send(DEFINITION, each)
    assert len(channel.instruments) == LIMIT
    follower, state = channel._follower, channel._emitter.state
    sizes = {
        "instruments": len(follower._instruments), "books": len(follower.books),
        "statistics": len(state.statistics), "states": len(state.phases._states),
        "told": len(state._status_published), "awaited": len(channel._emitter.awaited),
        "early": len(follower._waiting),
    }  # fmt: skip
    assert max(sizes.values()) <= 2 * LIMIT, sizes
    # Of those that are known, nothing is dropped.
    dropped = channel.counters.instruments_dropped
    assert dropped >= 2 * (FORGED - LIMIT) + 2 * (FORGED - LIMIT)
    send(INCREMENTAL, packet(number + 1, order(3, 7, security=1000)))
    assert channel.counters.instruments_dropped == dropped


def test_an_event_that_ends_with_a_dropped_message_is_over():
    channel = Channel(
        ChannelSettings(CHANNEL, feeds=("A",), max_instruments=1, from_the_start=True)
    )
    channel.start(10**18)
    channel.receive(INCREMENTAL, "A", packet(1, order(1, 1, flags=0), order(1, 2, security=9)), 1)
    kinds = Counter(type(each).__name__ for each in channel.take_events())
    assert kinds["BookChanged"] == 1
    assert channel.counters.instruments_dropped == 1


def test_instruments_of_the_legacy_feed_have_the_same_limit():
    settings = ChannelSettings(72, legacy=LegacyFeed(), from_the_start=True, max_instruments=LIMIT)
    channel = LegacyFeedChannel(settings)
    channel.start(0)
    for number in range(1, FORGED + 1):
        rows = [entry("0", 0, 1000 + number, 1, position=1, size=100, price="10")]
        rows.append(entry("4", 0, 1000 + number, 2, price="10"))
        channel.receive(Stream.INCREMENTAL, "A", incremental(number, *rows), number)
    for number in range(FORGED + 1, 2 * FORGED + 1):
        own = [row(5000 + number, f"S{number}")]
        listed = datagram(
            "SecurityList_149", number, TotNoRelatedSym=1, RelatedSym=own,
            SendingTime="20130812120000000", LastFragment="Y",
        )  # fmt: skip
        channel.receive(Stream.INCREMENTAL, "A", listed, number)
    assert len(set(channel.security_ids)) <= 2 * LIMIT
    assert len(channel._channel.state.statistics) == LIMIT
    assert len(channel.instruments) == LIMIT
    assert channel.counters.instruments_dropped == 2 * (FORGED - LIMIT) + (FORGED - LIMIT)


def test_a_limit_of_nothing_is_refused():
    with pytest.raises(UsageError, match="max_instruments must be above 0"):
        ChannelSettings(7, max_instruments=0)
