"""Fitting a profile to a flow of orders: what is taken over, and which way numbers are turned."""

from __future__ import annotations

import math
import tomllib
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pregao.exchange.traders.fitting import (
    FlowStatistics,
    TargetFlowStatistics,
    distance,
    exponent_for,
    first_guess,
    next_guess,
    profile_text,
)
from pregao.exchange.traders.profiles import (
    FLOW_NUMBERS,
    bundled_data,
    load_profile,
    parse_profile,
)

CALIBRATED = dict(load_profile("thin-derivatives").calibrated)
REAL = TargetFlowStatistics(
    150.0, CALIBRATED, 30, ("FUT", "MLEG"), 0.1, 0.91, 6.0, ((1, 0.77), (5, 0.2), (2, 0.03))
)
numbers = st.fixed_dictionaries(dict.fromkeys(FLOW_NUMBERS, st.floats(1e-3, 500)))


@given(numbers, numbers, st.floats(1, 5000), st.integers(1, 200))
def test_every_guess_is_a_profile_that_can_be_read(wanted, given_, rate, instruments):
    wanted = {**wanted, "busiest": min(wanted["busiest"], 1.0)}
    real = TargetFlowStatistics(rate, wanted, instruments, (), 0.5, 0.3, 4.0, ((1, 0.5), (3, 0.5)))
    data = first_guess(real)
    for _ in range(3):
        read = parse_profile("like", tomllib.loads(profile_text(data)), "like.toml")
        assert read.quantities.lots == (1, 3)
        assert read.members.shown == pytest.approx(0.7)
        data = next_guess(data, real, FlowStatistics(rate / 3, given_))
    parse_profile("like", tomllib.loads(profile_text(data)), "like.toml")


def test_the_first_guess_uses_known_values():
    data = first_guess(REAL)
    assert data["rate"] == 150.0
    assert data["security_types"] == ["FUT", "MLEG"]
    bundled = bundled_data("thin-derivatives")["makers"]["lifetime_ms"]
    assert data["makers"]["lifetime_ms"] == bundled
    longer = {**CALIBRATED, "lifetime_median_ms": 32.0}
    assert first_guess(replace(REAL, numbers=longer))["makers"]["lifetime_ms"] == 2 * bundled
    assert data["makers"]["replace_share"] == 0.1
    assert data["calibrated"] == CALIBRATED


@pytest.mark.parametrize(
    ("numbers", "types", "base"),
    [
        ({}, ("CS",), "thin-derivatives"),
        ({"amended": 0.1}, ("OPT", "CS"), "equities"),
        ({"amended": 0.1}, ("FUT", "CS"), "derivatives"),
        ({"amended": 0.1, "cancels_per_trade": 2.0}, ("CS",), "stress"),
    ],
)
def test_a_fit_starts_from_the_bundled_profile_of_a_similar_market(numbers, types, base):
    data = first_guess(replace(REAL, numbers={**CALIBRATED, **numbers}, security_types=types))
    assert data["excitation"] == bundled_data(base)["excitation"]
    assert data["takers"] == bundled_data(base)["takers"]


def test_numbers_are_adjusted_towards_the_target():
    data = first_guess(REAL)
    given_ = {**CALIBRATED, "fano": 70.0, "cancels_per_trade": 29.4, "lifetime_median_ms": 8.0}
    after = next_guess(data, REAL, FlowStatistics(75.0, given_))
    assert after["rate"] == 2 * data["rate"]
    assert after["excitation"]["cluster_size"] == 2 * data["excitation"]["cluster_size"]
    assert after["open"]["aggress"] == 2 * data["open"]["aggress"]
    assert after["makers"]["lifetime_ms"] == 2 * data["makers"]["lifetime_ms"]
    assert next_guess(data, REAL, FlowStatistics(150.0, CALIBRATED)) == data


def test_the_distance_is_the_largest_factor():
    assert distance(REAL, FlowStatistics(150.0, CALIBRATED)) == 1.0
    assert distance(REAL, FlowStatistics(300.0, CALIBRATED)) == 2.0
    assert distance(REAL, FlowStatistics(150.0, {**CALIBRATED, "close": 0.1})) == 4.0
    assert distance(REAL, FlowStatistics(150.0, {**CALIBRATED, "fano": 35.0})) == 1.0
    assert distance(REAL, FlowStatistics(0.0, CALIBRATED)) == math.inf


@given(st.integers(2, 100), st.floats(0, 1))
def test_the_exponent_gives_the_busiest_instrument_its_share(instruments, drawn):
    share = 1 / instruments + drawn * (0.95 - 1 / instruments)
    exponent = exponent_for(share, instruments)
    total = sum(rank**-exponent for rank in range(1, instruments + 1))
    if exponent < 4.99:
        assert 1 / total == pytest.approx(share, abs=0.01)
