"""Feeds made one in bulk: the same packets, in the same order, as the machine delivers."""

import itertools
from dataclasses import dataclass

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pregao.umdf.arbitration import Arbiter, PacketDelivered, PacketDuplicate, PacketsLost
from pregao.umdf.arbitration_columns import NO_OTHER, arbitrate
from pregao.umdf.sequencing import LAST_SEQUENCE_VERSION, PacketKey, serial_of, version_distance

FEEDS = "ABC"
STEP_NS = 10
LATEST_NS = 70
"""Maximum delay of a copy after the fastest one: seven packets."""


@dataclass(frozen=True)
class Sent:
    """A packet that was sent, and the copies of it that arrived: feed and delay of each."""

    packet_key: PacketKey
    resets: bool
    copies: tuple[tuple[int, int], ...]


COPIES = st.lists(st.tuples(st.integers(0, 2), st.integers(0, LATEST_NS)), max_size=4)
RUNS = st.lists(
    st.tuples(
        st.integers(1, 3),  # number of versions ahead
        st.booleans(),  # does it end with a SequenceReset?
        st.lists(COPIES, min_size=1, max_size=12),
    ),
    min_size=1,
    max_size=4,
)


def stream_of(first, joined, runs):
    """The packets of a stream that is joined at a key; the first one comes immediately."""
    version, number, sent = first, joined, []
    for steps, ends, packets in runs:
        if sent:
            version, number = (version - 1 + steps) % LAST_SEQUENCE_VERSION + 1, 1
        for at, copies in enumerate(packets):
            resets = ends and at == len(packets) - 1
            copies = copies if sent else [(0, 0), *copies]
            sent.append(Sent(PacketKey(version, number), resets, tuple(copies)))
            number += 1
    return sent


def arrivals_of(sent):
    """Time, feed and packet of every copy, in arrival order."""
    return sorted(
        (
            (STEP_NS * at + delay, feed, packet)
            for at, packet in enumerate(sent)
            for feed, delay in packet.copies
        ),
        key=lambda arrival: arrival[0],
    )


def arbitrated(arrivals, outside=None):
    """Result of the columns: the packets that count, in order."""
    packet_keys = [packet.packet_key for _, _, packet in arrivals]
    versions, numbers = np.array(packet_keys, np.int64).T
    return arbitrate(
        serial_of(versions, numbers, packet_keys[0].sequence_version),
        np.array([time for time, _, _ in arrivals]),
        np.array([feed for _, feed, _ in arrivals]),
        outside,
    )


def gaps_between(packets):
    """Gaps between packets in order; the end of a version is unknown."""
    for before, packet in itertools.pairwise(packets):
        version, expected = (
            packet.packet_key.sequence_version,
            before.packet_key.sequence_number + 1,
        )
        if version != before.packet_key.sequence_version:
            if not before.resets:
                yield PacketsLost(before.packet_key.sequence_version, expected, None)
            expected = 1
        if packet.packet_key.sequence_number > expected:
            yield PacketsLost(version, expected, packet.packet_key.sequence_number - 1)


@settings(max_examples=300, deadline=None)
@given(st.integers(1, LAST_SEQUENCE_VERSION), st.integers(1, 5), RUNS)
@example(LAST_SEQUENCE_VERSION, 1, [(1, True, [[(0, 0)]]), (1, False, [[(1, 0)]])])
def test_the_machine_and_the_columns_agree(first, joined, runs):
    arrivals = arrivals_of(stream_of(first, joined, runs))
    columns = arbitrated(arrivals)
    machine = Arbiter(max_wait_ns=LATEST_NS + 1)
    outcomes = []
    for at, (time, feed, packet) in enumerate(arrivals):
        outcomes += machine.accept(FEEDS[feed], packet.packet_key, time, at, resets=packet.resets)
    outcomes += machine.expire(10**9)
    delivered = [one.item for one in outcomes if isinstance(one, PacketDelivered)]
    assert delivered == columns.order.tolist()
    assert set(delivered) == set(np.flatnonzero(columns.first).tolist())

    again = {}
    for one in outcomes:
        if isinstance(one, PacketDuplicate):
            again.setdefault(one.packet_key, []).append(one)
    doubles = [at for at in range(len(arrivals)) if not columns.first[at]]
    assert sum(map(len, again.values())) == len(doubles)
    for at in doubles:
        time, feed, packet = arrivals[at]
        leader = arrivals[columns.leader[at]]
        duplicate = PacketDuplicate(
            packet.packet_key, FEEDS[feed], FEEDS[leader[1]], time - leader[0]
        )
        assert duplicate in again[packet.packet_key]
        assert columns.difference_ns[at] == NO_OTHER
    for at in delivered:
        assert columns.leader[at] == at
        later = [
            one.difference_ns
            for one in again.get(arrivals[at][2].packet_key, ())
            if one.feed != one.first_feed
        ]
        assert columns.difference_ns[at] == (later[0] if later else NO_OTHER)

    gaps = [one for one in outcomes if isinstance(one, PacketsLost)]
    assert gaps == list(gaps_between([arrivals[at][2] for at in delivered]))
    assert len(outcomes) == len(delivered) + len(doubles) + len(gaps)  # nothing came too late
    assert columns.no_duplicates == (not doubles)


@given(st.integers(1, LAST_SEQUENCE_VERSION), RUNS)
def test_the_order_is_that_of_the_sequence(first, runs):
    arrivals = arrivals_of(stream_of(first, 1, runs))
    packet_keys = [arrivals[at][2].packet_key for at in arbitrated(arrivals).order]
    for one, other in itertools.pairwise(packet_keys):
        if one.sequence_version == other.sequence_version:
            assert one.sequence_number < other.sequence_number
        else:
            assert version_distance(one.sequence_version, other.sequence_version) > 0


def test_one_feed_in_order_is_used_unchanged():
    found = arbitrate(np.arange(5, 9), np.arange(4), np.zeros(4, np.int32))
    assert found.no_duplicates
    assert found.order.tolist() == found.leader.tolist() == [0, 1, 2, 3]
    assert found.first.all()
    assert set(found.difference_ns.tolist()) == {NO_OTHER}


def test_no_packets_at_all():
    found = arbitrate(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int32))
    assert found.no_duplicates
    assert len(found.order) == 0


@given(st.integers(1, LAST_SEQUENCE_VERSION), RUNS, st.data())
def test_a_packet_from_outside_counts_only_if_no_other_has_its_key(first, runs, data):
    arrivals = arrivals_of(stream_of(first, 1, runs))
    flags = st.lists(st.booleans(), min_size=len(arrivals), max_size=len(arrivals))
    outside = np.array(data.draw(flags), np.bool_)
    found = arbitrated(arrivals, outside)
    copies = {}
    for at, (_, _, packet) in enumerate(arrivals):
        copies.setdefault(packet.packet_key, []).append(at)
    for indexes in copies.values():
        leader = min(indexes, key=lambda at: (outside[at], at))
        assert found.leader[indexes].tolist() == [leader] * len(indexes)
        assert [at for at in indexes if found.first[at]] == [leader]
