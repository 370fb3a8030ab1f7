"""Profiles: those that come with the package, and what is said about bad ones."""

from __future__ import annotations

import copy
import tomllib
from importlib import resources
from typing import Any

import pytest

from pregao.errors import UsageError
from pregao.exchange.traders.crowd import activity_weights
from pregao.exchange.traders.profiles import (
    bundled_profiles,
    load_profile,
    parse_profile,
)

BUNDLE = tomllib.loads(
    resources.files("pregao.exchange.traders").joinpath("profiles.toml").read_text("utf-8")
)


def test_the_bundled_profiles_are_valid():
    assert bundled_profiles() == ("equities", "derivatives", "stress", "thin-derivatives")
    for name in bundled_profiles():
        profile = load_profile(name)
        assert profile.name == name
        assert 20 <= profile.bursts.factor[0] <= profile.bursts.factor[1] <= 30
        assert profile.book.large_orders >= 2000 or not profile.book.large
        # Every day exercises these orders; pegged ones are of cash instruments alone.
        kinds = {"stop", "provide", "retail", "investor", "user_spread"}
        if "CS" in (kind.name for kind in profile.security_types):
            kinds.add("pegged")
        assert all(0 < profile.open[kind] < 0.02 * sum(profile.open.values()) for kind in kinds)
        assert profile.operations["define_spread"] > 0


def changed(path: str, value: Any) -> dict[str, Any]:
    data: dict[str, Any] = copy.deepcopy(BUNDLE["equities"])
    *tables, last = path.split(".")
    table = data
    for name in tables:
        table = table[name]
    if value is None:
        del table[last]
    else:
        table[last] = value
    return data


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("rate", -1.0),
        ("rate", 0),
        ("rate", "fast"),
        ("rate", float("inf")),
        ("rate", True),
        ("rate", None),
        ("speed", 3),
        ("security_types", ["CS", "TULIP"]),
        ("security_types", []),
        ("weights", [1]),
        ("weights", {"PETR4": -2}),
        ("messages_per_order", 0.5),
        ("activity", 3),
        ("activity.exponent", -0.1),
        ("activity.day", [0.0, 0.0]),
        ("activity.day", []),
        ("activity.day", [1.0, -1.0]),
        ("bursts.share", 0.2),
        ("bursts.factor", [30.0, 20.0]),
        ("bursts.factor", [20.0]),
        ("bursts.length_ms", 0),
        ("book.orders", 0),
        ("book.orders", 1.5),
        ("book.min_orders", 301),
        ("book.large_books", -1),
        ("prices.near_ticks", 0),
        ("prices.far_share", 1.5),
        ("flow_version", 1),
        ("flow_version", None),
        ("fair_value.volatility", -0.1),
        ("fair_value.clustering", 0.9),
        ("fair_value.permanent_share", 1.1),
        ("fair_value.relaxation", 0.5),
        ("takers.parents", 0),
        ("takers.exponent", 0),
        ("takers.longest", 0),
        ("takers.sweep_share", 1.5),
        ("makers.deep_share", 1.5),
        ("makers.deep_lifetime_ms", 0),
        ("quantities.lots", [1, 0]),
        ("quantities.lots", [1, 2.5]),
        ("quantities.weights", [1, 2]),
        ("quantities.weights", [0, 0, 0, 0, 0, 0, 0, 0, 0]),
        ("open.quote", -1),
        ("open.stare", 1),
        ("aggressive.limit", float("nan")),
        ("operations.bust", -1),
        ("operations.bust", 0.5),
        ("operations.sleep", 1),
        ("operations.implied", 1),
        ("shocks.percent", [5.0, 1.0]),
        ("shocks.percent", [1.0, 90.0]),
        ("members.firms", 1),
        ("members.sessions", None),
        ("members.top_five_share", 1.5),
        ("operations.bands_share", 0.6),
        ("auction_ends", 3),
        ("auction_ends", {"extension": 60}),
        ("auction_ends", {"random": 60}),
    ],
)
def test_an_impossible_profile_is_refused_by_the_name_of_its_entry(path, value):
    with pytest.raises(UsageError) as refused:
        parse_profile("mine", changed(path, value), "mine.toml")
    assert str(refused.value).startswith("mine.toml: ")
    assert path in str(refused.value)


@pytest.mark.parametrize(
    "path",
    [
        "book.least", "book.large", "book.large_orders",
        "excitation.together", "excitation.near", "excitation.near_us", "excitation.far_ms",
        "excitation.same",
        "makers.life_ms", "makers.life_spread", "makers.replace", "makers.improve",
        "prices.near", "prices.far", "prices.drift_probability",
        "open.take", "take", "operations.expel", "operations.define", "members.shown",
    ],
)  # fmt: skip
def test_entries_of_version_0_1_are_unknown(path):
    with pytest.raises(UsageError) as refused:
        parse_profile("mine", changed(path, 1), "mine.toml")
    assert str(refused.value) == f"mine.toml: {path} is not a known entry of a profile"


@pytest.mark.parametrize("section", ["open", "auction", "aggressive"])
def test_weights_that_sum_to_nothing_are_refused(section):
    with pytest.raises(UsageError, match=f"the weights of {section} must not sum to 0"):
        parse_profile("mine", changed(section, {}), "mine.toml")


def test_weights_name_instruments_that_are_simulated():
    profile = parse_profile("mine", changed("weights", {"PETR4": 9.0}), "mine.toml")
    assert activity_weights(["VALE3", "PETR4"], profile)[1] == 9.0 / 2**1.15
    with pytest.raises(UsageError, match=r"weights\.PETR4"):
        activity_weights(["VALE3"], profile)
    none = parse_profile("mine", changed("weights", {"VALE3": 0}), "mine.toml")
    with pytest.raises(UsageError, match="sum to 0"):
        activity_weights(["VALE3"], none)


def test_a_profile_is_read_from_a_file_of_ones_own(tmp_path):
    path = tmp_path / "mine.toml"
    text = resources.files("pregao.exchange.traders").joinpath("profiles.toml").read_text("utf-8")
    start, end = text.index("[equities]"), text.index("[derivatives]")
    path.write_text(
        text[start:end].replace("[equities]\n", "").replace("[equities.", "["), encoding="utf-8"
    )
    assert load_profile(str(path)).name == "mine"
    path.write_text("rate = ", encoding="utf-8")
    with pytest.raises(UsageError, match="is not valid TOML"):
        load_profile(str(path))
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="is not valid TOML"):
        load_profile(str(path))


@pytest.mark.parametrize("name", ["absent", "absent.toml"])
def test_a_profile_that_is_not_there_is_refused(tmp_path, name, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="absent"):
        load_profile(name)
