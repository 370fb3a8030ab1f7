"""Stop orders (003 §7.1.3, §7.1.4, §16.2.4; 000 §13.1.3): triggers and reports."""

from __future__ import annotations

from datetime import date, timedelta

import pytest

from pregao.exchange.engine.matching.self_trade_prevention import investor_number
from pregao.exchange.engine.model.commands import CrossSide, MassCancel, NewCross
from pregao.exchange.engine.model.enums import (
    AggressorSide,
    ExecRestatementReason,
    OrdStatus,
    OrdType,
    PriceBandType,
    TimeInForce,
    TradingStatus,
)
from pregao.exchange.engine.model.events import (
    DeleteOrderMbo,
    ExecutionSummary,
    NewOrderMbo,
    SecurityStatus,
    Trade,
)
from pregao.exchange.engine.model.operations_commands import (
    ChangeInstrument,
    EndDay,
    EnterTrade,
    SetGroupPhase,
    SetPriceBand,
    StartDay,
)
from pregao.exchange.engine.model.reports import (
    OrderAccepted,
    OrderCancelled,
    OrderFilled,
    OrderModified,
)
from tests.exchange.floor import BUY, DAY, SELL, SHARE, Floor, future, px, share

STOP, STOP_LIMIT, LIMIT = OrdType.STOP_LOSS, OrdType.STOP_LIMIT, OrdType.LIMIT


def trade_at(floor: Floor, price: float, quantity: int = 1) -> None:
    """Trade two other orders; return the outcome of the second one."""
    floor.order(SELL, quantity, price, session=8)
    floor.order(BUY, quantity, price, session=9)


def stop(floor: Floor, side, quantity: int, stop_px: float, price: float | None = None, **fields):
    kind = STOP if price is None else STOP_LIMIT
    return floor.order(side, quantity, price, ord_type=kind, stop_px=px(stop_px), **fields)


def test_003_7_1_3_stop_order_with_protection():
    floor = Floor(share(protection_offset=px(2), previous_close=10 * 10**8))
    for quantity, price in ((500, 10), (300, 11), (200, 13)):
        floor.order(SELL, quantity, price)
    order = stop(floor, BUY, 1000, 10, session=2)
    (accepted,) = floor.reports()
    assert (accepted.price, accepted.stop_px, accepted.protection_price) == (None, px(10), px(12))
    assert not accepted.working
    assert not floor.last.market
    floor.order(BUY, 100, 10, session=3)
    mine = [report for report in floor.reports() if report.cl_ord_id == order]
    assert [type(report) for report in mine] == [OrderAccepted, OrderFilled, OrderFilled]
    active, *fills = mine
    assert (active.working, active.ord_type, active.price) == (True, LIMIT, px(12))
    assert (active.stop_px, active.protection_price) == (None, px(12))
    assert [(fill.last_qty, fill.last_px) for fill in fills] == [(400, px(10)), (300, px(11))]
    assert {fill.ord_type for fill in fills} == {LIMIT}
    assert floor.book(BUY) == [(px(12), 300)]
    floor.check_feed()
    floor.check_levels()


def test_003_7_1_4_a_stop_limit_order_becomes_a_limit_order_at_its_own_price():
    floor = Floor(future())
    order = stop(floor, SELL, 10, 9.5, 9.4)
    trade_at(floor, 9.51)
    assert not floor.reports(OrderAccepted)[1:]
    trade_at(floor, 9.5)
    active = floor.reports(OrderAccepted)[-1]
    assert (active.cl_ord_id, active.ord_type, active.price) == (order, LIMIT, px(9.4))
    assert floor.book(SELL) == [(px(9.4), 10)]
    floor.check_feed()


def test_003_7_1_4_a_price_outside_the_hard_limits_is_moved_to_a_price_step_within():
    floor = Floor(future(min_price_increment=5 * 10**8))
    stop(floor, BUY, 10, 70_080, 70_200)
    floor.do(SetPriceBand(SHARE, PriceBandType.HARD_LIMIT, low=px(60_000), high=px(70_089)))
    trade_at(floor, 70_080)
    assert floor.book(BUY) == [(px(70_085), 10)]


