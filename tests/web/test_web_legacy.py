"""The page of a day that a lake has of the legacy feed alone: its books, and how its feed was."""

from datetime import date

import pytest

from pregao.api.lake import Lake
from pregao.clock import MINUTE
from pregao.exchange.simulation.network_faults import fault_rates, parse_rates
from pregao.exchange.simulation.settings import LegacyDepth, SimulationSettings
from pregao.exchange.simulation.simulation import Simulation
from pregao.web.lake_market import LakeMarket

DAY = date(2026, 5, 21)


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    """Two minutes over lines that lose packets, with only the legacy captures kept."""
    folder = tmp_path_factory.mktemp("legacy")
    lost, none = parse_rates("--loss", "0.05"), parse_rates("--reorder", None)
    settings = SimulationSettings(
        profile="equities", out=folder / "day", seed=4, instruments=4, messages=3_000,
        duration_ns=2 * MINUTE, legacy=LegacyDepth("orders"), faults=fault_rates(lost, none, none),
    )  # fmt: skip
    Simulation(settings).run()
    made = Lake(folder / "lake")
    made.ingest(sorted((folder / "day").glob("*Legacy*.pcap")), analytics=False)
    return made


@pytest.fixture(scope="module")
def market(lake):
    return LakeMarket(repr(lake).removeprefix("Lake('").removesuffix("')"))


def test_packets_rates_gaps_and_feeds_are_those_of_the_legacy_feed(lake, market):
    health = market.health(DAY)
    (counted,) = lake.sql("SELECT count(*) AS n FROM legacy_packets").to_pylist()
    assert sum(row["packets"] for row in health["packets"]) == counted["n"] > 500
    assert {row["stream"] for row in health["packets"]} >= {"incremental", "recovery", "definition"}
    # A packet without a message that has a time is of no minute.
    assert all(0 < minute < 86_400 * 10**9 for minute, *_ in health["rates"])
    assert sum(row[1] for row in health["rates"]) > 300
    assert {row["feed"] for row in health["feeds"]} == {"A", "B"}
    assert all(0 <= row["p50"] <= row["p99"] for row in health["feeds"])
    missing = lake.sql("SELECT count(*) AS n FROM legacy_gaps").to_pylist()[0]["n"]
    assert sum(row["gaps"] for row in health["closed"]) >= missing > 10
    assert sum(health["states"].values()) == market.search(DAY, "")["all"] >= 4


def test_news_have_their_accents_and_their_instrument(lake, market):
    news = market.news(DAY)
    kept = lake.sql("SELECT DISTINCT news_id FROM legacy_news").to_pylist()
    assert len(news) >= len(kept) > 0
    assert all("?" not in one["headline"] and one["text"] for one in news)
    assert [one["at"] for one in news] == sorted(one["at"] for one in news)
    assert any(one["symbol"] for one in news)
