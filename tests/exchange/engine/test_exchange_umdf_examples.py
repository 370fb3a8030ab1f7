"""The worked examples of the market data guidelines (000), as the engine's events."""

from __future__ import annotations

import pytest

from pregao.exchange.engine.book.market import FIRST_IMPLIED_ID
from pregao.exchange.engine.model.enums import (
    AggressorSide,
    OpenCloseSettlFlag,
    OrderSide,
    TradeCondition,
    TradingStatus,
)
from pregao.exchange.engine.model.events import (
    ChangeOrderMbo,
    DeleteOrderMbo,
    ExecutionStatistics,
    ExecutionSummary,
    HighPrice,
    LowPrice,
    MassDeleteOrders,
    NewOrderMbo,
    OpeningPrice,
    SecurityGroupPhase,
    SecurityStatus,
    Trade,
)
from pregao.exchange.engine.model.operations_commands import (
    DeleteSide,
    EnterImplied,
    RejoinGroup,
    SetClosingPrice,
    SetGroupPhase,
    SetSecurityStatus,
)
from pregao.exchange.engine.model.reports import OrderFilled, OrderRestated
from pregao.umdf.phases import TradingEvent
from tests.exchange.floor import BUY, SELL, SHARE, Floor, future, px


def rows(floor: Floor, side: OrderSide) -> list[tuple[float, int, int]]:
    """One side as the documents print it: price, quantity, number."""
    view = floor.engine.book(SHARE)
    entries = view.bids if side == BUY else view.offers
    return [
        ((entry.price or 0) / 10_000, entry.size, entry.secondary_order_id) for entry in entries
    ]


def book_of_12_2() -> tuple[Floor, dict[int, int]]:
    """The book that §12.2 starts from, entered in the order of its numbers.

    The document's numbers are mapped to those that the engine gives: both rise with priority.
    """
    printed = [
        (BUY, 15, 12.10, 300358),
        (BUY, 5, 12.10, 400358),
        (BUY, 10, 12.10, 545922),
        (BUY, 5, 12.00, 120478),
        (BUY, 15, 12.00, 303690),
        (BUY, 10, 11.90, 789100),
        (SELL, 15, 12.30, 95010),
        (SELL, 10, 12.30, 101020),
        (SELL, 25, 12.60, 434001),
        (SELL, 10, 12.80, 200452),
    ]
    floor = Floor(future(implied_market_indicator=True))
    numbers: dict[int, int] = {}
    for side, quantity, price, printed_number in sorted(printed, key=lambda row: row[3]):
        cl_ord_id = floor.order(side, quantity, price)
        (added,) = floor.items(NewOrderMbo)
        numbers[printed_number] = added.secondary_order_id
        floor.named[printed_number] = cl_ord_id
    return floor, numbers


BIDS = [
    (12.10, 15, 300358),
    (12.10, 5, 400358),
    (12.10, 10, 545922),
    (12.00, 5, 120478),
    (12.00, 15, 303690),
    (11.90, 10, 789100),
]


def printed(
    expected: list[tuple[float, int, int]], numbers: dict[int, int]
) -> list[tuple[float, int, int]]:
    return [(price, quantity, numbers[number]) for price, quantity, number in expected]


def test_000_5_4_and_10_first_trade_of_the_day():
    floor = Floor(future(min_price_increment=5 * 10**8))
    floor.do(
        SetClosingPrice(SHARE, 65_000 * 10**8, OpenCloseSettlFlag.ENTRY_FROM_PREVIOUS_BUSINESS_DAY)
    )
    floor.order(BUY, 1, 65265, firm=85)
    floor.order(SELL, 1, 65265, firm=88, received_ns=77)
    unit = floor.unit()
    assert unit.event
    assert [type(item) for item in unit.items] == [
        ExecutionSummary,
        Trade,
        OpeningPrice,
        HighPrice,
        LowPrice,
        DeleteOrderMbo,
        ExecutionStatistics,
    ]
    summary, trade, opening, high, low, deleted, statistics = unit.items
    assert summary == ExecutionSummary(SHARE, AggressorSide.SELL, px(65265), 1, 0, 0, 77, floor.now)
    assert (trade.buyer, trade.seller, trade.trade_id, trade.size) == (85, 88, 10, 1)
    assert trade.price == opening.price == high.price == low.price == px(65265)
    assert opening.net_chg_prev_day8 == 265 * 10**8
    assert (deleted.side, deleted.size, deleted.matched) == (BUY, 1, True)
    assert (statistics.trade_volume, statistics.number_of_trades) == (1, 1)
    assert statistics.vwap_px == px(65265)


