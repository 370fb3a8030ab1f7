"""Requests that bring about others, and market makers whose quotes live for milliseconds."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import date
from statistics import fmean, median, pvariance
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pregao.clock import MILLISECOND, SECOND
from pregao.exchange.engine.engine import MatchingEngine
from pregao.exchange.engine.model.commands import CancelOrder, ModifyOrder, NewOrder
from pregao.exchange.engine.model.enums import TradingStatus
from pregao.exchange.engine.model.events import NewOrderMbo
from pregao.exchange.engine.model.instrument_loader import bundled_catalogue
from pregao.exchange.engine.model.operations_commands import SetGroupPhase
from pregao.exchange.traders.arrivals import SeededRandom
from pregao.exchange.traders.crowd import Crowd
from pregao.exchange.traders.crowd_instrument import CrowdInstrument
from pregao.exchange.traders.excitation import ReactionQueue
from pregao.exchange.traders.profiles import Excitation, Makers, load_profile

START = 1_779_361_200 * SECOND
LEADER = cast("CrowdInstrument", SimpleNamespace(name="leader"))
FOLLOWER = cast("CrowdInstrument", SimpleNamespace(name="follower"))


def cluster(agenda: ReactionQueue) -> list[int]:
    """The times of one request at time 0 and of all that it brings about."""
    times = [0]
    agenda.react(0, LEADER, lambda: FOLLOWER)
    while (due := agenda.due_ns) is not None:
        desk, order = agenda.pop()
        assert not order
        times.append(due)
        agenda.react(due, desk, lambda: FOLLOWER)
    return times


@settings(max_examples=8)
@given(st.integers(), st.sampled_from([0.0, 0.4, 0.7]), st.sampled_from([1.0, 4.0]))
def test_each_request_causes_the_expected_number_of_others(seed, branching, together):
    excitation = Excitation(branching, together)
    agenda = ReactionQueue(SeededRandom(seed, "a"), excitation, Makers(), 0.0)
    assert agenda.spontaneous == pytest.approx(1 - branching)
    sizes = [len(cluster(agenda)) for _ in range(3000)]
    assert fmean(sizes) == pytest.approx(1 / (1 - branching), rel=0.3)


def test_bots_that_react_together_form_larger_clusters_of_the_same_mean():
    def sizes(together: float) -> list[int]:
        agenda = ReactionQueue(SeededRandom(1, "a"), Excitation(0.8, together), Makers(), 0.0)
        return [len(cluster(agenda)) for _ in range(4000)]

    alone, groups = sizes(1.0), sizes(5.0)
    assert fmean(groups) == pytest.approx(fmean(alone), rel=0.3)
    assert pvariance(groups) > 3 * pvariance(alone)


def test_reactions_come_immediately_or_a_little_later_mostly_on_the_same_instrument():
    agenda = ReactionQueue(
        SeededRandom(1, "a"), Excitation(0.9, 1.0, 0.6, 100.0, 10.0, 0.75), Makers(), 0.0
    )
    delays, where = [], Counter[str]()
    for _ in range(5000):
        agenda.react(0, LEADER, lambda: FOLLOWER)
        while (due := agenda.due_ns) is not None:
            delays.append(due)
            where[agenda.pop()[0].name] += 1  # type: ignore[attr-defined]
    assert sum(delay < MILLISECOND for delay in delays) / len(delays) == pytest.approx(
        0.64, abs=0.04
    )
    assert where["leader"] / len(delays) == pytest.approx(0.75, abs=0.04)


def test_quotes_live_as_long_as_they_should():
    makers = Makers(1.0, 16.0, 2.0, 0.0, 0.0)
    agenda = ReactionQueue(SeededRandom(1, "a"), Excitation(), makers, 0.5)
    assert agenda.spontaneous == pytest.approx(1 / 1.5)
    for number in range(1, 4001):
        agenda.end_quote(0, LEADER, number)
    lives = []
    while (due := agenda.due_ns) is not None:
        lives.append(due)
        agenda.pop()
    assert median(lives) == pytest.approx(16 * MILLISECOND, rel=0.15)
    assert lives[len(lives) // 10] == pytest.approx(1.23 * MILLISECOND, rel=0.3)


class Floor:
    """A crowd of one profile before an engine, in continuous trading."""

    def __init__(self, seed: int, **makers: Any) -> None:
        profile = load_profile("thin-derivatives")
        profile = replace(profile, makers=replace(profile.makers, **makers))
        futures = [x for x in bundled_catalogue() if x.channel == 72][:6]
        self.engine = MatchingEngine(futures, date(2026, 5, 21))
        market = self.engine.market
        self.crowd = Crowd(market, list(market.listings.values()), profile, seed, 5000)
        for group in market.groups:
            self.engine.apply(SetGroupPhase(group, TradingStatus.OPEN), START)
        self.requests: list[Any] = []
        self.added: list[NewOrderMbo] = []

    def trade(self, count: int) -> None:
        now = START
        for _ in range(count):
            due = self.crowd.agenda.due_ns
            now = max(now, min(now + 20 * MILLISECOND, due or now + 20 * MILLISECOND))
            request = self.crowd.next(now, 0)
            if request is None:
                continue
            self.requests.append(request)
            for unit in self.engine.apply(request, now).market:
                self.added += [item for item in unit.items if isinstance(item, NewOrderMbo)]


def test_makers_cancel_and_replace_what_they_quote():
    floor = Floor(3)
    floor.trade(6000)
    kinds = Counter(type(request) for request in floor.requests)
    assert kinds[CancelOrder] > 0.5 * kinds[NewOrder]
    assert 0.05 < kinds[ModifyOrder] / kinds[CancelOrder] < 0.5
    assert sum(item.firm is None for item in floor.added) / len(floor.added) > 0.85


def test_the_same_seed_gives_the_same_requests():
    first, second = Floor(5), Floor(5)
    first.trade(1500)
    second.trade(1500)
    assert first.requests == second.requests
