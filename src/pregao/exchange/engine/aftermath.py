"""Consequences of an event: legs, paired auctions, protections, stop orders, implied orders."""

from __future__ import annotations

from pregao.exchange.engine.auction_ends import extend_auctions, join_pairs
from pregao.exchange.engine.market import Market
from pregao.exchange.engine.protected_mode import protect
from pregao.exchange.engine.spreads import refresh_implied, trade_legs
from pregao.exchange.engine.triggers import enter_triggered


def settle(market: Market, now_ns: int) -> None:
    """Process all consequences, round by round, until none is left."""
    while True:
        if market.spread_fills:
            trade_legs(market, now_ns)
        elif market.announced:
            announced, market.announced = market.announced, []
            market.publish([*announced], event=False)
        elif market.extending:
            extend_auctions(market, now_ns)
        elif market.called:
            join_pairs(market, now_ns)
        elif market.reached:
            # Before triggered stop orders: those of a protected account must no longer trade.
            protect(market, now_ns)
        elif market.touched:
            refresh_implied(market, now_ns)
        elif market.triggered:
            enter_triggered(market, now_ns)
        else:
            market.follows = False
            return
