"""A channel followed live: joining, loss, silence, the other site, resets; by section of 000."""

from __future__ import annotations

import random

import pytest

from pregao import events as channel_events
from pregao.clock import MILLISECOND, SECOND
from pregao.errors import UsageError
from pregao.feed.channel.settings import ChannelSettings, ChannelState, Join, Leave
from pregao.umdf import templates
from pregao.umdf.sequencing import PacketKey
from tests.feed.channel_messages import (
    DAY,
    DEFINITION,
    INCREMENTAL,
    SNAPSHOT,
    Driven,
    channel_reset,
    definition,
    empty_book,
    encode,
    heartbeat,
    loop,
    order,
    packet,
    sequence_reset,
    snapshot,
    snapshot_orders,
)

LINES = {(INCREMENTAL, "A"), (INCREMENTAL, "B")}
RECOVERY = templates.RECOVERY


def synchronized(**settings):
    """A channel of two instruments at packet 10, one of them with an order."""
    driven = Driven(**settings)
    driven.send(heartbeat(11))
    driven.definitions(1, [definition(total=2), definition(2222, "VALE3", total=2)])
    driven.snapshots(
        1, [snapshot(10, 4, bids=1, reports=2), snapshot_orders(9)],
        [snapshot(10, 7, reports=2, security=2222)],
    )  # fmt: skip
    assert driven.channel.state is ChannelState.LIVE
    driven.events()
    return driven


# Synchronization


@pytest.mark.parametrize("issued", [-719163, 2932897, -(2**31), 2**31 - 1])
def test_an_instrument_issued_on_a_day_that_is_no_date_is_known(issued):
    driven = Driven()
    driven.send(heartbeat(11))
    driven.definitions(1, [definition(issued=issued, total=2), definition(2222, "V", total=2)])
    driven.snapshots(1, [snapshot(10, 4, reports=2)], [snapshot(10, 7, reports=2, security=2222)])
    assert driven.channel.state is ChannelState.LIVE
    assert [each.symbol for each in driven.channel.instruments.values()] == ["PETR4", "V"]


def test_6_5_9_the_streams_are_joined_and_left_as_documented():
    driven = Driven(start=False)
    driven.channel.start(driven.now)
    assert driven.channel.take_actions() == [
        Join(INCREMENTAL, "A"), Join(INCREMENTAL, "B"), Join(DEFINITION, "A"), Join(SNAPSHOT, "A"),
    ]  # fmt: skip
    assert driven.channel.state is ChannelState.STARTING
    driven.receive(packet(703, order(6, 3)))
    assert driven.channel.state is ChannelState.SYNCHRONIZING
    for each in loop(1, [definition(total=2)], [definition(2222, "VALE3", total=2, last=True)]):
        driven.channel.receive(DEFINITION, "A", each, driven.now)
    assert driven.channel.take_actions() == [Leave(DEFINITION, "A")]
    for each in loop(
        1, [snapshot(702, 5, bids=2, reports=2), snapshot_orders(1, 2)],
        [snapshot(703, 9, security=2222, reports=2)],
    ):  # fmt: skip
        driven.channel.receive(SNAPSHOT, "A", each, driven.now)
    assert driven.channel.take_actions() == [Leave(SNAPSHOT, "A")]
    assert driven.channel.state is ChannelState.LIVE
    assert [type(each) for each in driven.events()][-1] is channel_events.Synchronized
    assert driven.orders() == [1, 2, 3]  # packet 703 was queued, and came after the snapshot
    assert driven.state(2222) == "EMPTY"


