"""Implied orders and leg trades of spreads (000 §18, §4.2.1)."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from pregao.errors import UsageError
from pregao.exchange.engine.model.commands import MassCancel
from pregao.exchange.engine.model.enums import (
    OrdType,
    PriceBandMidpoint,
    PriceBandType,
    PriceLimitType,
    TradingStatus,
    TrdSubType,
)
from pregao.exchange.engine.model.events import (
    ChangeOrderMbo,
    DeleteOrderMbo,
    ExecutionStatistics,
    ExecutionSummary,
    LastTradePrice,
    NewOrderMbo,
    Trade,
    TradeBust,
)
from pregao.exchange.engine.model.instruments import Instrument, Leg, MultiLegModel, SecurityType
from pregao.exchange.engine.model.operations_commands import (
    BustTrade,
    EnterImplied,
    RemoveInstrument,
    SetGroupPhase,
    SetPriceBand,
    SetSecurityStatus,
)
from pregao.exchange.engine.model.reports import OrderFilled
from tests.exchange.floor import BUY, SELL, Floor, future, px

F24, N24, F24N24 = 1, 2, 3
NAMES = {F24: "DI1F24", N24: "DI1N24", F24N24: "DIIF24N24"}
ONE = 10_000_000


def spread(**changes: Any) -> Instrument:
    """Sell F24, buy N24."""
    legs = (
        Leg(F24, NAMES[F24], ONE, SecurityType.FUT, SELL),
        Leg(N24, NAMES[N24], ONE, SecurityType.FUT, BUY),
    )
    fields: dict[str, Any] = {
        "symbol": NAMES[F24N24],
        "security_type": SecurityType.MLEG,
        "legs": legs,
        "implied_market_indicator": True,
        **changes,
    }
    return future(F24N24, **fields)


def market(**changes: Any) -> Floor:
    legs = [future(number, symbol=NAMES[number]) for number in (F24, N24)]
    return Floor(*legs, spread(**changes), implied_orders=True)


def moments_1_to_4() -> Floor:
    floor = market()
    floor.order(BUY, 10, 6.99, security_id=F24)
    assert len(floor.last.market) == 1
    floor.order(SELL, 10, 7.34, security_id=N24)
    own, implied = floor.last.market
    assert [(x.security_id, x.implied) for x in own.items] == [(N24, False)]
    (item,) = implied.items
    assert isinstance(item, NewOrderMbo)
    assert (item.security_id, item.side, item.implied) == (F24N24, SELL, True)
    assert (item.price, item.size, item.position, item.firm) == (px(0.35), 10, 1, None)
    floor.order(SELL, 15, 0.35, security_id=F24N24, session=3)
    (item,) = floor.items()
    assert (item.position, item.implied) == (1, False)
    assert floor.book(SELL, F24N24) == [(px(0.35), 15), (px(0.35), 10)]
    return floor


def test_000_18_1_implied_in_orders():
    moments_1_to_4().check_feed()


def test_000_18_3_a_match_with_an_implied_order_trades_its_legs():
    floor = moments_1_to_4()
    floor.order(BUY, 20, 0.35, security_id=F24N24, session=4)
    trades = [(t.security_id, t.price, t.size, t.implied) for t in floor.items(Trade)]
    assert trades == [
        (F24N24, px(0.35), 15, False),
        (F24N24, px(0.35), 5, True),
        (F24, px(6.99), 5, True),
        (N24, px(7.34), 5, True),
    ]
    assert floor.book(SELL, F24N24) == [(px(0.35), 5)]
    assert floor.book(BUY, F24) == [(px(6.99), 5)]
    assert floor.book(SELL, N24) == [(px(7.34), 5)]
    floor.check_feed()


def legs_of(floor: Floor) -> list[tuple[int, int, int, bool]]:
    return [
        (t.security_id, t.price, t.size, t.implied)
        for t in floor.items(Trade)
        if t.trd_sub_type == TrdSubType.LEG_TRADE
    ]


def test_000_4_2_1_each_instrument_has_a_separate_event():
    floor = market()
    floor.order(BUY, 10, 6.99, security_id=F24)
    floor.order(SELL, 10, 7.34, security_id=N24)
    floor.order(BUY, 4, 0.35, security_id=F24N24, session=4)
    events = floor.last.market
    owners = [{item.security_id for item in unit.items} for unit in events]
    assert owners == [{F24N24}, {F24}, {N24}]
    for unit in events:
        assert unit.event
        assert isinstance(unit.items[0], ExecutionSummary)
        assert isinstance(unit.items[-1], ExecutionStatistics)
    # The implied order has the remainder, in its position: the event of the trade changed it.
    (changed,) = [x for x in events[0].items if isinstance(x, ChangeOrderMbo)]
    assert (changed.size, changed.prev_size, changed.implied) == (6, 10, True)
    assert floor.book(SELL, F24N24) == [(px(0.35), 6)]
    assert floor.book(BUY, F24) == [(px(6.99), 6)]
    assert floor.book(SELL, N24) == [(px(7.34), 6)]
    assert legs_of(floor) == [(F24, px(6.99), 4, True), (N24, px(7.34), 4, True)]
    mine = [(r.security_id, r.side, r.leg_of) for r in floor.reports(OrderFilled) if r.session == 4]
    assert mine == [(F24N24, BUY, 0), (F24, SELL, F24N24), (N24, BUY, F24N24)]
    floor.check_feed()
    floor.check_levels()


def test_000_18_a_leg_that_shrinks_changes_the_order_in_its_position():
    floor = moments_1_to_4()
    number = floor.numbers(SELL, F24N24)[1]
    floor.order(SELL, 3, 6.99, security_id=F24, session=5)
    changed = floor.last.market[-1].items
    assert [(type(x), x.security_id, x.size) for x in changed] == [(ChangeOrderMbo, F24N24, 7)]
    assert floor.numbers(SELL, F24N24)[1] == number


@pytest.mark.parametrize(
    ("side", "quantity", "price", "security_id", "expected"),
    [
        (BUY, 5, 7.00, F24, (0.34, 5)),
        (SELL, 5, 7.33, N24, (0.34, 5)),
        (BUY, 5, 6.98, F24, None),
    ],
)
def test_000_18_another_price_deletes_and_reenters_it(side, quantity, price, security_id, expected):
    floor = market()
    floor.order(BUY, 10, 6.99, security_id=F24)
    floor.order(SELL, 10, 7.34, security_id=N24)
    before = floor.numbers(SELL, F24N24)
    floor.order(side, quantity, price, security_id=security_id)
    if expected is None:
        assert floor.numbers(SELL, F24N24) == before
        return
    _, event = floor.last.market
    assert [type(item) for item in event.items] == [DeleteOrderMbo, NewOrderMbo]
    assert floor.book(SELL, F24N24) == [(px(expected[0]), expected[1])]
    assert floor.numbers(SELL, F24N24) > before
    floor.check_feed()


def test_more_of_a_leg_adds_quantity_after_all_others():
    floor = moments_1_to_4()
    floor.order(BUY, 5, 6.99, security_id=F24)
    assert len(floor.last.market) == 1
    floor.order(SELL, 5, 7.34, security_id=N24)
    assert [type(x) for x in floor.last.market[-1].items] == [DeleteOrderMbo, NewOrderMbo]
    assert floor.book(SELL, F24N24)[-1] == (px(0.35), 15)


def test_both_sides_are_derived_and_withdrawn_with_their_legs():
    floor = market()
    bid = floor.order(BUY, 10, 6.99, security_id=F24)
    floor.order(SELL, 10, 7.01, security_id=F24)
    floor.order(BUY, 8, 7.30, security_id=N24)
    floor.order(SELL, 6, 7.34, security_id=N24)
    assert floor.book(BUY, F24N24) == [(px(0.29), 8)]
    assert floor.book(SELL, F24N24) == [(px(0.35), 6)]
    floor.cancel(bid, security_id=F24)
    assert not floor.book(SELL, F24N24)
    floor.do(MassCancel(1, 99))
    assert not floor.book(BUY, F24N24)
    floor.check_feed()


def test_an_implied_order_that_crosses_trades_and_the_legs_get_the_better_price():
    floor = market()
    floor.order(BUY, 5, 0.40, security_id=F24N24, session=3)
    floor.order(BUY, 10, 6.99, security_id=F24)
    floor.order(SELL, 10, 7.34, security_id=N24)
    prices = {t.security_id: t.price for t in floor.items(Trade)}
    assert prices[F24N24] == px(0.40)
    assert prices[N24] - prices[F24] == px(0.40)
    assert prices[F24] <= px(6.99)
    assert prices[N24] >= px(7.34)
    assert floor.book(SELL, F24N24) == [(px(0.35), 5)]
    floor.check_feed()


def test_leg_trades_are_not_the_last_price_and_trigger_nothing():
    floor = market()
    floor.order(BUY, 10, 6.99, security_id=F24)
    floor.order(SELL, 10, 7.34, security_id=N24)
    floor.order(BUY, 1, 9, security_id=N24, ord_type=OrdType.STOP_LIMIT, stop_px=px(7.34))
    floor.order(BUY, 4, 0.35, security_id=F24N24, session=4)
    assert not floor.shown(LastTradePrice, security_id=N24)
    assert floor.book(BUY, N24) == []


def test_a_bust_carries_the_bit():
    floor = market()
    floor.order(BUY, 10, 6.99, security_id=F24)
    floor.order(SELL, 10, 7.34, security_id=N24)
    floor.order(BUY, 4, 0.35, security_id=F24N24, session=4)
    for trade in floor.items(Trade):
        floor.do(BustTrade(trade.security_id, trade.trade_id))
        assert floor.items(TradeBust)[0].implied


def test_a_trade_of_two_orders_is_published_in_the_legs_at_prices_that_add_up():
    floor = Floor(
        future(F24, previous_close=7 * 10**8),
        future(N24, previous_close=73 * 10**7),
        spread(multi_leg_model=MultiLegModel.USER_DEFINED),
        implied_orders=True,
    )
    floor.order(SELL, 5, 0.35, security_id=F24N24)
    floor.order(BUY, 5, 0.35, security_id=F24N24, session=2)
    assert legs_of(floor) == [(F24, px(7), 5, False), (N24, px(7.35), 5, False)]
    buyer_of_n24 = [
        r for r in floor.reports(OrderFilled) if r.security_id == N24 and r.session == 2
    ]
    assert [r.side for r in buyer_of_n24] == [BUY]
    floor.check_feed()


def test_there_is_nothing_implied_unless_all_trade():
    floor = market()
    floor.order(BUY, 10, 6.99, security_id=F24)
    floor.order(SELL, 10, 7.34, security_id=N24)
    for security_id in (F24, F24N24):
        floor.do(SetSecurityStatus(security_id, TradingStatus.RESERVED))
        assert not floor.book(SELL, F24N24)
        floor.do(SetSecurityStatus(security_id, TradingStatus.OPEN))
        assert floor.book(SELL, F24N24) == [(px(0.35), 10)]
    floor.do(SetGroupPhase("XX", TradingStatus.CLOSE))
    assert not floor.book(SELL, F24N24)
    floor.do(SetGroupPhase("XX", TradingStatus.OPEN))
    assert floor.book(SELL, F24N24)
    floor.do(RemoveInstrument(F24))
    assert not floor.book(SELL, F24N24)
    floor.order(SELL, 1, 7.30, security_id=N24)
    assert not floor.book(SELL, F24N24)


@pytest.mark.parametrize("kind", [PriceBandType.AUCTION_LIMITS, PriceBandType.HARD_LIMIT])
@pytest.mark.parametrize(
    ("leg", "low", "high"), [(F24, 7.00, 7.50), (F24, 6.00, 6.98), (N24, 7.35, 8.00)]
)
def test_000_18_3_nothing_is_implied_by_a_leg_outside_its_band(kind, leg, low, high):
    floor = market()
    floor.order(BUY, 10, 6.99, security_id=F24)
    floor.order(SELL, 10, 7.34, security_id=N24)
    assert floor.book(SELL, F24N24) == [(px(0.35), 10)]
    floor.do(SetPriceBand(leg, kind, low=px(low), high=px(high)))
    assert floor.book(SELL, F24N24) == []
    floor.order(BUY, 4, 0.35, security_id=F24N24, session=4)
    assert floor.items(Trade) == []
    assert (floor.book(BUY, F24), floor.book(SELL, N24)) == ([(px(6.99), 10)], [(px(7.34), 10)])
    floor.do(SetPriceBand(leg, kind, low=px(6), high=px(8)))  # the order waits for the legs
    assert legs_of(floor) == [(F24, px(6.99), 4, True), (N24, px(7.34), 4, True)]
    floor.check_feed()
    floor.check_levels()


def test_000_18_3_a_trade_that_moves_the_band_of_a_leg_withdraws_the_implied_order():
    """A band in percent follows the last price: 7.30 leaves 7.154 to 7.446 around it."""
    floor = market()
    floor.do(
        SetPriceBand(
            F24,
            PriceBandType.AUCTION_LIMITS,
            PriceLimitType.PERCENTAGE,
            PriceBandMidpoint.LAST_TRADED_PRICE,
            low=px(-2),
            high=px(2),
        )
    )
    floor.order(BUY, 10, 6.99, security_id=F24)
    floor.order(SELL, 10, 7.34, security_id=N24)
    assert floor.book(SELL, F24N24) == [(px(0.35), 10)]
    floor.order(SELL, 1, 7.30, security_id=F24)
    floor.order(BUY, 1, 7.30, security_id=F24, session=2)
    assert floor.book(SELL, F24N24) == []
    assert floor.book(BUY, F24) == [(px(6.99), 10)]


def test_000_18_3_a_better_price_goes_to_a_leg_that_can_trade_at_it():
    """The 0.05 that the buyer pays more go to N24: F24 may not trade below 6.95."""
    floor = market()
    floor.do(SetPriceBand(F24, PriceBandType.HARD_LIMIT, low=px(6.95), high=px(8)))
    floor.order(BUY, 5, 0.40, security_id=F24N24, session=3)
    floor.order(BUY, 10, 6.99, security_id=F24)
    floor.order(SELL, 10, 7.34, security_id=N24)
    assert legs_of(floor) == [(F24, px(6.99), 5, True), (N24, px(7.39), 5, True)]


def test_ratios_count_in_price_and_quantity():
    legs = (
        Leg(F24, NAMES[F24], 2 * ONE, SecurityType.FUT, SELL),
        Leg(N24, NAMES[N24], ONE, SecurityType.FUT, BUY),
    )
    floor = market(legs=legs)
    floor.order(BUY, 9, 3, security_id=F24)
    floor.order(SELL, 10, 7, security_id=N24)
    assert floor.book(SELL, F24N24) == [(px(1), 4)]
    floor.order(BUY, 2, 1, security_id=F24N24, session=2)
    assert legs_of(floor) == [(F24, px(3), 4, True), (N24, px(7), 2, True)]


@pytest.mark.parametrize("legs", [False, True])
def test_an_order_of_market_operations_trades_without_legs(legs):
    floor = market()
    if legs:
        floor.order(BUY, 10, 6.90, security_id=F24)
        floor.order(SELL, 10, 7.34, security_id=N24)
    floor.do(EnterImplied(F24N24, SELL, px(0.35), 10))
    floor.order(BUY, 4, 0.35, security_id=F24N24, session=4)
    trades = [(t.security_id, t.price, t.size, t.implied) for t in floor.items(Trade)]
    assert trades == [(F24N24, px(0.35), 4, True)]
    assert floor.book(SELL, F24N24)[0] == (px(0.35), 6)
    assert floor.book(BUY, F24) == ([(px(6.90), 10)] if legs else [])
    assert floor.book(SELL, N24) == ([(px(7.34), 10)] if legs else [])
    floor.check_feed()
    floor.check_levels()


def test_an_implied_order_that_crosses_one_of_market_operations_trades_its_legs():
    floor = market()
    floor.do(EnterImplied(F24N24, BUY, px(0.35), 3))
    floor.order(BUY, 10, 6.99, security_id=F24)
    floor.order(SELL, 10, 7.34, security_id=N24)
    assert legs_of(floor) == [(F24, px(6.99), 3, True), (N24, px(7.34), 3, True)]
    assert floor.book(SELL, F24N24) == [(px(0.35), 7)]
    floor.check_feed()


Q24, F24Q24 = 4, 5


def two_spreads() -> Floor:
    """Two spreads that share the leg F24."""
    legs = (
        Leg(F24, NAMES[F24], ONE, SecurityType.FUT, SELL),
        Leg(Q24, "DI1Q24", ONE, SecurityType.FUT, BUY),
    )
    return Floor(
        *[future(number, symbol=NAMES[number]) for number in (F24, N24)],
        spread(),
        future(Q24, symbol="DI1Q24"),
        future(
            F24Q24,
            symbol="DIIF24Q24",
            security_type=SecurityType.MLEG,
            legs=legs,
            implied_market_indicator=True,
        ),
        implied_orders=True,
    )


def test_two_spreads_do_not_trade_the_same_order_of_their_common_leg():
    floor = two_spreads()
    floor.order(BUY, 5, 0.35, security_id=F24N24, session=3)
    floor.order(BUY, 5, 0.35, security_id=F24Q24, session=3)
    floor.order(SELL, 10, 7.34, security_id=N24)
    floor.order(SELL, 10, 7.34, security_id=Q24)
    floor.order(BUY, 5, 6.99, security_id=F24)
    assert legs_of(floor) == [(F24, px(6.99), 5, True), (N24, px(7.34), 5, True)]
    assert (floor.book(BUY, F24N24), floor.book(BUY, F24Q24)) == ([], [(px(0.35), 5)])
    assert (floor.book(BUY, F24), floor.book(SELL, Q24)) == ([], [(px(7.34), 10)])
    floor.check_feed()
    floor.check_levels()


MIDDLES = {F24: 700, N24: 734, Q24: 734, F24N24: 34, F24Q24: 34}


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(sorted(MIDDLES)),
            st.sampled_from((BUY, SELL)),
            st.integers(1, 9),
            st.integers(-1, 1),
            st.booleans(),
        ),
        min_size=10,
        max_size=40,
    )
)
def test_any_orders_in_spreads_with_a_common_leg(orders):
    floor = two_spreads()
    for security_id, side, quantity, ticks, entered in orders:
        price = (MIDDLES[security_id] + ticks) / 100
        if entered and security_id in (F24N24, F24Q24):
            with contextlib.suppress(UsageError):  # it must not cross the book
                floor.do(EnterImplied(security_id, side, px(price), quantity))
        else:
            floor.order(side, quantity, price, security_id=security_id)
        floor.check_feed()
        floor.check_levels()
        traded = dict.fromkeys((F24, N24, Q24), 0)
        for leg, _, size, _ in legs_of(floor):
            traded[leg] += size
        assert traded[F24] == traded[N24] + traded[Q24]


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from((F24, N24, F24N24)),
            st.sampled_from((BUY, SELL)),
            st.integers(1, 9),
            st.integers(-3, 3),
            st.sampled_from((None, None, *PriceBandType)),
        ),
        min_size=10,
        max_size=40,
    )
)
def test_000_18_3_whatever_the_bands_all_legs_trade_or_none(steps):
    floor = market()
    for security_id, side, quantity, ticks, band in steps:
        price = (MIDDLES[security_id] + ticks) / 100
        if band is None:
            floor.order(side, quantity, price, security_id=security_id)
        else:
            low, high = px(price - quantity / 100), px(price + quantity / 100)
            floor.do(SetPriceBand(security_id, band, low=low, high=high))
        traded = {F24: 0, N24: 0}
        for leg, _, size, _ in legs_of(floor):
            traded[leg] += size
        assert traded[F24] == traded[N24]
        floor.check_feed()
        floor.check_levels()


class SpreadMarket(RuleBasedStateMachine):
    """Any orders in a spread and its legs; nothing crosses, and the feed gives the books."""

    def __init__(self) -> None:
        super().__init__()
        self.floor = market()
        self.orders: list[tuple[int, int]] = []

    @rule(
        security_id=st.sampled_from((F24, N24, F24N24)),
        side=st.sampled_from((BUY, SELL)),
        quantity=st.integers(1, 9),
        ticks=st.integers(-4, 4),
    )
    def enter(self, security_id, side, quantity, ticks):
        middle = {F24: 700, N24: 734, F24N24: 34}[security_id]
        number = self.floor.order(side, quantity, (middle + ticks) / 100, security_id=security_id)
        self.orders.append((number, security_id))

    @precondition(lambda self: self.orders)
    @rule(pick=st.integers(0, 10_000))
    def cancel(self, pick):
        number, security_id = self.orders.pop(pick % len(self.orders))
        self.floor.cancel(number, security_id=security_id)

    @rule(
        security_id=st.sampled_from((F24, N24, F24N24)),
        status=st.sampled_from((TradingStatus.OPEN, TradingStatus.OPEN, TradingStatus.RESERVED)),
    )
    def change_state(self, security_id, status):
        self.floor.do(SetSecurityStatus(security_id, status))

    @invariant()
    def feed_gives_the_book(self):
        self.floor.check_feed()
        self.floor.check_levels()

    @invariant()
    def nothing_crosses(self):
        for security_id in (F24, N24, F24N24):
            view = self.floor.engine.book(security_id)
            if view.ruling_status == TradingStatus.OPEN and view.bids and view.offers:
                assert view.bids[0].price < view.offers[0].price

    @invariant()
    def what_is_implied_can_be_traded(self):
        book = self.floor.book
        view = self.floor.engine.book(F24N24)
        for entry in view.offers:
            if entry.implied:
                bid, offer = book(BUY, F24)[0], book(SELL, N24)[0]
                assert entry.price == offer[0] - bid[0]
        for entry in view.bids:
            if entry.implied:
                offer, bid = book(SELL, F24)[0], book(BUY, N24)[0]
                assert entry.price == bid[0] - offer[0]


TestSpreadMarket = SpreadMarket.TestCase
TestSpreadMarket.settings = settings(max_examples=80, stateful_step_count=40, deadline=None)
