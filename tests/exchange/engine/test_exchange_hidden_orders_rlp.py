"""Retail liquidity providers (003 §7.1.6): the six printed scenarios, and further rules."""

from __future__ import annotations

from typing import Any

import pytest

from pregao.errors import UsageError
from pregao.exchange.engine.model.commands import MassCancel
from pregao.exchange.engine.model.enums import (
    OrderSide,
    OrdType,
    RoutingInstruction,
    TimeInForce,
    TradeCondition,
    TradingStatus,
    TrdSubType,
)
from pregao.exchange.engine.model.events import ExecutionSummary, Trade
from pregao.exchange.engine.model.instruments import Product
from pregao.exchange.engine.model.operations_commands import EndDay
from pregao.exchange.engine.model.reports import (
    OrderAccepted,
    OrderCancelled,
    OrderFilled,
    OrderModified,
)
from tests.exchange.floor import BUY, OTHER, SELL, Floor, future, px, share

A, B, C, D, E, F, G, H = range(1, 9)
RETAIL = RoutingInstruction.RETAIL_LIQUIDITY_TAKER
WAIVED = RoutingInstruction.WAIVED_PRIORITY
RLP = OrdType.RLP
FOK, IOC = TimeInForce.FILL_OR_KILL, TimeInForce.IMMEDIATE_OR_CANCEL


def scenario(*asks: tuple[int, int, float] | tuple[int, int, float, Any], **options: Any) -> Floor:
    """The printed book: a price step of 5 points, RLP of A on both sides and of B to buy."""
    floor = Floor(future(min_price_increment=5 * 10**8), **options)
    for firm, side in ((A, BUY), (A, SELL), (B, BUY)):
        floor.order(side, 1000, ord_type=RLP, firm=firm)
        assert floor.reject_code() is None
        assert not floor.last.market
    for firm, quantity, price in ((C, 5, 74_995), (D, 10, 74_990), (E, 5, 74_985)):
        floor.order(BUY, quantity, price, firm=firm)
    for firm, quantity, price, *routing in asks:
        floor.order(
            SELL,
            quantity,
            price,
            firm=firm,
            routing_instruction=(*routing, RoutingInstruction(0))[0],
        )
    return floor


def retail(floor: Floor, quantity: int, price: float | None = 75_000, **fields: Any) -> int:
    """A bid of a retail customer of A."""
    fields = {"side": BUY, "firm": A, "session": 2, **fields}
    return floor.order(fields.pop("side"), quantity, price, routing_instruction=RETAIL, **fields)


