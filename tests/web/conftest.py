"""A simulated day in a lake, and its page, made once for all tests of the page."""

import pytest

from pregao.api.lake import Lake
from pregao.clock import MINUTE
from pregao.exchange.simulation.network_faults import fault_rates, parse_rates
from pregao.exchange.simulation.settings import SimulationSettings
from pregao.exchange.simulation.simulation import Simulation
from pregao.web.lake_market import LakeMarket
from pregao.web.server import PageServer, lake_application

DAY = "2026-05-21"


@pytest.fixture(scope="session")
def lake(tmp_path_factory):
    """Some minutes of a market with auctions, news and lost packets."""
    folder = tmp_path_factory.mktemp("web")
    lost, none = parse_rates("--loss", "0.03"), parse_rates("--reorder", None)
    settings = SimulationSettings(
        profile="equities", out=folder / "day", seed=11, instruments=6, messages=9000,
        duration_ns=8 * MINUTE, faults=fault_rates(lost, none, none),
    )  # fmt: skip
    Simulation(settings).run()
    made = Lake(folder / "lake")
    made.ingest(folder / "day")
    return made


@pytest.fixture(scope="session")
def lake_path(lake, tmp_path_factory):
    """Return the path of the lake."""
    return repr(lake).removeprefix("Lake('").removesuffix("')")


@pytest.fixture(scope="session")
def market(lake_path):
    return LakeMarket(lake_path)


@pytest.fixture(scope="session")
def server(market):
    with PageServer(lake_application(market), 0) as served:
        yield served


@pytest.fixture(scope="session")
def busiest(market):
    """The instrument with most messages, as the page names it."""
    from datetime import date

    found = market.search(date.fromisoformat(DAY), "")["instruments"][0]
    return {"day": DAY, "channel": found["channel"], "id": found["id"], "symbol": found["symbol"]}
