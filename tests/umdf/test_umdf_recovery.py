"""Joining snapshots and incrementals (000 §6.5.9, §7.2, §7.4, §7.5)."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pregao.sbe.codec import SchemaCodec
from pregao.schemas import bundled
from pregao.umdf.loops import SnapshotHeader, SnapshotLoop
from pregao.umdf.packets import PacketDecoder, PacketHeader, encode_packet
from pregao.umdf.recovery import (
    Incremental,
    Joined,
    Joining,
    incremental_of,
    is_usable,
    reaches_back,
    snapshot_place,
)
from pregao.umdf.sequencing import LAST_SEQUENCE_VERSION, Place
from pregao.umdf.templates import (
    CHANNEL_RESET,
    NEWS,
    ORDER,
    SECURITY_DEFINITIONS,
    SECURITY_GROUP_PHASE,
)

DEFINITION = max(SECURITY_DEFINITIONS)


def header(security_id, last, *, reports=1, version=1, rpt=None):
    return SnapshotHeader(security_id, last, reports, 0, 0, 0, rpt, version)


def loop_of(*headers):
    loop = SnapshotLoop()
    loop.packet(1, 1)
    for each in headers:
        loop.header(each)
    loop.packet(1, 2, resets=True)
    return loop


def message(number, security_id, template=ORDER, *, version=1, rpt=None):
    return Incremental(Place(version, number), 0, template, security_id, rpt, number)


def queue(joining, *messages):
    at_once = []
    for each in messages:
        at_once += joining.packet(each.place, [each])
    return at_once


def used(joined):
    return [each.place.sequence_number for each in joined.messages]


def test_7_4_the_two_snapshots_of_the_picture():
    """Queued from packet 1232 on; each instrument discards up to what its snapshot holds."""
    joining = Joining()
    at_once = queue(
        joining,
        message(1232, 1111),
        message(1233, None, NEWS),
        message(1234, 2222),
        message(1235, 3333, DEFINITION),
        message(1236, 1111),
        message(1237, 2222),
        message(1238, 1111),
    )
    assert [each.template_id for each in at_once] == [NEWS, DEFINITION]
    joined = joining.join(loop_of(header(1111, 1234, reports=2), header(2222, 1237, reports=2)))
    assert isinstance(joined, Joined)
    assert used(joined) == [1236, 1238]
    assert joined.discarded == 3
    assert joined.places == {1111: Place(1, 1234), 2222: Place(1, 1237)}
    assert len(joining) == 0


def test_6_5_9_the_queue_must_reach_back_to_the_oldest_snapshot():
    """Read so: the oldest queued packet is at most the lowest lastMsgSeqNumProcessed plus 1."""
    for oldest, possible in [(699, True), (703, True), (704, True), (705, False), (800, False)]:
        joining = Joining()
        queue(joining, message(oldest, 1111), message(oldest + 1, 2222))
        joined = joining.join(loop_of(header(1111, 703, reports=2), header(2222, 710, reports=2)))
        assert isinstance(joined, Joined) == possible
        if not possible:
            assert "behind" in joined
            assert len(joining) == 2  # the queue waits for the next loop


def test_6_5_9_an_incomplete_loop_is_not_joined():
    joining = Joining()
    queue(joining, message(700, 1111))
    loop = SnapshotLoop()
    assert joining.join(loop).startswith("the snapshot loop is not complete")
    assert Joining().join(loop_of(header(1111, 703))) == "the incremental stream has not begun"


def test_6_5_9_instruments_without_a_snapshot_begin_empty_and_miss_nothing():
    joining = Joining()
    queue(joining, message(700, 9999), message(701, 1111), message(702, 9999))
    joined = joining.join(loop_of(header(1111, 703)))
    assert used(joined) == [700, 702]
    assert 9999 not in joined.places


def test_messages_of_the_whole_channel_are_weighed_for_each_instrument():
    joining = Joining()
    reset = message(702, None, CHANNEL_RESET)
    phase = message(701, None, SECURITY_GROUP_PHASE)
    queue(joining, message(700, 1111), phase, reset)
    joined = joining.join(loop_of(header(1111, 705, reports=2), header(2222, 701, reports=2)))
    assert used(joined) == [701, 702]
    assert not joined.applies(reset, 1111)
    assert joined.applies(reset, 2222)
    assert joined.applies(reset, 3333)


def test_7_2_a_snapshot_of_an_older_sequence_version_is_not_used():
    assert not is_usable(header(1, 5, version=3), 4)
    assert is_usable(header(1, 5, version=4), 4)
    assert is_usable(header(1, 5, version=5), 4)
    assert not is_usable(header(1, 5, version=LAST_SEQUENCE_VERSION), 1)
    joining = Joining()
    queue(joining, message(1, 1111, version=4))
    refusal = joining.join(loop_of(header(1111, 900, version=3)))
    assert "sequence version 3" in refusal
    assert isinstance(joining.join(loop_of(header(1111, 1, version=4))), Joined)


def test_6_5_9_only_numbers_of_the_same_version_are_compared():
    joining = Joining()
    queue(
        joining,
        message(900, 1111, version=3),
        message(901, 1111, version=3),
        message(1, 1111, version=4),
        message(2, 1111, version=4),
    )
    joined = joining.join(loop_of(header(1111, 1, version=4)))
    assert [(m.place.sequence_version, m.place.sequence_number) for m in joined.messages] == [
        (4, 2)
    ]


def test_below_version_15_the_version_is_that_of_the_incrementals():
    old = SnapshotHeader(1111, 703, 1, 0, 0, 0, 6998, None)
    assert snapshot_place(old, 8) == Place(8, 703)
    assert is_usable(old, 8)
    joining = Joining()
    queue(joining, message(703, 1111, version=8), message(704, 1111, version=8))
    assert used(joining.join(loop_of(old))) == [704]


def test_7_5_an_idle_channel_is_joined_by_the_number_its_heartbeats_tell():
    joining = Joining()
    joining.heartbeat(1, 1236)
    assert joining.oldest == Place(1, 1236)
    assert isinstance(joining.join(loop_of(header(1111, 1235))), Joined)
    joining = Joining()
    joining.heartbeat(1, 1236)
    assert isinstance(joining.join(loop_of(header(1111, 1234))), str)


def test_a_hole_in_the_queue_begins_it_anew():
    joining = Joining()
    queue(joining, message(700, 1111), message(701, 1111))
    joining.lost()
    queue(joining, message(705, 1111))
    assert joining.oldest == Place(1, 705)
    assert isinstance(joining.join(loop_of(header(1111, 701))), str)
    assert used(joining.join(loop_of(header(1111, 704)))) == [705]


def test_the_queue_has_a_limit_and_forgets_whole_packets():
    joining = Joining(most_queued=3)
    joining.packet(Place(1, 700), [message(700, 1111), message(700, 2222)])
    queue(joining, message(701, 1111), message(702, 1111))
    assert (joining.oldest, len(joining)) == (Place(1, 701), 2)


@settings(max_examples=100)
@given(
    oldest=st.tuples(st.integers(1, 3), st.integers(1, 6)),
    snapshots=st.lists(st.tuples(st.integers(1, 3), st.integers(0, 6)), max_size=4),
)
def test_a_queue_reaches_back_if_no_place_lies_between(oldest, snapshots):
    """With every version 6 packets long, written as one line of places."""
    line = [(version, number) for version in (1, 2, 3) for number in range(1, 7)]
    expected = all(
        all(place >= oldest for place in line if place > snapshot and place[0] == snapshot[0])
        and snapshot[0] >= oldest[0]
        for snapshot in snapshots
    )
    found = reaches_back(Place(*oldest), [Place(*snapshot) for snapshot in snapshots])
    exact = all(
        oldest[1] <= snapshot[1] + 1 if oldest[0] == snapshot[0] else oldest[0] < snapshot[0]
        for snapshot in snapshots
    )
    assert found == exact
    assert not found or expected


@settings(max_examples=60, deadline=None)
@given(
    owners=st.lists(st.sampled_from([11, 22, 33]), min_size=1, max_size=40),
    start=st.integers(0, 20),
    ends=st.tuples(st.integers(0, 40), st.integers(0, 40)),
)
def test_snapshot_and_queue_together_are_every_message_once(owners, start, ends):
    """Packet n holds the nth message; 11 and 22 have snapshots, 33 has none."""
    stream = [message(number, owner) for number, owner in enumerate(owners, 1)]
    joining = Joining()
    queue(joining, *stream[start:])
    if start >= len(stream):
        return
    last = dict(zip((11, 22), ends, strict=True))
    joined = joining.join(loop_of(*(header(k, v, reports=2) for k, v in last.items())))
    if isinstance(joined, str):
        assert start > min(ends)
        return
    for owner in (11, 22):
        queued = [m for m in joined.messages if m.security_id == owner]
        held = [
            m for m in stream if m.security_id == owner and m.place.sequence_number <= last[owner]
        ]
        assert held + queued == [m for m in stream if m.security_id == owner]
    assert [m for m in joined.messages if m.security_id == 33] == [
        m for m in stream[start:] if m.security_id == 33
    ]
    assert len(joined.messages) + joined.discarded == len(stream[start:])


@pytest.mark.parametrize("version", [8, 16])
def test_messages_are_read_from_decoded_packets(version):
    codec = SchemaCodec(bundled("umdf", version))
    order = codec.codec(50).packer("securityID", "rptSeq")(1111, 6998)
    reset = codec.codec(11).packer("mDEntryTimestamp")(1)
    payload = encode_packet(PacketHeader(7, 3, 703, 10**18), [order, reset])
    packet = PacketDecoder().decode(payload)
    first, second = (
        incremental_of(packet.header, at, decoded) for at, decoded in enumerate(packet.messages)
    )
    assert (first.place, first.index_in_packet) == (Place(3, 703), 0)
    assert (first.template_id, first.security_id, first.rpt_seq) == (50, 1111, 6998)
    assert (second.template_id, second.security_id, second.rpt_seq) == (11, None, None)
    assert second.index_in_packet == 1
