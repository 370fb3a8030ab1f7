"""Self-trade prevention (003 §15.4, §16.2; 000 §13.1.2): who is cancelled, and the reports."""

from __future__ import annotations

import pytest

from pregao.clock import MINUTE
from pregao.exchange.engine.matching.self_trade_prevention import check_investor, investor_number
from pregao.exchange.engine.model.auction_rules import AuctionRules
from pregao.exchange.engine.model.commands import CrossSide, NewCross
from pregao.exchange.engine.model.enums import (
    CrossPrioritization,
    CrossType,
    ExecRestatementReason,
    OrdType,
    PriceBandType,
    RoutingInstruction,
    SelfTradePreventionInstruction,
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
    AdvanceTime,
    SetGroupPhase,
    SetPriceBand,
)
from pregao.exchange.engine.model.reports import (
    OrderAccepted,
    OrderCancelled,
    OrderFilled,
    OrderModified,
    OrderRejected,
)
from tests.exchange.floor import BUY, SELL, SHARE, Floor, px, share

ME = investor_number(205, 8930)
"""The document prints it as 2058930."""
AGGRESSOR = SelfTradePreventionInstruction.CANCEL_AGGRESSOR_ORDER
RESTING = SelfTradePreventionInstruction.CANCEL_RESTING_ORDER
BOTH = SelfTradePreventionInstruction.CANCEL_BOTH_ORDERS
NONE = SelfTradePreventionInstruction.NONE
INCOMING_REASON = ExecRestatementReason.SELF_TRADING_PREVENTION
RESTING_REASON = ExecRestatementReason.CANCEL_RESTING_ORDER_ON_SELF_TRADE
FOK = TimeInForce.FILL_OR_KILL


@pytest.mark.parametrize("instruction", [NONE, AGGRESSOR])
def test_003_16_2_1_the_aggressor_is_accepted_then_cancelled(instruction):
    floor = Floor()
    floor.order(SELL, 100, 70.77, investor_id=ME)
    floor.order(BUY, 100, 70.77, investor_id=ME, self_trade_prevention=instruction, session=2)
    accepted, gone = floor.reports()
    assert isinstance(accepted, OrderAccepted)
    assert isinstance(gone, OrderCancelled)
    assert (gone.reason, gone.quantity, gone.cum_qty) == (INCOMING_REASON, 100, 0)
    assert not floor.last.market
    assert floor.book(SELL) == [(px(70.77), 100)]


def test_003_16_2_2_a_change_that_would_trade_is_accepted_and_the_order_cancelled():
    floor = Floor()
    floor.order(BUY, 100, 70.77, investor_id=ME)
    order = floor.order(SELL, 100, 72.77, investor_id=ME, session=2)
    changed = floor.modify(order, 100, 70.77, session=2)
    modified, gone = floor.reports()
    assert isinstance(modified, OrderModified)
    assert isinstance(gone, OrderCancelled)
    assert (gone.cl_ord_id, gone.reason) == (changed, INCOMING_REASON)
    assert [type(item) for item in floor.items()] == [DeleteOrderMbo]
    assert not floor.book(SELL)
    floor.check_feed()


def test_a_stop_order_that_cancels_after_another_one_has_traded():
    """Both are in one execution; the position of what is canceled counts what was traded."""
    floor = Floor()
    for quantity, investor in ((1, None), (1, None), (5, ME)):
        floor.order(SELL, quantity, 10, investor_id=investor)
    stop = {"ord_type": OrdType.STOP_LIMIT, "stop_px": px(10)}
    floor.order(BUY, 1, 10, **stop, session=2)
    floor.order(BUY, 1, 10, **stop, session=2, investor_id=ME, self_trade_prevention=BOTH)
    floor.order(BUY, 1, 10, session=3)
    assert [(each.cl_ord_id, each.reason) for each in floor.reports(OrderCancelled)] == [
        (3, RESTING_REASON), (5, INCOMING_REASON),
    ]  # fmt: skip
    deleted = [item for item in floor.items() if isinstance(item, DeleteOrderMbo)]
    assert [item.position for item in deleted] == [1, 2, 1]  # canceled first, then traded
    assert floor.book(SELL) == floor.book(BUY) == []
    floor.check_feed()