def test_000_12_1_2_delete_thru():
    floor = Floor()
    for quantity, price in ((5000, 10.58), (4000, 10.58), (3000, 10.57), (4000, 10.54)):
        floor.order(BUY, quantity, price)
    for quantity, price in ((7000, 11.03), (2000, 11.03), (1000, 11.05)):
        floor.order(SELL, quantity, price)
    floor.do(DeleteSide(SHARE, BUY))
    unit = floor.unit()
    assert unit.event
    assert unit.items == [MassDeleteOrders(SHARE, BUY, 4, floor.now, 1)]
    assert floor.book(BUY) == []
    assert floor.book(SELL) == [(px(11.03), 7000), (px(11.03), 2000), (px(11.05), 1000)]
    assert len(floor.reports()) == 4
    floor.check_feed()


def test_000_12_2_1_adding_a_new_order():
    floor, numbers = book_of_12_2()
    assert rows(floor, BUY) == printed(BIDS, numbers)
    floor.order(SELL, 20, 12.30)
    (added,) = floor.items()
    assert isinstance(added, NewOrderMbo)
    assert (added.side, added.price, added.size, added.position) == (SELL, px(12.30), 20, 3)
    numbers[500910] = added.secondary_order_id
    assert rows(floor, SELL) == printed(
        [
            (12.30, 15, 95010),
            (12.30, 10, 101020),
            (12.30, 20, 500910),
            (12.60, 25, 434001),
            (12.80, 10, 200452),
        ],
        numbers,
    )


def test_000_12_2_2_1_modifying_an_order_keeping_priority():
    floor, numbers = book_of_12_2()
    floor.order(SELL, 20, 12.30)
    floor.modify(floor.named[95010], 5)
    (changed,) = floor.items()
    assert isinstance(changed, ChangeOrderMbo)
    assert (changed.price, changed.size, changed.prev_size) == (px(12.30), 5, 15)
    assert changed.secondary_order_id == numbers[95010]
    assert changed.position == 1
    assert rows(floor, SELL)[0] == (12.30, 5, numbers[95010])


def test_000_12_2_2_2_modifying_an_order_losing_priority():
    floor, numbers = book_of_12_2()
    floor.order(SELL, 20, 12.30)
    numbers[500910] = floor.items(NewOrderMbo)[0].secondary_order_id
    first = floor.modify(floor.named[95010], 5)
    floor.modify(first, 20)
    deleted, added = floor.items()
    assert isinstance(deleted, DeleteOrderMbo)
    assert (deleted.price, deleted.size) == (px(12.30), 5)
    assert deleted.secondary_order_id == numbers[95010]
    assert not deleted.matched
    assert isinstance(added, NewOrderMbo)
    assert (added.price, added.size) == (px(12.30), 20)
    numbers[645120] = added.secondary_order_id
    assert rows(floor, SELL) == printed(
        [
            (12.30, 10, 101020),
            (12.30, 20, 500910),
            (12.30, 20, 645120),
            (12.60, 25, 434001),
            (12.80, 10, 200452),
        ],
        numbers,
    )


def book_of_12_2_3() -> tuple[Floor, dict[int, int]]:
    floor, numbers = book_of_12_2()
    floor.order(SELL, 20, 12.30)
    numbers[500910] = floor.items(NewOrderMbo)[0].secondary_order_id
    first = floor.modify(floor.named[95010], 5)
    floor.modify(first, 20)
    numbers[645120] = floor.items(NewOrderMbo)[0].secondary_order_id
    return floor, numbers


