"""Exports: an instrument's day in third-party formats.

LOBSTER, hftbacktest, NautilusTrader, and Databento's columns; docs/exports.md describes each. Names
are imported on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pregao.lake.exports.acts import Act as Act
    from pregao.lake.exports.acts import Cause as Cause
    from pregao.lake.exports.acts import OrderFlow as OrderFlow
    from pregao.lake.exports.flow_reading import order_flow as order_flow
    from pregao.lake.exports.formats import Exported as Exported
    from pregao.lake.exports.formats import Format as Format
    from pregao.lake.exports.formats import check_output as check_output
    from pregao.lake.exports.formats import files_of as files_of

_HOMES = {
    "acts": ["Act", "Cause", "OrderFlow"],
    "formats": ["Exported", "Format", "check_output", "files_of"],
    "flow_reading": ["order_flow"],
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"{__name__} has no {name}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
