"""Orders of the crowd: they resemble a market, and the engine accepts them."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.flow import TARGETS, figures, simulate_flow
from pregao.clock import MILLISECOND, MINUTE, SECOND
from pregao.errors import UsageError
from pregao.exchange.engine.engine import MatchingEngine
from pregao.exchange.engine.model.commands import CancelOrder, ModifyOrder, NewOrder
from pregao.exchange.engine.model.enums import OrderSide, OrdType, TimeInForce, TradingStatus
from pregao.exchange.engine.model.instrument_loader import bundled_catalogue
from pregao.exchange.engine.model.instruments import SecurityType
from pregao.exchange.engine.model.operations_commands import SetGroupPhase
from pregao.exchange.engine.model.reports import OrderRejected
from pregao.exchange.simulation.settings import SimulationSettings
from pregao.exchange.traders.crowd import Crowd
from pregao.exchange.traders.profiles import Profile, load_profile

START = 1_779_361_200 * SECOND
SHARES = [
    x
    for x in bundled_catalogue()
    if x.security_type in (SecurityType.CS, SecurityType.PS) and not x.underlyings
]
FUTURES = [
    x for x in bundled_catalogue() if x.security_type in (SecurityType.FUT, SecurityType.MLEG)
]


class Run:
    """A crowd in front of an engine, with counts of its orders and their results."""

    def __init__(self, instruments: Any, profile: Profile, seed: int, orders: int) -> None:
        self.engine = MatchingEngine(instruments, date(2026, 5, 21))
        market = self.engine.market
        self.crowd = Crowd(market, list(market.listings.values()), profile, seed, orders)
        self.groups = list(market.groups)
        self.now = START
        self.requests: list[Any] = []
        self.rejects: list[OrderRejected] = []
        self.items: Counter[str] = Counter()
        self.touch: list[int] = []

    def phase(self, phase: TradingStatus) -> None:
        for group in self.groups:
            self._count(self.engine.apply(SetGroupPhase(group, phase), self.now))

    def trade(self, orders: int, burst: int = 0) -> None:
        for _ in range(orders):
            self.now += MILLISECOND
            request = self.crowd.next(self.now, burst)
            if request is not None:
                self._see(request)
                self.requests.append(request)
                self._count(self.engine.apply(request, self.now))

    def _see(self, request: Any) -> None:
        """Return the number of price steps between an order and the best price of its side."""
        if isinstance(request, NewOrder) and request.price is not None:
            listing = self.engine.market.listings[request.security_id]
            best = listing.side(request.side).best_price()
            if best is not None:
                away = (
                    best - request.price if request.side == OrderSide.BUY else request.price - best
                )
                self.touch.append(away // listing.tick)

    def _count(self, outcome: Any) -> None:
        self.rejects += [x for x in outcome.reports if isinstance(x, OrderRejected)]
        for unit in outcome.market:
            self.items.update(type(item).__name__ for item in unit.items)


@pytest.fixture(scope="module")
def shares() -> Run:
    """A day of shares: an auction, then continuous trading."""
    run = Run(SHARES, load_profile("equities"), 5, 12_000)
    run.phase(TradingStatus.RESERVED)
    run.trade(1500)
    run.phase(TradingStatus.OPEN)
    run.trade(10_500)
    return run


@pytest.fixture(scope="module")
def filled() -> Run:
    """Continuous trading in books that are as full as intended."""
    run = Run(SHARES, load_profile("equities"), 6, 12_000)
    run.phase(TradingStatus.OPEN)
    run.trade(5000)
    run.items.clear()
    run.requests.clear()
    run.touch.clear()
    run.trade(10_000)
    return run


def test_the_engine_accepts_nearly_all_orders(shares):
    assert len(shares.rejects) < len(shares.requests) / 200


def test_activity_follows_a_power_law(shares):
    by_instrument = Counter(request.security_id for request in shares.requests)
    ranked = [by_instrument[instrument.security_id] for instrument in SHARES]
    assert ranked[0] == max(ranked)
    total = sum(ranked)
    weights = [1 / rank**1.15 for rank in range(1, len(ranked) + 1)]
    for rank, count in enumerate(ranked):
        assert count / total == pytest.approx(weights[rank] / sum(weights), rel=0.25)


def test_orders_are_placed_near_the_top(filled):
    near = sum(away <= 10 for away in filled.touch)
    assert near > 0.8 * len(filled.touch)
    assert max(filled.touch) > 50


def test_many_orders_are_cancelled_or_changed_and_few_trade(filled):
    kinds = Counter(type(request) for request in filled.requests)
    assert kinds[CancelOrder] > 0.5 * kinds[NewOrder]
    assert kinds[ModifyOrder] > 0.3 * kinds[NewOrder]
    assert filled.items["ExecutionSummary"] < 0.1 * len(filled.requests)


def test_the_mix_of_messages_is_that_of_real_traffic(filled):
    """Orders 28 %, deletes 18 %, trades 3-4 %, summaries and statistics 2-3 % each."""
    items = filled.items
    orders = items["NewOrderMbo"] + items["ChangeOrderMbo"]
    assert items["DeleteOrderMbo"] / orders == pytest.approx(18 / 28, rel=0.25)
    assert items["Trade"] / orders == pytest.approx(3.5 / 28, rel=0.5)
    assert items["ExecutionSummary"] / orders == pytest.approx(2.5 / 28, rel=0.5)
    assert items["ExecutionStatistics"] / orders == pytest.approx(2.5 / 28, rel=0.5)


def test_all_kinds_of_orders_are_sent(shares):
    new = [request for request in shares.requests if isinstance(request, NewOrder)]
    validities = {request.time_in_force for request in new}
    assert validities >= {
        TimeInForce.DAY,
        TimeInForce.IMMEDIATE_OR_CANCEL,
        TimeInForce.FILL_OR_KILL,
        TimeInForce.GOOD_TILL_CANCEL,
        TimeInForce.GOOD_FOR_AUCTION,
        TimeInForce.AT_THE_CLOSE,
    }
    types = {request.ord_type for request in new}
    assert types == {
        OrdType.LIMIT,
        OrdType.MARKET,
        OrdType.MARKET_WITH_LEFTOVER_AS_LIMIT,
        OrdType.STOP_LOSS,
        OrdType.STOP_LIMIT,
        OrdType.RLP,
        OrdType.PEGGED_MIDPOINT,
    }
    assert any(request.investor_id and request.self_trade_prevention for request in new)
    assert any(request.routing_instruction for request in new)
    assert any(0 < request.max_floor < request.quantity for request in new)


def test_the_auction_trades_when_it_ends(shares):
    assert shares.items["TheoreticalOpeningPrice"] > 50
    assert shares.items["OpeningPrice"] >= len(SHARES) - 2


def test_the_most_active_books_are_the_large_ones(shares):
    sizes = [instrument.resting() for instrument in shares.crowd.instruments]
    assert min(sizes[:2]) > 2 * max(sizes[2:])


def test_the_bots_forget_orders_that_ended(shares):
    for instrument in shares.crowd.instruments:
        assert len(instrument.live) < 200 + 4 * instrument.resting()


def test_waiting_orders_are_withdrawn_when_they_are_many():
    profile = load_profile("equities")
    waiting = {"stop": 40.0, "provide": 20.0, "pegged": 20.0, "at_the_close": 0.0}
    run = Run(SHARES[:2], replace(profile, open=profile.open | waiting), 3, 3000)
    run.phase(TradingStatus.OPEN)
    for _ in range(10):
        run.trade(300)
        for listing in run.engine.market.listings.values():
            assert len(listing.waiting) <= 12
    assert not run.rejects


def test_a_burst_goes_mostly_to_one_instrument():
    run = Run(SHARES, load_profile("equities"), 2, 3000)
    run.phase(TradingStatus.OPEN)
    run.trade(500)
    run.requests.clear()
    run.crowd.heat(run.crowd.instruments[4])
    run.trade(1000, burst=1)
    common = Counter(request.security_id for request in run.requests).most_common(2)
    assert common[0][0] == run.crowd.instruments[4].security_id
    # What was planned before the burst continues alongside it.
    assert common[0][1] > 1.5 * common[1][1]


def test_no_bot_sends_orders_while_the_market_is_closed():
    run = Run(SHARES, load_profile("equities"), 1, 100)
    run.trade(50)
    assert run.requests == []


def test_the_same_seed_sends_the_same_orders():
    runs = []
    for seed in (1, 1, 2):
        run = Run(SHARES, load_profile("stress"), seed, 600)
        run.phase(TradingStatus.RESERVED)
        run.trade(200)
        run.phase(TradingStatus.OPEN)
        run.trade(400)
        runs.append(run.requests)
    assert runs[0] == runs[1]
    assert runs[0] != runs[2]


@settings(max_examples=15, deadline=None)
@given(st.integers(), st.sampled_from(["derivatives", "stress"]))
def test_futures_and_spreads_are_traded_without_complaint(seed, name):
    run = Run(FUTURES, load_profile(name), seed, 500)
    run.phase(TradingStatus.RESERVED)
    run.trade(100)
    run.phase(TradingStatus.OPEN)
    run.trade(300)
    run.phase(TradingStatus.FINAL_CLOSING_CALL)
    run.trade(50)
    assert len(run.rejects) <= 5, run.rejects


def test_a_shock_moves_the_price():
    run = Run(SHARES[:1], load_profile("equities"), 1, 4000)
    run.phase(TradingStatus.OPEN)
    run.trade(1000)
    instrument = run.crowd.instruments[0]
    before = instrument.best_bid()
    instrument.shock(5.0)
    run.trade(3000)
    assert before is not None
    after = instrument.best_bid()
    assert after is not None
    assert after > before * 1.03


def test_ten_figures_are_within_a_factor_of_two_of_real_ones():
    """Prices bounce, sides of aggressions persist, impact is concave, brokers are unequal."""
    day = SimulationSettings("equities", Path(), instruments=4, rate=100.0, duration_ns=12 * MINUTE)
    found, targets = figures(simulate_flow(day)), TARGETS["equities"]
    for name in (
        "variance ratio at 20 s",
        "variance ratio at 60 s",
        "autocorrelation of signs, lag 1",
        "autocorrelation of signs, lag 5",
        "exponent of impact",
        "trades at an unchanged price",
        "mean run of price changes",
        "packets up to 128 bytes",
        "packets of 129 to 192 bytes",
        "sides of the top five brokers",
    ):
        low, high = targets[name]
        assert low / 2 <= found[name] <= 2 * high, name
    assert found["variance ratio at 60 s"] < 1


def test_a_crowd_needs_something_to_trade():
    forwards = [x for x in bundled_catalogue() if x.is_forward]
    with pytest.raises(UsageError, match="none of the selected instruments"):
        Run(forwards, load_profile("equities"), 1, 100)


def test_books_of_a_short_run_stay_small():
    profile = load_profile("stress")
    long = Run(SHARES, profile, 1, 10_000_000)
    short = Run(SHARES, profile, 1, 1000)
    assert long.crowd.instruments[0].target == 2 * profile.book.large_orders
    assert sum(instrument.target for instrument in short.crowd.instruments) < 400


def test_quantities_are_such_as_the_instrument_takes():
    odd = [x for x in bundled_catalogue() if x.security_group == "1F"]
    large = replace(SHARES[0], min_order_qty=500, max_order_qty=900)
    run = Run([*odd, large], load_profile("stress"), 3, 1000)
    run.phase(TradingStatus.OPEN)
    run.trade(1000)
    for request in run.requests:
        if isinstance(request, NewOrder):
            low, high = (500, 900) if request.security_id == large.security_id else (1, 99)
            assert low <= request.quantity <= high