def test_000_12_2_3_matching_a_resting_order():
    floor, numbers = book_of_12_2_3()
    floor.order(BUY, 40, 12.30)
    updates = floor.items(DeleteOrderMbo, ChangeOrderMbo, NewOrderMbo)
    assert [(type(u), u.price, u.size, u.secondary_order_id, u.position) for u in updates] == [
        (DeleteOrderMbo, px(12.30), 10, numbers[101020], 1),
        (DeleteOrderMbo, px(12.30), 20, numbers[500910], 1),
        (ChangeOrderMbo, px(12.30), 10, numbers[645120], 1),
    ]
    assert rows(floor, SELL) == printed(
        [(12.30, 10, 645120), (12.60, 25, 434001), (12.80, 10, 200452)], numbers
    )
    assert rows(floor, BUY) == printed(BIDS, numbers)
    floor.check_feed()


def test_000_12_2_4_new_real_order_takes_the_priority_over_an_implied_order():
    floor, numbers = book_of_12_2_3()
    floor.order(BUY, 40, 12.30)
    floor.do(EnterImplied(SHARE, SELL, px(12.20), 20))
    (implied,) = floor.items()
    assert (implied.price, implied.size, implied.implied) == (px(12.20), 20, True)
    assert implied.secondary_order_id >= FIRST_IMPLIED_ID
    numbers[999999] = implied.secondary_order_id
    assert rows(floor, SELL) == printed(
        [(12.20, 20, 999999), (12.30, 10, 645120), (12.60, 25, 434001), (12.80, 10, 200452)],
        numbers,
    )
    floor.order(SELL, 15, 12.20)
    (real,) = floor.items()
    assert (real.position, real.implied) == (1, False)
    numbers[300160] = real.secondary_order_id
    assert rows(floor, SELL)[:2] == printed([(12.20, 15, 300160), (12.20, 20, 999999)], numbers)
    floor.check_feed()


def test_000_18_3_a_trade_with_an_implied_order_is_marked():
    floor = Floor(future(implied_market_indicator=True))
    floor.do(EnterImplied(SHARE, SELL, px(0.35), 10))
    floor.order(SELL, 15, 0.35, session=2)
    floor.order(BUY, 20, 0.35, session=3)
    assert [(t.size, t.implied, t.seller) for t in floor.items(Trade)] == [
        (15, False, 102),
        (5, True, None),
    ]
    # Partly executed, it is changed like any other order.
    (changed,) = floor.items(ChangeOrderMbo)
    assert (changed.size, changed.prev_size, changed.implied) == (5, 10, True)


def test_000_13_1_1_matching_disclosed_quantity_orders():
    """All prices are 20.50; the hidden quantity is all that traded against the iceberg."""
    floor = Floor()
    ordinary = floor.order(BUY, 800, 20.50, session=2)
    iceberg = floor.order(BUY, 10_000, 20.50, max_floor=500)
    sord_21, sord_1 = floor.numbers(BUY)
    floor.order(SELL, 1800, 20.50, session=3)
    unit = floor.unit()
    summary = unit.items[0]
    assert isinstance(summary, ExecutionSummary)
    assert (summary.aggressor_side, summary.last_px) == (AggressorSide.SELL, px(20.50))
    assert (summary.fill_qty, summary.traded_hidden_qty, summary.cxl_qty) == (1800, 1000, 0)
    trades = floor.items(Trade)
    assert [(t.price, t.size, t.trade_id) for t in trades] == [
        (px(20.50), 800, 10),
        (px(20.50), 500, 20),
        (px(20.50), 500, 30),
    ]
    sord_2, sord_3 = sord_1 + 2, sord_1 + 3  # the aggressor has taken a number in between
    updates = floor.items(NewOrderMbo, DeleteOrderMbo, ChangeOrderMbo)
    assert [(type(u), u.side, u.size, u.secondary_order_id, u.position) for u in updates] == [
        (DeleteOrderMbo, BUY, 800, sord_21, 1),
        (DeleteOrderMbo, BUY, 500, sord_1, 1),
        (NewOrderMbo, BUY, 500, sord_2, 1),
        (DeleteOrderMbo, BUY, 500, sord_2, 1),
        (NewOrderMbo, BUY, 500, sord_3, 1),
    ]
    fills = [(f.cl_ord_id, f.last_qty, f.leaves_qty) for f in floor.reports(OrderFilled)]
    assert [fill for fill in fills if fill[0] in (ordinary, iceberg)] == [
        (ordinary, 800, 0),
        (iceberg, 500, 9500),
        (iceberg, 500, 9000),
    ]
    assert [(r.secondary_order_id, r.leaves_qty) for r in floor.reports(OrderRestated)] == [
        (sord_2, 9500),
        (sord_3, 9000),
    ]
    assert floor.book(BUY) == [(px(20.50), 500)]