def test_6_5_9_a_definition_or_snapshot_loop_with_a_lost_packet_is_waited_for_again():
    driven = Driven()
    driven.send(heartbeat(11))
    whole = loop(1, [definition(total=2)], [definition(2222, "VALE3", total=2, last=True)])
    driven.send(whole[0], whole[2], stream=DEFINITION)
    assert (DEFINITION, "A") in driven.joined
    driven.definitions(2, [definition(total=2)], [definition(2222, "VALE3", total=2, last=True)])
    assert (DEFINITION, "A") not in driven.joined
    assert [each.symbol for each in driven.channel.instruments.values()] == ["PETR4", "VALE3"]
    whole = loop(1, [snapshot(10, 4, reports=2)], [snapshot(10, 7, security=2222, reports=2)])
    driven.send(whole[0], whole[2], stream=SNAPSHOT)
    # One complete snapshot is enough for its own instrument.
    assert (driven.state(), driven.state(2222)) == ("EMPTY", "UNCONFIRMED")
    assert (SNAPSHOT, "A") in driven.joined
    driven.snapshots(2, [snapshot(10, 4, reports=2)], [snapshot(10, 7, security=2222, reports=2)])
    assert driven.joined == LINES


def test_6_5_9_a_snapshot_from_before_the_first_queued_packet_is_not_enough():
    driven = Driven()
    driven.receive(packet(20, order(6, 3)))
    driven.definitions(1, [definition()])
    driven.snapshots(1, [snapshot(17, 5)])
    assert driven.state() in ("UNCONFIRMED", "STALE")
    assert (SNAPSHOT, "A") in driven.joined
    driven.snapshots(2, [snapshot(19, 5)])
    assert (driven.state(), driven.orders()) == ("VALID", [3])


def test_6_5_9_definitions_and_news_of_the_queue_are_never_discarded():
    driven = Driven()
    driven.receive(packet(20, definition(3333, "ABEV3")))
    driven.definitions(1, [definition()])
    driven.snapshots(1, [snapshot(25, 5)])
    assert set(driven.channel.instruments) == {1111, 3333}


def test_6_3_an_instrument_without_a_snapshot_has_an_empty_book_after_a_complete_loop():
    driven = Driven()
    driven.send(heartbeat(11))
    driven.definitions(1, [definition(total=2), definition(2222, "VALE3", total=2)])
    assert driven.state(2222) == "UNCONFIRMED"
    driven.snapshots(1, [snapshot(10, 4)])
    assert driven.state(2222) == "EMPTY"
    driven.send(packet(11, order(1, 5, security=2222)))
    assert (driven.state(2222), driven.orders(2222)) == ("VALID", [5])


def test_from_the_start_nothing_is_searched():
    driven = Driven(from_the_start=True)
    driven.receive(packet(1, order(1, 1)))
    assert driven.joined == {*LINES, (DEFINITION, "A")}
    assert (driven.state(), driven.state(2222)) == ("VALID", "EMPTY")


# Feeds


def test_6_5_3_the_first_of_two_feeds_counts():
    driven = synchronized()
    driven.send(packet(11, order(5, 1)), packet(12, order(6, 2)), feeds="AB")
    driven.send(packet(13, order(7, 3)), feeds="BA")
    assert driven.orders() == [1, 2, 3, 9]
    feeds = driven.channel.counters.feeds
    assert (feeds["A"].first_arrivals, feeds["A"].duplicates) == (2, 1)
    assert (feeds["B"].first_arrivals, feeds["B"].duplicates) == (1, 2)


def test_6_5_3_packets_lost_on_one_feed_come_from_the_other():
    driven = synchronized()
    driven.send(packet(11, order(5, 1)), packet(13, order(7, 3)), feeds="A")
    assert driven.channel.last_packet == PacketKey(1, 11)
    driven.send(packet(12, order(6, 2)), feeds="B")
    assert driven.orders() == [1, 2, 3, 9]
    assert driven.events(channel_events.GapFound, channel_events.BookUnconfirmed) == []


def test_a_gap_is_reported_when_the_window_of_time_ends():
    driven = synchronized()
    driven.send(packet(12, order(6, 2)))
    assert driven.channel.deadline() == driven.now + 20 * MILLISECOND
    driven.wait(19 * MILLISECOND)
    assert driven.events(channel_events.GapFound) == []
    driven.wait(2 * MILLISECOND)
    (gap,) = driven.events(channel_events.GapFound)
    assert (gap.sequence_version, gap.first, gap.last) == (1, 11, 11)


