"""Order types, validities, quantities, changes and identifiers (003 §7 and §16), and rejects."""

from __future__ import annotations

from datetime import date

import pytest

from pregao.exchange.engine.matching.self_trade_prevention import investor_number
from pregao.exchange.engine.model.commands import (
    CancelOrder,
    CrossSide,
    MassCancel,
    ModifyOrder,
    NewCross,
    NewOrder,
)
from pregao.exchange.engine.model.enums import (
    AggressorSide,
    CxlRejResponseTo,
    ExecRestatementReason,
    OpenCloseSettlFlag,
    OrdStatus,
    OrdType,
    TimeInForce,
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
    NewOrderMbo,
    OpeningPrice,
    Trade,
)
from pregao.exchange.engine.model.instruments import Leg, Product, SecurityType, Underlying
from pregao.exchange.engine.model.operations_commands import SetClosingPrice, SetGroupPhase
from pregao.exchange.engine.model.reports import (
    MassCancelled,
    OrderAccepted,
    OrderCancelled,
    OrderFilled,
    OrderModified,
    OrderRejected,
    OrderRestated,
)
from tests.exchange.floor import BUY, OTHER, SELL, SHARE, Floor, future, px, share

MARKET, MARKET_TO_LIMIT = OrdType.MARKET, OrdType.MARKET_WITH_LEFTOVER_AS_LIMIT
IOC, FOK = TimeInForce.IMMEDIATE_OR_CANCEL, TimeInForce.FILL_OR_KILL
GTC, GTD = TimeInForce.GOOD_TILL_CANCEL, TimeInForce.GOOD_TILL_DATE
MOA, MOC = TimeInForce.GOOD_FOR_AUCTION, TimeInForce.AT_THE_CLOSE
THIRD = OTHER + 1
PREVIOUS = OpenCloseSettlFlag.ENTRY_FROM_PREVIOUS_BUSINESS_DAY


@pytest.mark.parametrize(
    ("kind", "product", "code"),
    [
        # Derivatives: futures, options, spot.
        (SecurityType.FUT, Product.INDEX, None),
        (SecurityType.FUT, Product.COMMODITY, None),
        (SecurityType.FOPT, Product.CURRENCY, None),
        (SecurityType.SOPT, Product.INDEX, None),
        (SecurityType.SPOT, Product.COMMODITY, None),
        # Equities: stocks, options on them, strategies, corporate bonds.
        (SecurityType.CS, Product.EQUITY, None),
        (SecurityType.PS, Product.EQUITY, None),
        (SecurityType.ETF, Product.EQUITY, None),
        (SecurityType.OPT, Product.EQUITY, None),
        (SecurityType.INDEXOPT, Product.INDEX, None),
        (SecurityType.MLEG, Product.MULTILEG, None),
        (SecurityType.CORP, Product.CORPORATE, None),
        # Forwards are declared, not entered; the others are not traded.
        (SecurityType.FORWARD, Product.EQUITY, 2047),
        (SecurityType.DTERM, Product.CURRENCY, 2047),
        (SecurityType.INDEX, Product.INDEX, 2047),
        (SecurityType.OPTEXER, Product.EQUITY, 2047),
        (SecurityType.SECLOAN, Product.EQUITY, 2047),
    ],
)
def test_003_2_products_that_are_traded_by_orders(kind, product, code):
    floor = Floor(share(security_type=kind, product=product))
    floor.order(BUY, 10, 10)
    assert floor.reject_code() == code


def test_003_2_1_price_then_time_priority():
    floor = Floor()
    late_best = [floor.order(SELL, 5, 10.02), floor.order(SELL, 5, 10.01), floor.order(SELL, 5, 10)]
    second = floor.order(SELL, 5, 10)
    floor.order(BUY, 17, 10.02, session=2)
    passive = [fill.cl_ord_id for fill in floor.reports(OrderFilled) if not fill.aggressor]
    assert passive == [late_best[2], second, late_best[1], late_best[0]]


@pytest.mark.parametrize("side", [BUY, SELL])
@pytest.mark.parametrize("worse", [-2, -1, 0, 1, 2])
def test_003_7_1_2_a_limit_order_trades_at_its_price_or_better_and_stays(side, worse):
    """The resting order is ``worse`` ticks beyond the limit; no more than 0 can trade."""
    floor = Floor()
    opposite, limit = (SELL, 10) if side == BUY else (BUY, 10)
    resting = limit + (worse if side == BUY else -worse) * 0.01
    floor.order(opposite, 4, resting)
    floor.order(side, 10, limit, session=2)
    fills = [(fill.last_qty, fill.last_px) for fill in floor.reports(OrderFilled) if fill.aggressor]
    assert fills == ([] if worse > 0 else [(4, px(resting))])
    assert floor.book(side) == [(px(limit), 10 if worse > 0 else 6)]
    assert floor.book(opposite) == ([(px(resting), 4)] if worse > 0 else [])


def test_003_7_1_1_market_order_with_protection():
    floor = Floor(share(protection_offset=px(2), previous_close=10 * 10**8))
    for quantity, price in ((500, 10), (300, 11), (200, 13)):
        floor.order(SELL, quantity, price)
    floor.order(BUY, 1000, ord_type=MARKET, session=2)
    (accepted,) = floor.reports(OrderAccepted)
    assert (accepted.price, accepted.protection_price) == (None, px(12))
    fills = [fill for fill in floor.reports(OrderFilled) if fill.aggressor]
    assert [(fill.last_qty, fill.last_px) for fill in fills] == [(500, px(10)), (300, px(11))]
    # The rest is a limit order at the protection price.
    assert floor.book(BUY) == [(px(12), 200)]
    assert floor.book(SELL) == [(px(13), 200)]


