"""Mass action and sweep crosses (003 §4.8, §16.1.4, §16.1.5): filters, refusals and reports."""

from __future__ import annotations

from typing import Any

import pytest

from pregao.exchange.engine.matching.self_trade_prevention import investor_number
from pregao.exchange.engine.model.commands import CancelOrder, CrossSide, MassCancel, NewCross
from pregao.exchange.engine.model.enums import (
    AggressorSide,
    CrossPrioritization,
    CrossType,
    ExecRestatementReason,
    MassActionRejectReason,
    MassActionType,
    OrdType,
    PriceBandType,
    TimeInForce,
    TradeCondition,
    TradingStatus,
    TrdSubType,
)
from pregao.exchange.engine.model.events import DeleteOrderMbo, ExecutionSummary, Trade
from pregao.exchange.engine.model.operations_commands import SetGroupPhase, SetPriceBand
from pregao.exchange.engine.model.reports import (
    MassCancelled,
    OrderAccepted,
    OrderCancelled,
    OrderFilled,
    OrderRejected,
)
from tests.exchange.floor import BUY, OTHER, SELL, SHARE, Floor, px, share

ME, YOU = investor_number(300, 1), investor_number(300, 2)
SWEEP = CrossType.CROSS_EXECUTED_AGAINST_BOOK_FROM_CLIENT
BUYER_FIRST = CrossPrioritization.BUY_SIDE_IS_PRIORITIZED
SELLER_FIRST = CrossPrioritization.SELL_SIDE_IS_PRIORITIZED


DISCONNECTS = (
    ExecRestatementReason.CANCEL_ON_HARD_DISCONNECTION,
    ExecRestatementReason.CANCEL_ON_TERMINATE,
    ExecRestatementReason.CANCEL_ON_DISCONNECT_AND_TERMINATE,
)


@pytest.mark.parametrize("reason", DISCONNECTS)
@pytest.mark.parametrize("phase", [TradingStatus.RESERVED, TradingStatus.FINAL_CLOSING_CALL])
def test_003_4_7_3_orders_that_take_part_in_an_auction_stay(phase, reason):
    floor = Floor()
    waiting = floor.order(
        BUY, 5, 10.5, ord_type=OrdType.STOP_LIMIT, stop_px=px(10.4), time_in_force=TimeInForce.DAY
    )
    floor.do(SetGroupPhase("XX", phase))
    floor.order(SELL, 10, 10, session=2)
    above, at, below = (floor.order(BUY, 10, price) for price in (10.1, 10, 9.9))
    floor.order(SELL, 15, 10, session=2)
    uncrossing = floor.engine.market.listings[SHARE].theoretical
    assert uncrossing is not None
    assert uncrossing.price == px(10)
    floor.do(MassCancel(1, 0, reason=reason))
    gone = floor.reports(OrderCancelled)
    assert {report.cl_ord_id for report in gone} == {waiting, below}
    assert {report.reason for report in gone} == {reason}
    # Its owner may cancel all of it.
    floor.do(MassCancel(1, 91, side=SELL))
    assert not floor.reports(OrderCancelled)
    floor.do(MassCancel(1, 92))
    assert {report.cl_ord_id for report in floor.reports(OrderCancelled)} == {above, at}
    floor.check_feed()


@pytest.mark.parametrize(
    ("status", "cancels"),
    [
        (TradingStatus.OPEN, True),
        (TradingStatus.PAUSE, True),
        (TradingStatus.CLOSE, False),
        (TradingStatus.FORBIDDEN, False),  # of a group: PRE-CLOSE
    ],
)
def test_003_4_7_3_states_without_cancellations_keep_the_orders(status, cancels):
    floor = Floor()
    order = floor.order(BUY, 10, 10)
    floor.do(SetGroupPhase("XX", status))
    floor.do(MassCancel(1, 0, reason=DISCONNECTS[0]))
    gone = [report.cl_ord_id for report in floor.reports(OrderCancelled)]
    assert gone == ([order] if cancels else [])


