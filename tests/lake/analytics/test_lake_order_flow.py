"""The order flow of a day in a few numbers, and a simulated market that has those of a real one."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pregao.cli.simulate.like import (
    WORDS,
    comparison,
    fit,
    like_settings,
    measured,
    simulated_flow,
)
from pregao.clock import SECOND
from pregao.errors import UsageError
from pregao.exchange.simulation.settings import SimulationSettings
from pregao.exchange.simulation.simulation import Simulation
from pregao.exchange.traders.fitting import REPRODUCED
from pregao.exchange.traders.profiles import FLOW_NUMBERS, load_profile
from pregao.lake.analytics._kernels import CLEAR, DELETE, NEW, TAKE, improving
from pregao.lake.analytics.order_flow import measure_flow
from pregao.lake.storage.lake_store import LakeStore


@pytest.fixture(scope="module")
def day(tmp_path_factory):
    """A minute of the profile that is calibrated to a real market, in a lake, and its truth."""
    folder = tmp_path_factory.mktemp("flow")
    settings = SimulationSettings("thin-derivatives", folder / "day", duration_ns=60 * SECOND)
    summary = Simulation(settings).run()
    return folder / "lake", measured(folder / "day", folder / "lake"), summary


def test_the_thin_market_is_within_a_factor_of_two_of_the_real_one(day):
    _, flow, _ = day
    real = load_profile("thin-derivatives").calibrated
    assert set(real) == set(FLOW_NUMBERS)
    for name, wanted in real.items():
        assert 0.5 <= getattr(flow, name) / wanted <= 2, name


def test_real_and_simulated_are_shown_side_by_side(day):
    _, flow, _ = day
    rows = comparison(dict(load_profile("thin-derivatives").calibrated), flow)
    assert [row[0] for row in rows] == list(WORDS.values())
    assert all(0.5 <= float(row[3]) <= 2 for row in rows)


@pytest.mark.parametrize(
    ("profile", "instruments", "rate"),
    [
        ("equities", 8, 200.0),
        ("derivatives", 8, 200.0),
        ("stress", 8, 500.0),
        ("thin-derivatives", 30, None),
    ],
)
def test_a_fit_reproduces_eight_figures_of_a_day_of_any_profile(profile, instruments, rate):
    settings = SimulationSettings(
        profile, Path(), 7, instruments, 30 * SECOND, rate=rate, truth_books=1
    )
    real = simulated_flow(settings)
    assert len(REPRODUCED) == 7
    rounds: list[float] = []
    start = like_settings(real, replace(settings, seed=1), None)
    fitted = fit(real, start, lambda _, factor: rounds.append(factor))
    assert fitted.factor == min(rounds) <= 1.5


def test_measurements_fit_the_simulation(day):
    lake, flow, summary = day
    assert flow.channel == 72
    assert flow.date == date(2026, 5, 21)
    assert flow.schema_version == 16
    assert 45 < flow.seconds < 60
    # The auctions of the day are outside of the span; some events are market operations' or
    # implied orders.
    assert 0.8 * summary.orders < flow.events < 1.3 * summary.orders
    assert 0.8 * summary.messages < flow.messages <= summary.messages
    assert 0.8 * summary.trades < flow.trades <= summary.trades
    assert 0 < flow.replaced < flow.cancels <= flow.new_orders
    assert flow.firmless == pytest.approx(0.91, abs=0.04)
    assert sum(share for _, share in flow.lots) == pytest.approx(1, abs=0.01)
    assert flow.lots[0][0] == 1
    assert set(flow.security_types) <= {"FUT", "MLEG", "SOPT"}
    assert measure_flow(LakeStore(str(lake)), flow.date, 72) == flow


def test_a_lake_without_such_a_day_or_channel_reports_it(day, tmp_path):
    lake = LakeStore(str(day[0]))
    with pytest.raises(UsageError, match="has no data of 2020-01-02; it has 2026-05-21"):
        measure_flow(lake, date(2020, 1, 2))
    with pytest.raises(UsageError, match="no order books of channel 51"):
        measure_flow(lake, channel=51)
    with pytest.raises(UsageError, match=r"nothing|no lake|not a lake"):
        measure_flow(LakeStore(str(tmp_path / "nowhere")))


def test_too_little_trading_is_not_measured(tmp_path):
    Simulation(
        SimulationSettings("equities", tmp_path / "day", duration_ns=5 * SECOND, rate=20.0)
    ).run()
    with pytest.raises(UsageError, match="too little continuous trading"):
        measured(tmp_path / "day", tmp_path / "lake")


def plainly(sides, acts, keys, entries):
    """Which acts are improving new orders, with a list for each side."""
    books: dict[int, dict[int, int]] = {}
    found = []
    for row, (side, act, key, entry) in enumerate(zip(sides, acts, keys, entries, strict=True)):
        book = books.setdefault(side, {})
        found.append(act == NEW and all(key > other for other in book.values()))
        if act == NEW:
            book[row] = key
        elif act == DELETE:
            book.pop(entry, None)
        elif act == CLEAR:
            book.clear()
        else:
            for best in sorted(book, key=lambda each: (-book[each], each))[:key]:
                del book[best]
    return found


@given(
    st.lists(
        st.tuples(
            st.integers(0, 2),
            st.sampled_from([NEW, NEW, NEW, DELETE, DELETE, CLEAR, TAKE]),
            st.integers(-4, 4),
            st.integers(0, 30),
        ),
        max_size=60,
    )
)
def test_improving_orders_are_found_as_a_plain_book_finds_them(drawn):
    rows = sorted(drawn, key=lambda row: row[0])
    acts = [act for _, act, _, _ in rows]
    keys = [abs(key) if act == TAKE else key for _, act, key, _ in rows]
    sides = [side for side, _, _, _ in rows]
    entries = []
    for row, (side, act, _, pick) in enumerate(rows):
        known = [n for n in range(row) if acts[n] == NEW and sides[n] == side]
        entries.append(known[pick % len(known)] if act == DELETE and known else -1)
    columns = [np.array(each, np.int64) for each in (sides, acts, keys, entries)]
    assert improving(*columns).tolist() == plainly(sides, acts, keys, entries)
