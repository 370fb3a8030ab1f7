"""A small simulated day and its lake, made once for all tests of the Python API."""

import pytest

from pregao.api.lake import Lake
from pregao.clock import MINUTE
from pregao.exchange.simulation.settings import SimulationSettings
from pregao.exchange.simulation.simulation import Simulation


@pytest.fixture(scope="session")
def day(tmp_path_factory):
    """A folder with the captures of a few minutes, and the truth about them."""
    folder = tmp_path_factory.mktemp("api") / "day"
    settings = SimulationSettings(
        profile="equities", out=folder, seed=5, instruments=4, messages=900, duration_ns=3 * MINUTE
    )
    Simulation(settings).run()
    return folder


@pytest.fixture(scope="session")
def lake_report(day, tmp_path_factory):
    """Report of the day's ingest, with the lake."""
    path = tmp_path_factory.mktemp("api-lake") / "lake"
    return Lake(path), Lake(path).ingest(day)


@pytest.fixture(scope="session")
def lake(lake_report):
    return lake_report[0]
