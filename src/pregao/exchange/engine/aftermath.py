"""What follows from an event: stop orders that its trades triggered, one round after the other."""

from __future__ import annotations

from pregao.exchange.engine.market import Market
from pregao.exchange.engine.triggers import enter_triggered


def settle(market: Market, now_ns: int) -> None:
    """See to everything that follows, until nothing more does."""
    while market.triggered:
        enter_triggered(market, now_ns)
