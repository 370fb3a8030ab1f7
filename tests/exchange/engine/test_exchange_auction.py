"""Auctions: the theoretical price against a search over all prices, and what uncrossing does."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pregao.exchange.engine.book.order_book import PriceLevel
from pregao.exchange.engine.model.auction_rules import AuctionRules
from pregao.exchange.engine.model.commands import MassCancel
from pregao.exchange.engine.model.enums import (
    ImbalanceCondition,
    OpenCloseSettlFlag,
    OrderSide,
    OrdStatus,
    OrdType,
    TimeInForce,
    TradeCondition,
    TradingStatus,
)
from pregao.exchange.engine.model.events import (
    AuctionImbalance,
    ChangeOrderMbo,
    DeleteOrderMbo,
    ExecutionStatistics,
    ExecutionSummary,
    LastTradePrice,
    NewOrderMbo,
    OpeningPrice,
    SecurityGroupPhase,
    SecurityStatus,
    TheoreticalOpeningPrice,
    Trade,
)
from pregao.exchange.engine.model.operations_commands import (
    AdjustLastTrade,
    EnterTrade,
    RejoinGroup,
    SetClosingPrice,
    SetGroupPhase,
    SetPriceBand,
    SetSecurityStatus,
)
from pregao.exchange.engine.model.reports import OrderAccepted, OrderCancelled, OrderFilled
from tests.exchange.floor import BUY, OTHER, SELL, SHARE, Floor, px, share

MOA, MOC = TimeInForce.GOOD_FOR_AUCTION, TimeInForce.AT_THE_CLOSE
OPEN, RESERVED, CLOSE = TradingStatus.OPEN, TradingStatus.RESERVED, TradingStatus.CLOSE
FINAL = TradingStatus.FINAL_CLOSING_CALL
ENDED = (CLOSE, TradingStatus.PAUSE, TradingStatus.FORBIDDEN)
PREVIOUS = OpenCloseSettlFlag.ENTRY_FROM_PREVIOUS_BUSINESS_DAY

_ORDERS = st.lists(
    st.tuples(
        st.sampled_from((BUY, SELL)),
        st.integers(1, 12),
        st.one_of(st.none(), st.integers(90, 110), st.integers(98, 102)),
        st.sampled_from((0, 0, 2)),
    ),
    min_size=1,
    max_size=14,
)


def auction(orders, reference: int | None) -> Floor:
    """An auction with these orders; prices are in ticks of 0.01, None is a market order."""
    floor = Floor(phase=RESERVED)
    if reference is not None:
        floor.do(SetClosingPrice(SHARE, reference * 1_000_000, PREVIOUS))
    for number, (side, quantity, ticks, max_floor) in enumerate(orders):
        floor.order(
            side,
            quantity,
            None if ticks is None else ticks / 100,
            ord_type=OrdType.MARKET if ticks is None else OrdType.LIMIT,
            time_in_force=MOA if ticks is None else TimeInForce.DAY,
            max_floor=max_floor if max_floor <= quantity else 0,
            firm=number + 1,
        )
        assert floor.reject_code() is None
    return floor


def search(orders, reference: int | None) -> tuple[int, int, int] | None:
    """The price in ticks, the quantity and the imbalance, found by trying every price."""
    limits = [ticks for _, _, ticks, _ in orders if ticks is not None]
    if limits:
        prices = range(min(limits), max(limits) + 1)
    elif reference is not None:
        prices = range(reference, reference + 1)
    else:
        return None

    def demand(price: int) -> int:
        return sum(q for s, q, t, _ in orders if s == BUY and (t is None or t >= price))

    def supply(price: int) -> int:
        return sum(q for s, q, t, _ in orders if s == SELL and (t is None or t <= price))

    def rank(price: int) -> tuple[int, int, int, int]:
        bought, sold = demand(price), supply(price)
        away = 0 if reference is None else abs(price - reference)
        return (-min(bought, sold), abs(bought - sold), away, price)

    best = min(prices, key=rank)
    quantity = min(demand(best), supply(best))
    return (best, quantity, demand(best) - supply(best)) if quantity else None


@settings(max_examples=400, deadline=None)
@given(orders=_ORDERS, reference=st.one_of(st.none(), st.integers(85, 115)))
def test_theoretical_price_is_what_a_search_over_all_prices_finds(orders, reference):
    floor = auction(orders, reference)
    found = floor.engine.market.listings[SHARE].theoretical
    expected = search(orders, reference)
    if expected is None:
        assert found is None
    else:
        price, quantity, imbalance = expected
        assert found == (price * 100, quantity, imbalance)


_TICKS = st.one_of(st.none(), st.integers(94, 106))
_CHANGES = st.lists(
    st.one_of(
        st.tuples(st.just("new"), st.sampled_from((BUY, SELL)), st.integers(1, 30), _TICKS),
        st.tuples(st.just("cancel"), st.integers(0, 99)),
        st.tuples(st.just("change"), st.integers(0, 99), st.integers(1, 30), st.integers(94, 106)),
    ),
    max_size=25,
)


@settings(max_examples=150, deadline=None)
@given(changes=_CHANGES, reference=st.integers(92, 108))
def test_theoretical_price_is_right_after_every_entry_change_and_cancel(changes, reference):
    floor = auction([], reference)
    standing: dict[int, tuple[OrderSide, int, int | None, int]] = {}
    for kind, *what in changes:
        if kind == "new":
            side, quantity, ticks = what
            number = floor.order(
                side,
                quantity,
                None if ticks is None else ticks / 100,
                ord_type=OrdType.MARKET if ticks is None else OrdType.LIMIT,
                time_in_force=MOA if ticks is None else TimeInForce.DAY,
            )
            standing[number] = (side, quantity, ticks, 0)
        elif standing:
            number = sorted(standing)[what[0] % len(standing)]
            side, _, ticks, _ = standing.pop(number)
            if kind == "cancel":
                floor.cancel(number)
            elif ticks is None:
                standing[floor.modify(number, what[1])] = (side, what[1], None, 0)
            else:
                number = floor.modify(number, what[1], what[2] / 100)
                standing[number] = (side, what[1], what[2], 0)
        assert floor.reject_code() is None
        found = floor.engine.market.listings[SHARE].theoretical
        expected = search(list(standing.values()), reference)
        if expected is None:
            assert found is None
        else:
            assert found == (expected[0] * 100, *expected[1:])


@settings(max_examples=150, deadline=None)
@given(orders=_ORDERS, reference=st.one_of(st.none(), st.integers(85, 115)))
def test_uncrossing_trades_the_theoretical_quantity_at_one_price_by_priority(orders, reference):
    floor = auction(orders, reference)
    expected = search(orders, reference)
    floor.do(SetGroupPhase("XX", OPEN))
    trades = floor.items(Trade)
    floor.check_feed()
    assert not floor.items(ExecutionSummary)
    bids, offers = floor.book(BUY), floor.book(SELL)
    assert all(price is not None for price, _ in bids + offers)
    if bids and offers:
        assert bids[0][0] < offers[0][0]
    if expected is None:
        assert not trades
        return
    price, quantity, _ = expected
    assert {trade.price for trade in trades} == {price * 100}
    assert sum(trade.size for trade in trades) == quantity
    filled: dict[tuple[OrderSide, int], int] = {}
    for trade in trades:
        for key in ((BUY, trade.buyer), (SELL, trade.seller)):
            filled[key] = filled.get(key, 0) + trade.size
    for side in (BUY, SELL):
        # Orders ahead by price are filled before any order after them gets anything.
        sign = -1 if side == BUY else 1
        ranks: dict[tuple[int, int], list[tuple[int, int]]] = {}
        for number, (own, entered, ticks, _) in enumerate(orders):
            if own == side:
                rank = (0, 0) if ticks is None else (1, sign * ticks)
                ranks.setdefault(rank, []).append((entered, filled.get((side, number + 1), 0)))
        short = False
        for rank in sorted(ranks):
            assert not short or all(done == 0 for _, done in ranks[rank])
            short = short or any(done < entered for entered, done in ranks[rank])


def test_orders_of_one_price_are_filled_by_time_in_an_auction():
    floor = Floor(phase=RESERVED)
    first, second, third = (floor.order(BUY, 10, 10) for _ in range(3))
    floor.order(SELL, 15, 10)
    floor.do(SetGroupPhase("XX", OPEN))
    fills = [(fill.cl_ord_id, fill.last_qty) for fill in floor.reports(OrderFilled)]
    assert [fill for fill in fills if fill[0] in (first, second, third)] == [
        (first, 10),
        (second, 5),
    ]
    assert floor.book(BUY) == [(px(10), 5), (px(10), 10)]


def test_theoretical_price_and_imbalance_follow_every_change_and_are_withdrawn():
    floor = Floor(phase=RESERVED)
    floor.order(BUY, 10, 10)
    assert not floor.items(TheoreticalOpeningPrice, AuctionImbalance)
    offer = floor.order(SELL, 4, 10)
    unit = floor.unit()
    assert unit.event
    assert [type(item) for item in unit.items] == [
        NewOrderMbo,
        TheoreticalOpeningPrice,
        AuctionImbalance,
    ]
    _, price, imbalance = unit.items
    assert (price.price, price.size) == (px(10), 4)
    assert (imbalance.condition, imbalance.size) == (ImbalanceCondition.MORE_BUYERS, 6)
    floor.order(SELL, 6, 10)
    assert [(i.condition, i.size) for i in floor.items(AuctionImbalance)] == [
        (ImbalanceCondition.BALANCED, 0)
    ]
    floor.order(SELL, 5, 11)
    assert not floor.items(TheoreticalOpeningPrice, AuctionImbalance)
    floor.order(SELL, 3, 9)
    assert [(i.condition, i.size) for i in floor.items(AuctionImbalance)] == [
        (ImbalanceCondition.MORE_SELLERS, 3)
    ]
    floor.cancel(offer)
    assert floor.items(DeleteOrderMbo, TheoreticalOpeningPrice, AuctionImbalance)
    for number in list(floor.engine.market.by_client):
        floor.cancel(number[2])
    assert not any(floor.book(side) for side in (BUY, SELL))
    assert floor.engine.book(SHARE).statistics == []


def test_withdrawn_theoretical_price_is_a_delete_of_price_and_imbalance():
    floor = Floor(phase=RESERVED)
    floor.order(BUY, 10, 10)
    offer = floor.order(SELL, 4, 10)
    floor.cancel(offer)
    assert [type(item) for item in floor.items()] == [
        DeleteOrderMbo,
        TheoreticalOpeningPrice,
        AuctionImbalance,
    ]
    assert all(item.deleted for item in floor.items(TheoreticalOpeningPrice, AuctionImbalance))


def test_the_end_of_an_auction_is_an_event_and_the_phase_comes_on_its_own():
    floor = Floor(phase=RESERVED)
    floor.order(BUY, 10, 10)
    floor.order(SELL, 4, 9)
    floor.do(SetGroupPhase("XX", OPEN))
    unit, state = floor.last.market
    assert unit.event
    assert [type(item).__name__ for item in state.items] == ["SecurityGroupPhase"]
    kinds = [type(item).__name__ for item in unit.items]
    assert kinds == [
        "Trade",
        "OpeningPrice",
        "HighPrice",
        "LowPrice",
        "ChangeOrderMbo",
        "DeleteOrderMbo",
        "TheoreticalOpeningPrice",
        "AuctionImbalance",
        "ExecutionStatistics",
    ]
    trade = unit.items[0]
    assert trade.trade_condition == TradeCondition.REGULAR_TRADE | TradeCondition.OPENING_PRICE
    assert all(item.deleted for item in floor.items(TheoreticalOpeningPrice, AuctionImbalance))
    assert [item.price for item in floor.shown(LastTradePrice)] == [trade.price]


def test_one_book_update_per_order_for_any_number_of_its_trades():
    floor = Floor(phase=RESERVED)
    floor.order(BUY, 10, 10)
    for _ in range(4):
        floor.order(SELL, 2, 10)
    floor.do(SetGroupPhase("XX", OPEN))
    assert len(floor.items(Trade)) == 4
    (change,) = floor.items(ChangeOrderMbo)
    assert (change.size, change.prev_size) == (2, 10)
    assert len(floor.items(DeleteOrderMbo)) == 4


def test_003_7_1_14_moa_is_accepted_only_in_an_auction_and_ends_with_it():
    floor = Floor()
    floor.order(BUY, 10, ord_type=OrdType.MARKET, time_in_force=MOA)
    assert floor.reject_code() == 7027
    floor.do(SetGroupPhase("XX", RESERVED))
    floor.order(BUY, 10, 9)
    market = floor.order(BUY, 10, ord_type=OrdType.MARKET, time_in_force=MOA)
    # An order without a price is ahead of every price.
    assert floor.book(BUY) == [(None, 10), (px(9), 10)]
    floor.do(SetGroupPhase("XX", OPEN))
    (gone,) = floor.reports(OrderCancelled)
    assert (gone.cl_ord_id, gone.status) == (market, OrdStatus.EXPIRED)
    assert floor.book(BUY) == [(px(9), 10)]
    floor.check_feed()


def test_003_7_1_13_moc_waits_for_the_closing_call_and_ends_with_it():
    floor = Floor()
    floor.order(SELL, 5, 10)
    closing = floor.order(BUY, 10, ord_type=OrdType.MARKET, time_in_force=MOC)
    (accepted,) = floor.reports(OrderAccepted)
    assert not accepted.working
    assert not floor.last.market
    floor.do(SetGroupPhase("XX", FINAL))
    (active,) = floor.reports(OrderAccepted)
    assert active.working
    assert active.cl_ord_id == closing
    unit = floor.unit()
    assert unit.event
    assert [type(item) for item in unit.items] == [
        SecurityGroupPhase,
        NewOrderMbo,
        TheoreticalOpeningPrice,
        AuctionImbalance,
    ]
    assert unit.items[1].price is None
    floor.do(SetGroupPhase("XX", CLOSE))
    assert [(trade.price, trade.size) for trade in floor.items(Trade)] == [(px(10), 5)]
    (gone,) = floor.reports(OrderCancelled)
    assert (gone.status, gone.cum_qty) == (OrdStatus.EXPIRED, 5)
    assert not floor.book(BUY)


def test_waiting_moc_orders_join_by_time_of_entry_and_can_be_cancelled():
    floor = Floor()
    first = floor.order(BUY, 1, 10, time_in_force=MOC)
    second = floor.order(BUY, 2, 10, time_in_force=MOC)
    third = floor.order(BUY, 3, 10, time_in_force=MOC)
    floor.cancel(second)
    assert not floor.last.market
    third = floor.modify(third, 4)
    assert not floor.last.market
    # It is in the book before them: their public numbers, which rank the book, are new.
    floor.order(BUY, 7, 10)
    (resting,) = floor.items(NewOrderMbo)
    floor.do(SetGroupPhase("XX", FINAL))
    assert [report.cl_ord_id for report in floor.reports(OrderAccepted)] == [first, third]
    joined = [each.secondary_order_id for each in floor.items(NewOrderMbo)]
    assert resting.secondary_order_id < joined[0] < joined[1]
    assert floor.book(BUY) == [(px(10), 7), (px(10), 1), (px(10), 4)]
    floor.check_feed()


@pytest.mark.parametrize(
    ("change", "keeps"),
    [
        ({"quantity": 5}, False),
        ({"quantity": 4, "price": 10.01}, False),
        ({"quantity": 3}, True),
        ({"quantity": 4, "account": 7}, True),
    ],
)
def test_003_7_5_impact_of_changes_on_the_priority_of_a_waiting_moc_order(change, keeps):
    floor = Floor()
    first = floor.order(BUY, 4, 10, time_in_force=MOC)
    second = floor.order(BUY, 4, 10, time_in_force=MOC)
    first = floor.modify(first, **change)
    floor.do(SetGroupPhase("XX", FINAL))
    joined = [report.cl_ord_id for report in floor.reports(OrderAccepted)]
    assert joined == ([first, second] if keeps else [second, first])
    floor.check_feed()
    floor.check_levels()


def test_an_order_that_leaves_an_auction_to_wait_changes_its_theoretical_price():
    floor = Floor(phase=RESERVED)
    floor.order(BUY, 4, 10)
    order = floor.order(BUY, 4, 11)
    floor.order(SELL, 6, 10, session=2)
    theoretical = floor.engine.market.listings[SHARE].theoretical
    floor.modify(order, 4, time_in_force=MOC)
    assert floor.book(BUY) == [(px(10), 4)]
    assert floor.engine.market.listings[SHARE].theoretical != theoretical
    assert [each.size for each in floor.items(TheoreticalOpeningPrice)] == [4]


def test_003_7_4_an_order_bound_by_an_auction_cannot_become_moc():
    floor = Floor(phase=RESERVED, auction_rules=AuctionRules(binding=True))
    order = floor.order(BUY, 4, 10)
    floor.order(SELL, 4, 10)
    floor.modify(order, 4, time_in_force=MOC)
    assert floor.reject_code() == 7027
    assert floor.book(BUY) == [(px(10), 4)]


@pytest.mark.parametrize(
    "fields",
    [
        {"time_in_force": TimeInForce.IMMEDIATE_OR_CANCEL},
        {"time_in_force": TimeInForce.FILL_OR_KILL},
        {"ord_type": OrdType.MARKET, "price": None},
        {"ord_type": OrdType.MARKET_WITH_LEFTOVER_AS_LIMIT, "price": None},
    ],
)
def test_immediate_orders_are_refused_in_an_auction(fields):
    floor = Floor(phase=RESERVED)
    floor.order(BUY, 10, **{"price": 10, **fields})
    assert floor.reject_code() == 7027


def test_a_minimum_quantity_means_nothing_in_an_auction():
    floor = Floor(phase=RESERVED)
    floor.order(BUY, 10, 10, min_qty=5)
    assert floor.reject_code() == 1013
    floor = Floor()
    floor.order(BUY, 10, 10, min_qty=5, time_in_force=MOC)
    assert floor.reject_code() == 1013


@pytest.mark.parametrize(
    ("auction", "state", "by_group"),
    [
        *[(auction, state, True) for auction in (RESERVED, FINAL) for state in (OPEN, *ENDED)],
        *[(auction, state, False) for auction in (RESERVED, FINAL) for state in ENDED],
        (RESERVED, FINAL, True),
        (RESERVED, FINAL, False),
    ],
)
def test_000_14_1_an_auction_that_is_left_trades_before_the_new_state(auction, state, by_group):
    floor = Floor(phase=auction)
    floor.order(BUY, 10, 10)
    floor.order(SELL, 4, 10, session=2)
    floor.order(BUY, 1, time_in_force=MOA, ord_type=OrdType.MARKET)
    command = SetSecurityStatus(SHARE, state)
    if by_group:
        # Without a scheduled end a RESERVED auction continues in PRE-CLOSE (§14.2).
        floor.do(SetGroupPhase("XX", auction, open_time_ns=floor.now + 2))
        command = SetGroupPhase("XX", state)
    floor.do(command)
    uncrossing, change = floor.last.market
    assert uncrossing.event
    assert not change.event
    assert [trade.size for trade in uncrossing.items if isinstance(trade, Trade)] == [1, 3]
    assert isinstance(uncrossing.items[-1], ExecutionStatistics)
    assert [type(item) for item in change.items] == [
        SecurityGroupPhase if by_group else SecurityStatus
    ]
    assert floor.book(BUY) == [(px(10), 7)]
    assert not floor.shown(TheoreticalOpeningPrice, AuctionImbalance)
    floor.check_feed()


def test_000_14_1_an_auction_of_a_halted_group_is_suspended_not_left():
    floor = Floor()
    floor.do(SetSecurityStatus(SHARE, RESERVED))
    floor.order(BUY, 10, 10)
    floor.order(SELL, 10, 9, session=2)
    floor.do(SetGroupPhase("XX", TradingStatus.PAUSE))
    assert not floor.items(Trade)
    floor.do(SetGroupPhase("XX", OPEN))
    assert not floor.items(Trade)
    assert [price.size for price in floor.items(TheoreticalOpeningPrice)] == [10]
    floor.do(RejoinGroup(SHARE))
    assert [trade.size for trade in floor.items(Trade)] == [10]
    assert isinstance(floor.items()[-1], SecurityStatus)


def test_000_14_1_a_closing_call_begins_after_the_trades_of_the_auction_before_it():
    floor = Floor(phase=RESERVED)
    floor.order(BUY, 10, 10)
    floor.order(SELL, 4, 10, session=2)
    floor.order(SELL, 9, time_in_force=MOC, ord_type=OrdType.MARKET, session=2)
    floor.do(SetGroupPhase("XX", FINAL))
    uncrossing, change = floor.last.market
    assert [trade.size for trade in uncrossing.items if isinstance(trade, Trade)] == [4]
    assert [type(item) for item in change.items] == [
        SecurityGroupPhase,
        NewOrderMbo,
        TheoreticalOpeningPrice,
        AuctionImbalance,
    ]
    assert change.items[2].size == 6
    floor.check_feed()


def test_000_4_2_1_a_mass_cancel_in_an_auction_ends_with_its_last_deletion():
    floor = Floor(share(), share(OTHER), phase=RESERVED)
    for security_id in (SHARE, OTHER):
        floor.order(BUY, 10, 10, security_id=security_id)
        floor.order(SELL, 10, 10, security_id=security_id, session=2)
        floor.order(BUY, 5, 9, security_id=security_id)
    floor.do(MassCancel(1, 99))
    cancels, *prices = floor.last.market
    assert cancels.event
    assert [type(item) for item in cancels.items] == [DeleteOrderMbo] * 4
    assert [(unit.event, [type(item) for item in unit.items]) for unit in prices] == [
        (True, [TheoreticalOpeningPrice, AuctionImbalance])
    ] * 2
    assert [unit.items[0].security_id for unit in prices] == [SHARE, OTHER]
    assert all(item.deleted for unit in prices for item in unit.items)
    floor.check_feed()


def test_iceberg_takes_part_with_all_it_has_and_comes_back_for_each_slice():
    floor = Floor(phase=RESERVED)
    floor.order(BUY, 10, 10, max_floor=3)
    floor.order(SELL, 8, 10)
    (price,) = floor.items(TheoreticalOpeningPrice)
    assert price.size == 8
    floor.do(SetGroupPhase("XX", OPEN))
    assert [trade.size for trade in floor.items(Trade)] == [3, 3, 2]
    assert floor.book(BUY) == [(px(10), 1)]
    floor.check_feed()


def test_statistics_of_an_uncrossing_are_published_once():
    floor = Floor(phase=RESERVED)
    for _ in range(3):
        floor.order(BUY, 1, 10)
        floor.order(SELL, 1, 10)
    floor.do(SetGroupPhase("XX", OPEN))
    assert len(floor.items(Trade)) == 3
    (figures,) = floor.items(ExecutionStatistics)
    assert (figures.trade_volume, figures.number_of_trades, figures.vwap_px) == (3, 3, px(10))
    assert len(floor.items(OpeningPrice)) == 1


def test_theoretical_price_leaves_the_depth_of_the_book_alone():
    """Orders beyond the crossing prices are not inspected."""
    floor = Floor(share(), phase=RESERVED)
    for ticks in range(1, 400):
        floor.order(BUY, 1, ticks / 100)
        floor.order(SELL, 1, (ticks + 500) / 100)
    bids = floor.engine.market.listings[SHARE].bids

    class Watched(dict[int, PriceLevel]):
        touched = 0

        def __getitem__(self, key):
            Watched.touched += 1
            return super().__getitem__(key)

    bids.levels = Watched(bids.levels)
    floor.engine.market.track_positions = False
    floor.order(SELL, 3, 3.98)
    assert floor.items(TheoreticalOpeningPrice)[0].size == 2
    assert Watched.touched <= 4


@pytest.mark.parametrize(
    "command",
    [
        SetClosingPrice(SHARE, 12 * 10**8, PREVIOUS),
        SetPriceBand(SHARE, reference8=12 * 10**8),
        AdjustLastTrade(SHARE, px(12), 5),
        EnterTrade(SHARE, px(12), 5),
    ],
)
def test_theoretical_price_follows_the_reference_it_is_drawn_to(command):
    floor = Floor(share(previous_close=10 * 10**8), phase=RESERVED)
    floor.order(BUY, 10, 13)
    floor.order(SELL, 10, 9)
    assert floor.items(TheoreticalOpeningPrice)[0].price == px(10)
    floor.do(command)
    assert floor.items(TheoreticalOpeningPrice)[0].price == px(12)


@pytest.mark.parametrize(("close", "price"), [(10_004, 10), (10_006, 10.01), (10_005, 10.01)])
def test_a_reference_between_price_steps_counts_as_the_nearest(close, price):
    floor = Floor(share(previous_close=close * 100_000), phase=RESERVED)
    floor.order(BUY, 10, 13)
    floor.order(SELL, 10, 9)
    assert floor.items(TheoreticalOpeningPrice)[0].price == px(price)
