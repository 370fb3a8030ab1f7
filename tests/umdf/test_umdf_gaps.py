"""The counters of instruments: one item after the other, and in columns."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pregao.umdf.gap_columns import CONFIRMED, DOUBTED, HEALED, GapCounters, follow
from pregao.umdf.gaps import (
    MAX_MESSAGES_PER_PACKET,
    NOTHING,
    UNPROVEN,
    UNSEEN,
    UNTOUCHED,
    GapItem,
    GapStep,
    InstrumentCount,
)


@st.composite
def streams(draw):
    """Items of three instruments whose counters continue, restart, jump and are lost.

    Each is (instrument, kind, count, missing packets, those that come before it, valid).
    """
    counters = {}
    items = []
    missing = 0
    for _ in range(draw(st.integers(1, 60))):
        security = draw(st.integers(1, 3))
        kind = draw(st.sampled_from([GapItem.MESSAGE] * 8 + [*GapItem]))
        last = counters.get(security, draw(st.sampled_from([0, 0, 5, 100])))
        lost = draw(st.sampled_from([0, 0, 0, 0, 0, 1, 3]))
        if kind == GapItem.MESSAGE:
            if draw(st.integers(0, 9)) == 0:
                count = 0
            else:
                count = draw(st.sampled_from([last + 1 + lost] * 12 + [1, max(last - 1, 1)]))
                counters[security] = count
        elif kind == GapItem.SNAPSHOT:
            count = counters[security] = last + lost
        else:
            count = 0
            if kind == GapItem.EMPTIED:
                counters[security] = 0
            elif kind == GapItem.GAP:
                missing += draw(st.sampled_from([1, 1, 2, 5]))
        sound = draw(st.integers(0, 9)) > 0
        inside = missing and kind in (GapItem.SNAPSHOT, GapItem.ABSENT) and draw(st.booleans())
        items.append((security, kind, count, missing, missing - bool(inside), sound))
    return items


def columns_of(items):
    kinds = np.array([item[1] for item in items], np.uint8)
    numbers = (np.array([item[at] for item in items], np.int64) for at in (2, 3, 4))
    return kinds, *numbers, np.array([item[5] for item in items], np.uint8)


@settings(max_examples=300, deadline=None)
@given(streams(), st.booleans())
def test_columns_and_single_items_agree(items, from_the_start):
    plain = {one: InstrumentCount.new(from_the_start=from_the_start) for one in (1, 2, 3)}
    doubted = dict.fromkeys(plain, False)
    expected = []
    for security, kind, count, missing, covered, sound in items:
        counter = plain[security]
        was_stale = counter.stale
        step = int(counter.follow(kind, count, missing, covered, sound=sound))
        step |= HEALED if was_stale and not counter.stale else 0
        doubt = missing > counter.proven
        if doubt != doubted[security]:
            step |= DOUBTED if doubt else CONFIRMED
        doubted[security] = doubt
        expected.append(step)
    securities = np.array([item[0] for item in items])
    order = np.argsort(securities, kind="stable")
    starts = np.searchsorted(securities[order], [1, 2, 3, 4])
    kinds, counts, *rest = (column[order] for column in columns_of(items))
    counters = GapCounters.new(3, from_the_start=from_the_start)
    found = follow(starts, kinds, counts, counters, *rest)
    assert found.steps.tolist() == [expected[at] for at in order]
    for column in ("last", "stale", "proven"):
        values = getattr(counters, column).tolist()
        assert values == [getattr(plain[security], column) for security in (1, 2, 3)]


@settings(max_examples=100, deadline=None)
@given(streams(), st.integers(0, 60))
def test_a_column_may_come_in_two_parts(items, cut):
    mine = [item for item in items if item[0] == 1]
    columns = columns_of(mine)
    whole, parts = (GapCounters.new(1, from_the_start=False) for _ in range(2))

    def followed(counters, begin, end):
        kinds, counts, *rest = (column[begin:end] for column in columns)
        return follow(np.array([0, len(kinds)]), kinds, counts, counters, *rest)

    expected = followed(whole, 0, len(mine))
    first, second = followed(parts, 0, cut), followed(parts, cut, len(mine))
    assert [*first.steps, *second.steps] == expected.steps.tolist()
    assert [*first.before, *second.before] == expected.before.tolist()
    for column in ("last", "stale", "proven", "doubted"):
        assert (getattr(parts, column) == getattr(whole, column)).all()


def test_a_first_count_above_one_is_a_gap_unless_a_loop_shows_an_empty_book():
    starts = np.array([0, 1, 3])
    kinds = np.array([GapItem.MESSAGE, GapItem.ABSENT, GapItem.MESSAGE], np.uint8)
    found = follow(starts, kinds, np.array([7, 0, 7]), GapCounters.new(2, from_the_start=False))
    assert found.step.tolist() == [GapStep.GAP, GapStep.EMPTIES, GapStep.APPLIES]


@pytest.mark.parametrize(
    ("last", "count", "step"),
    [
        (6997, 6998, GapStep.APPLIES),
        (6998, 7000, GapStep.GAP),
        (500, 1, GapStep.RESTART),
        (2, 2, GapStep.GAP),
        (NOTHING, 5, GapStep.APPLIES),
        (UNTOUCHED, 1, GapStep.APPLIES),
        (UNTOUCHED, 5, GapStep.GAP),
        (UNSEEN, 1, GapStep.APPLIES),
        (UNSEEN, 5, GapStep.GAP),
    ],
)
def test_7_4_1_steps_of_a_count_after_the_last_one(last, count, step):
    counter = InstrumentCount(last)
    assert counter.follow(GapItem.MESSAGE, count) is step
    assert counter.stale == (step is GapStep.GAP)
    assert counter.last == count


def test_messages_without_a_counter_are_no_gap():
    counter = InstrumentCount(5)
    assert counter.follow(GapItem.MESSAGE, 0) is GapStep.APPLIES
    assert counter.follow(GapItem.MESSAGE, 6) is GapStep.APPLIES


def test_6_5_13_the_first_message_after_empty_book_carries_1_and_is_no_gap():
    counter = InstrumentCount(500)
    counter.follow(GapItem.EMPTIED, 0)
    assert counter.follow(GapItem.MESSAGE, 1) is GapStep.APPLIES


def doubted(last, *, missing=1):
    """A counter after which this number of packets is missing."""
    counter = InstrumentCount(last)
    counter.follow(GapItem.GAP, 0, missing)
    assert missing > counter.proven
    return counter


def test_a_message_that_continues_a_long_count_proves_that_nothing_was_missed():
    counter = doubted(500)
    assert counter.follow(GapItem.MESSAGE, 501, 1) is GapStep.APPLIES
    assert counter.proven == 1


def test_a_short_count_could_be_a_new_one_after_an_empty_book():
    """All of it fits into the packets that are missing."""
    counter = doubted(5)
    counter.follow(GapItem.MESSAGE, 6, 1)
    assert counter.proven == 0
    counter.follow(GapItem.MESSAGE, MAX_MESSAGES_PER_PACKET + 1, 1)
    assert counter.stale  # that one does not continue
    many = doubted(500, missing=100)
    many.follow(GapItem.MESSAGE, 501, 100)
    assert many.proven == 0


@pytest.mark.parametrize(
    ("item", "count", "step"),
    [
        (GapItem.EMPTIED, 0, GapStep.APPLIES),
        (GapItem.RESET, 0, GapStep.APPLIES),
        (GapItem.SNAPSHOT, 5, GapStep.CONFIRMS),
        (GapItem.SNAPSHOT, 6, GapStep.DISAGREES),
        (GapItem.ABSENT, 0, GapStep.EMPTIES),
        (GapItem.MESSAGE, 1, GapStep.RESTART),
    ],
)
def test_what_proves_a_book_after_a_gap(item, count, step):
    counter = doubted(5)
    assert counter.follow(item, count, 1) is step
    assert counter.proven == 1


@pytest.mark.parametrize("item", [GapItem.EMPTIED, GapItem.RESET])
def test_an_empty_book_in_a_packet_with_unread_parts_proves_only_earlier_state(item):
    counter = doubted(5, missing=2)
    counter.follow(item, 0, 3, sound=False)
    assert counter.proven == 2


def test_a_late_joiner_has_no_proof_before_a_snapshot_or_reset():
    counter = InstrumentCount.new(from_the_start=False)
    counter.follow(GapItem.MESSAGE, 1, 0)
    assert counter.proven == UNPROVEN
    assert counter.follow(GapItem.SNAPSHOT, 1, 0) is GapStep.CONFIRMS
    assert counter.proven == 0
