"""Requests that a gateway rejects: they get the IDs and the report of any reject."""

from __future__ import annotations

from pregao.exchange.engine.market import Market
from pregao.exchange.engine.rejects import Reject
from pregao.exchange.engine.reports import EngineReport
from pregao.exchange.engine.terms import CxlRejResponseTo


def refuse(
    market: Market,
    session: int,
    cl_ord_id: int,
    security_id: int,
    response_to: CxlRejResponseTo,
    reject: Reject,
    now_ns: int,
    order_id: int = 0,
    orig_cl_ord_id: int = 0,
) -> list[EngineReport]:
    """Return the reports about a request that did not reach the market."""
    market.units, market.reports = [], []
    market.rejected(
        session, cl_ord_id, security_id, response_to, reject, now_ns, order_id, orig_cl_ord_id
    )
    return market.reports
