"""Restarts of the numbers of a feed without sequence versions, and gaps in them."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pregao.clock import MILLISECOND, MINUTE
from pregao.lake.books.legacy_versions import TimeSlots, find_restarts
from pregao.lake.ingest.sequence_ranges import numberings_of, slot_of

START = 1_779_361_200_000_000_000
EPOCHS = st.lists(st.integers(2, 30), min_size=1, max_size=4)


def sent(epochs, step_ns):
    """Times and numbers of messages, and the number of restarts before each."""
    rows = [(number, epoch) for epoch, last in enumerate(epochs) for number in range(1, last + 1)]
    times = START + np.arange(len(rows), dtype=np.int64) * step_ns
    return times, np.array([row[0] for row in rows], np.int64), [row[1] for row in rows]


@given(EPOCHS, st.sampled_from([MILLISECOND, MINUTE, 7 * MINUTE]), st.booleans(), st.randoms())
def test_002_5_3_7_restarts_of_numbers_are_found_with_and_without_resets(
    epochs, step_ns, with_resets, rng
):
    times, numbers, expected = sent(epochs, step_ns)
    first = [expected.index(epoch) for epoch in range(1, len(epochs))]
    resets = [int(times[at]) for at in first] if with_resets else []
    order = list(range(len(times)))
    rng.shuffle(order)
    restarts = find_restarts(times[order], numbers[order], resets)
    assert [each.time_ns for each in restarts] == [int(times[at]) for at in first]
    versions = TimeSlots(restarts).version_at(times, numbers)
    assert (versions - slot_of(times)).tolist() == expected
    assert (np.diff(versions) >= 0).all()


@given(EPOCHS, st.sets(st.integers(0, 100), max_size=5))
def test_numbers_continue_over_versions_until_they_restart(epochs, lost):
    times, numbers, expected = sent(epochs, 7 * MINUTE)
    coverage = {}
    for at, (version, number) in enumerate(
        zip(
            TimeSlots(find_restarts(times, numbers, ())).version_at(times, numbers),
            numbers,
            strict=True,
        )
    ):
        if at not in lost:
            ranges = coverage.setdefault((1, 72, int(version)), {(0, "A"): []})
            ranges[0, "A"].append((int(number), int(number)))
    found = list(numberings_of(coverage, timed_versions=True))
    received = {epoch for at, epoch in enumerate(expected) if at not in lost}
    assert len(found) <= len(received)
    numbers_of = [
        number
        for numbering in found
        for first, last in numbering.runs[0, "A"]
        for number in range(first, last + 1)
    ]
    assert sorted(numbers_of) == sorted(
        int(number) for at, number in enumerate(numbers) if at not in lost
    )
    # With separate versions, each is a numbering.
    assert len(list(numberings_of(coverage, timed_versions=False))) == len(coverage)


def test_a_snapshot_holds_as_of_the_version_in_which_its_message_was_sent():
    times, numbers, _ = sent([6, 4], 7 * MINUTE)
    restarts = find_restarts(times, numbers, ())
    versions = TimeSlots(restarts).version_at(times, numbers)
    coverage = {}
    for version, number in zip(versions.tolist(), numbers.tolist(), strict=True):
        runs = coverage.setdefault((1, 72, version), {(0, ""): []})[0, ""]
        runs.append((number, number))
    slots = TimeSlots.from_restarts(restarts, numberings_of(coverage, timed_versions=True))
    # Sent a minute after each message, and as of it.
    found = slots.held_as_of(times + MINUTE, numbers)
    assert found.tolist() == versions.tolist()
    # As of an earlier one: that one's version.
    assert slots.held_as_of(times[5:6], numbers[:1]).tolist() == versions[:1].tolist()
    assert slots.held_as_of(times[9:], numbers[6:7]).tolist() == versions[6:7].tolist()