def test_000_13_1_3_several_stop_orders_trade_in_one_event():
    floor = Floor()
    for quantity, price in ((300, 7.31), (100, 7.32), (200, 7.32), (100, 7.50), (400, 7.52)):
        floor.order(SELL, quantity, price)
    for quantity, price in ((100, 7.28), (200, 7.28), (100, 7.20)):
        floor.order(BUY, quantity, price)
    for quantity, price in ((100, 7.31), (200, 7.32), (200, 7.32)):
        stop(floor, BUY, quantity, 7.31, price, session=2)
        assert not floor.last.market
    floor.order(BUY, 200, 7.32, session=3)
    first, second = floor.last.market
    assert [trade.size for trade in first.items if isinstance(trade, Trade)] == [200]
    summary = second.items[0]
    assert isinstance(summary, ExecutionSummary)
    assert (summary.aggressor_side, summary.last_px) == (AggressorSide.BUY, px(7.32))
    assert (summary.fill_qty, summary.traded_hidden_qty, summary.cxl_qty) == (400, 0, 0)
    trades = [(t.price, t.size) for t in second.items if isinstance(t, Trade)]
    assert trades == [(px(7.31), 100), (px(7.32), 100), (px(7.32), 100), (px(7.32), 100)]
    (added,) = [item for item in second.items if isinstance(item, NewOrderMbo)]
    assert (added.side, added.price, added.size, added.position) == (BUY, px(7.32), 100, 1)
    assert second.event
    assert floor.book(BUY)[:2] == [(px(7.32), 100), (px(7.28), 100)]
    assert floor.book(SELL) == [(px(7.5), 100), (px(7.52), 400)]
    floor.check_feed()
    floor.check_levels()


def test_a_stop_order_can_trigger_another_in_a_separate_event():
    floor = Floor()
    for price in (10, 10.01, 10.02):
        floor.order(SELL, 5, price)
    stop(floor, BUY, 5, 10.01, 10.02, session=2)
    stop(floor, BUY, 5, 10, 10.01, session=2)
    floor.order(BUY, 5, 10, session=3)
    assert [len(floor.last.market), len(floor.items(Trade))] == [3, 3]
    assert not floor.book(SELL)
    floor.check_feed()


def test_stops_of_both_sides_come_in_an_event_each():
    floor = Floor()
    stop(floor, BUY, 5, 10, 10.05)
    stop(floor, SELL, 5, 10, 9.95)
    trade_at(floor, 10)
    assert len(floor.last.market) == 3
    # The buyer is first in the book, so the seller trades at the buyer's price.
    assert [trade.price for trade in floor.items(Trade)] == [px(10), px(10.05)]
    floor.check_feed()


def test_stops_come_in_the_order_in_which_the_price_reaches_them():
    floor = Floor()
    late = stop(floor, BUY, 1, 10.02, 9)
    soon = stop(floor, BUY, 1, 10.01, 9)
    also = stop(floor, BUY, 1, 10.02, 9)
    trade_at(floor, 10.05)
    active = [report.cl_ord_id for report in floor.reports(OrderAccepted) if report.session == 1]
    assert active == [soon, late, also]


def test_003_16_2_4_self_trade_prevention_on_a_stop_order():
    me = investor_number(205, 8930)
    floor = Floor()
    floor.order(SELL, 10, 10.01, investor_id=me)
    order = stop(floor, BUY, 10, 10, 10.01, investor_id=me, session=2)
    trade_at(floor, 10)
    active, gone = [report for report in floor.reports() if report.cl_ord_id == order]
    assert (active.working, active.ord_type) == (True, LIMIT)
    assert isinstance(gone, OrderCancelled)
    assert gone.reason == ExecRestatementReason.SELF_TRADING_PREVENTION
    assert gone.ord_type == LIMIT
    floor.check_feed()


def test_a_cross_triggers_and_a_trade_of_market_operations_does_not():
    floor = Floor()
    stop(floor, BUY, 5, 10, 9.9)
    floor.do(EnterTrade(SHARE, px(11), 100))
    assert not floor.book(BUY)
    floor.do(NewCross(1, 77, SHARE, 100, px(10), CrossSide(11, 901), CrossSide(12, 902)))
    assert floor.book(BUY) == [(px(9.9), 5)]