def test_an_investor_named_by_a_change_counts_from_then_on():
    floor = Floor()
    floor.order(SELL, 5, 10, investor_id=ME)
    order = floor.order(BUY, 5, 9)
    floor.modify(order, 5, 10, investor_id=ME, self_trade_prevention=RESTING)
    assert [gone.reason for gone in floor.reports(OrderCancelled)] == [RESTING_REASON]
    assert floor.book(BUY) == [(px(10), 5)]
    floor.check_feed()


def test_003_16_2_3_fills_stay_and_the_rest_is_cancelled():
    floor = Floor()
    for quantity in (100, 100):
        floor.order(SELL, quantity, 10)
    floor.order(SELL, 500, 10, investor_id=ME)
    floor.order(BUY, 1000, 10, investor_id=ME, session=2)
    mine = [report for report in floor.reports() if report.session == 2]
    assert [type(report) for report in mine] == [
        OrderAccepted,
        OrderFilled,
        OrderFilled,
        OrderCancelled,
    ]
    assert [(fill.leaves_qty, fill.cum_qty) for fill in mine[1:3]] == [(900, 100), (800, 200)]
    assert (mine[3].cum_qty, mine[3].reason) == (200, INCOMING_REASON)
    (summary,) = floor.items(ExecutionSummary)
    assert (summary.fill_qty, summary.cxl_qty) == (200, 800)
    assert floor.book(SELL) == [(px(10), 500)]
    floor.check_feed()


def test_000_13_1_2_the_resting_order_is_deleted_ahead_of_the_trades():
    floor = Floor()
    floor.order(BUY, 200, 20.50, investor_id=ME, self_trade_prevention=RESTING)
    floor.order(BUY, 100, 21.00, session=2)
    first, second = floor.numbers(BUY)
    floor.order(SELL, 300, 20.50, investor_id=ME, self_trade_prevention=RESTING, session=3)
    items = floor.unit().items
    summary, prevented, trade = items[:3]
    assert (summary.last_px, summary.fill_qty, summary.cxl_qty) == (px(21), 100, 200)
    assert isinstance(prevented, DeleteOrderMbo)
    assert (prevented.secondary_order_id, prevented.size, prevented.position) == (second, 200, 2)
    assert not prevented.matched
    assert (type(trade), trade.price, trade.size) == (Trade, px(21), 100)
    deleted, added = [item for item in items[3:] if isinstance(item, DeleteOrderMbo | NewOrderMbo)]
    assert (deleted.secondary_order_id, deleted.position) == (first, 1)
    assert (added.side, added.price, added.size, added.position) == (SELL, px(20.5), 200, 1)
    (gone,) = floor.reports(OrderCancelled)
    assert (gone.session, gone.reason) == (1, RESTING_REASON)
    floor.check_feed()


def test_both_can_be_cancelled():
    floor = Floor()
    floor.order(SELL, 10, 10, investor_id=ME)
    floor.order(SELL, 10, 10)
    floor.order(BUY, 30, 10, investor_id=ME, self_trade_prevention=BOTH, session=2)
    reasons = [(gone.session, gone.reason) for gone in floor.reports(OrderCancelled)]
    assert reasons == [(1, RESTING_REASON), (2, INCOMING_REASON)]
    # Nothing traded, so there is no execution to sum up.
    assert [type(item) for item in floor.items()] == [DeleteOrderMbo]
    assert floor.book(SELL) == [(px(10), 10)]
    floor.check_feed()