def test_a_sell_market_order_is_protected_below_the_last_trade():
    floor = Floor(share(protection_offset=px(0.015), previous_close=10 * 10**8))
    floor.order(BUY, 5, 9.99)
    floor.order(BUY, 5, 9.98)
    floor.order(SELL, 10, ord_type=MARKET, session=2)
    assert [trade.price for trade in floor.items(Trade)] == [px(9.99)]
    # The price is rounded inwards to a price step.
    assert floor.book(SELL) == [(px(9.99), 5)]


def test_a_market_order_needs_something_to_measure_its_protection_from():
    floor = Floor()
    floor.order(BUY, 10, ord_type=MARKET)
    assert floor.reject_code() == 2013
    floor.do(SetClosingPrice(SHARE, 10 * 10**8, PREVIOUS))
    floor.order(BUY, 10, ord_type=MARKET)
    assert floor.reject_code() is None


def test_003_7_1_5_1_market_with_leftover_as_limit():
    floor = Floor(share(previous_close=1058 * 10**6))
    floor.order(SELL, 2000, 10.58)
    floor.order(BUY, 7000, ord_type=MARKET_TO_LIMIT, session=2)
    assert [(t.size, t.price) for t in floor.items(Trade)] == [(2000, px(10.58))]
    assert floor.book(BUY) == [(px(10.58), 5000)]
    floor.order(SELL, 1000, 10.58)
    (fill,) = [fill for fill in floor.reports(OrderFilled) if not fill.aggressor]
    assert (fill.ord_type, fill.price, fill.last_qty) == (OrdType.LIMIT, px(10.58), 1000)


def test_market_to_limit_without_an_opposite_side_is_refused():
    floor = Floor(share(previous_close=10 * 10**8))
    floor.order(BUY, 10, ord_type=MARKET_TO_LIMIT)
    assert floor.reject_code() == 2013


def test_market_to_limit_that_could_trade_beyond_its_protection_only_is_refused():
    floor = Floor(share(previous_close=10 * 10**8, protection_offset=px(1)))
    floor.order(SELL, 10, 11.01)
    floor.order(BUY, 10, ord_type=MARKET_TO_LIMIT)
    assert floor.reject_code() == 2013
    floor.order(SELL, 10, 11)
    floor.order(BUY, 10, ord_type=MARKET_TO_LIMIT, session=2)
    assert [(trade.price, trade.size) for trade in floor.items(Trade)] == [(px(11), 10)]


def test_003_7_1_10_immediate_or_cancel():
    floor = Floor()
    floor.order(SELL, 4000, 10.58)
    floor.order(BUY, 7000, 10.58, time_in_force=IOC, session=2)
    kinds = [type(report) for report in floor.reports() if report.session == 2]
    assert kinds == [OrderAccepted, OrderFilled, OrderCancelled]
    (gone,) = floor.reports(OrderCancelled)
    assert (gone.quantity, gone.cum_qty, gone.status) == (7000, 4000, OrdStatus.CANCELED)
    assert not floor.book(BUY)
    floor.order(BUY, 7000, 10.58, time_in_force=IOC, session=2)
    assert [type(r) for r in floor.reports()] == [OrderAccepted, OrderCancelled]
    assert not floor.last.market


def test_003_7_1_11_fill_or_kill():
    floor = Floor()
    floor.order(SELL, 4000, 10.58)
    floor.order(SELL, 4000, 10.59)
    floor.order(BUY, 7000, 10.58, time_in_force=FOK, session=2)
    assert [type(r) for r in floor.reports()] == [OrderAccepted, OrderCancelled]
    assert not floor.last.market
    floor.order(BUY, 7000, 10.59, time_in_force=FOK, session=2)
    assert [trade.size for trade in floor.items(Trade)] == [4000, 3000]


def test_fill_or_kill_counts_hidden_quantity():
    floor = Floor()
    floor.order(SELL, 1000, 10, max_floor=10)
    floor.order(BUY, 100, 10, time_in_force=FOK, session=2)
    assert sum(trade.size for trade in floor.items(Trade)) == 100


def test_003_7_1_16_disclosed_quantity():
    floor = Floor()
    iceberg = floor.order(SELL, 10_000, 10, max_floor=500)
    first = floor.numbers(SELL)
    floor.order(BUY, 200, 10, session=2)
    assert floor.numbers(SELL) == first
    (changed,) = floor.items(ChangeOrderMbo)
    assert (changed.prev_size, changed.size) == (500, 300)
    floor.order(BUY, 300, 10, session=2)
    (restated,) = floor.reports(OrderRestated)
    assert (restated.cl_ord_id, restated.leaves_qty) == (iceberg, 9500)
    assert restated.secondary_order_id == floor.numbers(SELL)[0] > first[0]
    assert floor.book(SELL) == [(px(10), 500)]