def test_a_gap_is_reported_when_both_feeds_are_past_it_by_the_window_of_packets():
    driven = synchronized(reorder_packets=3)
    later = [packet(number, order(number - 6, number)) for number in range(12, 16)]
    driven.send(*later, feeds="A")
    assert driven.events(channel_events.GapFound) == []
    driven.send(*later[:2], feeds="B")
    assert driven.events(channel_events.GapFound) == []
    driven.send(later[2], feeds="B")
    assert len(driven.events(channel_events.GapFound)) == 1


# Healing


def test_7_4_1_a_lost_packet_that_did_not_touch_the_instrument_is_confirmed_by_its_next_message():
    driven = synchronized()
    for number in range(11, 71):  # a count that no lost EmptyBook could have caused
        driven.send(packet(number, order(number - 6, number)))
    driven.events()
    driven.send(packet(72, order(65, 100)))
    driven.wait()
    kinds = [type(each).__name__ for each in driven.events() if hasattr(each, "security_id")]
    assert kinds.count("BookUnconfirmed") == 2
    assert kinds[-2:] == ["BookConfirmed", "BookChanged"]
    assert (driven.state(), driven.state(2222)) == ("VALID", "UNCONFIRMED")
    assert (SNAPSHOT, "A") in driven.joined
    assert driven.channel.state is ChannelState.HEALING


def test_7_4_1_a_lost_packet_that_did_touch_it_makes_it_stale_until_a_snapshot_and_the_queue():
    driven = synchronized()
    driven.send(packet(12, order(6, 2)))
    driven.wait()
    (stale,) = driven.events(channel_events.BookStale)
    assert stale.security_id == 1111
    assert stale.reason == "1 message of the instrument is missing before this one"
    assert (driven.state(), driven.state(2222)) == ("STALE", "UNCONFIRMED")
    driven.send(packet(13, order(7, 3)))
    driven.snapshots(
        2, [snapshot(12, 6, bids=3, reports=2), snapshot_orders(9, 1, 2)],
        [snapshot(12, 7, security=2222, reports=2)],
    )  # fmt: skip
    (healed,) = driven.events(channel_events.BookHealed)
    assert healed.by == "snapshot"
    assert (driven.state(), driven.orders()) == ("VALID", [1, 2, 3, 9])
    driven.definitions(2, [definition(total=2), definition(2222, "VALE3", total=2)])
    assert driven.joined == LINES


def test_others_continue_while_one_is_healed():
    driven = synchronized()
    driven.send(packet(12, order(6, 2)), packet(13, order(8, 8, security=2222)))
    driven.wait()
    assert driven.state() == "STALE"
    assert driven.orders(2222) == [8]


def test_a_queue_that_overflows_restarts_the_healing_of_that_instrument():
    driven = synchronized(max_queued_messages=3)
    driven.send(*(packet(number, order(number - 6, number)) for number in range(12, 20)))
    driven.wait()
    assert driven.channel.counters.overflows == 5
    driven.snapshots(2, [snapshot(13, 7, bids=3), snapshot_orders(9, 12, 13)])
    assert driven.state() == "STALE"  # some packets after that snapshot are missing
    driven.snapshots(3, [snapshot(17, 11, bids=1), snapshot_orders(9)])
    assert (driven.state(), driven.orders()) == ("VALID", [9, 18, 19])


def test_7_2_a_header_alone_means_an_empty_book():
    driven = synchronized()
    driven.send(packet(12, order(1, 2, security=2222)))
    driven.wait()
    driven.snapshots(2, [snapshot(12, None)])
    assert (driven.state(), driven.orders()) == ("EMPTY", [])


def test_7_2_a_snapshot_of_an_older_sequence_version_is_not_used():
    driven = synchronized()
    driven.send(packet(11, sequence_reset()), packet(2, order(6, 2), version=2))
    driven.wait()
    assert driven.state() == "STALE"
    driven.snapshots(2, [snapshot(99, 5, version=1)])
    assert driven.state() == "STALE"
    assert driven.channel.counters.outdated_snapshots == 1
    driven.snapshots(3, [snapshot(2, 6, bids=1, version=2), snapshot_orders(2)])
    assert driven.state() == "VALID"


