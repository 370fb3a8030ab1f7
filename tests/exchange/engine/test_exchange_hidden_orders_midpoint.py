"""Pegged midpoint orders: the rules that Pregão gives them (003 §7.1 names the type only)."""

from __future__ import annotations

from typing import Any

import pytest

from pregao.exchange.engine.model.enums import (
    AggressorSide,
    ExecRestatementReason,
    OrdType,
    RoutingInstruction,
    TimeInForce,
    TradeCondition,
    TradingStatus,
    TrdSubType,
)
from pregao.exchange.engine.model.events import ExecutionSummary, OpeningPrice, Trade
from pregao.exchange.engine.model.instruments import Product
from pregao.exchange.engine.model.reports import OrderCancelled, OrderFilled, OrderModified
from tests.exchange.floor import BUY, SELL, Floor, future, px, share

PEGGED = OrdType.PEGGED_MIDPOINT
BROKER_ONLY = RoutingInstruction.BROKER_ONLY
REMOVAL = RoutingInstruction.BROKER_ONLY_REMOVAL
IOC, FOK = TimeInForce.IMMEDIATE_OR_CANCEL, TimeInForce.FILL_OR_KILL


def market(**options: Any) -> Floor:
    """A book of 10.00 to 10.05."""
    floor = Floor(**options)
    floor.order(BUY, 100, 10)
    floor.order(SELL, 100, 10.05)
    return floor


def peg(floor: Floor, side, quantity: int, price: float | None = None, **fields: Any) -> int:
    number = floor.order(side, quantity, price, ord_type=PEGGED, **fields)
    assert floor.reject_code() is None
    return number


def sizes(floor: Floor) -> list[int]:
    return [trade.size for trade in floor.items(Trade)]


def test_two_pegged_orders_trade_in_the_middle():
    floor = market()
    peg(floor, SELL, 100)
    assert not floor.last.market
    peg(floor, BUY, 150, session=2)
    (trade,) = floor.items(Trade)
    assert (trade.price, trade.size) == (px(10.025), 100)
    assert trade.trd_sub_type == TrdSubType.MIDPOINT_TRADE
    assert trade.trade_condition == TradeCondition.BLOCK_TRADE
    (summary,) = floor.items(ExecutionSummary)
    assert (summary.aggressor_side, summary.fill_qty) == (AggressorSide.BUY, 100)
    assert summary.traded_hidden_qty == 100
    assert not floor.items(OpeningPrice)
    assert floor.book(BUY) == [(px(10), 100)]
    assert floor.book(SELL) == [(px(10.05), 100)]
    # What is left waits for the next one.
    peg(floor, SELL, 50, session=3)
    assert sizes(floor) == [50]
    floor.check_feed()
    floor.check_levels()


def test_the_oldest_trades_first_and_a_limit_holds():
    floor = market()
    first = peg(floor, SELL, 10, 10.03)
    second = peg(floor, SELL, 10, 10.02)
    third = peg(floor, SELL, 10)
    peg(floor, BUY, 30, session=2)
    passive = [fill.cl_ord_id for fill in floor.reports(OrderFilled) if not fill.aggressor]
    assert passive == [second, third]
    # A change brings it to the others again.
    floor.modify(first, 10, 10.01)
    assert floor.reports(OrderModified)
    assert sizes(floor) == [10]


@pytest.mark.parametrize(
    ("change", "keeps"),
    [
        ({"quantity": 11}, False),
        ({"quantity": 10, "price": 10.02}, False),
        ({"quantity": 9}, True),
        ({"quantity": 10, "account": 7}, True),
        ({"quantity": 10, "routing_instruction": REMOVAL}, True),
    ],
)
def test_003_7_5_impact_of_changes_on_the_priority_of_a_pegged_order(change, keeps):
    floor = market()
    first, second = peg(floor, SELL, 10, 10.01), peg(floor, SELL, 10)
    first = floor.modify(first, **change)
    (report,) = floor.reports(OrderModified)
    assert report.working
    peg(floor, BUY, 1, session=2)
    (fill,) = (fill for fill in floor.reports(OrderFilled) if not fill.aggressor)
    assert fill.cl_ord_id == (first if keeps else second)
    floor.cancel(first)
    (gone,) = floor.reports(OrderCancelled)
    assert gone.working


