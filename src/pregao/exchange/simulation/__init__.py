"""A complete market on a virtual clock: traders, engine and publisher, written as captures.

Settings go in; captures of every stream and their ground truth come out, the same bytes for the
same settings. The settings are imported eagerly, the modules that run a market on first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pregao.exchange.simulation.line_faults import FaultRates, fault_rates, parse_rates
from pregao.exchange.simulation.settings import (
    SCHEMA_VERSIONS,
    TRADE_DATE,
    Compression,
    LegacyDepth,
    Moment,
    Reset,
    ResetKind,
    Settings,
    parse_duration,
    parse_moment,
    parse_reset,
)

if TYPE_CHECKING:
    from pregao.exchange.simulation.captures import prepare_folder
    from pregao.exchange.simulation.publication import Progress
    from pregao.exchange.simulation.run import Simulation
    from pregao.exchange.simulation.summary import Summary

__all__ = [
    "SCHEMA_VERSIONS",
    "TRADE_DATE",
    "Compression",
    "FaultRates",
    "LegacyDepth",
    "Moment",
    "Progress",
    "Reset",
    "ResetKind",
    "Settings",
    "Simulation",
    "Summary",
    "fault_rates",
    "parse_duration",
    "parse_moment",
    "parse_rates",
    "parse_reset",
    "prepare_folder",
]

# The command line needs the settings for its help texts, which should not load the engine.
_LATER = {
    "Progress": "publication",
    "Simulation": "run",
    "Summary": "summary",
    "prepare_folder": "captures",
}


def __getattr__(name: str) -> Any:
    """Import the modules that run a simulation on first use."""
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
