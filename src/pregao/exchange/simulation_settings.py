"""Where version 0.1 had the settings of a simulation; use ``pregao.exchange.simulation``.

This module will be gone in 0.3.
"""

from typing import Any
from warnings import warn

from pregao.exchange import simulation
from pregao.exchange.simulation import settings


def __getattr__(name: str) -> Any:
    """Forward to the new place, with a warning."""
    if name not in simulation.__all__ or not hasattr(settings, name):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    warn(
        f"pregao.exchange.simulation_settings will be gone in 0.3: "
        f"use 'from pregao.exchange.simulation import {name}'",
        DeprecationWarning,
        stacklevel=2,
    )
    return getattr(settings, name)
