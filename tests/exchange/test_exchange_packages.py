"""Public names of the exchange's subpackages, and their import paths in version 0.1."""

from __future__ import annotations

from importlib import import_module

import pytest

from pregao.exchange import simulation


@pytest.mark.parametrize("room", ["engine", "publisher", "publisher.encoding", "traders", "host"])
def test_a_subpackage_has_the_names_it_exports(room):
    module = import_module(f"pregao.exchange.{room}")
    assert module.__doc__
    assert [name for name in module.__all__ if not hasattr(module, name)] == []


def test_the_simulation_offers_what_it_imports_later_as_well():
    assert [name for name in simulation.__all__ if not hasattr(simulation, name)] == []
    with pytest.raises(AttributeError, match="'Simulator'"):
        _ = simulation.Simulator


def test_the_settings_of_version_0_1_are_found_with_a_warning():
    with pytest.warns(DeprecationWarning, match=r"from pregao\.exchange\.simulation import Sett"):
        from pregao.exchange.simulation_settings import Settings
    assert Settings is simulation.Settings
    with pytest.raises(ImportError):
        from pregao.exchange.simulation_settings import Simulation  # noqa: F401
