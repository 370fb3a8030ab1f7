"""The counters of instruments: one item after the other, and in columns."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pregao.umdf.gap_columns import HEALED, Counters, follow
from pregao.umdf.gaps import NOTHING, UNSEEN, UNTOUCHED, InstrumentCount, Item, Step, first_count


@st.composite
def streams(draw):
    """Items of three instruments whose counters go on, restart, jump and are lost."""
    counters = {}
    items = []
    for _ in range(draw(st.integers(1, 60))):
        security = draw(st.integers(1, 3))
        kind = draw(st.sampled_from([Item.MESSAGE] * 8 + [*Item]))
        last = counters.get(security, draw(st.sampled_from([0, 0, 5])))
        lost = draw(st.sampled_from([0, 0, 0, 0, 0, 1, 3]))
        if kind == Item.MESSAGE:
            if draw(st.integers(0, 9)) == 0:
                count = 0
            else:
                count = draw(st.sampled_from([last + 1 + lost] * 12 + [1, max(last - 1, 1)]))
                counters[security] = count
        elif kind == Item.SNAPSHOT:
            count = counters[security] = last + lost
        else:
            count = 0
            if kind == Item.EMPTIED:
                counters[security] = 0
        items.append((security, kind, count))
    return items


@settings(max_examples=300, deadline=None)
@given(streams(), st.booleans())
def test_columns_and_single_items_agree(items, from_the_start):
    first = first_count(from_the_start=from_the_start)
    plain = {security: InstrumentCount(first) for security in (1, 2, 3)}
    expected = []
    for security, kind, count in items:
        counter = plain[security]
        was_stale = counter.stale
        step = counter.follow(kind, count)
        expected.append(int(step) | (HEALED if was_stale and not counter.stale else 0))
    securities = np.array([item[0] for item in items])
    order = np.argsort(securities, kind="stable")
    starts = np.searchsorted(securities[order], [1, 2, 3, 4])
    kinds = np.array([item[1] for item in items], np.uint8)[order]
    counts = np.array([item[2] for item in items], np.int64)[order]
    counters = Counters.new(3, from_the_start=from_the_start)
    found = follow(starts, kinds, counts, counters)
    assert found.steps.tolist() == [expected[at] for at in order]
    assert counters.last.tolist() == [plain[security].last for security in (1, 2, 3)]
    assert counters.stale.tolist() == [plain[security].stale for security in (1, 2, 3)]


@settings(max_examples=100, deadline=None)
@given(streams(), st.integers(0, 60))
def test_a_column_may_come_in_two_parts(items, cut):
    mine = [item for item in items if item[0] == 1]
    kinds = np.array([item[1] for item in mine], np.uint8)
    counts = np.array([item[2] for item in mine], np.int64)
    whole, parts = (Counters.new(1, from_the_start=False) for _ in range(2))
    expected = follow(np.array([0, len(mine)]), kinds, counts, whole)
    cut = min(cut, len(mine))
    first = follow(np.array([0, cut]), kinds[:cut], counts[:cut], parts)
    second = follow(np.array([0, len(mine) - cut]), kinds[cut:], counts[cut:], parts)
    assert [*first.steps, *second.steps] == expected.steps.tolist()
    assert [*first.before, *second.before] == expected.before.tolist()
    assert (parts.last == whole.last).all()
    assert (parts.stale == whole.stale).all()


def test_a_first_count_above_one_is_a_gap_unless_a_loop_shows_an_empty_book():
    starts = np.array([0, 1, 3])
    kinds = np.array([Item.MESSAGE, Item.ABSENT, Item.MESSAGE], np.uint8)
    found = follow(starts, kinds, np.array([7, 0, 7]), Counters.new(2, from_the_start=False))
    assert found.steps.tolist() == [Step.GAP, Step.NOTED, Step.APPLIES]


@pytest.mark.parametrize(
    ("last", "count", "step"),
    [
        (6997, 6998, Step.APPLIES),
        (6998, 7000, Step.GAP),
        (500, 1, Step.RESTART),
        (2, 2, Step.GAP),
        (NOTHING, 5, Step.APPLIES),
        (UNTOUCHED, 1, Step.APPLIES),
        (UNTOUCHED, 5, Step.GAP),
        (UNSEEN, 1, Step.APPLIES),
        (UNSEEN, 5, Step.GAP),
    ],
)
def test_7_4_1_what_a_count_is_behind_the_last_one(last, count, step):
    counter = InstrumentCount(last)
    assert counter.follow(Item.MESSAGE, count) is step
    assert counter.stale == (step is Step.GAP)
    assert counter.last == count


def test_messages_without_a_counter_are_no_gap():
    counter = InstrumentCount(5)
    assert counter.follow(Item.MESSAGE, 0) is Step.APPLIES
    assert counter.follow(Item.MESSAGE, 6) is Step.APPLIES


def test_6_5_13_the_first_message_after_empty_book_carries_1_and_is_no_gap():
    counter = InstrumentCount(500)
    counter.follow(Item.EMPTIED, 0)
    assert counter.follow(Item.MESSAGE, 1) is Step.APPLIES