def test_the_instruction_of_the_incoming_order_decides():
    floor = Floor()
    floor.order(SELL, 10, 10, investor_id=ME, self_trade_prevention=RESTING)
    floor.order(BUY, 10, 10, investor_id=ME, self_trade_prevention=AGGRESSOR)
    (gone,) = floor.reports(OrderCancelled)
    assert gone.reason == INCOMING_REASON


def test_the_firm_does_not_matter_and_other_investors_trade():
    floor = Floor()
    floor.order(SELL, 10, 10, investor_id=ME, firm=1)
    floor.order(BUY, 10, 10, investor_id=ME, firm=2)
    assert not floor.items(Trade)
    floor.order(BUY, 4, 10, investor_id=investor_number(205, 8931))
    floor.order(BUY, 6, 10)
    assert not floor.book(SELL)


def test_positions_are_published_in_message_order_not_as_they_happened():
    floor = Floor()
    floor.order(SELL, 20, 10, max_floor=5)
    floor.order(SELL, 7, 10, investor_id=ME)
    floor.order(SELL, 3, 10)
    floor.order(SELL, 9, 10.01, investor_id=ME)
    floor.order(BUY, 40, 10.01, investor_id=ME, self_trade_prevention=RESTING, session=2)
    assert sum(trade.size for trade in floor.items(Trade)) == 23
    assert floor.items(ExecutionSummary)[0].cxl_qty == 16
    floor.check_feed()
    assert floor.book(BUY) == [(px(10.01), 17)]


@pytest.mark.parametrize(
    ("instruction", "fills"), [(AGGRESSOR, False), (BOTH, False), (RESTING, True)]
)
@pytest.mark.parametrize("wish", [{"time_in_force": FOK}, {"min_qty": 20}])
def test_003_16_2_3_immediate_quantity_is_counted_without_self_trades(instruction, fills, wish):
    floor = Floor()
    floor.order(SELL, 10, 10)
    floor.order(SELL, 10, 10, investor_id=ME)
    floor.order(SELL, 10, 10)
    floor.order(BUY, 20, 10, investor_id=ME, self_trade_prevention=instruction, session=2, **wish)
    assert sum(trade.size for trade in floor.items(Trade)) == (20 if fills else 0)
    if not fills:
        assert not floor.last.market
        assert [type(report) for report in floor.reports()] == [OrderAccepted, OrderCancelled]
    floor.check_feed()


def test_the_hidden_quantity_of_an_iceberg_is_after_the_investors_own_order():
    floor = Floor()
    floor.order(SELL, 100, 10, max_floor=10)
    floor.order(SELL, 5, 10, investor_id=ME)
    floor.order(BUY, 20, 10, investor_id=ME, time_in_force=FOK, session=2)
    assert not floor.items(Trade)
    floor.order(BUY, 10, 10, investor_id=ME, time_in_force=FOK, session=2)
    assert [trade.size for trade in floor.items(Trade)] == [10]


def test_003_15_4_1_it_does_not_hold_in_an_auction():
    floor = Floor(phase=TradingStatus.RESERVED)
    floor.order(SELL, 10, 10, investor_id=ME)
    floor.order(BUY, 10, 10, investor_id=ME)
    floor.do(SetGroupPhase("XX", TradingStatus.OPEN))
    assert [trade.size for trade in floor.items(Trade)] == [10]


def test_003_15_4_1_it_does_not_hold_in_an_event_that_calls_an_auction():
    floor = Floor()
    floor.order(SELL, 10, 10, investor_id=ME)
    floor.order(SELL, 10, 11)
    floor.do(SetPriceBand(SHARE, PriceBandType.AUCTION_LIMITS, low=px(9), high=px(10)))
    floor.order(BUY, 15, 11, investor_id=ME, session=2)
    assert [trade.size for trade in floor.items(Trade)] == [10]
    assert floor.items(SecurityStatus)
    # Within the band the same order is cancelled.
    floor = Floor()
    floor.order(SELL, 10, 10, investor_id=ME)
    floor.order(SELL, 10, 11)
    floor.do(SetPriceBand(SHARE, PriceBandType.AUCTION_LIMITS, low=px(9), high=px(10)))
    floor.order(BUY, 10, 11, investor_id=ME, session=2)
    assert not floor.items(Trade)