def test_an_auction_triggers_stops_after_it():
    floor = Floor(phase=TradingStatus.RESERVED)
    stop(floor, BUY, 5, 10, 10.5)
    floor.order(SELL, 10, 10, session=2)
    floor.order(BUY, 10, 10, session=3)
    assert not floor.items(Trade)
    floor.order(SELL, 5, 10.5, session=2)
    floor.do(SetGroupPhase("XX", TradingStatus.OPEN))
    assert [(trade.price, trade.size) for trade in floor.items(Trade)] == [
        (px(10), 10),
        (px(10.5), 5),
    ]
    # The uncrossing, the separate state, then the results of the stop.
    uncrossing, state, triggered = floor.last.market
    assert [x.size for x in uncrossing.items if isinstance(x, Trade)] == [10]
    assert not any(isinstance(x, Trade) for x in state.items)
    assert [x.size for x in triggered.items if isinstance(x, Trade)] == [5]
    floor.check_feed()


def test_a_stop_triggered_as_the_market_closes_keeps_waiting():
    floor = Floor(phase=TradingStatus.FINAL_CLOSING_CALL)
    stop(floor, BUY, 5, 10, 10.5)
    floor.order(SELL, 10, 10, session=2)
    floor.order(BUY, 10, 10, session=3)
    floor.do(SetGroupPhase("XX", TradingStatus.CLOSE))
    assert floor.items(Trade)
    floor.do(SetGroupPhase("XX", TradingStatus.OPEN))
    assert not floor.book(BUY)
    trade_at(floor, 10)
    assert floor.book(BUY) == [(px(10.5), 5)]


def test_a_stop_that_freezes_the_instrument_takes_the_others_into_the_auction():
    floor = Floor()
    floor.do(SetPriceBand(SHARE, PriceBandType.AUCTION_LIMITS, low=px(9), high=px(10)))
    floor.order(SELL, 5, 10.5)
    stop(floor, BUY, 5, 10, 10.5, session=2)
    stop(floor, BUY, 7, 10, 10.6, session=2)
    ends = stop(floor, BUY, 9, 10, 10.6, session=2, time_in_force=TimeInForce.IMMEDIATE_OR_CANCEL)
    trade_at(floor, 10)
    assert len(floor.items(SecurityStatus)) == 1
    assert floor.book(BUY) == [(px(10.6), 7), (px(10.5), 5)]
    assert [gone.cl_ord_id for gone in floor.reports(OrderCancelled)] == [ends]
    floor.check_feed()
    floor.check_levels()


def test_a_waiting_stop_can_be_cancelled_changed_and_expires():
    floor = Floor()
    order = stop(floor, BUY, 5, 10, 10)
    floor.cancel(order)
    (gone,) = floor.reports()
    assert (gone.ord_type, gone.stop_px) == (STOP_LIMIT, px(10))
    trade_at(floor, 10)
    assert not floor.book(BUY)
    order = stop(floor, BUY, 5, 10.5, 10.5)
    order = floor.modify(order, 7, stop_px=px(10.3))
    (changed,) = floor.reports()
    assert (changed.stop_px, changed.price, changed.working) == (px(10.3), px(10.5), False)
    assert not floor.last.market
    trade_at(floor, 10.3)
    assert floor.book(BUY) == [(px(10.5), 7)]
    stop(floor, BUY, 5, 11, 11)
    kept = stop(floor, BUY, 5, 11, 11, time_in_force=TimeInForce.GOOD_TILL_CANCEL)
    floor.do(EndDay())
    assert {gone.status for gone in floor.reports(OrderCancelled)} == {OrdStatus.EXPIRED}
    assert [waits.cl_ord_id for waits in floor.engine.market.orders.values()] == [kept]
    floor.do(StartDay(DAY + timedelta(1)))
    trade_at(floor, 11)
    assert floor.book(BUY) == [(px(11), 5)]
    floor.check_levels()