def test_003_7_1_17_a_minimum_that_a_change_adds_to_a_pegged_order_must_be_met():
    floor = market()
    peg(floor, SELL, 10)
    order = peg(floor, BUY, 20, 10.01, session=2)
    floor.modify(order, 20, 10.04, session=2, min_qty=11)
    assert not sizes(floor)
    (gone,) = floor.reports(OrderCancelled)
    assert gone.reason == ExecRestatementReason.CANCEL_MINIMUM_QTY_BLOCK
    # One that it already has need not be met again.
    peg(floor, SELL, 10)
    order = peg(floor, BUY, 40, session=2, min_qty=15)
    assert sizes(floor) == [10, 10]
    order = floor.modify(order, 50, session=2)
    assert [type(report) for report in floor.reports()] == [OrderModified]
    peg(floor, SELL, 5)
    assert sizes(floor) == [5]


def test_for_the_broker_only_and_no_longer():
    floor = market()
    order = peg(floor, SELL, 10, firm=1, routing_instruction=BROKER_ONLY)
    peg(floor, BUY, 10, firm=2, session=2)
    assert not sizes(floor)
    peg(floor, BUY, 4, firm=1, session=3)
    assert sizes(floor) == [4]
    floor.modify(order, 10, routing_instruction=REMOVAL)
    assert sizes(floor) == [6]


@pytest.mark.parametrize(
    ("fields", "traded", "reason"),
    [
        ({"time_in_force": IOC}, [10], None),
        ({"time_in_force": FOK}, [], None),
        ({"min_qty": 15}, [], ExecRestatementReason.CANCEL_MINIMUM_QTY_BLOCK),
    ],
)
def test_what_may_not_wait_is_cancelled(fields, traded, reason):
    floor = market()
    peg(floor, SELL, 10)
    peg(floor, BUY, 20, session=2, **fields)
    assert sizes(floor) == traded
    (gone,) = floor.reports(OrderCancelled)
    assert gone.reason == reason
    floor.check_levels()


def test_there_is_no_middle_without_two_sides_or_in_an_auction():
    floor = Floor()
    peg(floor, SELL, 10)
    peg(floor, BUY, 10, session=2)
    assert not sizes(floor)
    floor = market(phase=TradingStatus.RESERVED)
    peg(floor, SELL, 10)
    peg(floor, BUY, 10, session=2)
    assert not sizes(floor)


@pytest.mark.parametrize(
    "instrument", [future(), share(product=Product.GOVERNMENT)], ids=["derivative", "fixed income"]
)
def test_003_7_1_only_equities_have_it(instrument):
    floor = Floor(instrument)
    floor.order(BUY, 10, ord_type=PEGGED)
    assert floor.reject_code() == 2311


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"max_floor": 5}, 2061),
        ({"routing_instruction": RoutingInstruction.RETAIL_LIQUIDITY_TAKER}, 2061),
        ({"time_in_force": TimeInForce.GOOD_TILL_CANCEL}, 7047),
        ({"price": 10.001}, 2014),
    ],
)
def test_what_it_cannot_have(fields, code):
    floor = market()
    floor.order(BUY, 10, ord_type=PEGGED, **fields)
    assert floor.reject_code() == code


def test_it_keeps_its_type_and_can_be_cancelled():
    floor = market()
    order = peg(floor, SELL, 10)
    floor.modify(order, 10, 10, ord_type=OrdType.LIMIT)
    assert floor.reject_code() == 2311
    floor.cancel(order)
    assert floor.reports(OrderCancelled)
    peg(floor, BUY, 10, session=2)
    assert not sizes(floor)