def illiquid(**rules):
    return share(auction=AuctionRules(duration_ns=MINUTE, self_trade=True, **rules))


@pytest.mark.parametrize("instruction", [NONE, AGGRESSOR, RESTING, BOTH])
def test_000_14_1_a_self_trade_of_an_illiquid_instrument_calls_an_auction(instruction):
    floor = Floor(illiquid())
    floor.order(SELL, 10, 10, session=3)
    floor.order(SELL, 10, 10, investor_id=ME)
    floor.order(BUY, 15, 10, investor_id=ME, self_trade_prevention=instruction, session=2)
    # What does not trade with itself trades first.
    trades, auction, news = floor.last.market
    assert [trade.size for trade in trades.items if isinstance(trade, Trade)] == [10]
    status, order, price, imbalance = auction.items
    assert (status.status, status.open_time_ns) == (TradingStatus.RESERVED, floor.now + MINUTE)
    assert (order.side, order.size) == (BUY, 5)
    assert (price.price, price.size, imbalance.size) == (px(10), 5, 5)
    assert [item.headline for item in news.items] == ["Auction for instrument ACME1 - self-trading"]
    assert not floor.reports(OrderCancelled)
    # In the auction anyone can take part; prevention does not hold in it.
    floor.order(BUY, 3, 10.5, session=4)
    floor.do(AdvanceTime(), after=MINUTE)
    assert [(trade.buyer, trade.size) for trade in floor.items(Trade)] == [(104, 3), (102, 5)]
    floor.check_feed()


@pytest.mark.parametrize(
    ("validity", "instruction", "sizes", "reasons"),
    [
        (TimeInForce.IMMEDIATE_OR_CANCEL, AGGRESSOR, [], [(2, INCOMING_REASON)]),
        (TimeInForce.IMMEDIATE_OR_CANCEL, RESTING, [10], [(1, RESTING_REASON)]),
        (FOK, AGGRESSOR, [], [(2, None)]),
        (FOK, RESTING, [10], [(1, RESTING_REASON)]),
    ],
)
def test_000_14_1_an_order_that_cannot_wait_calls_no_auction_by_self_trading(
    validity, instruction, sizes, reasons
):
    floor = Floor(illiquid())
    floor.order(SELL, 10, 10, investor_id=ME)
    floor.order(SELL, 10, 10, session=3)
    floor.order(
        BUY, 10, 10, investor_id=ME, time_in_force=validity, self_trade_prevention=instruction,
        session=2,
    )  # fmt: skip
    assert [trade.size for trade in floor.items(Trade)] == sizes
    assert not floor.items(SecurityStatus)
    assert [(each.session, each.reason) for each in floor.reports(OrderCancelled)] == reasons


@pytest.mark.parametrize(("firms", "trades"), [((11, 11), 0), ((11, 12), 1)])
def test_000_14_1_a_cross_of_one_firm_calls_an_auction_in_an_illiquid_instrument(firms, trades):
    floor = Floor(auction_rules=AuctionRules(self_trade=True), auction_duration_ns=MINUTE)
    sides = [CrossSide(firm, 900 + index) for index, firm in enumerate(firms)]
    floor.do(NewCross(1, 77, SHARE, 100, px(10), *sides))
    assert len(floor.items(Trade)) == trades
    assert len(floor.items(SecurityStatus)) == 1 - trades
    floor.do(AdvanceTime(), after=MINUTE)
    assert len(floor.items(Trade)) == 1 - trades
    sweep = CrossType.CROSS_EXECUTED_AGAINST_BOOK_FROM_CLIENT
    buys = CrossPrioritization.BUY_SIDE_IS_PRIORITIZED
    sides = [CrossSide(firm, 800 + index) for index, firm in enumerate(firms)]
    floor.do(NewCross(1, 78, SHARE, 100, px(10), *sides, None, sweep, buys))
    assert len(floor.reports(OrderRejected)) == 2 * (1 - trades)


