"""The analytics tables, by name and in the order of their inputs."""

from __future__ import annotations

from collections.abc import Iterable

from pregao.errors import UsageError
from pregao.lake.analytics.auctions import AUCTIONS
from pregao.lake.analytics.bars import BARS
from pregao.lake.analytics.clock_offsets import CLOCK_OFFSETS
from pregao.lake.analytics.latency import LATENCY, LATENCY_MINUTES
from pregao.lake.analytics.orders import ORDERS
from pregao.lake.analytics.session_stats import SESSION_STATS
from pregao.lake.analytics.status import STATUS
from pregao.lake.analytics.tables import AnalyticsTable
from pregao.lake.analytics.trades import TRADES, VENUE_TRADES

ANALYTICS = {
    table.name: table
    for table in (
        TRADES,
        VENUE_TRADES,
        BARS,
        SESSION_STATS,
        STATUS,
        AUCTIONS,
        CLOCK_OFFSETS,
        LATENCY,
        LATENCY_MINUTES,
        ORDERS,
    )
}
"""Tables by name; each is listed after its inputs."""


def in_order(names: Iterable[str]) -> list[AnalyticsTable]:
    """Return these tables and all that they depend on, each after its inputs."""
    needed: set[str] = set()
    due = list(names)
    while due:
        name = due.pop()
        if name not in ANALYTICS:
            raise UsageError(
                f"There is no analytics table {name!r}; choose from {', '.join(ANALYTICS)}."
            )
        needed.add(name)
        due += ANALYTICS[name].needs
    return [table for table in ANALYTICS.values() if table.name in needed]