def test_a_replenished_iceberg_goes_after_the_other_orders_of_its_price():
    floor = Floor()
    floor.order(BUY, 1000, 10, max_floor=100)
    floor.order(BUY, 50, 10, session=2)
    floor.order(SELL, 100, 10, session=3)
    assert floor.book(BUY) == [(px(10), 50), (px(10), 100)]
    floor.check_feed()


def test_000_14_group_phase_to_pause():
    floor = Floor()
    floor.do(SetGroupPhase("XX", TradingStatus.PAUSE))
    unit = floor.unit()
    assert not unit.event
    (phase,) = unit.items
    assert isinstance(phase, SecurityGroupPhase)
    assert (phase.group, phase.phase, phase.event) == ("XX", TradingStatus.PAUSE, None)


def test_000_14_instrument_leaves_and_rejoins_its_group():
    floor = Floor()
    floor.order(BUY, 10, 10)
    floor.do(SetSecurityStatus(SHARE, TradingStatus.PAUSE))
    (status,) = floor.items()
    assert isinstance(status, SecurityStatus)
    assert status.security_id == SHARE
    assert status.status == TradingStatus.PAUSE
    assert status.event == TradingEvent.SECURITY_STATUS_CHANGE
    # Orders in the book are not eliminated, but none come in.
    assert floor.book(BUY) == [(px(10), 10)]
    floor.order(BUY, 10, 10)
    assert floor.reject_code() == 1003
    assert floor.engine.book(SHARE).security_status.status == TradingStatus.PAUSE
    floor.do(RejoinGroup(SHARE))
    (status,) = floor.items()
    assert status.status == TradingStatus.OPEN
    assert status.event == TradingEvent.SECURITY_REJOINS_SECURITY_GROUP_STATUS
    assert floor.engine.book(SHARE).security_status.status is None
    floor.order(BUY, 10, 10)
    assert floor.reject_code() is None


def test_000_13_3_1_trade_conditions_of_continuous_trading():
    floor = Floor()
    regular = TradeCondition.REGULAR_TRADE
    for _ in range(3):
        floor.order(BUY, 5, 10)
    floor.order(BUY, 5, 9.99)
    floor.order(SELL, 12, 9.99, session=2)
    opening = TradeCondition.OPENING_PRICE
    same = TradeCondition.LAST_TRADE_AT_THE_SAME_PRICE
    assert [t.trade_condition for t in floor.items(Trade)] == [
        regular | opening,
        regular | opening | same,
        regular | opening | same,
    ]
    floor.order(SELL, 8, 9.99, session=2)
    assert [(t.price, t.trade_condition) for t in floor.items(Trade)] == [
        (px(10), regular | same),
        (px(9.99), regular),
    ]


@pytest.mark.parametrize("side", [BUY, SELL])
def test_an_aggressors_leftover_is_queued_in_the_same_event(side):
    floor = Floor()
    other = SELL if side == BUY else BUY
    floor.order(other, 10, 10)
    floor.order(side, 25, 10, session=2)
    unit = floor.unit()
    assert [type(item) for item in unit.items] == [
        ExecutionSummary,
        Trade,
        OpeningPrice,
        HighPrice,
        LowPrice,
        DeleteOrderMbo,
        NewOrderMbo,
        ExecutionStatistics,
    ]
    assert floor.book(side) == [(px(10), 15)]
