"""The sequence of one stream, packet by packet."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pregao.umdf.sequencing import (
    LAST_SEQUENCE_VERSION,
    MOST_HOLES,
    Place,
    StreamSequence,
    Verdict,
    covers,
    version_distance,
)


def verdicts(sequence, *packets):
    return [sequence.accept(*packet).verdict for packet in packets]


def test_versions_come_round_from_65534_to_1():
    assert version_distance(LAST_SEQUENCE_VERSION, 1) == 1
    assert version_distance(1, LAST_SEQUENCE_VERSION) == -1
    assert version_distance(7, 7) == 0
    assert version_distance(65_533, 2) == 3
    assert covers(Place(1, 5), Place(LAST_SEQUENCE_VERSION, 900))
    assert not covers(Place(LAST_SEQUENCE_VERSION, 900), Place(1, 5))


@given(old=st.integers(1, LAST_SEQUENCE_VERSION), steps=st.integers(-32_766, 32_766))
def test_the_distance_of_versions_is_the_steps_taken(old, steps):
    new = (old - 1 + steps) % LAST_SEQUENCE_VERSION + 1
    assert version_distance(old, new) == steps


@given(
    st.tuples(st.integers(1, 5), st.integers(1, 9)), st.tuples(st.integers(1, 5), st.integers(1, 9))
)
def test_a_snapshot_covers_what_is_not_behind_it(snapshot, place):
    assert covers(Place(*snapshot), Place(*place)) == (place <= snapshot)


def test_the_first_packet_may_be_joined_midway():
    sequence = StreamSequence()
    arrival = sequence.accept(3, 700)
    assert (arrival.verdict, arrival.missing, arrival.new_version) == (
        Verdict.EXPECTED,
        None,
        False,
    )
    assert (sequence.version, sequence.first, sequence.next_number) == (3, 700, 701)


def test_6_5_10_heartbeats_are_no_gap_and_tell_the_next_number():
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


def test_a_gap_is_told_once_and_filled_by_late_packets():
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
    for number in range(1, 2 * MOST_HOLES + 1000, 2):
        sequence.accept(1, number)
    assert len(sequence.missing) == MOST_HOLES


@settings(max_examples=80)
@given(numbers=st.lists(st.integers(1, 25), min_size=1, max_size=60))
def test_what_is_missing_is_what_has_not_come(numbers):
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
        missing = {number for hole in sequence.missing for number in hole}
        assert missing == set(range(min(seen), max(seen))) - seen


@pytest.mark.parametrize("resets", [False, True])
def test_an_old_packet_does_not_end_the_running_version(resets):
    sequence = StreamSequence()
    sequence.accept(2, 1)
    sequence.accept(1, 9, resets=resets)
    assert not sequence.ended