def test_003_4_8_filters_combine():
    floor = Floor(share(asset="AAA"), share(OTHER, asset="BBB"))
    orders = {}
    for security_id in (SHARE, OTHER):
        for side, price in ((BUY, 9), (SELL, 11)):
            for investor in (ME, YOU):
                for tag in (0, 7):
                    number = floor.order(
                        side,
                        10,
                        price,
                        security_id=security_id,
                        investor_id=investor,
                        ord_tag_id=tag,
                    )
                    orders[number] = (security_id, side, investor, tag)
    for command, wanted in (
        (
            MassCancel(1, 99, asset="AAA", side=BUY, investor_id=ME, ord_tag_id=7),
            (SHARE, BUY, ME, 7),
        ),
        (MassCancel(1, 99, asset="BBB", investor_id=ME), (OTHER, None, ME, None)),
        (MassCancel(1, 99, security_id=OTHER, side=SELL), (OTHER, SELL, None, None)),
        (MassCancel(1, 99, ord_tag_id=7), (None, None, None, 7)),
        (MassCancel(1, 99), (None,) * 4),
    ):
        expected = {
            number
            for number, facts in orders.items()
            if all(want in (None, fact) for want, fact in zip(wanted, facts, strict=True))
        }
        floor.do(command)
        assert {report.cl_ord_id for report in floor.reports(OrderCancelled)} == expected
        assert len(floor.unit().items) == len(expected)
        (done,) = floor.reports(MassCancelled)
        assert (done.count, done.reject_reason) == (len(expected), None)
        assert {gone.mass_action_id for gone in floor.reports(OrderCancelled)} == {done.exec_id}
        for number in expected:
            del orders[number]
    assert not orders
    floor.check_feed()


@pytest.mark.parametrize(
    "action",
    [MassActionType.RELEASE_ORDERS_FROM_SUSPENSION, MassActionType.CANCEL_AND_SUSPEND_ORDERS],
)
def test_003_16_1_4_suspension_is_not_supported(action):
    floor = Floor()
    floor.order(BUY, 10, 9)
    floor.do(MassCancel(1, 99, action=action))
    (refused,) = floor.reports()
    assert refused.reject_reason == MassActionRejectReason.MASS_ACTION_NOT_SUPPORTED
    assert action.name in refused.text
    assert floor.book(BUY)


def test_orders_of_other_sessions_can_be_cancelled_on_behalf_of_an_investor():
    floor = Floor()
    own = floor.order(BUY, 1, 9, firm=5, investor_id=ME)
    other = floor.order(BUY, 2, 9, firm=5, investor_id=ME, session=2)
    floor.order(BUY, 3, 9, firm=6, investor_id=ME, session=3)
    floor.order(BUY, 4, 9, firm=5, investor_id=YOU, session=2)
    floor.do(MassCancel(1, 99, investor_id=ME, on_behalf=True, firm=5))
    cancelled = {
        gone.cl_ord_id: (gone.session, gone.reason, gone.requested_by)
        for gone in floor.reports(OrderCancelled)
    }
    reasons = ExecRestatementReason
    assert cancelled == {
        own: (1, reasons.ORDER_MASS_ACTION_FROM_CLIENT_REQUEST, 0),
        other: (2, reasons.MASS_CANCEL_ON_BEHALF, 1),
    }
    floor.do(MassCancel(1, 99, on_behalf=True, firm=5))
    (refused,) = floor.reports()
    assert refused.reject_reason == MassActionRejectReason.OTHER


def test_an_operational_error_is_reported_as_applied():
    floor = Floor()
    reasons = ExecRestatementReason
    order = floor.order(BUY, 1, 9)
    floor.do(
        CancelOrder(
            1,
            99,
            SHARE,
            orig_cl_ord_id=order,
            reason=reasons.CANCEL_ORDER_DUE_TO_OPERATIONAL_ERROR,
        )
    )
    (gone,) = floor.reports()
    assert gone.reason == reasons.ORDER_CANCELLED_DUE_TO_OPERATIONAL_ERROR
    floor.order(BUY, 1, 9)
    floor.do(MassCancel(1, 99, reason=reasons.MASS_CANCEL_ORDER_DUE_TO_OPERATIONAL_ERROR_REQUEST))
    gone = floor.reports(OrderCancelled)[0]
    assert gone.reason == reasons.MASS_CANCEL_ORDER_DUE_TO_OPERATIONAL_ERROR_EFFECTIVE


