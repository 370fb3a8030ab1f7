"""Analytics tables: trades, bars, statistics, states, auctions, latencies, order histories.

Names are imported on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pregao.lake.analytics.analyse import ANALYTICS as ANALYTICS
    from pregao.lake.analytics.analyse import Made as Made
    from pregao.lake.analytics.analyse import analyse as analyse
    from pregao.lake.analytics.analyse import in_order as in_order
    from pregao.lake.analytics.intervals import known_intervals as known_intervals
    from pregao.lake.analytics.order_flow import OrderFlow as OrderFlow
    from pregao.lake.analytics.order_flow import measure_flow as measure_flow
    from pregao.lake.analytics.tables import Wanted as Wanted

_HOMES = {
    "analyse": ["ANALYTICS", "Made", "analyse", "in_order"],
    "intervals": ["known_intervals"],
    "order_flow": ["OrderFlow", "measure_flow"],
    "tables": ["Wanted"],
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"{__name__} has no {name}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