def test_003_7_1_17_minimum_quantity():
    floor = Floor()
    floor.order(SELL, 50, 10)
    floor.order(BUY, 100, 10, min_qty=60, session=2)
    assert [type(r) for r in floor.reports()] == [OrderAccepted, OrderCancelled]
    floor.order(BUY, 100, 9, min_qty=60, session=2)
    assert [type(r) for r in floor.reports()] == [OrderAccepted, OrderCancelled]
    floor.order(BUY, 100, 10, min_qty=50, session=2)
    assert [trade.size for trade in floor.items(Trade)] == [50]
    assert floor.book(BUY) == [(px(10), 50)]


@pytest.mark.parametrize("kind", [OrdType.LIMIT, MARKET, MARKET_TO_LIMIT])
@pytest.mark.parametrize("validity", [IOC, FOK])
@pytest.mark.parametrize("close", [None, 10 * 10**8])
def test_003_7_1_10_and_11_without_a_counterparty_it_is_accepted_and_then_cancelled(
    kind, validity, close
):
    """Also without a price to measure a protection price from."""
    floor = Floor(share(previous_close=close))
    price = 10 if kind == OrdType.LIMIT else None
    floor.order(BUY, 10, price, ord_type=kind, time_in_force=validity)
    accepted, cancelled = floor.reports()
    assert isinstance(accepted, OrderAccepted)
    assert (accepted.ord_type, accepted.time_in_force) == (kind, validity)
    assert isinstance(cancelled, OrderCancelled)
    assert (cancelled.status, cancelled.cum_qty) == (OrdStatus.CANCELED, 0)
    assert not floor.last.market
    assert not floor.engine.market.orders


@pytest.mark.parametrize("kind", [OrdType.LIMIT, MARKET, MARKET_TO_LIMIT])
@pytest.mark.parametrize("validity", [IOC, FOK])
def test_003_7_1_10_and_11_a_change_without_a_counterparty_is_confirmed_and_then_cancelled(
    kind, validity
):
    floor = Floor()
    order = floor.order(BUY, 10, 10)
    floor.modify(order, 10, ord_type=kind, time_in_force=validity)
    modified, cancelled = floor.reports()
    assert isinstance(modified, OrderModified)
    assert (modified.ord_type, modified.time_in_force) == (kind, validity)
    assert isinstance(cancelled, OrderCancelled)
    assert [type(item) for item in floor.items()] == [DeleteOrderMbo]
    assert not floor.engine.market.orders
    floor.check_feed()


def test_003_7_1_5_a_change_to_market_to_limit_needs_an_opposite_side_as_on_entry():
    floor = Floor(share(previous_close=10 * 10**8))
    order = floor.order(BUY, 10, 9)
    floor.modify(order, 10, ord_type=MARKET_TO_LIMIT)
    assert floor.reject_code() == 2013
    floor.order(SELL, 4, 10.2, session=2)
    floor.modify(order, 10, ord_type=MARKET_TO_LIMIT)
    assert [(trade.price, trade.size) for trade in floor.items(Trade)] == [(px(10.2), 4)]
    assert floor.book(BUY) == [(px(10.2), 6)]


@pytest.mark.parametrize("validity", [IOC, FOK])
def test_003_7_1_1_with_a_counterparty_a_market_order_needs_a_price_to_protect_it_from(validity):
    floor = Floor()
    floor.order(SELL, 10, 10)
    floor.order(BUY, 10, ord_type=MARKET, time_in_force=validity, session=2)
    assert floor.reject_code() == 2013
    assert floor.book(SELL) == [(px(10), 10)]


def test_003_7_1_10_a_counterparty_beyond_the_protection_price_is_none():
    floor = Floor(share(previous_close=10 * 10**8, protection_offset=px(1)))
    floor.order(SELL, 10, 12)
    floor.order(BUY, 10, ord_type=MARKET_TO_LIMIT, time_in_force=IOC, session=2)
    assert [type(report) for report in floor.reports()] == [OrderAccepted, OrderCancelled]
    assert floor.book(SELL) == [(px(12), 10)]


def test_003_7_1_17_a_minimum_holds_on_entry_and_where_a_change_adds_it():
    floor = Floor()
    floor.order(SELL, 60, 10, session=2)
    order = floor.order(BUY, 200, 10, min_qty=50)
    assert floor.book(BUY) == [(px(10), 140)]
    # A later trade may be smaller, and so may what a change of the price trades.
    floor.order(SELL, 10, 10, session=2)
    floor.order(SELL, 5, 10.01, session=2)
    order = floor.modify(order, 200, 10.01)
    assert [trade.size for trade in floor.items(Trade)] == [5]
    assert floor.book(BUY) == [(px(10.01), 125)]
    # A minimum that a change adds must be met at once.
    other = floor.order(BUY, 100, 9)
    floor.order(SELL, 20, 10.02, session=2)
    other = floor.modify(other, 100, 10.02, min_qty=20)
    assert [trade.size for trade in floor.items(Trade)] == [20]
    last = floor.order(BUY, 100, 9)
    floor.modify(last, 100, min_qty=20)
    assert [type(report) for report in floor.reports()] == [OrderModified, OrderCancelled]