@pytest.mark.parametrize("version", [65_535, 101])
def test_a_snapshot_of_no_version_or_of_one_that_never_comes_is_not_waited_for(version):
    driven = synchronized()
    driven.send(packet(12, order(7, 2)))
    driven.wait()
    assert driven.state() == "STALE"
    driven.snapshots(2, [snapshot(99, 5, version=version)])
    assert driven.state() == "STALE"
    assert len(driven.channel._follower._waiting) == (version == 101)
    driven.definitions(2, [definition()])
    driven.snapshots(3, [snapshot(12, 7, bids=1), snapshot_orders(2)])
    assert driven.state() == "VALID"
    assert driven.channel.state is ChannelState.LIVE
    assert driven.channel._follower.simple


def test_7_4_1_without_last_rpt_seq_nothing_is_discarded():
    driven = Driven()
    driven.receive(packet(20, order(1, 3)))
    driven.definitions(1, [definition()])
    status = encode_status(None)
    driven.snapshots(1, [snapshot(25, None, stats=1), status])
    driven.receive(packet(21, order(2, 4)))
    assert driven.orders() == [3, 4]


def encode_status(status, event=None, security=1111):
    return encode(
        templates.SECURITY_STATUS, securityID=security, matchEventIndicator=0x80,
        tradingSessionID=1, securityTradingStatus=status, securityTradingEvent=event,
        tradeDate=DAY, tradSesOpenTime=None, transactTime=1, rptSeq=None,
    )  # fmt: skip


def test_an_unreadable_message_is_a_gap():
    driven = synchronized()
    torn = packet(11, order(5, 1), order(8, 5, security=2222))[:-3]
    driven.send(torn)
    assert driven.channel.counters.undecoded_messages == 1
    assert len(driven.events(channel_events.GapFound)) == 1
    assert driven.state(2222) == "UNCONFIRMED"


# Resets


def test_6_5_11_a_stream_reset_with_empty_books_and_recovery_messages():
    driven = synchronized()
    driven.send(packet(11, sequence_reset()))
    driven.send(packet(1, empty_book(flags=0), order(1, 9, flags=RECOVERY | 0x80), version=2))
    assert [each.sequence_version for each in driven.events(channel_events.VersionChanged)] == [2]
    assert (driven.state(), driven.orders()) == ("BUILDING", [9])
    driven.send(packet(2, order(2, 10), version=2))
    assert (driven.state(), driven.orders()) == ("VALID", [9, 10])
    assert driven.channel.counters.gaps == 0


def test_6_5_12_building_ends_with_a_snapshot_too():
    driven = synchronized()
    driven.send(packet(11, channel_reset()), packet(12, empty_book(), order(1, 9, flags=160)))
    assert driven.state() == "BUILDING"
    driven.snapshots(2, [snapshot(12, 1, bids=1, reports=1), snapshot_orders(9)])
    assert (driven.state(), driven.orders()) == ("VALID", [9])
    assert driven.joined == LINES


def test_a_version_that_ends_without_a_stream_reset_leaves_everything_unconfirmed():
    driven = synchronized()
    driven.send(packet(1, order(5, 1), version=2))
    driven.wait()
    (gap,) = driven.events(channel_events.GapFound)
    assert (gap.sequence_version, gap.first, gap.last) == (1, 11, None)
    assert driven.state(2222) == "UNCONFIRMED"


def test_a_new_version_with_only_heartbeats_is_noticed():
    driven = synchronized()
    driven.send(heartbeat(5, version=2), feeds="AB")
    assert driven.state() == "VALID"  # packets of the old version may still be on their way
    driven.wait()
    assert driven.channel.last_packet == PacketKey(2, 4)
    assert driven.state() == "UNCONFIRMED"
    gaps = driven.events(channel_events.GapFound)
    assert [(each.sequence_version, each.first, each.last) for each in gaps] == [
        (1, 11, None), (2, 1, 4),
    ]  # fmt: skip


