"""Simulated order flow: its statistics next to those measured on a real channel."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from bench.measure import Row
from pregao.cli.simulate.like import WORDS, simulated_flow
from pregao.clock import SECOND
from pregao.exchange.simulation.settings import SimulationSettings
from pregao.exchange.traders.profiles import load_profile

SECTION = "flow"
PROFILE = "thin-derivatives"


def run() -> Iterator[Row]:
    given = simulated_flow(
        SimulationSettings(PROFILE, Path(), duration_ns=60 * SECOND, schema_version=8)
    )
    for name, wanted in load_profile(PROFILE).calibrated.items():
        was = getattr(given, name)
        yield Row(SECTION, WORDS[name], was, "", f"real {wanted:g}", f"ratio {was / wanted:.2f}")