def test_003_7_4_a_minimum_stays_with_any_change_and_can_only_be_added():
    floor = Floor()
    floor.order(SELL, 60, 10, session=2)
    order = floor.order(BUY, 200, 10, min_qty=50)
    for change in (
        {"quantity": 150},
        {"quantity": 160},
        {"quantity": 160, "price": 9.99},
        {"quantity": 160, "min_qty": 50},
        {"quantity": 160, "time_in_force": GTC},
    ):
        order = floor.modify(order, **change)
        (report,) = floor.reports()
        assert isinstance(report, OrderModified)
        assert report.min_qty == 50
    for least in (40, 60):
        floor.modify(order, 160, min_qty=least)
        assert floor.reject_code() == 1013
    assert floor.book(BUY) == [(px(9.99), 100)]
    # Below what is executed it ends the order, as ever.
    floor.modify(order, 40)
    assert [type(report) for report in floor.reports()] == [OrderCancelled]


def test_003_7_4_the_expiry_date_comes_and_goes_with_its_validity():
    floor = Floor()
    later, last = date(2026, 6, 1), date(2026, 7, 1)
    order = floor.order(BUY, 10, 10, time_in_force=GTD, expire_date=later)

    def state():
        (found,) = floor.engine.market.orders.values()
        return found.time_in_force, found.expire_date

    order = floor.modify(order, 9)
    assert state() == (GTD, later)
    order = floor.modify(order, 9, expire_date=last)
    assert state() == (GTD, last)
    order = floor.modify(order, 9, time_in_force=TimeInForce.DAY)
    assert state() == (TimeInForce.DAY, None)
    floor.modify(order, 9, time_in_force=GTD)
    assert floor.reject_code() == 2019
    floor.modify(order, 9, time_in_force=GTC, expire_date=later)
    assert floor.reject_code() == 2019
    order = floor.modify(order, 9, time_in_force=GTD, expire_date=later)
    assert state() == (GTD, later)
    order = floor.modify(order, 9, time_in_force=GTC)
    assert state() == (GTC, None)


@pytest.mark.parametrize("kind", [OrdType.LIMIT, MARKET])
def test_003_7_4_an_order_of_the_book_becomes_moc_and_moc_an_order_of_the_book(kind):
    floor = Floor(share(previous_close=10 * 10**8))
    floor.order(BUY, 1, 9)
    order = floor.order(BUY, 10, 10)
    order = floor.modify(order, 10, ord_type=kind, time_in_force=MOC)
    (report,) = floor.reports()
    price = px(10) if kind == OrdType.LIMIT else None
    assert (report.time_in_force, report.price, report.working) == (MOC, price, False)
    assert report.protection_price is None
    assert [type(item) for item in floor.items()] == [DeleteOrderMbo]
    assert floor.book(BUY) == [(px(9), 1)]
    floor.order(SELL, 4, 10, session=2)
    order = floor.modify(order, 10, time_in_force=TimeInForce.DAY)
    first, *fills = [report for report in floor.reports() if report.session == 1]
    assert (first.time_in_force, first.working) == (TimeInForce.DAY, True)
    assert [report.last_qty for report in fills] == [4]
    assert floor.book(BUY) == [(px(10) if kind == OrdType.LIMIT else px(10.5), 6), (px(9), 1)]
    floor.check_feed()
    floor.check_levels()


def test_003_7_4_the_validity_of_an_order_in_a_closing_call_changes_in_place():
    floor = Floor()
    order = floor.order(BUY, 10, 10)
    floor.order(BUY, 5, 10)
    floor.do(SetGroupPhase("XX", TradingStatus.FINAL_CLOSING_CALL))
    before = floor.numbers(BUY)
    for validity in (MOC, MOA, TimeInForce.DAY, MOA):
        order = floor.modify(order, 10, time_in_force=validity)
        (report,) = floor.reports()
        assert (report.time_in_force, report.working) == (validity, True)
        assert floor.numbers(BUY) == before
        assert not floor.items(DeleteOrderMbo, NewOrderMbo)
    floor.do(SetGroupPhase("XX", TradingStatus.OPEN))
    assert [report.cl_ord_id for report in floor.reports(OrderCancelled)] == [order]
    floor.check_feed()
    floor.check_levels()


def test_003_7_4_a_waiting_moc_order_can_join_an_auction():
    floor = Floor()
    order = floor.order(BUY, 10, time_in_force=MOC, ord_type=MARKET)
    floor.do(SetGroupPhase("XX", TradingStatus.RESERVED))
    assert not floor.book(BUY)
    floor.modify(order, 10, time_in_force=MOA)
    (report,) = floor.reports()
    assert (report.time_in_force, report.price, report.working) == (MOA, None, True)
    assert floor.book(BUY) == [(None, 10)]
    floor.check_feed()
    floor.check_levels()


def test_003_7_4_tag_and_investor_of_a_change_take_effect():
    one, other = investor_number(300, 1), investor_number(300, 2)
    floor = Floor()
    order = floor.order(BUY, 10, 10, ord_tag_id=5, investor_id=one)
    floor.modify(order, 10, ord_tag_id=6, investor_id=other)
    floor.do(MassCancel(1, 90, ord_tag_id=5))
    assert not floor.reports(OrderCancelled)
    floor.order(SELL, 4, 10, session=2, investor_id=other)
    assert not floor.items(Trade)
    floor.order(SELL, 3, 10, session=2, investor_id=one)
    assert [trade.size for trade in floor.items(Trade)] == [3]
    floor.do(MassCancel(1, 91, ord_tag_id=6))
    assert [report.cum_qty for report in floor.reports(OrderCancelled)] == [3]


