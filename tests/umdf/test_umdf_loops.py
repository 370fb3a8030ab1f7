"""When a loop of snapshots or definitions is complete (000 §6.5.8, §7.1, §7.2)."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pregao.sbe.codec import SchemaCodec
from pregao.schemas.bundle import bundled
from pregao.umdf.loops import MAX_OLDER_PACKETS, DefinitionLoop, SnapshotHeader, SnapshotLoop


def header(security_id, bids=0, offers=0, stats=0, *, reports=2, last=703, rpt=6998, version=1234):
    return SnapshotHeader(security_id, last, reports, bids, offers, stats, rpt, version)


def packets_of_7_1():
    """The picture of 7.1: five packets, two instruments, phases first, SequenceReset last."""
    return [
        [("phase", "XX"), ("phase", "YY")],
        [("header", header(1111, 2, 3, 5)), ("orders", 1111, 2, 3)],
        [("stat", 1111)] * 5 + [("header", header(2222, 1, 2, 5, last=704, rpt=8000))],
        [("orders", 2222, 1, 2)] + [("stat", 2222)] * 5,
        [("reset",)],
    ]


def play(loop, packets, *, version=9, skip=(), first=1):
    for number, messages in enumerate(packets, first):
        if number in skip:
            continue
        resets = messages == [("reset",)]
        assert loop.packet(version, number, resets=resets)
        for message in messages:
            match message:
                case ("phase", item):
                    loop.phase(item)
                case ("header", item):
                    loop.header(item)
                case ("orders", security_id, bids, offers):
                    loop.orders(security_id, bids, offers, "orders")
                case ("stat", security_id):
                    loop.statistic(security_id, "stat")
    return loop


def test_7_1_a_loop_of_two_instruments():
    loop = play(SnapshotLoop(), packets_of_7_1())
    assert loop.complete
    assert loop.reason is None
    assert loop.phases == ["XX", "YY"]
    assert list(loop.instruments) == [1111, 2222]
    first, second = loop.instruments.values()
    assert (first.bids, first.offers, first.statistics) == (2, 3, 5)
    assert (second.bids, second.offers, second.statistics) == (1, 2, 5)
    assert first.items == ["orders"] + ["stat"] * 5


@pytest.mark.parametrize(
    ("skip", "reason"),
    [
        ((1,), "joined at packet 2"),
        ((2,), "1 packets are missing"),
        ((3,), "1 packets are missing"),
        ((3, 4), "2 packets are missing"),
        ((5,), "SequenceReset"),
    ],
)
def test_7_1_a_loop_that_lacks_a_packet_is_not_complete(skip, reason):
    loop = play(SnapshotLoop(), packets_of_7_1(), skip=skip)
    assert not loop.complete
    assert reason in loop.reason


def test_7_1_an_instrument_with_all_its_parts_is_complete_in_a_broken_loop():
    loop = play(SnapshotLoop(), packets_of_7_1(), skip=(1, 4))
    assert {key: found.complete for key, found in loop.instruments.items()} == {
        1111: True,
        2222: False,
    }


def test_a_loop_that_began_before_we_listened_gives_way_to_the_next():
    loop = play(SnapshotLoop(), packets_of_7_1()[3:], first=4)
    assert not loop.complete
    assert list(loop.instruments) == [2222]
    play(loop, packets_of_7_1(), version=10)
    assert loop.complete
    assert loop.sequence_version == 10
    assert not loop.packet(9, 5)  # of the loop before
    assert not loop.packet(10, 0)  # a heartbeat
    assert not loop.packet(10, 2)  # once more
    assert loop.complete


def test_a_stream_with_older_versions_for_long_has_restarted():
    loop = SnapshotLoop()
    play(loop, packets_of_7_1(), version=900)
    for number in range(1, MAX_OLDER_PACKETS + 1):
        assert not loop.packet(3, number)
    assert loop.sequence_version == 900
    assert loop.packet(3, MAX_OLDER_PACKETS + 1)
    assert loop.sequence_version == 3
    play(loop, packets_of_7_1(), version=4)
    assert loop.complete


def test_fewer_headers_than_announced_or_other_counts_are_no_complete_loop():
    loop = play(SnapshotLoop(), [[("header", header(1111))], [("reset",)]])
    assert loop.reason == "1 of 2 instruments were received"
    loop = play(
        SnapshotLoop(),
        [[("header", header(1111, 2, reports=1)), ("orders", 1111, 1, 0)], [("reset",)]],
    )
    assert loop.reason == "1 instruments lack orders or statistics that their headers count"
    assert SnapshotLoop().reason == "no packet was received"


def test_7_2_a_header_may_be_all_there_is_of_an_instrument():
    lone = header(3333, reports=1, rpt=None)
    loop = play(SnapshotLoop(), [[("header", lone)], [("reset",)]])
    assert loop.complete
    assert loop.instruments[3333].items == []


@pytest.mark.parametrize("version", [9, 16])
def test_7_2_a_header_is_read_from_its_message(version):
    codec = SchemaCodec(bundled("umdf", version))
    values = {
        "securityID": 2222,
        "lastMsgSeqNumProcessed": 704,
        "totNumReports": 2,
        "totNumBids": 1,
        "totNumOffers": 2,
        "totNumStats": 5,
        "lastRptSeq": 8000,
    }
    if version >= 15:
        values["lastSequenceVersion"] = 1234
    decoded = codec.decode(codec.encode("SnapshotFullRefresh_Header_30", values))
    found = SnapshotHeader.from_values(decoded.values)
    expected = 1234 if version >= 15 else None
    assert found == SnapshotHeader(2222, 704, 2, 1, 2, 5, 8000, expected)
    values["lastRptSeq"] = None
    empty = codec.decode(codec.encode("SnapshotFullRefresh_Header_30", values))
    assert SnapshotHeader.from_values(empty.values).last_rpt_seq is None


def test_memory_has_a_limit():
    loop = SnapshotLoop(max_messages=3)
    loop.packet(1, 1)
    for security_id in range(100):
        loop.header(header(security_id, reports=100))
        loop.statistic(security_id, "stat")
    assert len(loop.instruments) + sum(len(f.items) for f in loop.instruments.values()) == 3
    loop.packet(1, 2, resets=True)
    assert loop.reason == "the loop has more than 3 messages"


@settings(max_examples=60)
@given(
    lost=st.sets(st.integers(1, 10)),
    late=st.permutations(range(1, 11)),
)
def test_a_loop_is_complete_exactly_if_every_packet_came_in_whatever_order(lost, late):
    """After packet 1, which is where a loop begins."""
    loop = SnapshotLoop()
    loop.packet(7, 44, resets=True)
    order = [number for number in late if number not in lost]
    for number in order:
        if loop.packet(8, number, resets=number == 10) and number < 10:
            loop.header(header(number, reports=9))
    assert loop.complete == (not lost)


def definition_loop(total, numbers, *, version=3, stated_total=None):
    loop = DefinitionLoop()
    loop.packet(version - 1, 4)
    for number in numbers:
        loop.packet(version, number, resets=number == total + 1)
        if number <= total:
            loop.definition(1000 + number, stated_total or total, f"definition {number}")
    return loop


def test_6_5_8_the_definition_loop_is_complete_when_every_instrument_came():
    loop = definition_loop(4, range(1, 6))
    assert loop.complete
    assert list(loop.definitions) == [1001, 1002, 1003, 1004]
    assert not definition_loop(4, [1, 2, 4, 5]).complete
    assert "SequenceReset" in definition_loop(4, [1, 2, 3, 4]).reason
    short = definition_loop(4, range(1, 6), stated_total=5)
    assert short.reason == "4 of 5 definitions were received"


def test_two_loops_of_an_older_version_begin_a_stream_again():
    """A packet outside any loop names a later version: short loops are complete soon after it."""
    loop = play(SnapshotLoop(), packets_of_7_1(), version=9)
    assert loop.packet(700, 3)
    whole = []
    for version in (10, 11, 12):
        for number, messages in enumerate(packets_of_7_1(), 1):
            resets = messages == [("reset",)]
            whole.append(loop.packet(version, number, resets=resets))
    assert whole == [False] * 5 + [True] * 10
    assert loop.sequence_version == 12


def test_a_late_packet_of_the_loop_before_begins_nothing():
    loop = play(SnapshotLoop(), packets_of_7_1(), version=9)
    assert loop.packet(10, 1)
    assert not loop.packet(9, 1)
    assert loop.packet(10, 2)
    assert not loop.packet(9, 1)
    assert loop.packet(10, 3)
    assert loop.sequence_version == 10
