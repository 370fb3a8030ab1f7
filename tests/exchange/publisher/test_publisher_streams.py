"""Packets, numbers, heartbeats and resets of the three streams, and channels side by side."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pregao.clock import SECOND
from pregao.errors import EncodeError, UsageError
from pregao.exchange.engine.model.enums import (
    NewsSource,
    SecurityUpdateAction,
    TradingSession,
    TradingStatus,
)
from pregao.exchange.engine.model.events import (
    ChannelReset,
    DeleteOrderMbo,
    EmptyBook,
    HighPrice,
    MarketEvent,
    NewOrderMbo,
    News,
    SecurityDefinition,
    SecurityGroupPhase,
    SequenceReset,
)
from pregao.exchange.publisher.channels import ChannelEndpoints, Endpoint, FeedName
from pregao.exchange.publisher.encoding.encoder import FeedEncoder
from pregao.exchange.publisher.loops import LoopPace
from pregao.exchange.publisher.packet_writer import MAX_MESSAGE, PacketWriter
from pregao.exchange.publisher.publisher import ChannelPublisher, Publisher
from pregao.umdf.streams import Stream
from tests.exchange.feed_reader import VERSIONS, Receiver, loops, read
from tests.exchange.floor import BUY, OTHER, SELL, SHARE, px, share

START = 1_780_000_000 * SECOND
SLOW = LoopPace(1, 3600 * SECOND)


def order(number: int, security_id: int = SHARE, side: Any = BUY, **more: Any) -> NewOrderMbo:
    return NewOrderMbo(security_id, side, px(10), 5, number, None, START, START, **more)


def event(*items: Any) -> MarketEvent:
    return MarketEvent(list(items))


def alone(*items: Any) -> MarketEvent:
    return MarketEvent(list(items), event=False)


def news(text: str, security_id: int | None = None) -> News:
    return News(security_id, NewsSource.DCM, None, 1, START, "Headline", text, "")


def channel(*instruments: Any, **options: Any) -> ChannelPublisher:
    options = {"snapshot_pace": SLOW, "definition_pace": SLOW, **options}
    return ChannelPublisher(
        ChannelEndpoints.numbered(1), instruments or (share(),), START, **options
    )


def packets(datagrams: Any, stream: Stream = Stream.INCREMENTAL, version: int = 16) -> list[Any]:
    return [read(x.payload, version) for x in datagrams if x.stream is stream]


# Packets


@settings(max_examples=25, deadline=None)
@given(sizes=st.lists(st.lists(st.integers(1, 70), max_size=5), max_size=12))
def test_packets_are_full_in_order_and_numbered_without_a_gap(sizes):
    publisher = channel()
    receiver = Receiver()
    number = 0
    sent = []
    for step, units in enumerate(sizes):
        events = []
        for size in units:
            events.append(event(*(order(number + offset) for offset in range(1, size + 1))))
            number += size
        now = START + step
        flushed = packets(publisher.publish(events, now))
        room = 1400 - 76 - 8
        assert all(packet.size > room for packet in flushed[:-1])
        assert all(packet.time_ns == now for packet in flushed)
        sent += flushed
    for packet in sent:
        for message in packet.messages:
            receiver.follow(message, packet)
    assert [packet.number for packet in sent] == list(range(1, len(sent) + 1))
    assert [x["secondaryOrderID"] for x in receiver.log] == list(range(1, number + 1))
    assert receiver.events == sum(len(units) for units in sizes)
    assert not receiver.in_event


def test_000_6_5_7_events_share_packets_and_span_them():
    publisher = channel()
    first = packets(publisher.publish([event(order(1)), event(order(2), order(3))], START))
    assert [len(packet.messages) for packet in first] == [3]
    long = packets(publisher.publish([event(*(order(n) for n in range(4, 44)))], START))
    assert len(long) == 3
    flags = [message["matchEventIndicator"] for packet in long for message in packet.messages]
    assert flags == [0] * 39 + [0x80]


def test_messages_outside_an_event_each_end_it():
    publisher = channel()
    (packet,) = packets(
        publisher.publish([alone(HighPrice(SHARE, 1, 1, 1), HighPrice(SHARE, 2, 1, 1))], START)
    )
    assert [message["matchEventIndicator"] for message in packet.messages] == [0x80, 0x80]


def test_a_message_longer_than_a_packet_is_refused():
    writer = PacketWriter(1)
    writer.add(bytes(MAX_MESSAGE))
    with pytest.raises(EncodeError, match="does not fit in a packet"):
        writer.add(bytes(MAX_MESSAGE + 1))
    (packet,) = writer.flush(START)
    assert len(packet) == 1400


def test_numbers_that_make_no_sense_are_refused():
    with pytest.raises(UsageError, match="sequence version must be from 1 to 65534, was 65535"):
        PacketWriter(1, 65_535)
    with pytest.raises(UsageError, match="packet number must be at least 1"):
        PacketWriter(1, 1, 0)


# Heartbeats


def test_000_6_5_10_and_7_5_heartbeats_carry_the_next_number():
    publisher = channel(first_number=1235)
    (packet,) = packets(publisher.publish([event(order(1))], START))
    assert packet.number == 1235
    silence = publisher.advance(START + 3 * SECOND + SECOND // 2)
    incremental = packets(silence)
    assert [packet.number for packet in incremental] == [0, 0, 0]
    assert [packet.time_ns - START for packet in incremental] == [SECOND, 2 * SECOND, 3 * SECOND]
    assert [packet.messages[0]["nextSeqNo"] for packet in incremental] == [1236] * 3
    (packet,) = packets(publisher.publish([event(order(2))], START + 4 * SECOND - 1))
    assert packet.number == 1236
    # What was sent counts: the silence is measured from there.
    assert packets(publisher.advance(START + 5 * SECOND - 2)) == []
    assert len(packets(publisher.advance(START + 5 * SECOND - 1))) == 1


@pytest.mark.parametrize("version", VERSIONS)
def test_heartbeats_of_idle_loops_announce_packet_one(version):
    publisher = ChannelPublisher(
        ChannelEndpoints.numbered(3), [], START, encoder=FeedEncoder(version), sequence_version=9
    )
    sent = publisher.advance(START + 3 * SECOND)
    for stream in (Stream.INCREMENTAL, Stream.SNAPSHOT, Stream.DEFINITION):
        beats = packets(sent, stream, version)
        assert [packet.time_ns - START for packet in beats] == [SECOND, 2 * SECOND, 3 * SECOND]
        for packet in beats:
            assert (packet.channel, packet.number, packet.templates) == (3, 0, [2])
            assert packet.messages[0]["nextSeqNo"] == 1
            assert packet.version == (9 if stream is Stream.INCREMENTAL else 1)
    assert [x.time_ns for x in sent] == sorted(x.time_ns for x in sent)


def test_a_loop_heartbeats_only_between_loops_that_are_silent_for_a_second():
    pace = LoopPace(10, 5 * SECOND // 2)
    publisher = channel(definition_pace=pace)
    sent = packets(publisher.advance(START + 6 * SECOND), Stream.DEFINITION)
    times = [(packet.number, (packet.time_ns - START) * 10 // SECOND) for packet in sent]
    # One packet of definitions and one that closes the loop, each time.
    assert times == [
        (1, 0),
        (2, 1),
        (0, 11),
        (0, 21),
        (1, 26),
        (2, 27),
        (0, 37),
        (0, 47),
        (1, 52),
        (2, 53),
    ]
    assert [packet.version for packet in sent] == [1, 1, 2, 2, 2, 2, 3, 3, 3, 3]


def test_time_does_not_go_back():
    publisher = channel()
    publisher.advance(START + 5)
    with pytest.raises(UsageError, match="time must not go back"):
        publisher.publish([], START + 4)


@settings(max_examples=20, deadline=None)
@given(steps=st.lists(st.integers(0, 3 * SECOND), max_size=20))
def test_no_stream_is_ever_silent_for_longer_than_a_second(steps):
    publisher = channel(share(), snapshot_pace=LoopPace(5, 2 * SECOND))
    now = START
    times: dict[Stream, list[int]] = {
        stream: [START] for stream in (Stream.INCREMENTAL, Stream.SNAPSHOT, Stream.DEFINITION)
    }
    for number, step in enumerate(steps):
        now += step
        for datagram in publisher.publish([event(order(number))], now):
            times[datagram.stream].append(datagram.time_ns)
    for seen in times.values():
        gaps = [after - before for before, after in pairwise(seen)]
        assert all(0 <= gap <= SECOND for gap in gaps)
        assert now - seen[-1] <= SECOND


# Resets


@pytest.mark.parametrize(("version", "following"), [(1, 2), (65_533, 65_534), (65_534, 1)])
def test_000_6_5_11_stream_reset(version, following):
    publisher = channel(sequence_version=version)
    receiver = Receiver()
    sent = publisher.publish([event(order(1), order(2, side=SELL))], START)
    republished = event(EmptyBook(SHARE, START), order(1, recovery=True), order(2, recovery=True))
    sent += publisher.publish([alone(SequenceReset(1)), republished], START + 1)
    parts = packets(sent)
    assert [(p.version, p.number) for p in parts] == [(version, 1), (version, 2), (following, 1)]
    assert [p.templates for p in parts] == [[50, 50], [1], [9, 50, 50]]
    for datagram in sent:
        if datagram.stream is Stream.INCREMENTAL:
            receiver.feed(datagram.payload)
    assert [x["matchEventIndicator"] for x in parts[2].messages] == [0x20, 0x20, 0xA0]
    # The counter of the instrument restarts as well.
    assert [x["rptSeq"] for x in parts[2].messages[1:]] == [1, 2]
    assert publisher.incremental.sequence_version == following


@pytest.mark.parametrize("version", VERSIONS)
def test_000_6_5_12_channel_reset_at_the_start_of_the_system(version):
    third = 100_000_000_003
    publisher = ChannelPublisher(
        ChannelEndpoints.numbered(1),
        [share(), share(OTHER), share(third)],
        START,
        encoder=FeedEncoder(version),
        snapshot_pace=SLOW,
        definition_pace=SLOW,
    )
    receiver = Receiver(version)
    events = [event(order(1), order(2, side=SELL)), event(order(3, OTHER), order(4, third))]
    events.append(event(DeleteOrderMbo(third, BUY, px(10), 5, 4, START)))
    for datagram in publisher.publish(events, START):
        if datagram.stream is Stream.INCREMENTAL:
            receiver.feed(datagram.payload)
    before = {key: [list(x) for x in value.book()] for key, value in receiver.instruments.items()}
    receiver.log.clear()
    for datagram in publisher.initialize(START + 1):
        receiver.feed(datagram.payload)
    definition = 4 if version == 7 else 12
    assert [x.message.id for x in receiver.log] == [
        11,
        definition,
        definition,
        definition,
        9,
        50,
        50,
        9,
        50,
    ]
    reset, *definitions = receiver.log[:4]
    assert reset["matchEventIndicator"] == 0x20 | 0x80
    assert [x["lastFragment"] for x in definitions] == ["FALSE_VALUE"] * 2 + ["TRUE_VALUE"]
    assert [x["totNoRelatedSym"] for x in definitions] == [3, 3, 3]
    # Only books are resent; statistics and counters of other instruments stay.
    assert [x["securityID"] for x in receiver.log if x.message.id == 9] == [SHARE, OTHER]
    flags = [x["matchEventIndicator"] for x in receiver.log[4:]]
    assert flags == [0x20, 0x20, 0xA0, 0x20, 0xA0]
    after = {key: [list(x) for x in value.book()] for key, value in receiver.instruments.items()}
    assert after == before
    assert publisher.state.instruments[third].rpt_seq == 2


def test_a_reset_of_another_channel_is_refused():
    for reset in (ChannelReset(2, START), SequenceReset(2)):
        with pytest.raises(UsageError, match="reset of channel 2 was routed to channel 1"):
            channel().publish([alone(reset)], START)


def test_000_6_5_13_the_counter_restarts_at_one_after_an_empty_book():
    publisher = channel()
    publisher.publish([event(order(1)), alone(HighPrice(SHARE, 1, 1, 1))], START)
    (packet,) = packets(
        publisher.publish([event(EmptyBook(SHARE, START), order(1, recovery=True))], START)
    )
    empty, first = packet.messages
    assert "rptSeq" not in empty.values
    assert (first["rptSeq"], first["matchEventIndicator"]) == (1, 0xA0)
    (packet,) = packets(publisher.publish([event(order(2))], START))
    assert (packet.messages[0]["rptSeq"], packet.messages[0]["matchEventIndicator"]) == (2, 0x80)


def test_an_order_that_was_never_published_cannot_be_deleted_by_position():
    publisher = channel(encoder=FeedEncoder(10))
    with pytest.raises(UsageError, match=r"order 9 of instrument .* not in the published book"):
        publisher.publish([event(DeleteOrderMbo(SHARE, BUY, px(10), 5, 9, START))], START)


def deleted(number: int, side: Any = BUY, matched: bool = True, **more: Any) -> DeleteOrderMbo:
    return DeleteOrderMbo(SHARE, side, None, 5, number, START, matched=matched, **more)


@pytest.mark.parametrize(
    ("last", "templates"),
    [
        (deleted(2), [52]),
        (deleted(2, matched=False), [51, 51]),  # cancelled, not executed
        (deleted(2, implied=True), [51, 51]),  # the flag would be lost
        (deleted(3), [51, 51]),  # not the next one
        (deleted(2, SELL), [51, 51]),
        (DeleteOrderMbo(OTHER, BUY, None, 5, 2, START, matched=True), [51, 51]),
    ],
)
def test_only_executed_orders_at_the_top_of_one_side_are_deleted_together(last, templates):
    publisher = channel(share(), share(OTHER), encoder=FeedEncoder(10))
    keys = [(1, SHARE, BUY), (2, SHARE, BUY), (3, SHARE, BUY), (2, SHARE, SELL), (2, OTHER, BUY)]
    orders = [
        NewOrderMbo(security_id, side, None, 5, number, None, START, START)
        for number, security_id, side in keys
    ]
    publisher.publish([event(*orders)], START)
    (packet,) = packets(publisher.publish([event(deleted(1), last)], START), version=10)
    assert packet.templates == templates
    assert packet.messages[-1]["matchEventIndicator"] & 0x80
    state = publisher.state.instruments
    left = [*state[SHARE].bids.orders, *state[SHARE].offers.orders, *state[OTHER].bids.orders]
    assert len(left) == 3


# Definitions and news during the day


def test_definitions_added_changed_and_deleted_during_the_day():
    publisher = channel()
    new = share(OTHER)
    steps = [
        (SecurityUpdateAction.ADD, new),
        (SecurityUpdateAction.MODIFY, share(OTHER, asset="NEWER")),
        (SecurityUpdateAction.DELETE, new),
    ]
    for action, instrument in steps:
        (packet,) = packets(
            publisher.publish([alone(SecurityDefinition(action, instrument, START))], START)
        )
        (message,) = packet.messages
        assert message["securityUpdateAction"] == action.name
        assert message["asset"] == instrument.asset
        assert message["lastFragment"] == "TRUE_VALUE"
        if action is SecurityUpdateAction.ADD:
            publisher.publish([event(order(1, OTHER))], START)
    with pytest.raises(UsageError, match="is not listed on this channel"):
        publisher.publish([event(order(2, OTHER))], START)
    # Listed again, its counter continues: no message announced a restart.
    definition = SecurityDefinition(SecurityUpdateAction.ADD, new, START)
    publisher.publish([alone(definition)], START)
    (packet,) = packets(publisher.publish([event(order(3, OTHER))], START))
    assert packet.messages[0]["rptSeq"] == 2


def test_long_news_takes_several_packets():
    publisher = channel()
    text = "ação é café " * 400
    sent = packets(publisher.publish([alone(news(text))], START))
    parts = [message for packet in sent for message in packet.messages]
    assert len(sent) == len(parts) == 5
    assert "".join(part["text"] for part in parts) == text
    assert {part["matchEventIndicator"] for part in parts} == {0x80}


# Channels


def test_feeds_a_and_b_are_of_the_incremental_stream_alone():
    one = ChannelEndpoints.numbered(1)
    assert [feed for feed, _ in one.endpoints(Stream.INCREMENTAL)] == [FeedName.A, FeedName.B]
    assert [feed for feed, _ in one.endpoints(Stream.SNAPSHOT)] == [FeedName.A]
    assert [feed for feed, _ in one.endpoints(Stream.DEFINITION)] == [FeedName.A]
    assert one.endpoints(Stream.UNKNOWN) == ()
    addresses = [
        str(endpoint)
        for number in range(256)
        for stream in Stream
        for _, endpoint in ChannelEndpoints.numbered(number).endpoints(stream)
    ]
    assert len(set(addresses)) == len(addresses) == 4 * 256
    assert addresses[0] == "233.252.14.1:30001"


def test_channels_that_cannot_be_are_refused():
    ends = [Endpoint("233.252.14.1", 30000 + port) for port in range(4)]
    with pytest.raises(UsageError, match="channel must be from 0 to 255, was 256"):
        ChannelEndpoints(256, *ends)
    with pytest.raises(UsageError, match="same address and port"):
        ChannelEndpoints(1, ends[0], ends[0], ends[1], ends[2])
    for address in ("10.0.0.1", "nowhere"):
        with pytest.raises(UsageError, match="must be an IPv4 multicast address"):
            Endpoint(address, 1)
    with pytest.raises(UsageError, match="UDP port must be from 1 to 65535"):
        Endpoint("233.252.14.1", 70_000)
    with pytest.raises(UsageError, match="packets per second of a loop must be"):
        LoopPace(0)
    with pytest.raises(UsageError, match="pause"):
        LoopPace(1, -1)


def two_channels() -> Publisher:
    return Publisher(
        [ChannelEndpoints.numbered(1), ChannelEndpoints.numbered(2)],
        [share(), share(OTHER, channel=2, security_group="YY")],
        START,
        snapshot_pace=SLOW,
        definition_pace=SLOW,
    )


def by_channel(datagrams: Any) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for datagram in datagrams:
        if datagram.stream is Stream.INCREMENTAL:
            packet = read(datagram.payload)
            assert packet.channel == datagram.channel
            found.setdefault(datagram.channel, []).extend(packet.templates)
    return found


def phase(group: str) -> SecurityGroupPhase:
    return SecurityGroupPhase(group, TradingSession.REGULAR, TradingStatus.OPEN, None, 1, None, 1)


def test_events_go_to_the_channels_they_concern():
    publisher = two_channels()
    sent = publisher.publish([event(order(1), order(2, OTHER), order(3))], START)
    assert by_channel(sent) == {1: [50, 50], 2: [50]}
    ends = {
        x.channel: [message["matchEventIndicator"] for message in read(x.payload).messages]
        for x in sent
        if x.stream is Stream.INCREMENTAL
    }
    assert ends == {1: [0, 0x80], 2: [0x80]}
    assert by_channel(publisher.publish([alone(phase("YY"))], START)) == {2: [10]}
    assert by_channel(publisher.publish([alone(news("x"))], START)) == {1: [5], 2: [5]}
    assert by_channel(publisher.publish([alone(news("x", OTHER))], START)) == {2: [5]}
    assert by_channel(publisher.publish([alone(ChannelReset(2, START))], START)) == {2: [11]}
    assert by_channel(publisher.publish([alone(SequenceReset(1))], START)) == {1: [1]}
    third = share(100_000_000_003, channel=2)
    for action in (SecurityUpdateAction.ADD, SecurityUpdateAction.DELETE):
        definition = SecurityDefinition(action, third, START)
        assert by_channel(publisher.publish([alone(definition)], START)) == {2: [12]}
    assert publisher.messages == 11
    assert by_channel(publisher.initialize(START)) == {1: [11, 12, 9, 50, 50], 2: [11, 12]}


def test_channels_go_their_own_way():
    publisher = two_channels()
    publisher.publish([event(order(1))], START + SECOND // 2)
    sent = publisher.advance(START + 2 * SECOND)
    times = [(x.channel, x.time_ns - START) for x in sent if x.stream is Stream.INCREMENTAL]
    half = SECOND // 2
    assert times == [(2, SECOND), (1, 3 * half), (2, 2 * SECOND)]
    assert publisher.next_due_ns > START + 2 * SECOND
    assert publisher.advance(publisher.next_due_ns - 1) == []


def test_what_no_channel_carries_is_refused():
    with pytest.raises(UsageError, match="ACME1: channel 1 is not published"):
        Publisher([ChannelEndpoints.numbered(2)], [share()], START)
    with pytest.raises(UsageError, match="two channels have the same number"):
        Publisher([ChannelEndpoints.numbered(2), ChannelEndpoints.numbered(2)], [], START)
    with pytest.raises(UsageError, match="two instruments have the security ID"):
        Publisher([ChannelEndpoints.numbered(1)], [share(), share()], START)
    publisher = two_channels()
    with pytest.raises(UsageError, match="instrument 5: no published channel has it"):
        publisher.publish([event(order(1, 5))], START)
    with pytest.raises(UsageError, match="channel 9 is not published"):
        publisher.publish([alone(ChannelReset(9, START))], START)


def test_the_same_events_give_the_same_bytes():
    def run() -> list[Any]:
        publisher = channel(share(), share(OTHER), snapshot_pace=LoopPace(50, 0))
        sent = []
        for number in range(1, 40):
            events = [event(order(number, SHARE if number % 3 else OTHER))]
            sent += publisher.publish(events, START + number * 50_000_000)
        return sent

    assert run() == run()
    assert len(loops([x.payload for x in run() if x.stream is Stream.SNAPSHOT])) > 10