def test_003_7_1_20_1_plain_modification():
    floor = Floor()
    order = floor.order(BUY, 1000, 12)
    changed = floor.modify(order, 1400)
    (report,) = floor.reports()
    assert isinstance(report, OrderModified)
    assert (report.cl_ord_id, report.orig_cl_ord_id) == (changed, order)
    assert (report.quantity, report.cum_qty, report.leaves_qty) == (1400, 0, 1400)


def test_003_7_1_20_2_in_flight_modification():
    floor = Floor()
    order = floor.order(BUY, 1000, 12)
    floor.order(SELL, 200, 12, session=2)
    floor.modify(order, 1300)
    (report,) = floor.reports(OrderModified)
    assert (report.quantity, report.cum_qty, report.leaves_qty) == (1300, 200, 1100)


@pytest.mark.parametrize("quantity", [700, 800])
def test_003_7_1_20_3_modification_below_the_filled_quantity_cancels(quantity):
    floor = Floor()
    order = floor.order(BUY, 1000, 12)
    floor.order(SELL, 800, 12, session=2)
    floor.modify(order, quantity)
    (report,) = floor.reports()
    assert isinstance(report, OrderCancelled)
    assert (report.cum_qty, report.orig_cl_ord_id) == (800, order)
    assert not floor.book(BUY)
    floor.check_feed()


@pytest.mark.parametrize(
    ("change", "keeps"),
    [
        ({"quantity": 100, "price": 10.01}, False),
        ({"quantity": 100, "price": 9.99}, False),
        ({"quantity": 101}, False),
        ({"quantity": 100, "min_qty": 10}, None),
        ({"quantity": 99}, True),
        ({"quantity": 100, "time_in_force": GTC}, True),
        ({"quantity": 100, "account": 7}, True),
        ({"quantity": 100, "ord_type": OrdType.LIMIT}, True),
        ({"quantity": 100, "price": 10}, True),
        ({"quantity": 100, "max_floor": 10}, True),
    ],
)
def test_003_7_5_impact_of_changes_on_priority(change, keeps):
    floor = Floor()
    order = floor.order(BUY, 100, 10)
    floor.order(BUY, 100, 10)
    before = floor.numbers(BUY)
    floor.modify(order, **change)
    assert floor.reject_code() is None
    after = floor.numbers(BUY)
    if keeps is None:
        # A minimum that cannot be met immediately ends the order.
        assert after == before[1:]
    elif keeps:
        assert after == before
        assert not floor.items(DeleteOrderMbo, NewOrderMbo)
    else:
        assert before[0] not in after
        assert max(after) > before[1]
        assert [type(item) for item in floor.items()] == [DeleteOrderMbo, NewOrderMbo]
    floor.check_feed()


def test_more_to_be_shown_loses_priority_and_less_keeps_it():
    floor = Floor()
    order = floor.order(BUY, 100, 10, max_floor=20)
    floor.order(BUY, 5, 10)
    first = floor.numbers(BUY)
    order = floor.modify(order, 100, max_floor=10)
    assert floor.numbers(BUY) == first
    (changed,) = floor.items()
    assert (changed.prev_size, changed.size) == (20, 10)
    order = floor.modify(order, 100, max_floor=0)
    assert floor.book(BUY) == [(px(10), 5), (px(10), 100)]
    floor.check_feed()


def test_less_of_a_hidden_quantity_is_not_published():
    floor = Floor()
    order = floor.order(BUY, 100, 10, max_floor=20)
    floor.modify(order, 60)
    assert not floor.last.market
    (report,) = floor.reports(OrderModified)
    assert report.leaves_qty == 60


def test_a_change_of_price_can_trade_and_the_summary_still_comes_first():
    floor = Floor()
    floor.order(SELL, 5, 10.05)
    order = floor.order(BUY, 10, 10)
    floor.modify(order, 10, 10.05)
    assert [type(item) for item in floor.unit().items] == [
        ExecutionSummary,
        Trade,
        OpeningPrice,
        HighPrice,
        LowPrice,
        DeleteOrderMbo,
        DeleteOrderMbo,
        NewOrderMbo,
        ExecutionStatistics,
    ]
    kinds = [type(report) for report in floor.reports()]
    assert kinds == [OrderModified, OrderFilled, OrderFilled]
    assert floor.book(BUY) == [(px(10.05), 5)]
    floor.check_feed()


def test_a_resting_order_turned_into_a_market_order_trades():
    floor = Floor(share(previous_close=10 * 10**8))
    floor.order(SELL, 5, 10.05)
    order = floor.order(BUY, 5, 10)
    floor.modify(order, 5, ord_type=MARKET)
    assert [trade.size for trade in floor.items(Trade)] == [5]


