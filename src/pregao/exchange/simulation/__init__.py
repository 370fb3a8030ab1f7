"""A whole market on a virtual clock: traders, engine and publisher, written as captures.

Settings go in; captures of every stream and the truth about them come out, the same bytes for the
same settings. What only describes a run is imported at once; the market, when it is asked for.
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

# The command line needs the settings for its help, which should not wait for a market.
_LATER = {
    "Progress": "publication",
    "Simulation": "run",
    "Summary": "summary",
    "prepare_folder": "captures",
}


def __getattr__(name: str) -> Any:
    """Import what runs a simulation when it is first asked for."""
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
