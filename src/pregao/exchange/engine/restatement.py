"""Restatement of good-till orders that a new day carries over, once per session and day.

Only sessions of schema version 6 and later get it (003 §7.1.9 knows no restatement); the caller,
which has the sessions, knows which those are and when they are connected.
"""

from __future__ import annotations

from pregao.exchange.engine.market import Market
from pregao.exchange.engine.member_commands import RestateOrders
from pregao.exchange.engine.terms import ExecRestatementReason, TimeInForce

_GOOD_TILL = (TimeInForce.GOOD_TILL_CANCEL, TimeInForce.GOOD_TILL_DATE)


def carry_over(market: Market) -> None:
    """Record the orders of earlier days when a day starts."""
    market.carried.clear()
    for order in market.orders.values():
        if order.time_in_force in _GOOD_TILL:
            market.carried.setdefault(order.session, []).append(order.order_id)


def restate_orders(market: Market, command: RestateOrders, now_ns: int) -> None:
    """Report to a session, once, its orders that the day carried over."""
    for order_id in market.carried.pop(command.session, ()):
        order = market.orders.get(order_id)
        if order is not None:
            working = order.level is not None
            reason = ExecRestatementReason.GT_RESTATEMENT
            market.modified(order, 0, now_ns, working, reason)