@pytest.mark.parametrize("validity", [TimeInForce.DAY, FOK])
def test_003_15_4_1_it_does_not_hold_for_liquidity_providers(validity):
    floor = Floor()
    floor.order(SELL, 100, ord_type=OrdType.RLP, firm=7, investor_id=ME)
    floor.order(BUY, 1, 9.99, session=3)
    floor.order(SELL, 1, 10, session=3)
    retail = {"firm": 7, "routing_instruction": RoutingInstruction.RETAIL_LIQUIDITY_TAKER}
    floor.order(BUY, 60, 10, session=2, investor_id=ME, time_in_force=validity, **retail)
    assert [trade.size for trade in floor.items(Trade)] == [60]


@pytest.mark.parametrize("others", [0, 5])
def test_003_15_4_1_an_own_order_ahead_of_the_providers_still_ends_it(others):
    floor = Floor()
    floor.order(SELL, 100, ord_type=OrdType.RLP, firm=7)
    floor.order(BUY, 1, 9.99, session=3)
    if others:
        floor.order(SELL, others, 10, session=4)
    floor.order(SELL, 5, 10, session=3, firm=7, investor_id=ME)
    retail = {"firm": 7, "routing_instruction": RoutingInstruction.RETAIL_LIQUIDITY_TAKER}
    floor.order(BUY, 60, 10, session=2, investor_id=ME, time_in_force=FOK, **retail)
    assert not floor.items(Trade)
    assert [report.cum_qty for report in floor.reports(OrderCancelled)] == [0]


@pytest.mark.parametrize(
    ("phase", "validity"),
    [
        (TradingStatus.RESERVED, TimeInForce.GOOD_FOR_AUCTION),
        (TradingStatus.FINAL_CLOSING_CALL, TimeInForce.AT_THE_CLOSE),
    ],
)
def test_003_15_4_1_it_does_not_hold_for_orders_of_an_auction(phase, validity):
    floor = Floor(phase=phase)
    floor.order(SELL, 10, 10, investor_id=ME)
    floor.order(BUY, 10, 10, investor_id=ME, time_in_force=validity, self_trade_prevention=BOTH)
    floor.do(SetGroupPhase("XX", TradingStatus.OPEN))
    assert [trade.size for trade in floor.items(Trade)] == [10]


def test_003_15_4_1_it_does_not_hold_for_crosses():
    floor = Floor()
    floor.do(NewCross(1, 77, SHARE, 100, px(10), CrossSide(11, 901), CrossSide(11, 902)))
    assert floor.items(Trade)


@pytest.mark.parametrize(
    ("prefix", "document"),
    [(100, 1234567), (110, 1234567), (200, 12345678), (201, 157666432), (300, 123456), (399, 1)],
)
def test_003_15_4_2_investors_of_the_three_classes(prefix, document):
    assert check_investor(investor_number(prefix, document)) is None


@pytest.mark.parametrize(
    ("prefix", "document"),
    [(99, 1), (400, 1), (100, 0), (100, 10**8), (200, 10**9), (300, 10**6), (0, 2058930)],
)
def test_003_15_4_2_an_investor_of_no_class_is_refused(prefix, document):
    floor = Floor()
    floor.order(BUY, 10, 10, investor_id=investor_number(prefix, document))
    assert floor.reject_code() == 2016
    order = floor.order(BUY, 10, 10)
    floor.modify(order, 10, investor_id=investor_number(prefix, document))
    assert floor.reject_code() == 2016
