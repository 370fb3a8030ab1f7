"""Market operations of a synthetic day: every act is one that the engine takes."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import date
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pregao.clock import MILLISECOND, SECOND
from pregao.exchange.engine.engine import MatchingEngine
from pregao.exchange.engine.model.enums import PriceBandType, PriceLimitType, TradingStatus
from pregao.exchange.engine.model.instrument_loader import bundled_catalogue
from pregao.exchange.engine.model.operations_commands import (
    AdvanceTime,
    EnterTrade,
    SetGroupPhase,
    SetPriceBand,
    SetQuantityBand,
    SetSettlementPrice,
)
from pregao.exchange.traders.arrivals import ActivitySpan, ArrivalProcess, SeededRandom
from pregao.exchange.traders.crowd import Crowd
from pregao.exchange.traders.market_operations import MarketOperations
from pregao.exchange.traders.profiles import OPERATIONS, load_profile

START = 1_779_361_200 * SECOND
LENGTH = 4 * SECOND
MARKET = [x for x in bundled_catalogue() if x.security_type.name != "INDEX"]


def day(
    seed: int, orders: int = 800, instruments: Any = MARKET
) -> tuple[MatchingEngine, Counter[str]]:
    """A short day in which everything that market operations know is done."""
    stress = load_profile("stress")
    profile = replace(
        stress,
        operations=dict.fromkeys(OPERATIONS, 4),
        shocks=replace(stress.shocks, count=4, percent=(8.0, 10.0)),
    )
    engine = MatchingEngine(instruments, date(2026, 5, 21), auction_duration_ns=SECOND // 2)
    market = engine.market
    crowd = Crowd(market, list(market.listings.values()), profile, seed, orders)
    pace = ArrivalProcess(
        SeededRandom(seed, "p"), profile.bursts, [ActivitySpan(START, START + LENGTH, 1.0)], 100.0
    )
    operations = MarketOperations(market, crowd, pace, profile, seed, START, START + LENGTH)
    done: Counter[str] = Counter()

    def apply(command: Any, now: int) -> None:
        done[type(command).__name__] += 1
        for unit in engine.apply(command, now).market:
            done.update(type(item).__name__ for item in unit.items)

    for command in operations.opening():
        apply(command, START)
    for group in list(market.groups):
        apply(SetGroupPhase(group, TradingStatus.OPEN), START)
    step = LENGTH // orders
    for now in range(START + step, START + LENGTH + step, step):
        for command in operations.due(now):
            apply(command, now)
        request = crowd.next(now, pace.burst)
        if request is not None:
            apply(request, now)
    for command in operations.due(START + 10 * LENGTH):
        apply(command, START + 10 * LENGTH)
    for command in operations.closing():
        apply(command, START + 10 * LENGTH)
    assert operations.next_ns is None
    apply(AdvanceTime(), START + 10 * LENGTH + MILLISECOND)
    return engine, done


@settings(max_examples=12, deadline=None)
@given(st.integers())
def test_the_engine_takes_every_act(seed):
    day(seed, orders=250)


def test_everything_happens_in_a_day():
    _, done = day(3)
    for name in (
        "AddInstrument",
        "AdjustLastTrade",
        "AmendTrade",
        "BustTrade",
        "ChangeInstrument",
        "DeleteSide",
        "DefineSpread",
        "EnterTrade",
        "ExpelOrder",
        "ForwardTrade",
        "MassDeleteOrders",
        "News",
        "OpenInterest",
        "PriceBand",
        "PublishNews",
        "QuantityBand",
        "RejoinGroup",
        "RemoveInstrument",
        "ResetBook",
        "SecurityStatus",
        "SetClosingPrice",
        "SetSettlementPrice",
        "TradeBust",
    ):
        assert done[name] > 0, name


def test_000_13_11_3_settlement_prices_come_in_every_row_of_the_schedule():
    futures = [x for x in MARKET if x.security_type.name == "FUT"]
    stress = load_profile("stress")
    engine = MatchingEngine(futures, date(2026, 5, 21))
    market = engine.market
    crowd = Crowd(market, list(market.listings.values()), stress, 1, 10)
    pace = ArrivalProcess(
        SeededRandom(1, "p"), stress.bursts, [ActivitySpan(START, START + LENGTH, 1.0)], 100.0
    )
    profile = replace(stress, operations={}, shocks=replace(stress.shocks, count=0))
    operations = MarketOperations(market, crowd, pace, profile, 1, START, START + LENGTH)
    for group in list(market.groups):
        engine.apply(SetGroupPhase(group, TradingStatus.OPEN), START)
    commands: list[Any] = list(operations.opening())
    for instrument in futures:
        engine.apply(EnterTrade(instrument.security_id, instrument.tick, 1), START)
    commands += operations.due(START + LENGTH)
    commands += operations.closing()
    rows = {
        (command.flag.name, command.settl_price_type.name)
        for command in commands
        if isinstance(command, SetSettlementPrice)
    }
    assert rows == {
        ("ENTRY_FROM_PREVIOUS_BUSINESS_DAY", "FINAL"),
        ("ENTRY_FROM_PREVIOUS_BUSINESS_DAY", "UPDATED"),
        ("DAILY", "UPDATED"),
        ("DAILY", "FINAL"),
    }


def test_000_13_11_2_quantity_bands_are_those_of_the_product():
    engine = MatchingEngine(MARKET, date(2026, 5, 21))
    market = engine.market
    profile = load_profile("stress")
    crowd = Crowd(market, list(market.listings.values()), profile, 1, 10)
    pace = ArrivalProcess(
        SeededRandom(1, "p"), profile.bursts, [ActivitySpan(START, START + LENGTH, 1.0)], 100.0
    )
    operations = MarketOperations(market, crowd, pace, profile, 1, START, START + LENGTH)
    bands = [x for x in operations.opening() if isinstance(x, SetQuantityBand)]
    assert bands
    for band in bands:
        listing = market.listings[band.security_id]
        assert band.avg_daily_traded_qty is not None
        assert band.max_trade_vol is not None
        if listing.derivative:
            assert (band.avg_daily_traded_qty, band.max_trade_vol) == (0, 0)
            continue
        assert 0 < band.max_trade_vol <= band.avg_daily_traded_qty
        issued = listing.instrument.no_shares_issued
        assert issued is None or band.max_trade_vol <= issued


def test_000_13_11_5_bands_come_again_during_the_day_as_prices():
    shares = [x for x in MARKET if x.security_type.name in ("CS", "PS")]
    stress = load_profile("stress")
    engine = MatchingEngine(shares, date(2026, 5, 21))
    market = engine.market
    crowd = Crowd(market, list(market.listings.values()), stress, 1, 10)
    pace = ArrivalProcess(
        SeededRandom(1, "p"), stress.bursts, [ActivitySpan(START, START + LENGTH, 1.0)], 100.0
    )
    profile = replace(stress, operations={"bands": 5}, shocks=replace(stress.shocks, count=0))
    operations = MarketOperations(market, crowd, pace, profile, 1, START, START + LENGTH)
    for command in operations.opening():
        engine.apply(command, START)
    for group in list(market.groups):
        engine.apply(SetGroupPhase(group, TradingStatus.OPEN), START)
    sent = [x for x in operations.due(START + LENGTH) if isinstance(x, SetPriceBand)]
    assert [band.band_type for band in sent] == 5 * [
        PriceBandType.REJECTION_BAND,
        PriceBandType.AUCTION_LIMITS,
    ]
    for band in sent:
        listing = market.listings[band.security_id]
        middle = listing.reference_price()
        assert band.limit_type == PriceLimitType.PRICE_UNIT
        assert band.midpoint is None
        assert band.low < middle < band.high
        assert band.low % listing.tick == band.high % listing.tick == middle % listing.tick


def test_a_halted_instrument_rejoins_its_group_and_a_new_one_is_removed():
    engine, _ = day(3)
    spreads = engine.market.user_spreads
    assert len(engine.instruments) == len(MARKET) + len(spreads)
    for instrument in engine.instruments:
        assert engine.book(instrument.security_id).ruling_status == TradingStatus.OPEN


def test_a_large_shock_calls_an_auction():
    instruments = [x for x in MARKET if x.symbol in ("PETR4", "VALE3")]
    called = 0
    for seed in range(3):
        _, done = day(seed, orders=3000, instruments=instruments)
        called += done["TheoreticalOpeningPrice"]
    assert called > 0


@pytest.mark.parametrize("symbol", ["PETRR340", "DIIF27N27", "PETR4"])
def test_bands_are_wide_enough_to_trade_in(symbol):
    (instrument,) = [x for x in MARKET if x.symbol == symbol]
    engine, done = day(1, orders=400, instruments=[instrument])
    listing = engine.market.listings[instrument.security_id]
    assert listing.reject_high - listing.reject_low >= 100 * listing.tick or symbol == "PETRR340"
    assert done["Trade"] > 0