def test_a_resting_order_turned_into_immediate_or_cancel_does_not_stay():
    floor = Floor()
    order = floor.order(BUY, 5, 10)
    floor.modify(order, 5, time_in_force=IOC)
    assert [type(item) for item in floor.items()] == [DeleteOrderMbo]
    assert [type(report) for report in floor.reports()] == [OrderModified, OrderCancelled]


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"quantity": 0}, 2115),
        ({"quantity": 10, "price": 10.001}, 2014),
        ({"quantity": 10, "time_in_force": MOC, "ord_type": MARKET_TO_LIMIT}, 7047),
        ({"quantity": 10, "time_in_force": MOA}, 7027),
        ({"quantity": 10, "time_in_force": GTD}, 2019),
        ({"quantity": 10, "expire_date": date(2026, 5, 22)}, 2019),
        ({"quantity": 10, "min_qty": 11}, 1013),
        ({"quantity": 10, "ord_type": OrdType.STOP_LIMIT}, 2032),
        ({"quantity": 10, "stop_px": 100_000}, 2032),
        ({"quantity": 10, "ord_type": MARKET}, 2013),
        ({"quantity": 10, "ord_type": MARKET, "price": 10}, 1012),
        ({"quantity": 10, "max_floor": 11}, 2046),
    ],
)
def test_an_invalid_change_leaves_the_order_unchanged(change, code):
    floor = Floor()
    order = floor.order(BUY, 10, 10)
    floor.modify(order, **change)
    (report,) = floor.reports()
    assert isinstance(report, OrderRejected)
    assert (report.code, report.response_to) == (code, CxlRejResponseTo.REPLACE)
    assert not floor.last.market
    floor.cancel(order)
    assert floor.reports(OrderCancelled)


def test_003_7_6_1_a_cl_ord_id_is_unique_among_standing_orders():
    floor = Floor(share(market_segment_id=80), share(OTHER, market_segment_id=72))
    same = NewOrder(1, 101, 7, SHARE, BUY, 10, px(10))
    floor.do(same)
    floor.do(same)
    assert floor.reject_code() == 6
    floor.do(NewOrder(2, 102, 7, SHARE, BUY, 10, px(10)))
    assert floor.reject_code() is None
    floor.do(NewOrder(1, 101, 7, OTHER, BUY, 10, px(10)))
    assert floor.reject_code() is None
    floor.do(ModifyOrder(1, 7, SHARE, 5, orig_cl_ord_id=7))
    assert floor.reports(OrderModified)
    floor.do(NewOrder(1, 101, 8, SHARE, BUY, 10, px(10)))
    floor.do(ModifyOrder(1, 8, SHARE, 5, orig_cl_ord_id=7))
    assert floor.reject_code() == 6
    floor.do(CancelOrder(1, 9, SHARE, orig_cl_ord_id=7))
    floor.do(same)
    assert floor.reject_code() is None


@pytest.mark.parametrize("segment", [80, None])
def test_003_7_6_3_a_cl_ord_id_is_unique_in_a_market_segment(segment):
    floor = Floor(
        share(market_segment_id=segment),
        share(OTHER, market_segment_id=segment),
        share(THIRD, market_segment_id=72),
    )
    floor.do(NewOrder(1, 101, 7, SHARE, BUY, 10, px(10)))
    floor.do(NewOrder(1, 101, 7, OTHER, BUY, 10, px(10)))
    assert floor.reject_code() == 6
    floor.do(NewOrder(1, 101, 8, OTHER, BUY, 10, px(10)))
    floor.do(ModifyOrder(1, 7, OTHER, 5, orig_cl_ord_id=8))
    assert floor.reject_code() == 6
    crossed = (CrossSide(101, 7), CrossSide(101, 9))
    floor.do(NewCross(1, 1, OTHER, 10, px(10), *crossed))
    assert [report.code for report in floor.reports(OrderRejected)] == [6, 6]
    floor.do(NewOrder(1, 101, 7, THIRD, BUY, 10, px(10)))
    assert floor.reject_code() is None
    # The number of an order of another instrument names nothing.
    for instrument in (OTHER, THIRD):
        floor.do(CancelOrder(1, 20, instrument, orig_cl_ord_id=8 if instrument == THIRD else 7))
        assert floor.reject_code() == 5
    # Among active orders only: once the first has ended, its number is free.
    floor.do(CancelOrder(1, 21, SHARE, orig_cl_ord_id=7))
    floor.do(ModifyOrder(1, 7, OTHER, 5, orig_cl_ord_id=8))
    assert [report.cl_ord_id for report in floor.reports(OrderModified)] == [7]
    floor.do(CancelOrder(1, 22, OTHER, orig_cl_ord_id=7))
    floor.do(CancelOrder(1, 23, THIRD, orig_cl_ord_id=7))
    assert floor.reject_code() is None
    assert not floor.engine.market.orders
    assert not floor.engine.market.by_client


def test_003_7_6_3_a_refused_order_still_gets_an_order_id():
    floor = Floor()
    floor.order(BUY, 10, 10)
    (accepted,) = floor.reports()
    floor.order(BUY, 0, 10)
    (rejected,) = floor.reports()
    assert rejected.order_id == accepted.order_id + 1


def test_003_16_1_1_cancel_by_cl_ord_id_or_order_id():
    floor = Floor()
    order = floor.order(BUY, 10, 10)
    (accepted,) = floor.reports()
    floor.cancel(order)
    (gone,) = floor.reports()
    assert isinstance(gone, OrderCancelled)
    assert (gone.orig_cl_ord_id, gone.order_id) == (order, accepted.order_id)
    assert gone.reason is None
    floor.order(BUY, 10, 10)
    (accepted,) = floor.reports()
    floor.do(CancelOrder(1, 99, SHARE, order_id=accepted.order_id))
    assert floor.reports(OrderCancelled)


