"""The sequence of one stream, packet by packet."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pregao.umdf import _sequencing_kernels
from pregao.umdf.sequencing import (
    LAST_SEQUENCE_VERSION,
    MAX_GAPS,
    PacketKey,
    StreamSequence,
    Verdict,
    covers,
    is_sequence_version,
    keys_of_serials,
    precedes,
    serial_of,
    version_distance,
)


def verdicts(sequence, *packets):
    return [sequence.accept(*packet).verdict for packet in packets]


def test_versions_come_round_from_65534_to_1():
    assert version_distance(LAST_SEQUENCE_VERSION, 1) == 1
    assert version_distance(1, LAST_SEQUENCE_VERSION) == -1
    assert version_distance(7, 7) == 0
    assert version_distance(65_533, 2) == 3
    assert covers(PacketKey(1, 5), PacketKey(LAST_SEQUENCE_VERSION, 900))
    assert not covers(PacketKey(LAST_SEQUENCE_VERSION, 900), PacketKey(1, 5))


@given(old=st.integers(1, LAST_SEQUENCE_VERSION), steps=st.integers(-32_766, 32_766))
def test_the_distance_of_versions_is_the_number_of_steps(old, steps):
    new = (old - 1 + steps) % LAST_SEQUENCE_VERSION + 1
    assert version_distance(old, new) == steps


@given(
    st.tuples(st.integers(1, 5), st.integers(1, 9)), st.tuples(st.integers(1, 5), st.integers(1, 9))
)
def test_a_snapshot_covers_everything_not_after_it(snapshot, key):
    assert covers(PacketKey(*snapshot), PacketKey(*key)) == (key <= snapshot)


@given(st.integers(1, LAST_SEQUENCE_VERSION))
def test_a_version_half_way_round_is_older(version):
    half_way = (version - 1 + 32_767) % LAST_SEQUENCE_VERSION + 1
    assert version_distance(version, half_way) == version_distance(half_way, version) == -32_767
    assert _sequencing_kernels.version_distance(version, half_way) == -32_767
    column = np.array([version, half_way], np.int64)
    assert serial_of(column, np.array([7, 7]), version).tolist() == [7, -32_767 * 2**32 + 7]


def test_neither_0_nor_65535_is_a_version():
    assert [v for v in (-1, 0, 1, 65_534, 65_535) if is_sequence_version(v)] == [1, 65_534]


VERSIONS = st.integers(1, LAST_SEQUENCE_VERSION)
NUMBERS = st.integers(0, 2**32 - 1)
HALF = LAST_SEQUENCE_VERSION // 2
KINDS = st.sampled_from([np.uint16, np.int32, np.int64])


@given(VERSIONS, VERSIONS)
def test_kernels_know_how_versions_go_round(old, new):
    assert _sequencing_kernels.version_distance(old, new) == version_distance(old, new)


@given(base=VERSIONS, keys=st.lists(st.tuples(VERSIONS, NUMBERS)), kind=KINDS)
def test_the_serials_of_columns_are_those_of_their_messages(base, keys, kind):
    versions = np.array([version for version, _ in keys], kind)
    numbers = np.array([number for _, number in keys], np.int64)
    serials = serial_of(versions, numbers, base)
    assert serials.dtype == np.int64
    assert serials.tolist() == [PacketKey(*key).serial(base) for key in keys]
    assert [PacketKey.from_serial(serial, base) for serial in serials.tolist()] == keys
    found = keys_of_serials(serials, base)
    assert list(zip(*(column.tolist() for column in found), strict=True)) == keys


@given(base=VERSIONS, version=VERSIONS, numbers=st.lists(NUMBERS, min_size=1), kind=KINDS)
def test_serials_of_one_version_too(base, version, numbers, kind):
    versions = np.full(len(numbers), version, kind)
    expected = [PacketKey(version, number).serial(base) for number in numbers]
    for width in (np.uint32, np.int64):
        assert serial_of(versions, np.array(numbers, width), base).tolist() == expected


@given(
    base=VERSIONS,
    one=st.tuples(st.integers(-HALF // 2, HALF // 2), NUMBERS),
    other=st.tuples(st.integers(-HALF // 2, HALF // 2), NUMBERS),
)
def test_serials_sort_like_the_stream_also_where_versions_wrap_around(base, one, other):
    """Keys are given by their distance from the version that serials are counted from."""
    keys = [
        PacketKey((base - 1 + steps) % LAST_SEQUENCE_VERSION + 1, number)
        for steps, number in (one, other)
    ]
    first, second = (key.serial(base) for key in keys)
    assert (first < second) == (one < other) == precedes(*keys)
    assert (first <= second) == covers(keys[1], keys[0])


def test_the_first_packet_may_be_joined_midway():
    sequence = StreamSequence()
    arrival = sequence.accept(3, 700)
    assert (arrival.verdict, arrival.missing, arrival.new_version) == (
        Verdict.EXPECTED,
        None,
        False,
    )
    assert (sequence.version, sequence.first, sequence.next_number) == (3, 700, 701)


def test_6_5_10_heartbeats_are_no_gap_and_carry_the_next_number():
    sequence = StreamSequence()
    assert verdicts(sequence, (1, 1235)) == [Verdict.EXPECTED]
    for _ in range(3):
        assert sequence.accept(1, 0).verdict is Verdict.HEARTBEAT
        assert sequence.heartbeat(1, 1236).missing is None
    assert verdicts(sequence, (1, 1236)) == [Verdict.EXPECTED]
    assert sequence.missing == []


def test_7_5_a_heartbeat_shows_that_the_last_packets_are_missing():
    sequence = StreamSequence()
    sequence.accept(1, 10)
    assert sequence.heartbeat(1, 14).missing == range(11, 14)
    assert sequence.missing == [range(11, 14)]
    assert verdicts(sequence, (1, 12), (1, 14)) == [Verdict.LATE, Verdict.EXPECTED]
    assert sequence.missing == [range(11, 12), range(13, 14)]


def test_a_gap_is_reported_once_and_filled_by_late_packets():
    sequence = StreamSequence()
    sequence.accept(1, 1)
    arrival = sequence.accept(1, 5)
    assert (arrival.verdict, arrival.missing) == (Verdict.AHEAD, range(2, 5))
    assert verdicts(sequence, (1, 6), (1, 3), (1, 3), (1, 6)) == [
        Verdict.EXPECTED,
        Verdict.LATE,
        Verdict.DUPLICATE,
        Verdict.DUPLICATE,
    ]
    assert sequence.missing == [range(2, 3), range(4, 5)]


def test_6_5_11_a_stream_reset_begins_another_version_with_1():
    sequence = StreamSequence()
    sequence.accept(1, 41)
    sequence.accept(1, 42, resets=True)
    assert sequence.ended
    arrival = sequence.accept(2, 1)
    assert arrival.verdict is Verdict.EXPECTED
    assert (arrival.new_version, arrival.tail_unknown) == (True, False)
    assert sequence.accept(1, 43).verdict is Verdict.OLD_VERSION


def test_a_version_that_ends_without_a_reset_may_lack_its_last_packets():
    sequence = StreamSequence()
    sequence.accept(LAST_SEQUENCE_VERSION, 41)
    arrival = sequence.accept(1, 3)
    assert (arrival.verdict, arrival.missing) == (Verdict.AHEAD, range(1, 3))
    assert (arrival.new_version, arrival.tail_unknown) == (True, True)


def test_memory_has_a_limit():
    sequence = StreamSequence()
    for number in range(1, 2 * MAX_GAPS + 1000, 2):
        sequence.accept(1, number)
    assert len(sequence.missing) == MAX_GAPS


@settings(max_examples=80)
@given(numbers=st.lists(st.integers(1, 25), min_size=1, max_size=60))
def test_missing_numbers_are_those_not_received(numbers):
    sequence = StreamSequence()
    seen = set()
    for number in numbers:
        expected = (
            Verdict.DUPLICATE
            if number in seen or number < numbers[0]
            else Verdict.LATE
            if seen and number < max(seen)
            else Verdict.EXPECTED
            if not seen or number == max(seen) + 1
            else Verdict.AHEAD
        )
        assert sequence.accept(1, number).verdict is expected
        if number >= numbers[0]:
            seen.add(number)
        missing = {number for gap in sequence.missing for number in gap}
        assert missing == set(range(min(seen), max(seen))) - seen


@pytest.mark.parametrize("resets", [False, True])
def test_an_old_packet_does_not_end_the_running_version(resets):
    sequence = StreamSequence()
    sequence.accept(2, 1)
    sequence.accept(1, 9, resets=resets)
    assert not sequence.ended