@pytest.mark.parametrize(
    ("change", "keeps"),
    [
        ({"quantity": 5, "stop_px": px(10.2)}, False),
        ({"quantity": 5, "price": 10.6}, False),
        ({"quantity": 6}, False),
        ({"quantity": 5, "min_qty": 2}, False),
        ({"quantity": 4}, True),
        ({"quantity": 5, "account": 7}, True),
        ({"quantity": 5, "time_in_force": TimeInForce.GOOD_TILL_CANCEL}, True),
        ({"quantity": 5, "price": 10.5, "stop_px": px(10.3)}, True),
    ],
)
@pytest.mark.parametrize("side", [BUY, SELL])
def test_003_7_5_impact_of_changes_on_the_priority_of_a_stop_order(side, change, keeps):
    def mirrored(price):
        return price if side == BUY else px(20) - price

    floor = Floor()
    first = stop(floor, side, 5, mirrored(px(10.3)) / 10_000, mirrored(px(10.5)) / 10_000)
    other = stop(floor, side, 5, mirrored(px(10.3)) / 10_000, mirrored(px(10.5)) / 10_000)
    change = dict(change)
    if "price" in change:
        change["price"] = mirrored(px(change["price"])) / 10_000
    if "stop_px" in change:
        change["stop_px"] = mirrored(change["stop_px"])
    changed = floor.modify(first, **change)
    if change.get("stop_px", mirrored(px(10.3))) != mirrored(px(10.3)):
        changed = floor.modify(changed, 5, stop_px=mirrored(px(10.3)))
    trade_at(floor, mirrored(px(10.3)) / 10_000)
    triggered = [report.cl_ord_id for report in floor.reports(OrderAccepted) if report.session == 1]
    assert triggered == ([changed, other] if keeps else [other, changed])


def test_003_7_4_an_order_of_the_book_can_become_a_stop_order_and_back():
    floor = Floor()
    order = floor.order(BUY, 5, 10)
    order = floor.modify(order, 5, 10.2, ord_type=STOP_LIMIT, stop_px=px(10.1))
    assert [type(item) for item in floor.items()] == [DeleteOrderMbo]
    assert not floor.book(BUY)
    floor.order(SELL, 3, 10.2, session=2)
    order = floor.modify(order, 5, ord_type=LIMIT)
    kinds = [type(report) for report in floor.reports() if report.session == 1]
    assert kinds == [OrderModified, OrderFilled]
    assert floor.book(BUY) == [(px(10.2), 2)]
    floor.check_feed()
    floor.check_levels()


def test_003_7_5_an_order_that_becomes_a_stop_ranks_after_the_stops_there():
    floor = Floor()
    order = floor.order(BUY, 5, 10)
    waiting = stop(floor, BUY, 5, 10.3, 10.5)
    order = floor.modify(order, 5, 10.5, ord_type=STOP_LIMIT, stop_px=px(10.3))
    trade_at(floor, 10.3)
    triggered = [report.cl_ord_id for report in floor.reports(OrderAccepted) if report.session == 1]
    assert triggered == [waiting, order]


def test_003_7_4_a_waiting_stop_keeps_its_minimum_until_it_is_triggered():
    floor = Floor()
    order = stop(floor, BUY, 5, 10, 10, min_qty=4)
    floor.modify(order, 3)
    assert floor.reject_code() == 1013
    order = floor.modify(order, 6)
    (report,) = floor.reports(OrderModified)
    assert report.min_qty == 4
    trade_at(floor, 10)
    kinds = [type(report) for report in floor.reports() if report.cl_ord_id == order]
    assert kinds == [OrderAccepted, OrderCancelled]


@pytest.mark.parametrize(("resting", "traded"), [(3, []), (4, [4])])
def test_003_7_1_17_a_stop_that_a_change_turns_into_a_limit_order_must_meet_its_minimum(
    resting, traded
):
    floor = Floor()
    order = stop(floor, BUY, 5, 11, 11, min_qty=4)
    floor.order(SELL, resting, 10.5, session=2)
    floor.modify(order, 5, 10.5, ord_type=OrdType.LIMIT)
    assert [trade.size for trade in floor.items(Trade)] == traded
    assert len(floor.reports(OrderCancelled)) == 1 - len(traded)
    assert floor.book(BUY) == [(px(10.5), 1) for _ in traded]


