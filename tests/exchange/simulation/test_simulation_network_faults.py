"""Faults of a network: what is counted is what a receiver sees."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pregao.errors import UsageError
from pregao.exchange.simulation.network_faults import (
    STREAMS,
    FaultRates,
    FaultyFeed,
    fault_rates,
    parse_rates,
)
from pregao.exchange.traders.arrivals import SeededRandom

rates = st.floats(0, 0.33)


@given(rates, rates, rates, st.integers(0, 300), st.integers())
def test_counts_are_what_a_receiver_sees(loss, reorder, duplicate, count, seed):
    feed: FaultyFeed[int] = FaultyFeed(
        FaultRates(loss, reorder, duplicate), SeededRandom(seed, "test")
    )
    got = []
    lost = set()
    for packet in range(count):
        got += feed.send(packet)
        if feed.lost:
            lost.add(packet)
    got += feed.finish()
    assert feed.finish() == []
    assert set(range(count)) - set(got) == lost
    assert feed.counts.lost == len(lost)
    assert feed.counts.duplicated == len(got) - len(set(got))
    late = [p for index, p in enumerate(got) if any(q > p for q in got[:index])]
    assert feed.counts.reordered == len(set(late))
    # Nothing comes more than a few packets late.
    for index, packet in enumerate(got):
        overtaken = {q for q in got[:index] if q > packet}
        assert len(overtaken) <= 3


@given(st.integers(), st.lists(st.integers()))
def test_without_faults_everything_arrives_in_order(seed, packets):
    feed: FaultyFeed[int] = FaultyFeed(FaultRates(), SeededRandom(seed, "test"))
    assert [arrived for packet in packets for arrived in feed.send(packet)] == packets


def test_faults_happen_about_as_often_as_requested():
    feed: FaultyFeed[int] = FaultyFeed(FaultRates(0.1, 0.05, 0.02), SeededRandom(1, "test"))
    for packet in range(20_000):
        feed.send(packet)
    counts = feed.counts
    assert 1800 < counts.lost < 2200
    assert 300 < counts.duplicated < 500
    # A packet out of order waits for others; meanwhile no second one is held back.
    assert 700 < counts.reordered < 1050


def test_a_packet_held_back_at_the_end_is_not_out_of_order():
    feed: FaultyFeed[int] = FaultyFeed(FaultRates(reorder=1.0), SeededRandom(1, "test"))
    assert feed.send(1) == []
    assert feed.finish() == [1]
    assert feed.counts.reordered == 0


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, {}),
        ("", {}),
        ("0.01", {"A": 0.01, "B": 0.01}),
        ("A=0.01", {"A": 0.01}),
        ("A=0.01, B=0.5", {"A": 0.01, "B": 0.5}),
        ("snapshot=1,definition=0.25", {"snapshot": 1.0, "definition": 0.25}),
    ],
)
def test_rates_are_read_for_both_feeds_or_by_feed(text, expected):
    assert parse_rates("--loss", text) == dict.fromkeys(STREAMS, 0.0) | expected


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1.5", "1.5"),
        ("-0.1", "-0.1"),
        ("nan", "nan"),
        ("often", "often"),
        ("C=0.1", "unknown feed 'C'"),
        ("A=0.1,A=0.2", "twice"),
        ("A=", "''"),
        ("A=0.1,", "unknown feed ''"),
    ],
)
def test_rates_that_make_no_sense_are_refused(text, words):
    with pytest.raises(UsageError, match="--loss") as refused:
        parse_rates("--loss", text)
    assert words in str(refused.value)


def test_rates_of_a_feed_that_sum_to_more_than_one_are_refused():
    high, none = parse_rates("--loss", "B=0.6"), parse_rates("--loss", None)
    with pytest.raises(UsageError, match="feed B add up to more than 1"):
        fault_rates(high, none, high)
    assert fault_rates(high, none, none)["B"] == FaultRates(0.6)


def test_sources_of_random_numbers_depend_on_seed_and_purpose():
    first = [SeededRandom(1, "a").random(), SeededRandom(1, "a").random()]
    assert first[0] == first[1]
    assert len({first[0], SeededRandom(2, "a").random(), SeededRandom(1, "b").random()}) == 3
