"""Plots of books, trades, bars, latencies and gaps, for notebooks and files.

Each function returns a `Chart`, a matplotlib figure: notebooks show it, ``savefig`` writes it.
The extra ``plot`` installs matplotlib. Names are imported on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from pregao.extras import imported

if TYPE_CHECKING:
    from pregao.plot.bars_chart import bars as bars
    from pregao.plot.depth_chart import depth as depth
    from pregao.plot.gaps_chart import gaps as gaps
    from pregao.plot.heatmap_chart import heatmap as heatmap
    from pregao.plot.latency_chart import latency as latency
    from pregao.plot.style import Chart as Chart
    from pregao.plot.tape_chart import tape as tape

__all__ = ["Chart", "bars", "depth", "gaps", "heatmap", "latency", "tape"]

_HOME = {name: f"{name}_chart" for name in __all__} | {"Chart": "style"}
# Modules are not named like their functions: importing one would hide its function.


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with imported():
        return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return __all__