def trades(floor: Floor) -> list[tuple[Any, int, int, bool]]:
    """Seller, quantity, price, and whether it was a provider."""
    rows = []
    for trade in floor.items(Trade):
        provider = trade.trd_sub_type == TrdSubType.RLP_TRADE
        assert provider != bool(trade.trade_condition & TradeCondition.REGULAR_TRADE)
        rows.append((trade.seller, trade.size, trade.price // 10_000, provider))
    return rows


def left(floor: Floor, firm: int = A, side: OrderSide = SELL) -> int:
    return sum(
        order.leaves
        for order in floor.engine.market.orders.values()
        if (order.ord_type, order.firm, order.side) == (RLP, firm, side)
    )


def test_003_7_1_6_1_1_no_customer_of_the_firm_at_the_best_price():
    floor = scenario((D, 20, 75_000), (F, 10, 75_005), (G, 5, 75_010))
    retail(floor, 10)
    assert trades(floor) == [(A, 10, 75_000, True)]
    assert left(floor) == 990
    (summary,) = floor.items(ExecutionSummary)
    assert (summary.fill_qty, summary.traded_hidden_qty) == (10, 10)
    assert floor.book(SELL)[0] == (px(75_000), 20)
    fills = floor.reports(OrderFilled)
    assert [(fill.ord_type, fill.leaves_qty) for fill in fills] == [(RLP, 990), (OrdType.LIMIT, 0)]
    floor.check_feed()
    floor.check_levels()


def test_003_7_1_6_1_2_a_customer_of_the_firm_takes_it_all():
    floor = scenario((A, 10, 75_000), (F, 10, 75_005), (G, 5, 75_010))
    retail(floor, 10)
    assert trades(floor) == [(A, 10, 75_000, False)]
    assert left(floor) == 1000
    # The provider is active again: at the new best price, with a price step below it.
    retail(floor, 5, 75_005)
    assert trades(floor) == [(A, 5, 75_000, True)]


def test_003_7_1_6_1_3_others_ahead_of_the_customer_trade_as_well():
    floor = scenario((F, 5, 75_000), (A, 5, 75_000), (G, 5, 75_010))
    retail(floor, 10)
    assert trades(floor) == [(F, 5, 75_000, False), (A, 5, 75_000, False)]
    assert left(floor) == 1000


def test_003_7_1_6_1_4_the_balance_goes_to_the_provider():
    floor = scenario((A, 10, 75_000), (F, 10, 75_005), (G, 5, 75_010))
    retail(floor, 15)
    assert trades(floor) == [(A, 10, 75_000, False), (A, 5, 75_000, True)]
    assert left(floor) == 995
    assert floor.items(ExecutionSummary)[0].traded_hidden_qty == 5


def test_003_7_1_6_1_5_a_customer_that_waives_priority_is_passed():
    floor = scenario((F, 5, 75_000), (A, 5, 75_000, WAIVED), (G, 5, 75_000))
    retail(floor, 10)
    assert trades(floor) == [(A, 10, 75_000, True)]
    assert left(floor) == 990
    assert floor.book(SELL) == [(px(75_000), 5)] * 3


def test_003_7_1_6_1_6_a_customer_that_does_not_waive_it_holds_the_provider_back():
    floor = scenario(
        (F, 5, 75_000), (A, 5, 75_000, WAIVED), (G, 5, 75_000), (A, 5, 75_000), (H, 5, 75_000)
    )
    retail(floor, 10)
    assert left(floor) == 990
    retail(floor, 30)
    assert trades(floor) == [
        (F, 5, 75_000, False),
        (A, 5, 75_000, False),
        (G, 5, 75_000, False),
        (A, 5, 75_000, False),
        (A, 10, 75_000, True),
    ]
    assert left(floor) == 980
    assert floor.book(SELL) == [(px(75_000), 5)]
    floor.check_feed()
    floor.check_levels()


def test_a_customer_too_far_back_to_be_reached_does_not_hold_it_back():
    floor = scenario((F, 10, 75_000), (A, 5, 75_000))
    retail(floor, 10)
    assert trades(floor) == [(A, 10, 75_000, True)]


def test_003_7_1_6_rule_1_only_retail_orders_of_the_same_firm():
    floor = scenario((D, 20, 75_000))
    retail(floor, 5, firm=B)
    floor.order(BUY, 5, 75_000, firm=A)
    assert left(floor) == 1000
    assert floor.book(SELL) == [(px(75_000), 10)]
    # To the other side B has a provider.
    retail(floor, 5, 74_995, firm=B, side=SELL)
    assert left(floor, B, BUY) == 995


@pytest.mark.parametrize(
    ("improvement", "price"),
    [(None, 75_015), (3, 75_015), (10, 75_010), (12, 75_010), (99, 75_000)],
)
def test_003_7_1_6_rule_3_with_a_wide_spread_the_price_is_better(improvement, price):
    steps = None if improvement is None else px(improvement)
    floor = Floor(future(min_price_increment=5 * 10**8, rlp_improvement=steps))
    floor.order(SELL, 1000, ord_type=RLP, firm=A)
    retail(floor, 1)
    assert not floor.items(Trade)
    floor.cancel(floor.next_id, session=2)
    floor.order(BUY, 5, 74_995, firm=C)
    floor.order(SELL, 5, 75_020, firm=A)
    # A better price has priority; a limit worse than the book's is enough.
    retail(floor, 10, price)
    assert trades(floor) == [(A, 10, price, True)]


@pytest.mark.parametrize(("ask", "price"), [(75_000, 75_000), (75_005, 75_000), (75_010, 75_005)])
def test_003_7_1_6_rule_3_the_price_is_better_from_a_spread_of_two_steps_on(ask, price):
    floor = Floor(future(min_price_increment=5 * 10**8))
    floor.order(SELL, 1000, ord_type=RLP, firm=A)
    floor.order(BUY, 5, 74_995, firm=C)
    floor.order(SELL, 5, ask, firm=D)
    retail(floor, 10, ask)
    assert trades(floor) == [(A, 10, price, True)]


def test_003_7_1_6_rule_4_the_remainder_goes_to_the_book():
    floor = scenario((D, 5, 75_000), (F, 10, 75_005))
    retail(floor, 1010, 75_005)
    assert trades(floor) == [
        (A, 1000, 75_000, True),
        (D, 5, 75_000, False),
        (F, 5, 75_005, False),
    ]
    assert left(floor) == 0
    floor.check_levels()


def test_003_7_1_6_rule_5_providers_have_a_share_of_the_volume():
    floor = scenario((D, 200, 75_000), rlp_share=1_500)
    floor.order(BUY, 85, 75_000, firm=C)
    retail(floor, 50)
    assert trades(floor) == [(A, 15, 75_000, True), (D, 35, 75_000, False)]


@pytest.mark.parametrize("wrong", [-1, 10_000, 15_000])
def test_a_share_of_the_volume_is_below_all_of_it(wrong):
    with pytest.raises(UsageError, match=f"rlp_share must be from 0 to 9999 .* was {wrong}"):
        Floor(rlp_share=wrong)


@pytest.mark.parametrize(("share_of_volume", "provided"), [(0, 0), (5_000, 50), (9_999, 50)])
def test_providers_trade_up_to_their_share(share_of_volume, provided):
    floor = scenario((D, 200, 75_000), rlp_share=share_of_volume)
    floor.order(BUY, 85, 75_000, firm=C)
    retail(floor, 50)
    assert sum(size for _, size, _, by_provider in trades(floor) if by_provider) == provided


def test_providers_trade_the_oldest_first_and_can_be_changed_and_cancelled():
    floor = scenario((D, 20, 75_000))
    second = floor.order(SELL, 30, ord_type=RLP, firm=A)
    second = floor.modify(second, 40)
    assert floor.reports(OrderModified)[0].working
    assert not floor.last.market
    floor.modify(second, 40, ord_type=OrdType.LIMIT, price=75_000)
    assert floor.reject_code() == 2311
    retail(floor, 1010)
    assert [row[1] for row in trades(floor)] == [1000, 10]
    floor.cancel(second)
    assert [(gone.quantity, gone.cum_qty) for gone in floor.reports(OrderCancelled)] == [(40, 10)]
    floor.do(MassCancel(1, 99, side=BUY))
    assert left(floor, A, BUY) == left(floor, B, BUY) == 0


@pytest.mark.parametrize(("quantity", "keeps"), [(31, False), (30, True), (29, True)])
def test_003_7_5_impact_of_changes_on_the_priority_of_a_provider(quantity, keeps):
    floor = scenario((D, 20, 75_000))
    first, second = (floor.order(SELL, 30, ord_type=RLP, firm=H) for _ in range(2))
    first = floor.modify(first, quantity)
    retail(floor, 1, firm=H)
    (fill,) = (fill for fill in floor.reports(OrderFilled) if not fill.aggressor)
    assert fill.cl_ord_id == (first if keeps else second)
    floor.cancel(first)
    assert floor.reports(OrderCancelled)[0].working


def test_003_7_1_6_rule_9_a_change_cannot_bring_a_minimum_along():
    floor = Floor()
    floor.order(SELL, 5, 10, session=2)
    order = floor.order(BUY, 10, 10, min_qty=5)
    floor.modify(order, 10, routing_instruction=RETAIL)
    assert floor.reject_code() == 2061


def test_003_7_1_6_rule_7_providers_are_valid_for_the_day():
    floor = scenario((D, 20, 75_000))
    floor.do(EndDay())
    assert not floor.engine.market.orders


def test_providers_take_no_part_in_an_auction():
    floor = Floor(phase=TradingStatus.RESERVED)
    floor.order(SELL, 1000, ord_type=RLP, firm=A)
    assert floor.reports(OrderAccepted)
    floor.order(BUY, 10, 10, firm=A, routing_instruction=RETAIL)
    assert [type(item).__name__ for item in floor.items()] == ["NewOrderMbo"]


@pytest.mark.parametrize("quantity", [1020, 1021])
def test_fill_or_kill_counts_the_providers(quantity):
    floor = scenario((D, 20, 75_000))
    retail(floor, quantity, time_in_force=FOK)
    assert bool(floor.items(Trade)) == (quantity == 1020)


def test_a_retail_stop_trades_with_the_provider():
    floor = scenario((D, 20, 75_000))
    retail(floor, 10, ord_type=OrdType.STOP_LIMIT, stop_px=px(75_000))
    floor.order(BUY, 1, 75_000, firm=C)
    assert trades(floor) == [(D, 1, 75_000, False), (A, 10, 75_000, True)]


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"ord_type": RLP, "price": None, "max_floor": 5}, 2061),
        ({"ord_type": RLP, "price": None, "min_qty": 5}, 2061),
        ({"ord_type": RLP, "price": None, "time_in_force": TimeInForce.GOOD_TILL_CANCEL}, 7047),
        ({"ord_type": RLP, "price": None, "time_in_force": IOC}, 7047),
        ({"ord_type": RLP, "price": None, "routing_instruction": RETAIL}, 2061),
        ({"ord_type": RLP}, 1012),
        ({"routing_instruction": RETAIL, "max_floor": 5}, 2061),
        ({"routing_instruction": RETAIL, "min_qty": 5}, 2061),
        ({"routing_instruction": RETAIL, "ord_type": OrdType.MARKET, "price": None}, 2061),
        ({"routing_instruction": RETAIL, "time_in_force": TimeInForce.GOOD_TILL_CANCEL}, 2061),
        ({"routing_instruction": RoutingInstruction.BROKER_ONLY}, 2061),
        ({"routing_instruction": RETAIL, "time_in_force": IOC}, None),
        ({"routing_instruction": WAIVED, "max_floor": 5}, None),
    ],
)
def test_003_7_1_6_rules_8_to_11_what_the_orders_cannot_have(fields, code):
    floor = Floor(share(previous_close=10 * 10**8))
    floor.order(BUY, 10, **{"price": 10, **fields})
    assert floor.reject_code() == code


def test_003_7_1_fixed_income_has_fewer_types():
    floor = Floor(share(product=Product.GOVERNMENT, previous_close=10 * 10**8), share(OTHER))
    for ord_type in (RLP, OrdType.MARKET_WITH_LEFTOVER_AS_LIMIT):
        floor.order(BUY, 10, ord_type=ord_type)
        assert floor.reject_code() == 2311
    floor.order(BUY, 10, ord_type=OrdType.MARKET)
    assert floor.reject_code() is None