def test_003_16_1_2_cancel_of_a_filled_order_is_refused():
    floor = Floor()
    order = floor.order(BUY, 10, 10)
    floor.order(SELL, 10, 10, session=2)
    floor.cancel(order)
    (rejected,) = floor.reports()
    assert (rejected.code, rejected.response_to) == (5, CxlRejResponseTo.CANCEL)


def test_an_order_of_another_session_cannot_be_touched():
    floor = Floor()
    order = floor.order(BUY, 10, 10)
    (accepted,) = floor.reports()
    floor.cancel(order, session=2)
    assert floor.reject_code() == 5
    floor.do(CancelOrder(2, 99, SHARE, order_id=accepted.order_id))
    assert floor.reject_code() == 5
    floor.modify(order, 5, session=2)
    assert floor.reject_code() == 5


def test_003_16_1_4_mass_cancel_is_one_event_over_several_instruments():
    floor = Floor(share(), share(OTHER))
    for security_id in (SHARE, OTHER):
        for side, price in ((BUY, 9), (SELL, 11)):
            floor.order(side, 10, price, security_id=security_id)
            floor.order(side, 5, price, security_id=security_id, session=2)
    kept = floor.order(BUY, 1, 9, time_in_force=GTC)
    floor.do(MassCancel(1, 500))
    unit = floor.unit()
    assert unit.event
    assert [type(item) for item in unit.items] == [DeleteOrderMbo] * 4
    assert {item.security_id for item in unit.items} == {SHARE, OTHER}
    reports = floor.reports(OrderCancelled)
    assert {r.reason for r in reports} == {
        ExecRestatementReason.ORDER_MASS_ACTION_FROM_CLIENT_REQUEST
    }
    assert 500 not in {report.cl_ord_id for report in reports}
    (done,) = floor.reports(MassCancelled)
    assert (done.cl_ord_id, done.count) == (500, 4)
    floor.cancel(kept)
    assert floor.reports(OrderCancelled)
    floor.check_feed()


def test_mass_cancel_filters_and_always_answers():
    floor = Floor(share(), share(OTHER))
    floor.order(BUY, 1, 9, ord_tag_id=7)
    floor.order(BUY, 2, 9)
    floor.order(SELL, 3, 11, ord_tag_id=7)
    floor.order(BUY, 4, 9, ord_tag_id=7, security_id=OTHER)
    floor.do(MassCancel(1, 1, security_id=SHARE, side=BUY, ord_tag_id=7))
    assert [item.size for item in floor.items(DeleteOrderMbo)] == [1]
    floor.do(MassCancel(9, 1))
    assert not floor.last.market
    assert floor.reports(MassCancelled)[0].count == 0


def test_mass_cancel_leaves_auction_orders_that_take_part():
    floor = Floor(phase=TradingStatus.RESERVED)
    floor.order(SELL, 10, 10, session=2)
    floor.order(BUY, 5, 10, time_in_force=MOA)
    floor.order(BUY, 5, 9, time_in_force=MOA)
    floor.do(MassCancel(1, 1))
    assert floor.book(BUY) == [(px(10), 5)]


def cross(price: float, quantity: int = 100) -> NewCross:
    return NewCross(1, 77, SHARE, quantity, px(price), CrossSide(11, 901), CrossSide(12, 902))


def test_003_16_1_5_cross_order():
    floor = Floor()
    floor.order(BUY, 10, 9.99)
    floor.order(SELL, 10, 10.01)
    floor.do(cross(10))
    assert [type(item) for item in floor.unit().items] == [
        ExecutionSummary,
        Trade,
        OpeningPrice,
        HighPrice,
        LowPrice,
        ExecutionStatistics,
    ]
    summary, trade = floor.unit().items[:2]
    assert (summary.aggressor_side, summary.fill_qty) == (AggressorSide.NO_AGGRESSOR, 100)
    assert trade.trade_condition & TradeCondition.CROSSED
    assert trade.trade_condition & TradeCondition.REGULAR_TRADE
    assert (trade.buyer, trade.seller) == (11, 12)
    kinds = [(type(report), report.cl_ord_id, report.cross_id) for report in floor.reports()]
    assert kinds[:2] == [(OrderAccepted, 901, 77), (OrderAccepted, 902, 77)]
    assert sorted(kinds[2:], key=str) == [(OrderFilled, 901, 77), (OrderFilled, 902, 77)]
    assert len(floor.book(BUY)) == len(floor.book(SELL)) == 1


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (cross(9.98), 2137),
        (cross(10.02), 2137),
        (cross(10.001), 2014),
        (cross(-1), 1012),
        (cross(10, 0), 2115),
        (cross(10, 20), 2501),
        (NewCross(1, 7, SHARE, 99, px(10), CrossSide(1, 5), CrossSide(2, 5)), 6),
        (NewCross(1, 7, OTHER, 99, px(10), CrossSide(1, 5), CrossSide(2, 6)), 2047),
    ],
)
def test_a_cross_that_cannot_be_is_refused_on_both_sides(command, code):
    floor = Floor(share(min_cross_qty=50))
    floor.order(BUY, 10, 9.99)
    floor.order(SELL, 10, 10.01)
    floor.do(command)
    assert [report.code for report in floor.reports(OrderRejected)] == [code, code]
    assert not floor.last.market


