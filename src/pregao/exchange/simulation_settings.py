"""Deprecated location of the simulation settings; use ``pregao.exchange.simulation``.

Version 0.1 had them here. This module will be removed in 0.3.
"""

from typing import Any
from warnings import warn

from pregao.exchange import simulation
from pregao.exchange.simulation import settings


def __getattr__(name: str) -> Any:
    """Return the attribute of the new module, with a deprecation warning."""
    if name not in simulation.__all__ or not hasattr(settings, name):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    warn(
        f"pregao.exchange.simulation_settings will be removed in 0.3: "
        f"use 'from pregao.exchange.simulation import {name}'",
        DeprecationWarning,
        stacklevel=2,
    )
    return getattr(settings, name)