def test_003_7_1_13_and_16_2_4_a_cancelled_order_that_waited_was_not_working():
    floor = Floor()
    closing = TimeInForce.AT_THE_CLOSE

    def working():
        return [report.working for report in floor.reports(OrderCancelled)]

    floor.cancel(stop(floor, BUY, 5, 11, 11))
    assert working() == [False]
    floor.cancel(floor.order(BUY, 5, 10, time_in_force=closing))
    assert working() == [False]
    floor.cancel(floor.order(BUY, 5, 10))
    assert working() == [True]
    # A change makes it wait, and another one active.
    order = floor.modify(floor.order(BUY, 5, 10), 5, time_in_force=closing)
    floor.cancel(floor.modify(order, 5, time_in_force=TimeInForce.DAY))
    assert working() == [True]
    # Triggered, or in the closing call, it is active.
    triggered = stop(floor, BUY, 5, 11, 10.5)
    trade_at(floor, 11)
    floor.cancel(triggered)
    assert working() == [True]
    stop(floor, BUY, 5, 12, 12)
    floor.order(BUY, 5, 10, time_in_force=closing)
    floor.do(MassCancel(1, 99))
    assert working() == [False, False]
    order = floor.order(BUY, 5, 10, time_in_force=closing)
    floor.order(BUY, 5, 10, time_in_force=closing)
    stop(floor, BUY, 5, 12, 12)
    floor.do(SetGroupPhase("XX", TradingStatus.FINAL_CLOSING_CALL))
    floor.cancel(order)
    assert working() == [True]
    floor.do(EndDay())
    assert working() == [True, False]


def test_a_mass_cancel_takes_stops_of_the_day():
    floor = Floor()
    stop(floor, BUY, 5, 10, 10)
    stop(floor, BUY, 5, 10, 10, time_in_force=TimeInForce.GOOD_TILL_DATE, expire_date=date.max)
    floor.do(MassCancel(1, 99))
    assert len(floor.reports(OrderCancelled)) == 1
    assert not floor.last.market
    trade_at(floor, 10)
    assert floor.book(BUY) == [(px(10), 5)]


def test_a_stop_with_a_minimum_that_cannot_be_met_ends_when_it_is_triggered():
    floor = Floor()
    order = stop(floor, BUY, 5, 10, 10, min_qty=5)
    trade_at(floor, 10)
    active, gone = [report for report in floor.reports() if report.cl_ord_id == order]
    assert isinstance(active, OrderAccepted)
    assert isinstance(gone, OrderCancelled)


@pytest.mark.parametrize("side", [BUY, SELL])
def test_a_stop_needs_no_last_price(side):
    floor = Floor()
    stop(floor, side, 5, 10)
    assert floor.reject_code() is None
    assert floor.reports(OrderAccepted)[0].protection_price == px(10.5 if side == BUY else 9.5)


def test_003_7_1_9_and_7_1_12_a_corporate_action_cancels_what_outlives_the_day():
    floor = Floor()
    day = floor.order(BUY, 1, 9)
    later = [
        floor.order(BUY, 2, 9, time_in_force=TimeInForce.GOOD_TILL_CANCEL),
        floor.order(
            SELL, 3, 11, time_in_force=TimeInForce.GOOD_TILL_DATE, expire_date=DAY + timedelta(9)
        ),
        stop(floor, BUY, 4, 12, 12, time_in_force=TimeInForce.GOOD_TILL_CANCEL),
    ]
    floor.do(ChangeInstrument(share(security_desc="the same")))
    assert not floor.reports()
    floor.do(ChangeInstrument(share(corporate_action_event_id=5)))
    gone = floor.reports(OrderCancelled)
    assert [report.cl_ord_id for report in gone] == later
    assert {report.reason for report in gone} == {ExecRestatementReason.MARKET_OPTION}
    assert len(floor.items(DeleteOrderMbo)) == 2
    assert [order.cl_ord_id for order in floor.engine.market.orders.values()] == [day]
    floor.check_feed()
    floor.check_levels()