def test_a_cross_needs_continuous_trading_and_an_eligible_instrument():
    floor = Floor(phase=TradingStatus.RESERVED)
    floor.do(cross(10))
    assert floor.reject_code() == 1003
    floor = Floor(share(attributes=()))
    floor.do(cross(10))
    assert floor.reject_code() == 2311


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"security_id": 5}, 2047),
        ({"quantity": 0}, 2115),
        ({"quantity": -100}, 2115),
        ({"quantity": 100_100}, 2115),
        ({"quantity": 150}, 5006),
        ({"price": None}, 1012),
        ({"price": 0}, 1012),
        ({"price": -10}, 1012),
        ({"price": 10.005}, 2014),
        ({"ord_type": MARKET}, 1012),
        ({"ord_type": OrdType.STOP_LOSS, "price": None}, 2032),
        ({"ord_type": OrdType.STOP_LIMIT}, 2032),
        ({"ord_type": OrdType.STOP_LIMIT, "stop_px": 100_001}, 2014),
        ({"ord_type": OrdType.STOP_LIMIT, "stop_px": 0}, 1012),
        ({"ord_type": OrdType.STOP_LOSS, "stop_px": 100_000}, 1012),
        ({"stop_px": 100_000}, 2032),
        ({"ord_type": OrdType.RLP}, 1012),
        ({"ord_type": OrdType.PEGGED_MIDPOINT, "max_floor": 100}, 2061),
        ({"time_in_force": MOA}, 7027),
        ({"time_in_force": MOC, "ord_type": MARKET_TO_LIMIT, "price": None}, 7047),
        ({"time_in_force": GTD}, 2019),
        ({"time_in_force": GTD, "expire_date": date(2026, 5, 20)}, 2019),
        ({"max_floor": 1100}, 2046),
        ({"max_floor": 150}, 2046),
        ({"max_floor": -100}, 2046),
        ({"max_floor": 100, "time_in_force": IOC}, 2046),
        ({"min_qty": 1100}, 1013),
        ({"min_qty": -1}, 1013),
        ({"min_qty": 150}, 1013),
    ],
)
def test_rejects_have_a_code_and_a_reason(fields, code):
    floor = Floor(share(min_lot_size=100, min_order_qty=100, max_order_qty=100_000))
    floor.order(BUY, **{"quantity": 1000, "price": 10, **fields})
    (report,) = floor.reports()
    assert isinstance(report, OrderRejected)
    assert (report.code, report.response_to) == (code, CxlRejResponseTo.NEW)
    assert len(report.text) > 15
    assert not floor.last.market
    assert not floor.engine.market.orders


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"ord_type": MARKET, "price": None}, 2311),
        ({"ord_type": OrdType.STOP_LOSS, "price": None, "stop_px": 100_000}, 2311),
        ({"time_in_force": GTC}, 7018),
        ({"time_in_force": GTD}, 7018),
        ({"time_in_force": MOA}, 7018),
        ({"time_in_force": MOC}, 7018),
    ],
)
def test_003_7_1_derivatives_take_fewer_types_and_validities(fields, code):
    floor = Floor(future(previous_close=10**9))
    floor.order(BUY, 10, **{"price": 10, **fields})
    assert floor.reject_code() == code


def test_a_forward_and_an_index_take_no_orders():
    forward = share(security_type=SecurityType.FORWARD, underlyings=(Underlying(1, "A"),))
    index = share(OTHER, security_type=SecurityType.INDEX, product=Product.INDEX)
    floor = Floor(forward, index)
    for security_id in (SHARE, OTHER):
        floor.order(BUY, 10, 10, security_id=security_id)
        assert floor.reject_code() == 2047


def test_a_spread_can_be_priced_at_zero_or_below():
    spread = future(
        security_type=SecurityType.MLEG,
        legs=(
            Leg(1, "A", 10_000_000, SecurityType.FUT, SELL),
            Leg(2, "B", 10_000_000, SecurityType.FUT, BUY),
        ),
    )
    floor = Floor(spread)
    floor.order(BUY, 10, -0.5)
    floor.order(BUY, 10, 0)
    floor.order(SELL, 15, -0.5, session=2)
    assert [trade.price for trade in floor.items(Trade)] == [0, px(-0.5)]
    assert floor.items(ExecutionStatistics)[0].vwap_px == -1667
    floor.check_feed()


@pytest.mark.parametrize(
    ("phase", "entry", "cancel"),
    [
        (TradingStatus.PAUSE, 1003, None),
        (TradingStatus.CLOSE, 1003, 1003),
        (TradingStatus.FORBIDDEN, 7029, 7029),
        (TradingStatus.OPEN, None, None),
        (TradingStatus.RESERVED, None, None),
        (TradingStatus.FINAL_CLOSING_CALL, None, None),
    ],
)
def test_000_14_1_what_each_state_takes(phase, entry, cancel):
    floor = Floor()
    order = floor.order(BUY, 10, 10)
    other = floor.order(BUY, 10, 10)
    floor.do(SetGroupPhase("XX", phase))
    floor.order(BUY, 10, 10)
    assert floor.reject_code() == entry
    floor.modify(other, 5)
    assert floor.reject_code() == entry
    floor.cancel(order)
    assert floor.reject_code() == cancel
    if entry is not None or phase != TradingStatus.OPEN:
        floor.do(cross(10))
        assert floor.reject_code() == (entry or 1003)