def sweep(quantity: int, price: float, prioritization=BUYER_FIRST, **fields: Any) -> NewCross:
    buyer, seller = CrossSide(11, 901), CrossSide(11, 902)
    fields = {"cross_type": SWEEP, "prioritization": prioritization, **fields}
    return NewCross(1, 77, SHARE, quantity, px(price), buyer, seller, **fields)


def test_000_13_3_3_a_sweep_and_cross_takes_the_book_and_crosses_the_rest():
    floor = Floor()
    floor.order(SELL, 30, 9.98, session=2)
    floor.order(SELL, 20, 10, session=2)
    floor.order(SELL, 20, 10.01, session=2)
    floor.do(sweep(100, 10))
    first, second, crossed = floor.items(Trade)
    assert [(t.size, t.price) for t in (first, second)] == [(30, px(9.98)), (20, px(10))]
    assert (crossed.size, crossed.price) == (50, px(10))
    regular = TradeCondition.REGULAR_TRADE
    for trade, is_crossed in ((first, False), (second, False), (crossed, True)):
        assert trade.trd_sub_type == TrdSubType.SWEEP_TRADE
        assert trade.trade_condition & regular
        assert bool(trade.trade_condition & TradeCondition.CROSSED) == is_crossed
    (summary,) = floor.items(ExecutionSummary)
    assert (summary.aggressor_side, summary.fill_qty) == (AggressorSide.BUY, 100)
    (gone,) = floor.reports(OrderCancelled)
    assert (gone.cl_ord_id, gone.cum_qty) == (902, 50)
    assert gone.reason == ExecRestatementReason.CANCEL_REMAINING_FROM_SWEEP_CROSS
    assert len(floor.last.market) == 1
    floor.check_feed()
    floor.check_levels()


def test_a_sweep_of_the_seller_with_an_empty_book_is_a_cross():
    floor = Floor()
    floor.do(sweep(100, 10, SELLER_FIRST))
    (trade,) = floor.items(Trade)
    assert trade.trade_condition & TradeCondition.CROSSED
    kinds = [type(report) for report in floor.reports()]
    assert kinds == [OrderAccepted, OrderAccepted, OrderFilled, OrderFilled]


def test_a_book_that_is_still_better_after_the_sweep_is_not_crossed():
    floor = Floor()
    floor.order(SELL, 30, 9.98, session=2)
    floor.do(sweep(100, 10, max_sweep_qty=10))
    assert [trade.size for trade in floor.items(Trade)] == [10]
    left = {gone.cl_ord_id: gone.cum_qty for gone in floor.reports(OrderCancelled)}
    assert left == {901: 10, 902: 0}
    assert floor.book(SELL) == [(px(9.98), 20)]
    floor.check_feed()


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (sweep(100, 10, CrossPrioritization.NONE), 2311),
        (sweep(100, 10, cross_type=CrossType.VWAP_CROSS), 2311),
        (sweep(100, 10, cross_type=CrossType.CLOSING_PRICE_CROSS), 2311),
        (sweep(100, 10, max_sweep_qty=0), 2115),
        (sweep(100, 10, max_sweep_qty=101), 2115),
        (sweep(100, 11), 2311),
    ],
)
def test_a_sweep_that_cannot_be_is_refused_on_both_sides(command, code):
    floor = Floor()
    floor.do(SetPriceBand(SHARE, PriceBandType.AUCTION_LIMITS, low=px(9), high=px(10.5)))
    floor.do(command)
    assert [report.code for report in floor.reports(OrderRejected)] == [code, code]
    assert not floor.items(Trade, DeleteOrderMbo)
