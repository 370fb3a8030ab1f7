"""Market protections (003 §15.5, §16.3): every printed example, and what resets them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from pregao.errors import UsageError
from pregao.exchange.engine.model.commands import CrossSide, NewCross
from pregao.exchange.engine.model.enums import (
    ExecRestatementReason,
    OrdType,
    ProtectionScope,
    TimeInForce,
    TradingStatus,
)
from pregao.exchange.engine.model.events import DeleteOrderMbo, Trade
from pregao.exchange.engine.model.instruments import (
    Instrument,
    Leg,
    MultiLegModel,
    PutOrCall,
    SecurityType,
    Underlying,
)
from pregao.exchange.engine.model.operations_commands import (
    ProtectionReference,
    RemoveProtection,
    SetDelta,
    SetProtection,
    SetSecurityStatus,
    StartDay,
)
from pregao.exchange.engine.model.reports import OrderAccepted, OrderCancelled, OrderModified
from tests.exchange.floor import BUY, DAY, SELL, Floor, future, px, share

SECOND = 1_000_000_000
FIRM, ACCOUNT = 100, 123
XPTO3, XPTO4, XPTO3A, XPTOA4 = 3, 4, 13, 14
EACH = {XPTO3: "XPTO3", XPTO4: "XPTO4"}
GTC, MOC = TimeInForce.GOOD_TILL_CANCEL, TimeInForce.AT_THE_CLOSE
BY_PROTECTION = ExecRestatementReason.MARKET_MAKER_PROTECTION


def option(security_id: int, on: int, kind: PutOrCall = PutOrCall.CALL) -> Instrument:
    return share(
        security_id,
        symbol=f"OPT{security_id}",
        security_type=SecurityType.OPT,
        put_or_call=kind,
        underlyings=(Underlying(on, EACH.get(on, "XPTO10")),),
    )


REFERENCES = (
    ProtectionReference(XPTO3),
    ProtectionReference(
        XPTO4, counts=ProtectionScope.INSTRUMENT, cancels=ProtectionScope.INSTRUMENT
    ),
)
"""XPTO3 and its options, XPTO4 without its options."""


def protect(floor: Floor, protection_id: int = 7, **limits: Any) -> None:
    fields = {"references": REFERENCES, "interval_ns": 15 * SECOND, **limits}
    floor.do(SetProtection(protection_id, FIRM, ACCOUNT, **fields))


def market(**limits: Any) -> Floor:
    floor = Floor(
        *(share(number, symbol=symbol) for number, symbol in EACH.items()),
        option(XPTO3A, XPTO3),
        option(XPTOA4, XPTO4),
    )
    if limits:
        protect(floor, **limits)
    return floor


def mine(floor: Floor, side, quantity: int, price: float, security_id: int, **fields: Any) -> int:
    """An order of the protected account."""
    return floor.order(
        side, quantity, price, security_id=security_id, firm=FIRM, account=ACCOUNT, **fields
    )


def hit(
    floor: Floor, side, quantity: int, security_id: int, executions: int = 1, price: float = 10
) -> None:
    """Trade a resting order of the account, in this number of executions."""
    mine(floor, side, quantity, price, security_id)
    other = SELL if side == BUY else BUY
    for _ in range(executions):
        floor.order(other, quantity // executions, price, security_id=security_id, session=2)
        assert len(floor.items(Trade)) == 1


def counters(floor: Floor) -> Any:
    ((found,),) = floor.engine.market.protections.values()
    return found


def is_protected(floor: Floor) -> bool:
    return counters(floor).active


def cancelled(floor: Floor) -> list[int]:
    """The orders that the last command cancelled by protection."""
    return [r.cl_ord_id for r in floor.reports(OrderCancelled) if r.reason == BY_PROTECTION]


def assert_protected(floor: Floor, left: list[int]) -> None:
    """The orders left were cancelled, and only a reset lets new ones in (15.5.5)."""
    assert cancelled(floor) == left
    assert is_protected(floor)
    for security_id in (XPTO3, XPTO4, XPTO3A):
        mine(floor, BUY, 100, 1, security_id)
        assert floor.reject_code() == 2600
    mine(floor, BUY, 100, 1, XPTOA4)
    assert floor.reject_code() is None
    floor.order(BUY, 100, 1, security_id=XPTO3, firm=FIRM, account=ACCOUNT + 1)
    assert floor.reject_code() is None
    mine(floor, BUY, 100, 1, XPTO3, mm_protection_reset=True)
    assert floor.reports(OrderAccepted)
    mine(floor, BUY, 100, 1, XPTO4)
    assert floor.reports(OrderAccepted)
    floor.check_feed()


def test_003_15_5_1_1_new_order_fill():
    floor = market(new_order_fills=5)
    rest = [mine(floor, BUY, 10, 9, XPTO3), mine(floor, SELL, 10, 11, XPTO3A)]
    option_of_other = mine(floor, SELL, 10, 11, XPTOA4)
    count = []
    for side, security_id, executions in (
        (BUY, XPTO4, 5),
        (SELL, XPTO4, 3),
        (BUY, XPTO3A, 1),
        (BUY, XPTOA4, 1),
        (SELL, XPTO3, 2),
    ):
        hit(floor, side, 30, security_id, executions)
        count.append(len(counters(floor).filled))
    assert count == [1, 2, 3, 3, 4]
    # Five executions of one order would be one more fill: the first of them reaches the limit.
    mine(floor, BUY, 30, 10, XPTO3)
    floor.order(SELL, 30, 10, security_id=XPTO3, session=2)
    assert floor.items(Trade)
    assert_protected(floor, rest)
    floor.cancel(option_of_other, security_id=XPTOA4)
    assert floor.reports(OrderCancelled)


def test_003_15_5_1_2_execution_protection_example_1():
    floor = market(executions=10)
    rest = mine(floor, BUY, 10, 9, XPTO4)
    count = []
    for side, quantity, security_id, executions in (
        (BUY, 500, XPTO4, 5),
        (SELL, 300, XPTO4, 3),
        (BUY, 100, XPTO3A, 1),
        (BUY, 100, XPTOA4, 1),
    ):
        hit(floor, side, quantity, security_id, executions)
        count.append(counters(floor).executions)
    assert count == [5, 8, 9, 9]
    hit(floor, SELL, 100, XPTO3)
    assert_protected(floor, [rest])


@pytest.mark.parametrize("cancels_stops", [False, True])
def test_003_15_5_1_2_example_2_a_stop_order_just_triggered_is_cancelled(cancels_stops):
    floor = market(executions=10, cancels_stops=cancels_stops)
    stop = mine(floor, BUY, 50, 10, XPTO3, ord_type=OrdType.STOP_LIMIT, stop_px=px(10))
    waits = mine(floor, BUY, 50, 99, XPTO3, ord_type=OrdType.STOP_LIMIT, stop_px=px(99))
    for side, quantity, security_id, executions in (
        (BUY, 500, XPTO4, 5),
        (SELL, 300, XPTO4, 3),
        (BUY, 100, XPTO4, 1),
        (BUY, 100, XPTOA4, 1),
    ):
        hit(floor, side, quantity, security_id, executions)
    hit(floor, SELL, 100, XPTO3)
    assert_protected(floor, [stop, waits] if cancels_stops else [stop])


def test_003_15_5_1_3_traded_quantity_example_1():
    floor = market(traded_quantity=1000)
    rest = mine(floor, BUY, 10, 9, XPTO4)
    count = []
    for side, quantity, security_id, executions in (
        (BUY, 200, XPTO4, 2),
        (SELL, 700, XPTO3, 7),
        (BUY, 100, XPTOA4, 1),
    ):
        hit(floor, side, quantity, security_id, executions)
        count.append(counters(floor).quantity)
    assert count == [200, 900, 900]
    hit(floor, SELL, 100, XPTO4)
    assert_protected(floor, [rest])


def test_003_15_5_1_3_example_2_an_iceberg_goes_beyond_the_limit():
    floor = market(traded_quantity=1000)
    iceberg = mine(floor, BUY, 50_000, 9, XPTO3, max_floor=10_000)
    hit(floor, BUY, 200, XPTO4, 2)
    hit(floor, SELL, 700, XPTO3, 7)
    hit(floor, BUY, 100, XPTOA4)
    floor.order(SELL, 10_000, 9, security_id=XPTO3, session=2)
    assert counters(floor).quantity == 10_900
    (gone,) = floor.reports(OrderCancelled)
    assert (gone.quantity, gone.cum_qty) == (50_000, 10_000)
    assert_protected(floor, [iceberg])


def test_003_15_5_1_4_buy_sell_protection():
    floor = market(net_quantity=1000)
    rest = mine(floor, BUY, 10, 9, XPTO4)
    count = []
    for side, quantity, security_id, executions in (
        (BUY, 200, XPTO4, 2),
        (SELL, 700, XPTO3, 7),
        (BUY, 100, XPTOA4, 1),
    ):
        hit(floor, side, quantity, security_id, executions)
        count.append(counters(floor).net_quantity)
    assert count == [200, -500, -500]
    hit(floor, SELL, 500, XPTO4)
    assert_protected(floor, [rest])


def test_003_15_5_1_5_delta_protection():
    call_10, put_10, call_11, put_11 = 20, 21, 22, 23
    floor = Floor(
        share(10, symbol="XPTO10"),
        option(call_10, 10),
        option(put_10, 10, PutOrCall.PUT),
        option(call_11, 10),
        option(put_11, 10, PutOrCall.PUT),
    )
    for security_id, delta in ((call_10, 50), (put_10, -60), (call_11, 55), (put_11, -65)):
        floor.do(SetDelta(security_id, delta * 10_000))
    protect(floor, delta=60_000 * 10_000, references=(ProtectionReference(10),))
    rest = mine(floor, BUY, 10, 9, 10)
    hit(floor, BUY, 1000, call_10, 2)
    assert counters(floor).delta == 50_000 * 10_000
    hit(floor, SELL, 200, call_10)
    assert counters(floor).delta == 40_000 * 10_000
    mine(floor, SELL, 400, 10, put_11)
    floor.order(BUY, 400, 10, security_id=put_11, session=2)
    assert cancelled(floor) == [rest]
    mine(floor, BUY, 10, 9, call_11)
    assert floor.reject_code() == 2600


def test_003_15_5_1_5_without_a_delta_it_is_one():
    floor = market(delta=5 * 10_000)
    hit(floor, SELL, 5, XPTO3)
    assert is_protected(floor)


def test_003_15_5_1_a_trade_after_the_interval_begins_a_new_one():
    floor = market(executions=2)
    hit(floor, BUY, 5, XPTO3)
    floor.now += 15 * SECOND + 10
    hit(floor, BUY, 5, XPTO3)
    assert counters(floor).executions == 1
    hit(floor, BUY, 5, XPTO3)
    assert is_protected(floor)


def test_003_15_5_earlier_orders_are_neither_counted_nor_cancelled():
    floor = market()
    old = mine(floor, BUY, 10, 9, XPTO3)
    protect(floor, executions=1)
    floor.order(SELL, 5, 9, security_id=XPTO3, session=2)
    assert not is_protected(floor)
    hit(floor, BUY, 5, XPTO3)
    assert is_protected(floor)
    assert cancelled(floor) == []
    floor.cancel(old, security_id=XPTO3)
    assert floor.reports(OrderCancelled)


def test_003_15_5_2_1_a_reference_counts_and_cancels_as_configured():
    only_cash = ProtectionReference(
        XPTO3, counts=ProtectionScope.INSTRUMENT, cancels=ProtectionScope.OPTIONS
    )
    floor = market(executions=1, references=(only_cash,))
    cash = mine(floor, BUY, 10, 9, XPTO3)
    option_order = mine(floor, BUY, 10, 9, XPTO3A)
    hit(floor, BUY, 5, XPTO3A)
    assert not is_protected(floor)
    hit(floor, BUY, 5, XPTO3)
    assert cancelled(floor) == [option_order]
    floor.cancel(cash, security_id=XPTO3)
    assert floor.reports(OrderCancelled)


def test_003_15_5_2_1_an_asset_of_derivatives():
    dol = future(30, asset="DOL")
    call = future(31, asset="DOL", security_type=SecurityType.FOPT, put_or_call=PutOrCall.CALL)
    floor = Floor(dol, call, future(32, asset="BGI"))
    protect(floor, executions=1, references=(ProtectionReference(asset="DOL"),))
    kept = mine(floor, BUY, 1, 9, 32)
    rest = mine(floor, BUY, 1, 9, 31)
    hit(floor, BUY, 5, 32)
    assert not is_protected(floor)
    hit(floor, BUY, 5, 30)
    assert cancelled(floor) == [rest]
    mine(floor, BUY, 1, 9, 31)
    assert floor.reports()[0].text == (
        "Market Protection in effect for configuration ID 7 with product DOL of participant 100/123"
    )
    floor.cancel(kept, security_id=32)
    assert floor.reports(OrderCancelled)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, "at least one limit"),
        ({"executions": 0}, "greater than zero"),
        ({"executions": 1, "interval_ns": 0}, "greater than zero"),
        ({"executions": 1, "references": ()}, "to watch"),
        ({"executions": 1, "references": (ProtectionReference(3),) * 2}, "twice"),
        ({"executions": 1, "references": (ProtectionReference(),)}, "either"),
    ],
)
def test_003_15_5_2_2_an_invalid_configuration_is_refused(fields, words):
    floor = market()
    with pytest.raises(UsageError, match=words):
        protect(floor, **fields)
    with pytest.raises(UsageError, match="does not exist"):
        floor.do(RemoveProtection(7))


def test_003_15_5_2_3_a_cross_counts_twice():
    floor = market(executions=2)
    both = CrossSide(FIRM, 901, ACCOUNT), CrossSide(FIRM, 902, ACCOUNT)
    floor.do(NewCross(1, 77, XPTO3, 100, px(10), *both))
    assert is_protected(floor)
    floor.do(NewCross(1, 78, XPTO3, 100, px(10), *both))
    assert floor.reject_code() == 2600


def test_003_15_5_2_4_spreads_of_users_do_not_count():
    spread = future(
        XPTO3,
        security_type=SecurityType.MLEG,
        multi_leg_model=MultiLegModel.USER_DEFINED,
        legs=(
            Leg(1, "A", 10_000_000, SecurityType.FUT, SELL),
            Leg(2, "B", 10_000_000, SecurityType.FUT, BUY),
        ),
    )
    floor = Floor(spread)
    protect(floor, executions=1, references=(ProtectionReference(XPTO3),))
    hit(floor, BUY, 5, XPTO3)
    assert not is_protected(floor)


@pytest.mark.parametrize("chosen", [False, True])
def test_003_15_5_3_1_other_orders_are_cancelled_by_choice(chosen):
    floor = market(executions=1, cancels_good_till=chosen, cancels_at_close=chosen)
    limit = mine(floor, BUY, 1, 9, XPTO3)
    others = [
        mine(floor, BUY, 1, 9, XPTO3, time_in_force=GTC),
        mine(floor, BUY, 1, 9, XPTO3, time_in_force=MOC),
    ]
    hit(floor, BUY, 5, XPTO3)
    assert cancelled(floor) == ([limit, *others] if chosen else [limit])


def test_003_15_5_4_1_a_new_day_resets():
    floor = market(executions=1)
    hit(floor, BUY, 5, XPTO3)
    floor.do(StartDay(DAY + timedelta(1)))
    mine(floor, BUY, 5, 9, XPTO3)
    assert floor.reject_code() is None


def test_003_15_5_4_2_an_update_resets():
    floor = market(executions=1)
    hit(floor, BUY, 5, XPTO3)
    protect(floor, executions=2)
    rest = mine(floor, BUY, 5, 9, XPTO3)
    assert floor.reject_code() is None
    hit(floor, BUY, 5, XPTO3)
    hit(floor, BUY, 5, XPTO3)
    assert cancelled(floor) == [rest]
    floor.do(RemoveProtection(7))
    mine(floor, BUY, 5, 9, XPTO3)
    assert floor.reject_code() is None


def test_003_16_3_1_orders_of_other_instruments_are_cancelled_as_one_event():
    floor = market(executions=1)
    rest = [mine(floor, BUY, 1, 9, number) for number in (XPTO3, XPTO4, XPTO3A)]
    mine(floor, BUY, 5, 10, XPTO3)
    floor.order(SELL, 5, 10, security_id=XPTO3, session=2)
    match, cancels = floor.last.market
    assert any(isinstance(item, Trade) for item in match.items)
    assert [type(item) for item in cancels.items] == [DeleteOrderMbo] * 3
    assert cancels.event
    assert cancelled(floor) == rest


def test_003_16_3_2_2_a_change_with_the_tag_resets_and_one_without_is_accepted():
    floor = market(executions=1)
    kept = mine(floor, BUY, 5, 9, XPTO3, time_in_force=GTC)
    hit(floor, BUY, 5, XPTO3)
    mine(floor, BUY, 5, 9, XPTO3)
    assert floor.reject_code() == 2600
    kept = floor.modify(kept, 4, security_id=XPTO3)
    assert floor.reports(OrderModified)
    assert is_protected(floor)
    floor.modify(kept, 3, security_id=XPTO3, mm_protection_reset=True)
    assert floor.reports(OrderModified)
    mine(floor, BUY, 5, 9, XPTO3)
    assert floor.reject_code() is None


def test_003_15_5_an_order_can_be_moved_to_a_protected_account():
    floor = market(executions=1)
    order = floor.order(BUY, 5, 9, security_id=XPTO3, firm=FIRM)
    hit(floor, BUY, 5, XPTO3)
    floor.modify(order, 5, security_id=XPTO3, account=ACCOUNT)
    assert floor.reports(OrderModified)


def in_auction(floor: Floor, quantity: int) -> int:
    """An order of the account in the theoretical price of XPTO3 when protection begins."""
    floor.do(SetSecurityStatus(XPTO3, TradingStatus.RESERVED))
    floor.order(BUY, 1000, 11, security_id=XPTO3, session=2)
    floor.order(SELL, 1000, 11, security_id=XPTO3, session=2)
    order = mine(floor, SELL, quantity, 11, XPTO3)
    away = mine(floor, SELL, 7, 12, XPTO3)
    hit(floor, BUY, 5, XPTO4)
    # Only what takes no part in the auction could be cancelled.
    assert cancelled(floor) == [away]
    floor.do(SetSecurityStatus(XPTO3, TradingStatus.OPEN))
    return order


def test_003_16_3_3_an_order_of_an_auction_is_filled_in_protected_mode():
    floor = market(executions=1)
    order = in_auction(floor, 100)
    assert is_protected(floor)
    assert floor.book(SELL, XPTO3) == [(px(11), 100)]
    floor.order(BUY, 100, 11, security_id=XPTO3, session=2)
    assert {fill.cl_ord_id for fill in floor.reports() if fill.session == 1} == {order}
    assert not floor.book(SELL, XPTO3)


def test_003_16_3_4_the_remainder_after_a_partial_fill_is_cancelled():
    floor = market(executions=1)
    order = in_auction(floor, 500)
    floor.order(BUY, 100, 11, security_id=XPTO3, session=2)
    assert cancelled(floor) == [order]
    (gone,) = floor.reports(OrderCancelled)
    assert (gone.quantity, gone.cum_qty) == (500, 100)
    assert not floor.book(SELL, XPTO3)
    floor.check_feed()


def test_003_16_3_5_a_match_goes_beyond_the_limit():
    floor = market(traded_quantity=1000)
    rest = mine(floor, BUY, 10, 9, XPTO4)
    hit(floor, BUY, 200, XPTO4)
    hit(floor, SELL, 700, XPTO3, 7)
    hit(floor, SELL, 200, XPTO4)
    assert counters(floor).quantity == 1100
    assert_protected(floor, [rest])


def test_003_16_3_6_a_stop_order_triggered_after_an_auction_stays():
    floor = market(executions=1)
    floor.do(SetSecurityStatus(XPTO3, TradingStatus.RESERVED))
    stop = mine(floor, BUY, 100, 10, XPTO3, ord_type=OrdType.STOP_LIMIT, stop_px=px(10))
    hit(floor, BUY, 5, XPTO4)
    assert is_protected(floor)
    assert cancelled(floor) == []
    floor.order(BUY, 5, 10, security_id=XPTO3, session=2)
    floor.order(SELL, 5, 10, security_id=XPTO3, session=3)
    floor.do(SetSecurityStatus(XPTO3, TradingStatus.OPEN))
    assert floor.reports(OrderAccepted)[0].cl_ord_id == stop
    assert floor.book(BUY, XPTO3) == [(px(10), 100)]
    floor.check_feed()
