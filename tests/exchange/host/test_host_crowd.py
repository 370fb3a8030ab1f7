"""Traders without a session on a running exchange: members see only the effects of their orders."""

import asyncio

import pytest

from pregao.errors import UsageError
from pregao.exchange.engine.model.commands import NewOrder
from pregao.exchange.engine.model.enums import OrderSide
from pregao.exchange.host.crowd import CrowdRunner
from pregao.exchange.traders.profiles import load_profile
from tests.exchange.floor import px
from tests.exchange.host_desk import PATIENCE_S, PETR4, Exchange, row
from tests.waiting import until

NOBODY = 7


def in_its_loop(exchange, work):
    async def done():
        return work()

    return asyncio.run_coroutine_threadsafe(done(), exchange.loop).result(PATIENCE_S)


def sell(number, quantity, price):
    return NewOrder(
        session=NOBODY, firm=9, cl_ord_id=number, security_id=PETR4, side=OrderSide.SELL,
        quantity=quantity, price=px(price),
    )  # fmt: skip


def test_a_member_receives_reports_of_its_own_orders_only():
    with Exchange() as exchange:
        trader = exchange.trader()
        in_its_loop(exchange, lambda: exchange.server.enter(sell(1, 500, 12.5)))
        trader.new(1, quantity=300, price=12)
        trader.one("ExecutionReport_New")
        in_its_loop(exchange, lambda: exchange.server.enter(sell(2, 200, 12)))
        (trade,) = trader.read_messages(1)
        assert row(trade, "clOrdID", "ordStatus", "lastQty", "leavesQty") == (
            "Trade", 1, "PARTIALLY_FILLED", 200, 100,
        )  # fmt: skip
        # One that is refused, and one of the other's own, without a request.
        in_its_loop(exchange, lambda: exchange.server.enter(sell(2, 0, 12)))
        trader.new(2, "BUY", 100, 12.5)
        assert [name for name, _ in trader.read_messages(2)] == [
            "ExecutionReport_New", "ExecutionReport_Trade",
        ]  # fmt: skip
        assert exchange.call(lambda host: len(host.engine.market.orders)) == 2


def test_with_a_journal_orders_come_from_sessions_only(tmp_path):
    with (
        Exchange(journal=tmp_path / "journal") as exchange,
        pytest.raises(UsageError, match="only from its sessions"),
    ):
        in_its_loop(exchange, lambda: exchange.server.enter(sell(1, 100, 12)))


def test_a_crowd_fills_the_books_and_continues():
    with Exchange() as exchange:
        crowd = CrowdRunner(exchange.server, load_profile("equities"), 500.0, fill=300)
        in_its_loop(exchange, crowd.begin)
        assert crowd.requests > 100
        filled = crowd.requests
        until(lambda: crowd.requests >= filled + 50, lambda: (filled, crowd.requests))
        assert exchange.call(lambda host: len(host.engine.market.orders)) > 50