def test_6_5_12_a_start_of_the_system_needs_no_recovery_streams():
    driven = Driven()
    driven.send(
        packet(1, channel_reset(), definition(total=2)),
        packet(2, definition(2222, "VALE3", total=2, last=True)),
    )
    assert (DEFINITION, "A") not in driven.joined
    assert (driven.state(), driven.state(2222)) == ("EMPTY", "EMPTY")
    assert driven.events(channel_events.BooksReset)
    driven.send(packet(3, order(1, 1)))
    assert driven.state() == "VALID"


def test_6_5_12_a_list_that_is_resent_with_a_gap_is_incomplete():
    driven = Driven()
    driven.send(
        packet(1, channel_reset(), definition(total=3)),
        packet(3, definition(2222, "VALE3", total=3, last=True)),
    )
    driven.wait()
    assert (DEFINITION, "A") in driven.joined


# Liveness


def test_6_2_after_three_silent_heartbeats_the_channel_is_down_and_its_books_unconfirmed():
    driven = synchronized()
    driven.wait(int(2.9 * SECOND))
    assert driven.channel.state is ChannelState.LIVE
    driven.wait(SECOND // 5)
    assert driven.channel.state is ChannelState.DOWN
    assert driven.state() == driven.state(2222) == "UNCONFIRMED"
    assert driven.tally() == {"ChannelDown": 1, "StreamSilent": 2}
    driven.send(packet(11, order(5, 1)), feeds="B")
    assert driven.channel.state is ChannelState.LIVE
    assert (driven.state(), driven.state(2222)) == ("VALID", "EMPTY")
    assert channel_events.ChannelUp in [type(each) for each in driven.events()]


def test_6_2_one_feed_is_enough_to_be_alive():
    driven = synchronized()
    for _ in range(5):
        driven.wait(SECOND)
        driven.send(heartbeat(11), feeds="B")
    assert driven.channel.state is ChannelState.LIVE
    assert (driven.channel.is_alive("A"), driven.channel.is_alive("B")) == (False, True)


JOINED = [(INCREMENTAL, "A"), (INCREMENTAL, "B"), (SNAPSHOT, "A"), (DEFINITION, "A")]


def keep_alive(driven, lines, seconds):
    """Send a heartbeat a second on some lines, in the middle of it."""
    for _ in range(seconds):
        driven.wait(SECOND // 2)
        for stream, feed in lines:
            driven.send(heartbeat(1), feeds=feed, stream=stream)
        driven.wait(SECOND // 2)


@pytest.mark.parametrize(
    "silent", [JOINED[:at] + JOINED[at + 1 :] for at in range(4)] + [JOINED, []]
)
def test_000_6_5_10_silence_of_every_joined_stream_is_detected(silent):
    driven = Driven()
    assert driven.joined == set(JOINED)
    heard = [line for line in JOINED if line not in silent]
    keep_alive(driven, heard, 2)
    assert driven.events(channel_events.StreamSilent) == []
    keep_alive(driven, heard, 2)
    found = driven.events(channel_events.StreamSilent)
    assert {(each.stream, each.feed) for each in found} == set(silent)
    assert all(each.silent_ns == 3 * SECOND for each in found)
    counters = driven.channel.counters
    assert (counters.silent, counters.silent_streams) == (set(silent), len(silent))
    keep_alive(driven, heard, 5)
    assert driven.events(channel_events.StreamSilent, channel_events.StreamActive) == []


def test_000_6_5_10_a_wrong_address_of_the_snapshot_stream_does_not_look_like_a_slow_exchange():
    driven = Driven()
    driven.definitions(1, [definition(last=True)])
    heard = JOINED[:2]
    keep_alive(driven, heard, 2)
    assert driven.channel.state is ChannelState.SYNCHRONIZING
    keep_alive(driven, heard, 600)
    assert driven.channel.state is ChannelState.SILENT
    (found,) = driven.events(channel_events.StreamSilent)
    assert (found.stream, found.feed, found.silent_ns) == (SNAPSHOT, "A", 3 * SECOND)
    driven.send(packet(1, snapshot(0, None), version=9), stream=SNAPSHOT)
    assert driven.channel.state is ChannelState.SYNCHRONIZING
    (found,) = driven.events(channel_events.StreamActive)
    assert (found.stream, found.feed) == (SNAPSHOT, "A")
    assert driven.channel.counters.silent == set()


def test_000_6_5_10_a_silent_feed_is_detected_while_the_other_is_followed():
    driven = synchronized()
    driven.events()
    for _ in range(4):
        driven.wait(SECOND)
        driven.send(heartbeat(11), feeds="A")
    (found,) = driven.events()
    assert isinstance(found, channel_events.StreamSilent)
    assert (found.stream, found.feed) == (INCREMENTAL, "B")
    assert driven.channel.state is ChannelState.LIVE
    assert (driven.state(), driven.state(2222)) == ("VALID", "EMPTY")
    driven.send(heartbeat(11), feeds="B")
    driven.wait(SECOND)
    (found,) = driven.events()
    assert (type(found), found.feed) == (channel_events.StreamActive, "B")
    assert driven.channel.counters.silent == set()


def test_000_6_5_10_a_stream_that_was_left_is_not_silent():
    driven = synchronized()
    assert driven.joined == set(JOINED[:2])
    for _ in range(10):
        driven.wait(SECOND)
        driven.send(heartbeat(11), feeds="AB")
    assert driven.events(channel_events.StreamSilent) == []


def test_a_channel_that_comes_back_with_a_loss_confirms_nothing():
    driven = synchronized()
    driven.silence()
    driven.send(packet(12, order(8, 5, security=2222)))
    assert driven.channel.state is ChannelState.DOWN  # what was missed is not known yet
    assert driven.state() == "UNCONFIRMED"
    driven.wait()
    assert driven.channel.state is ChannelState.HEALING
    assert driven.state() == "UNCONFIRMED"


def test_7_5_a_heartbeat_reveals_a_loss_at_the_tail():
    driven = synchronized()
    driven.send(heartbeat(11))
    driven.wait()
    assert driven.events(channel_events.GapFound) == []
    driven.send(heartbeat(13))
    driven.wait()
    (gap,) = driven.events(channel_events.GapFound)
    assert (gap.first, gap.last) == (11, 12)
    assert driven.channel.last_packet == PacketKey(1, 12)
    assert driven.state() == "UNCONFIRMED"


def test_7_5_a_sequence_on_the_recovery_streams_means_to_wait_for_a_channel_reset():
    driven = Driven()
    driven.send(heartbeat(1))
    driven.send(heartbeat(1), stream=SNAPSHOT)
    driven.send(heartbeat(1), stream=DEFINITION)
    assert driven.channel.state is ChannelState.WAITING
    assert len(driven.events(channel_events.RecoveryIdle)) == 1
    driven.send(packet(1, channel_reset(), definition(last=True)), packet(2, order(1, 1)))
    assert driven.channel.state is not ChannelState.WAITING
    assert driven.state() == "VALID"


# The other site


def test_6_5_3_and_6_5_11_a_silent_site_is_left_for_the_other_with_its_own_numbers():
    driven = synchronized(backup=("C",))
    for number in range(2):
        driven.wait(SECOND)
        driven.send(heartbeat(502 + number, version=40), feeds="C")
    assert (driven.state(), driven.channel.site) == ("VALID", ("A", "B"))
    driven.wait(SECOND)
    driven.send(heartbeat(504, version=40), feeds="C")
    (moved,) = driven.events(channel_events.FailedOver)
    assert (moved.site, driven.channel.site) == (("C",), ("C",))
    assert driven.joined == {*LINES, (INCREMENTAL, "C"), (SNAPSHOT, "C"), (DEFINITION, "C")}
    assert (driven.state(), driven.orders()) == ("UNCONFIRMED", [9])
    driven.send(packet(504, order(5, 77), version=40), feeds="C")
    driven.definitions(9, [definition(total=2), definition(2222, "VALE3", total=2)], feed="C")
    driven.snapshots(
        9, [snapshot(503, 4, bids=1, version=40, reports=2), snapshot_orders(9)],
        [snapshot(503, 7, version=40, reports=2, security=2222)], feed="C",
    )  # fmt: skip
    assert (driven.state(), driven.orders()) == ("VALID", [9, 77])
    assert driven.channel.state is ChannelState.LIVE
    # The first site is received again: it is not followed while the other one is alive.
    driven.send(packet(11, order(5, 1)), feeds="A")
    assert driven.orders() == [9, 77]
    assert driven.channel.counters.unexpected_packets == 3


def test_numbers_that_go_back_for_long_are_followed_as_a_restart():
    driven = synchronized()
    for number in range(1, 9):
        driven.wait(SECOND // 2)
        driven.send(packet(number, order(number, number)))
    assert driven.channel.counters.resyncs == 1
    assert driven.channel.last_packet == PacketKey(1, 8)
    assert driven.state() in ("UNCONFIRMED", "STALE")
    driven.definitions(5, [definition()])
    driven.snapshots(5, [snapshot(8, 8, bids=1), snapshot_orders(8)])
    assert (driven.state(), driven.orders()) == ("VALID", [8])


def test_a_late_duplicate_after_a_silence_is_no_reason_to_restart():
    driven = synchronized()
    driven.send(packet(11, order(5, 1)))
    driven.silence()
    driven.send(packet(11, order(5, 1)), feeds="B")
    assert driven.channel.counters.resyncs == 0
    assert driven.channel.state is ChannelState.DOWN
    driven.send(packet(12, order(6, 2)))
    assert (driven.state(), driven.orders()) == ("VALID", [1, 2, 9])


# Bad input


@pytest.mark.parametrize("stream", [INCREMENTAL, SNAPSHOT, DEFINITION])
def test_bytes_that_are_no_packets_are_counted_and_the_feed_continues(stream):
    driven = synchronized()
    if stream is not INCREMENTAL:
        driven.send(packet(12, order(6, 2)))
        driven.wait()
        driven.events()
    draw = random.Random(1)
    before = driven.channel.counters.bad_packets
    packet_key = driven.channel.last_packet
    for _ in range(2000):
        junk = bytearray(draw.randbytes(draw.randint(0, 200)))
        if junk and draw.random() < 0.5:
            junk[0] = 7  # as if it were of this channel
        driven.receive(bytes(junk), draw.choice("AB"), stream)
    counters = driven.channel.counters
    assert counters.bad_packets + counters.unexpected_packets - before == 2000
    assert driven.channel.last_packet == packet_key
    if stream is INCREMENTAL:
        driven.send(packet(11, order(5, 1)))
        assert driven.orders() == [1, 9]


def test_packets_of_other_channels_feeds_and_left_streams_are_not_followed():
    driven = synchronized()
    driven.send(packet(11, order(5, 1), channel=8))
    driven.send(packet(11, order(5, 1)), feeds="Z")
    driven.snapshots(7, [snapshot(10, 4)])
    counters = driven.channel.counters
    assert (counters.bad_packets, counters.unexpected_packets) == (2, 2)
    assert driven.orders() == [9]


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"number": 300}, "channel number must be from 0 to 255, was 300"),
        ({"number": 1, "feeds": ()}, "channel 1 has no feed: name one, such as A"),
        ({"number": 1, "backup": ("A",)}, "channel 1 has a duplicate feed: A, B, A"),
        ({"number": 1, "heartbeat_ns": 0}, "channel 1: heartbeat_ns must be above 0, was 0"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, sentence):
    with pytest.raises(UsageError) as refused:
        ChannelSettings(**settings)
    assert str(refused.value) == sentence
