"""When orders come: the mean holds, bursts are as strong as they should be."""

from __future__ import annotations

from bisect import bisect_left
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pregao.clock import SECOND
from pregao.exchange.traders.arrivals import ActivitySpan, ArrivalProcess, SeededRandom, day_curve
from pregao.exchange.traders.profiles import Bursts, load_profile

CALM = Bursts(0.0, 100.0, (20.0, 30.0))


@given(
    st.lists(
        st.tuples(st.integers(1, 10**10), st.sampled_from(["open", "auction", "closed"])),
        min_size=1,
        max_size=8,
    ),
    st.lists(st.floats(0.1, 5), min_size=1, max_size=9),
    st.floats(0.1, 5),
)
def test_a_curve_covers_the_day_with_a_mean_of_one(lengths, day, auction):
    phases = []
    now = 7
    for length, kind in lengths:
        phases.append((now, now + length, kind))
        now += length
    curve = day_curve(phases, day, auction)
    assert curve[0].start_ns == 7
    assert curve[-1].end_ns == now
    for before, after in pairwise(curve):
        assert before.end_ns == after.start_ns
    tradable = sum(length for length, kind in lengths if kind != "closed")
    total = sum((span.end_ns - span.start_ns) * span.weight for span in curve)
    assert total == pytest.approx(tradable)
    closed = sum(length for length, kind in lengths if kind == "closed")
    assert sum(x.end_ns - x.start_ns for x in curve if not x.weight) == closed


def times(pace: ArrivalProcess, start: int) -> list[int]:
    found: list[int] = []
    while (when := pace.next_ns(found[-1] if found else start)) is not None:
        found.append(when)
    return found


@given(st.integers(), st.floats(1, 200), st.floats(0, 0.02))
def test_times_go_forward_and_stay_in_the_busy_spans(seed, mean, share):
    curve = [
        ActivitySpan(0, SECOND, 0.0),
        ActivitySpan(SECOND, 3 * SECOND, 1.0),
        ActivitySpan(3 * SECOND, 4 * SECOND, 0.0),
        ActivitySpan(4 * SECOND, 5 * SECOND, 2.0),
    ]
    found = times(
        ArrivalProcess(SeededRandom(seed, "t"), Bursts(share, 50.0, (20.0, 30.0)), curve, mean), 0
    )
    assert found == sorted(set(found))
    for when in found:
        assert SECOND < when < 3 * SECOND or 4 * SECOND < when < 5 * SECOND


def test_the_mean_rate_holds_with_and_without_bursts():
    curve = [ActivitySpan(0, 400 * SECOND, 0.5), ActivitySpan(400 * SECOND, 800 * SECOND, 1.5)]
    for bursts in (CALM, Bursts(0.01, 100.0, (20.0, 30.0))):
        found = times(ArrivalProcess(SeededRandom(1, "pace"), bursts, curve, 50.0), 0)
        assert len(found) == pytest.approx(800 * 50, rel=0.12)
        half = bisect_left(found, 400 * SECOND)
        assert half < len(found) / 2


def test_bursts_are_twenty_to_thirty_times_the_mean():
    mean = 200.0
    bursts = load_profile("equities").bursts
    pace = ArrivalProcess(
        SeededRandom(3, "pace"), bursts, [ActivitySpan(0, 600 * SECOND, 1.0)], mean
    )
    inside: dict[int, list[int]] = {}
    calm = 0
    now = 0
    while (when := pace.next_ns(now)) is not None:
        now = when
        if pace.burst:
            inside.setdefault(pace.burst, []).append(now)
        else:
            calm += 1
    assert len(inside) > 10
    orders = sum(len(found) - 1 for found in inside.values())
    length = sum(found[-1] - found[0] for found in inside.values())
    assert 20 * mean < orders / (length / SECOND) < 30 * mean
    assert calm / 600 < mean


def test_news_brings_a_burst_forward_but_not_without_end():
    bursts = Bursts(0.01, 100.0, (20.0, 20.0))
    pace = ArrivalProcess(
        SeededRandom(1, "pace"), bursts, [ActivitySpan(0, 100 * SECOND, 1.0)], 100.0
    )
    now = pace.next_ns(0)
    assert now is not None
    before = pace.bursts
    forced = 0
    while now is not None and now < 90 * SECOND:
        if not pace.burst:
            pace.begin_burst(now)
        now = pace.next_ns(now)
        forced = pace.bursts
    assert forced > before
    # One burst in about ten seconds: asking all the time gives some more, not hundreds.
    assert forced < 40


def test_a_new_mean_holds_from_now_on():
    pace = ArrivalProcess(SeededRandom(1, "pace"), CALM, [ActivitySpan(0, 10 * SECOND, 1.0)], 10.0)
    assert pace.remaining(4 * SECOND) == 6.0
    now: int | None = 0
    slow = 0
    while now is not None and now < 5 * SECOND:
        now = pace.next_ns(now)
        slow += 1
    pace.set_mean(1000.0)
    fast = len(times(pace, 5 * SECOND))
    assert slow < 100
    assert 4500 < fast < 5500
