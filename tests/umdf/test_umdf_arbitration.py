"""Arbitration of several feeds: each packet once, in order, and gaps reported."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pregao.umdf.arbitration import (
    Arbiter,
    FirstArrivals,
    PacketDelivered,
    PacketDuplicate,
    PacketsLost,
    PacketTooLate,
    feed_name,
)
from pregao.umdf.sequencing import LAST_SEQUENCE_VERSION, PacketKey


def delivered(outcomes):
    return [outcome.item for outcome in outcomes if isinstance(outcome, PacketDelivered)]


def lost(outcomes):
    return [outcome for outcome in outcomes if isinstance(outcome, PacketsLost)]


def test_the_first_of_two_feeds_counts_and_the_difference_is_recorded():
    arbiter = Arbiter()
    (first,) = arbiter.accept("A", PacketKey(1, 7), 100, "seven")
    assert first == PacketDelivered(PacketKey(1, 7), "seven", "A", 100)
    (second,) = arbiter.accept("B", PacketKey(1, 7), 130, "seven")
    assert second == PacketDuplicate(PacketKey(1, 7), "B", "A", 30)


def test_a_packet_lost_on_one_feed_comes_from_the_other():
    arbiter = Arbiter(max_wait_ns=1000)
    outcomes = []
    for time, feed, number in [(1, "A", 1), (2, "B", 1), (3, "A", 3), (4, "B", 2), (5, "B", 3)]:
        outcomes += arbiter.accept(feed, PacketKey(1, number), time, number)
    assert delivered(outcomes) == [1, 2, 3]
    assert lost(outcomes) == []
    assert arbiter.deadline_ns is None


def test_a_packet_lost_on_both_feeds_is_abandoned_after_a_while():
    arbiter = Arbiter(max_wait_ns=1000)
    arbiter.accept("A", PacketKey(1, 1), 0, 1)
    assert arbiter.accept("A", PacketKey(1, 3), 50, 3) == []
    assert arbiter.accept("B", PacketKey(1, 4), 60, 4) == []
    assert (arbiter.held, arbiter.deadline_ns, arbiter.expected) == (2, 1050, PacketKey(1, 2))
    assert list(arbiter.expire(1049)) == []
    outcomes = list(arbiter.expire(1050))
    assert outcomes[0] == PacketsLost(1, 2, 2)
    assert delivered(outcomes) == [3, 4]
    assert arbiter.accept("B", PacketKey(1, 2), 1100, 2) == [PacketTooLate(PacketKey(1, 2), "B")]


def test_too_many_waiting_packets_abandon_the_gap():
    arbiter = Arbiter(max_held_packets=3)
    arbiter.accept("A", PacketKey(1, 1), 0, 1)
    outcomes = []
    for number in (3, 4, 5, 6):
        outcomes += arbiter.accept("A", PacketKey(1, number), 0, number)
    assert outcomes[0] == PacketsLost(1, 2, 2)
    assert delivered(outcomes) == [3, 4, 5, 6]


def test_a_heartbeat_with_a_higher_number_opens_a_gap():
    arbiter = Arbiter(max_wait_ns=1000)
    arbiter.accept("A", PacketKey(1, 1), 0, 1)
    assert arbiter.heartbeat(1, 2, 10) == []
    assert arbiter.deadline_ns is None
    assert arbiter.heartbeat(1, 4, 20) == []
    assert arbiter.deadline_ns == 1020
    assert arbiter.heartbeat(1, 4, 1020) == [PacketsLost(1, 2, 3)]
    assert arbiter.expected == PacketKey(1, 4)
    assert arbiter.deadline_ns is None


def test_6_5_11_after_a_sequence_reset_the_next_version_follows_immediately():
    arbiter = Arbiter()
    outcomes = arbiter.accept("A", PacketKey(LAST_SEQUENCE_VERSION, 9), 0, 9, resets=True)
    outcomes += arbiter.accept("A", PacketKey(1, 2), 1, 2)  # came before its predecessor
    outcomes += arbiter.accept("A", PacketKey(1, 1), 2, 1)
    assert delivered(outcomes) == [9, 1, 2]
    assert [outcome.new_version for outcome in outcomes] == [False, True, False]
    assert arbiter.accept("B", PacketKey(LAST_SEQUENCE_VERSION, 9), 3, 9) == [
        PacketDuplicate(PacketKey(LAST_SEQUENCE_VERSION, 9), "B", "A", 3)
    ]


def test_a_version_that_skips_one_waits_for_what_may_still_come():
    arbiter = Arbiter(max_wait_ns=10)
    arbiter.accept("A", PacketKey(4, 9), 0, 9, resets=True)
    assert arbiter.accept("A", PacketKey(6, 1), 1, 61) == []
    assert delivered(arbiter.accept("A", PacketKey(5, 1), 2, 51, resets=True)) == [51, 61]
    arbiter = Arbiter(max_wait_ns=10)
    arbiter.accept("A", PacketKey(4, 9), 0, 9, resets=True)
    arbiter.accept("A", PacketKey(6, 1), 1, 61)
    assert [outcome.item for outcome in arbiter.expire(11)] == [61]


def test_another_version_without_a_reset_reports_an_unknown_end():
    arbiter = Arbiter(max_wait_ns=10)
    arbiter.accept("A", PacketKey(4, 9), 0, 9)
    assert arbiter.accept("A", PacketKey(5, 2), 1, 2) == []
    outcomes = list(arbiter.expire(11))
    assert outcomes[:2] == [PacketsLost(4, 10, None), PacketsLost(5, 1, 1)]
    assert delivered(outcomes) == [2]
    assert arbiter.accept("B", PacketKey(4, 10), 12, 10) == [PacketTooLate(PacketKey(4, 10), "B")]


def test_the_cache_has_a_limit_and_streams_are_kept_separate():
    seen = FirstArrivals(remembered=10)
    for number in range(1, 31):
        assert seen.note(1, "incremental", PacketKey(1, number), "A", number) is None
    assert len(seen) == 10
    assert seen.note(1, "incremental", PacketKey(1, 30), "B", 35) == ("A", 5)
    assert seen.note(1, "snapshot", PacketKey(1, 30), "B", 35) is None
    assert seen.note(2, "incremental", PacketKey(1, 30), "B", 35) is None


def test_named_feeds_that_are_all_well_past_it_abandon_a_packet_immediately():
    arbiter = Arbiter(max_wait_ns=10**9, feeds=("A", "B"), reorder=2)
    arbiter.accept("A", PacketKey(1, 1), 0, 1)
    for number in (3, 4, 5, 6):
        assert arbiter.accept("A", PacketKey(1, number), number, number) == []
    assert lost(arbiter.accept("B", PacketKey(1, 3), 7, 3)) == []
    outcomes = arbiter.accept("B", PacketKey(1, 4), 8, 4)
    assert lost(outcomes) == [PacketsLost(1, 2, 2)]
    assert delivered(outcomes) == [3, 4, 5, 6]
    assert arbiter.accept("B", PacketKey(1, 2), 9, 2) == [PacketTooLate(PacketKey(1, 2), "B")]


def test_heartbeats_of_a_later_version_end_the_one_before():
    arbiter = Arbiter(max_wait_ns=10)
    arbiter.accept("A", PacketKey(4, 9), 0, 9)
    assert arbiter.heartbeat(5, 3, 1) == []
    assert arbiter.heartbeat(5, 4, 11) == [PacketsLost(4, 10, None), PacketsLost(5, 1, 2)]
    assert (arbiter.expected, arbiter.deadline_ns) == (PacketKey(5, 3), 21)


def test_after_a_stream_reset_heartbeats_of_the_next_version_show_no_loss():
    arbiter = Arbiter(max_wait_ns=10)
    arbiter.accept("A", PacketKey(4, 9), 0, 9, resets=True)
    assert arbiter.heartbeat(5, 1, 1) == []
    assert list(arbiter.expire(11)) == []
    assert arbiter.expected == PacketKey(5, 1)
    assert delivered(arbiter.accept("A", PacketKey(5, 1), 12, 1)) == [1]


@settings(max_examples=80, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    count=st.integers(1, 80),
    loss=st.sampled_from([0, 0.05, 0.3]),
    shuffle=st.integers(0, 8),
    feeds=st.sampled_from([(), ("A", "B")]),
)
def test_two_lossy_feeds_give_every_packet_once_in_order_and_report_the_rest(
    seed, count, loss, shuffle, feeds
):
    rng = random.Random(seed)
    versions = [LAST_SEQUENCE_VERSION, 1, 2]
    stream = [
        (version, number, number == count) for version in versions for number in range(1, count + 1)
    ]
    arrivals = []
    for feed, lag in (("A", 0), ("B", 3)):
        for at, packet in enumerate(stream):
            if rng.random() >= loss or at % count == 0 or at == len(stream) - 1:
                when = 0 if at == 0 else 10 * at + lag + rng.randrange(10 * shuffle + 1)
                arrivals.append((when, feed, packet))
    arrivals.sort()
    arbiter = Arbiter(max_wait_ns=200, feeds=feeds, reorder=1)
    outcomes = []
    for when, feed, (version, number, resets) in arrivals:
        packet_key = PacketKey(version, number)
        outcomes += arbiter.accept(feed, packet_key, when, packet_key, resets=resets)
    outcomes += arbiter.expire(10**9)
    outcomes += arbiter.expire(2 * 10**9)
    order = {(version, number): at for at, (version, number, _) in enumerate(stream)}
    found = delivered(outcomes)
    assert [order[packet_key] for packet_key in found] == sorted(
        {order[packet_key] for packet_key in found}
    )
    missing = {
        (gap.sequence_version, number)
        for gap in lost(outcomes)
        for number in range(gap.first, (gap.last or count) + 1)
    }
    came = {(version, number) for _, _, (version, number, _) in arrivals}
    assert set(found) | missing == set(order)
    assert not set(found) & missing
    assert set(order) - came <= missing
    late = {outcome.packet_key for outcome in outcomes if isinstance(outcome, PacketTooLate)}
    assert missing - (set(order) - came) <= late  # abandoned although they came later
    assert arbiter.held == 0


@pytest.mark.parametrize(
    ("number", "name"),
    [(0, "A"), (1, "B"), (25, "Z"), (26, "AA"), (27, "AB"), (51, "AZ"), (52, "BA"), (701, "ZZ"),
     (702, "AAA")],
)  # fmt: skip
def test_feeds_are_named_by_letters(number, name):
    assert feed_name(number) == name


def test_every_feed_has_a_different_name():
    assert len({feed_name(number) for number in range(20_000)}) == 20_000
