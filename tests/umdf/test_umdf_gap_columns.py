"""The columns' rules of gaps are those of the live machine."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pregao.umdf.gaps import HEALED, Counters, InstrumentGaps, Item, Step, follow
from pregao.umdf.gaps import Step as LiveStep
from pregao.umdf.loops import SnapshotHeader
from pregao.umdf.recovery import Incremental
from pregao.umdf.sequencing import Place

VERSION = 3
STEPS = {
    LiveStep.FIRST: Step.APPLIES,
    LiveStep.NEXT: Step.APPLIES,
    LiveStep.UNCOUNTED: Step.APPLIES,
    LiveStep.RESTART: Step.RESTART,
    LiveStep.GAP: Step.GAP,
    LiveStep.QUEUED: Step.QUEUED,
}


class Live:
    """The live machine for one instrument, given snapshots right behind what they hold."""

    def __init__(self, from_the_start):
        self.gaps = InstrumentGaps()
        self.from_the_start = from_the_start
        self.count = 0
        self.begun = False

    @property
    def stale(self):
        return bool(self.gaps.stale)

    def begin(self, number):
        if not self.begun:
            self.begun = True
            self.gaps.begin(1, 0, Place(VERSION, number - 1))

    def item(self, number, kind, count):
        was_stale = self.stale
        step = getattr(self, kind.name.lower())(number, count)
        return int(step) | (HEALED if was_stale and not self.stale else 0)

    def message(self, number, count):
        if count:
            self.begin(number)
            self.count = count
        place = Place(VERSION, number)
        return STEPS[self.gaps.observe(Incremental(place, 0, 50, 1, count or None, None))[0]]

    def emptied(self, number, _count):
        self.begin(number)
        self.gaps.emptied(1, Place(VERSION, number))
        self.count = 0
        return Step.APPLIES

    def reset(self, number, _count):
        self.gaps.channel_reset(Place(VERSION, number))
        self.past_does_not_matter()
        return Step.APPLIES

    def absent(self, _number, _count):
        self.past_does_not_matter()
        return Step.NOTED

    def past_does_not_matter(self):
        if not self.begun and not self.from_the_start:
            self.begun = True  # without a count: the next one is the first
            self.count = None

    def snapshot(self, number, count):
        header = SnapshotHeader(1, number, 1, 0, 0, 0, count or None, VERSION)
        was_stale, healed = self.stale, self.gaps.snapshot(header, VERSION)
        assert was_stale == (healed is not None)
        joins = not self.begun and not self.from_the_start and count
        if healed is not None or joins:
            step = Step.LOADS
        elif self.count is None or self.count == count:
            step = Step.AGREES
        else:
            step = Step.DISAGREES
        if healed is None:
            self.gaps.begin(1, count or None, Place(VERSION, number))
        else:
            assert healed.messages == []
        self.begun, self.count = True, count
        return step


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
def test_columns_and_the_live_machine_agree(items, from_the_start):
    live = {security: Live(from_the_start) for security in (1, 2, 3)}
    expected = [live[item[0]].item(number, *item[1:]) for number, item in enumerate(items, 1)]
    securities = np.array([item[0] for item in items])
    order = np.argsort(securities, kind="stable")
    starts = np.searchsorted(securities[order], [1, 2, 3, 4])
    kinds = np.array([item[1] for item in items], np.uint8)[order]
    counts = np.array([item[2] for item in items], np.int64)[order]
    counters = Counters.new(3, from_the_start=from_the_start)
    found = follow(starts, kinds, counts, counters)
    assert found.steps.tolist() == [expected[at] for at in order]
    stale = {security for security in (1, 2, 3) if counters.stale[security - 1]}
    assert stale == {security for security in (1, 2, 3) if live[security].stale}


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
