"""Market operations: busts, trades by hand, cancels, resets, instruments, notices, statistics."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pregao.errors import UsageError
from pregao.exchange.engine.matching.statistics import regular_close
from pregao.exchange.engine.model.enums import (
    ExecRestatementReason,
    NewsSource,
    OpenCloseSettlFlag,
    PriceType,
    SecurityUpdateAction,
    SettlPriceType,
    TimeInForce,
    TradeCondition,
    TradingSession,
    TradingStatus,
    TrdSubType,
)
from pregao.exchange.engine.model.events import (
    ChannelReset,
    ClosingPrice,
    DeleteOrderMbo,
    EmptyBook,
    ExecutionStatistics,
    ExecutionSummary,
    ForwardTrade,
    HighPrice,
    LastTradePrice,
    LowPrice,
    MassDeleteOrders,
    NewOrderMbo,
    News,
    OpeningPrice,
    OpenInterest,
    SecurityDefinition,
    SecurityStatus,
    SequenceReset,
    SettlementPrice,
    TheoreticalOpeningPrice,
    Trade,
    TradeBust,
)
from pregao.exchange.engine.model.instruments import Leg, Product, SecurityType, Underlying
from pregao.exchange.engine.model.operations_commands import (
    AddInstrument,
    AdjustLastTrade,
    AmendTrade,
    BustTrade,
    ChangeInstrument,
    DeleteSide,
    EnterImplied,
    EnterTrade,
    ExpelOrder,
    PublishNews,
    RemoveInstrument,
    ResetBook,
    ResetChannel,
    ResetStream,
    SetClosingPrice,
    SetGroupPhase,
    SetOpenInterest,
    SetSecurityStatus,
    SetSettlementPrice,
    StartDay,
)
from pregao.exchange.engine.model.reports import (
    FillBusted,
    OrderAccepted,
    OrderCancelled,
    OrderFilled,
)
from pregao.units import day_number
from tests.exchange.floor import BUY, DAY, OTHER, SELL, SHARE, Floor, future, px, share

REGULAR = TradeCondition.REGULAR_TRADE
SPREAD = future(
    OTHER,
    security_type=SecurityType.MLEG,
    legs=(
        Leg(SHARE, "ACME1", 10_000_000, SecurityType.FUT, SELL),
        Leg(5, "B", 10_000_000, SecurityType.FUT, BUY),
    ),
)
ON_BEHALF = TradeCondition.TRADE_ON_BEHALF
OPENING = TradeCondition.OPENING_PRICE
SAME = TradeCondition.LAST_TRADE_AT_THE_SAME_PRICE
DAILY = OpenCloseSettlFlag.DAILY
PREVIOUS = OpenCloseSettlFlag.ENTRY_FROM_PREVIOUS_BUSINESS_DAY


def trade(floor: Floor, price: float, quantity: int = 10) -> int:
    """Make a trade in the book and give its number."""
    floor.order(BUY, quantity, price)
    floor.order(SELL, quantity, price, session=2)
    (made,) = floor.items(Trade)
    return int(made.trade_id)


def test_000_13_4_bust_of_the_only_trade_withdraws_its_statistics():
    floor = Floor(share(previous_close=10**9))
    number = trade(floor, 10)
    floor.do(BustTrade(SHARE, number))
    unit = floor.unit()
    assert unit.event
    assert [type(item) for item in unit.items] == [
        TradeBust,
        OpeningPrice,
        HighPrice,
        LowPrice,
        ExecutionStatistics,
    ]
    bust, *withdrawn, figures = unit.items
    assert (bust.price, bust.size, bust.trade_id) == (px(10), 10, number)
    assert all(item.deleted and item.price == px(10) for item in withdrawn)
    assert (figures.trade_volume, figures.number_of_trades) == (0, 0)
    assert figures.vwap_px is None
    assert figures.net_chg_prev_day8 is None
    assert not floor.shown(OpeningPrice, HighPrice, LowPrice, LastTradePrice)


@pytest.mark.parametrize("busted", [0, 1, 2, 3])
def test_000_19_a_bust_resends_no_price_while_a_trade_is_left(busted):
    floor = Floor(share(previous_close=10**9))
    numbers = [trade(floor, price) for price in (10, 12, 9, 11)]
    prices = floor.shown(OpeningPrice, HighPrice, LowPrice, LastTradePrice)
    assert [item.price for item in prices] == [px(10), px(12), px(9), px(11)]
    floor.do(BustTrade(SHARE, numbers[busted]))
    assert [type(item) for item in floor.items()] == [TradeBust, ExecutionStatistics]
    assert floor.shown(OpeningPrice, HighPrice, LowPrice, LastTradePrice) == prices
    (figures,) = floor.items(ExecutionStatistics)
    left = [price for index, price in enumerate((10, 12, 9, 11)) if index != busted]
    assert (figures.trade_volume, figures.number_of_trades) == (30, 3)
    assert figures.vwap_px == px(sum(left) / 3)
    # The last price is one of the prices that stay, and so does the change that it gives.
    assert figures.net_chg_prev_day8 == 10**8


def test_000_19_prices_that_a_bust_left_are_changed_by_the_next_trades_alone():
    floor = Floor()
    numbers = [trade(floor, price) for price in (10, 12, 9, 11)]
    for number in numbers[:3]:
        floor.do(BustTrade(SHARE, number))
    trade(floor, 11.5)
    assert not floor.items(OpeningPrice, HighPrice, LowPrice)
    trade(floor, 12.5)
    assert [(type(i), i.price) for i in floor.items(OpeningPrice, HighPrice, LowPrice)] == [
        (HighPrice, px(12.5))
    ]
    # An amendment moves its own trade only: the busted 9 and 12 stay in the range.
    floor.do(AmendTrade(SHARE, numbers[3], price=px(9.5)))
    assert not floor.items(OpeningPrice, HighPrice, LowPrice)


def test_000_19_the_first_trade_after_all_were_cancelled_opens_again():
    floor = Floor()
    for number in [trade(floor, price) for price in (10, 12)]:
        floor.do(BustTrade(SHARE, number))
    assert [(type(i), i.price, i.deleted) for i in floor.items()[1:4]] == [
        (OpeningPrice, px(10), True),
        (HighPrice, px(12), True),
        (LowPrice, px(10), True),
    ]
    assert not floor.shown(OpeningPrice, HighPrice, LowPrice, LastTradePrice)
    trade(floor, 11)
    assert floor.items(Trade)[0].trade_condition & OPENING
    assert [item.price for item in floor.items(OpeningPrice, HighPrice, LowPrice)] == [px(11)] * 3


def test_003_7_1_18_a_bust_lowers_the_filled_but_does_not_raise_the_remaining_quantity():
    floor = Floor()
    order = floor.order(BUY, 100, 10)
    floor.order(SELL, 40, 10, session=2)
    (fill, _) = floor.reports(OrderFilled)
    floor.order(SELL, 30, 10, session=2)
    floor.do(BustTrade(SHARE, fill.trade_id))
    buyer, seller = floor.reports(FillBusted)
    assert (buyer.session, buyer.cl_ord_id, buyer.exec_ref_id) == (1, order, fill.exec_id)
    assert (buyer.last_qty, buyer.cum_qty, buyer.leaves_qty) == (40, 30, 30)
    # The other order was filled: nothing of it remains.
    assert (seller.session, seller.cum_qty, seller.leaves_qty) == (2, 0, 0)
    assert (buyer.contra_firm, seller.contra_firm) == (102, 101)
    assert floor.book(BUY) == [(px(10), 30)]


def test_003_7_1_18_a_bust_after_an_amendment_takes_off_the_amended_quantity():
    """An amended trade counts in the executed quantity of its orders with its new quantity."""
    floor = Floor()
    floor.order(BUY, 100, 10)
    floor.order(SELL, 40, 10, session=2)
    floor.order(SELL, 10, 10, session=2)
    number = floor.items(Trade)[0].trade_id
    for quantity, executed in ((60, 40 + 60), (5, 40 + 5)):
        floor.do(AmendTrade(SHARE, number, quantity=quantity))
        (order,) = floor.engine.market.orders.values()
        assert (order.cum, order.leaves) == (executed, 50)
    floor.do(BustTrade(SHARE, number))
    buyer, seller = floor.reports(FillBusted)
    assert (buyer.last_qty, buyer.cum_qty, buyer.leaves_qty) == (5, 40, 50)
    assert (seller.last_qty, seller.cum_qty, seller.leaves_qty) == (5, 0, 0)


def test_a_trade_is_busted_once_and_only_while_it_is_on_record():
    floor = Floor(trade_memory=2)
    numbers = [trade(floor, 10) for _ in range(3)]
    with pytest.raises(UsageError, match=f"ACME1 has no trade {numbers[0]} on record"):
        floor.do(BustTrade(SHARE, numbers[0]))
    floor.do(BustTrade(SHARE, numbers[1]))
    with pytest.raises(UsageError, match="already busted"):
        floor.do(BustTrade(SHARE, numbers[1]))


@pytest.mark.parametrize(
    ("fields", "condition"),
    [
        ({}, REGULAR | ON_BEHALF | OPENING),
        ({"on_behalf": False}, REGULAR | OPENING),
        ({"crossed": True}, REGULAR | ON_BEHALF | OPENING | TradeCondition.CROSSED),
        ({"out_of_sequence": True}, REGULAR | ON_BEHALF | TradeCondition.OUT_OF_SEQUENCE),
        ({"trd_sub_type": TrdSubType.RFQ_TRADE}, ON_BEHALF | TradeCondition.BLOCK_TRADE),
        ({"trd_sub_type": TrdSubType.MIDPOINT_TRADE}, ON_BEHALF | TradeCondition.BLOCK_TRADE),
        ({"trd_sub_type": TrdSubType.BLOCK_BOOK_TRADE}, ON_BEHALF | TradeCondition.BLOCK_TRADE),
        ({"trd_sub_type": TrdSubType.LEG_TRADE}, ON_BEHALF | OPENING),
        ({"trd_sub_type": TrdSubType.MULTI_ASSET_TRADE}, ON_BEHALF | OPENING),
        ({"trd_sub_type": TrdSubType.RLP_TRADE}, ON_BEHALF | OPENING),
        ({"trd_sub_type": TrdSubType.SWEEP_TRADE}, REGULAR | ON_BEHALF | OPENING),
        ({"trd_sub_type": TrdSubType.TAC_TRADE}, REGULAR | ON_BEHALF | OPENING),
    ],
)
def test_000_13_3_3_conditions_of_trades_entered_by_hand(fields, condition):
    floor = Floor(share(), SPREAD)
    floor.do(EnterTrade(SHARE, px(10), 100, 11, 12, **fields))
    assert not floor.items(ExecutionSummary)
    (made,) = floor.items(Trade)
    assert made.trade_condition == condition
    assert made.trd_sub_type == fields.get("trd_sub_type")
    assert (made.buyer, made.seller, made.size) == (11, 12, 100)
    assert floor.items()[-1] == floor.items(ExecutionStatistics)[0]


@pytest.mark.parametrize(
    ("instrument", "fields", "reason"),
    [
        (share(), {"trd_sub_type": TrdSubType.RFQ_TRADE, "crossed": True}, "crossed"),
        (share(), {"trd_sub_type": TrdSubType.BLOCK_BOOK_TRADE, "crossed": True}, "crossed"),
        (share(), {"trd_sub_type": TrdSubType.MIDPOINT_TRADE, "crossed": True}, "crossed"),
        (share(), {"trd_sub_type": TrdSubType.LEG_TRADE}, "not a leg of any listed one"),
        (future(), {"trd_sub_type": TrdSubType.MIDPOINT_TRADE}, "derivative"),
        (future(), {"trd_sub_type": TrdSubType.MULTI_ASSET_TRADE}, "derivative"),
        (
            share(product=Product.GOVERNMENT),
            {"trd_sub_type": TrdSubType.RLP_TRADE},
            "fixed income",
        ),
    ],
)
def test_000_13_3_3_what_no_trade_can_be_is_refused(instrument, fields, reason):
    floor = Floor(instrument)
    with pytest.raises(UsageError, match=reason):
        floor.do(EnterTrade(SHARE, px(10), 100, 11, 12, **fields))
    assert not floor.shown(ExecutionStatistics)


def test_000_19_out_of_sequence_and_leg_trades_are_not_the_last_price():
    floor = Floor(share(), SPREAD)
    trade(floor, 10)
    floor.do(EnterTrade(SHARE, px(12), 5, out_of_sequence=True))
    floor.do(EnterTrade(SHARE, px(13), 5, trd_sub_type=TrdSubType.LEG_TRADE))
    assert [item.price for item in floor.shown(LastTradePrice)] == [px(10)]
    (figures,) = floor.shown(ExecutionStatistics)
    assert (figures.trade_volume, figures.number_of_trades) == (20, 3)
    trade(floor, 10)
    assert floor.items(Trade)[0].trade_condition & SAME


def test_a_trade_entered_by_hand_can_carry_its_own_time():
    floor = Floor()
    floor.do(EnterTrade(SHARE, px(10), 5, transact_time_ns=123))
    assert floor.items(Trade)[0].transact_time_ns == 123
    assert floor.items(ExecutionStatistics)[0].time_ns == floor.now


def test_000_13_5_forward_trade():
    forward = share(security_type=SecurityType.FORWARD, underlyings=(Underlying(1, "A"),))
    floor = Floor(forward)
    floor.do(EnterTrade(SHARE, px(10), 5, 11, 12, seller_days=30, interest_rate=150))
    assert not floor.items(ExecutionSummary, Trade)
    (made,) = floor.items(ForwardTrade)
    assert (made.seller_days, made.interest_rate) == (30, 150)
    (last,) = floor.shown(LastTradePrice)
    assert (last.seller_days, last.interest_rate) == (30, 150)
    floor.do(BustTrade(SHARE, made.trade_id))
    assert floor.items(TradeBust)


def test_an_amended_trade_is_published_again_under_its_number():
    floor = Floor()
    number = trade(floor, 10)
    trade(floor, 11)
    floor.do(AmendTrade(SHARE, number, price=px(12), quantity=30, transact_time_ns=55))
    assert not floor.items(ExecutionSummary)
    (made,) = floor.items(Trade)
    assert (made.trade_id, made.price, made.size) == (number, px(12), 30)
    assert made.transact_time_ns == 55
    assert made.trade_condition & ON_BEHALF
    # It is not the last trade: receivers must not use it as the last price.
    assert made.trade_condition & TradeCondition.OUT_OF_SEQUENCE
    assert [(type(i), i.price) for i in floor.items(OpeningPrice, HighPrice, LowPrice)] == [
        (OpeningPrice, px(12)),
        (HighPrice, px(12)),
        (LowPrice, px(11)),
    ]
    (figures,) = floor.items(ExecutionStatistics)
    assert (figures.trade_volume, figures.number_of_trades) == (40, 2)
    assert floor.shown(LastTradePrice)[0].price == px(11)
    floor.do(BustTrade(SHARE, number))
    assert floor.items(TradeBust)[0].price == px(12)


def test_000_13_3_the_last_trade_amended_is_the_last_price():
    floor = Floor(share(previous_close=9 * 10**8))
    trade(floor, 10)
    number = trade(floor, 11)
    for price, same in ((10, True), (12, False)):
        floor.do(AmendTrade(SHARE, number, price=px(price)))
        (made,) = floor.items(Trade)
        assert not made.trade_condition & TradeCondition.OUT_OF_SEQUENCE
        assert bool(made.trade_condition & SAME) == same
        assert floor.shown(LastTradePrice)[0].price == px(price)
        (figures,) = floor.items(ExecutionStatistics)
        assert figures.net_chg_prev_day8 == (price - 9) * 10**8
    floor.do(BustTrade(SHARE, number))
    assert floor.shown(LastTradePrice)[0].price == px(12)


def test_000_13_3_the_last_price_is_always_that_of_the_last_trade_in_sequence():
    floor = Floor()
    numbers = [trade(floor, price) for price in (10, 11, 12)]
    last = floor.shown(LastTradePrice)[0].price
    for number, price in zip(numbers * 2, (13, 12, 11, 10, 9, 12), strict=True):
        floor.do(AmendTrade(SHARE, number, price=px(price)))
        (made,) = floor.items(Trade)
        if not made.trade_condition & TradeCondition.OUT_OF_SEQUENCE:
            last = made.price
        assert floor.shown(LastTradePrice)[0].price == last


def test_000_13_9_3_the_close_is_that_of_the_regular_session():
    floor = Floor()
    trade(floor, 10)
    after = TradingSession.NON_REGULAR
    floor.do(SetGroupPhase("XX", TradingStatus.OPEN, session=after, new_session=True))
    trade(floor, 15)
    listing = floor.engine.market.listing(SHARE)
    assert regular_close(listing) == px(10)
    floor.do(StartDay(DAY + timedelta(1)))
    (close,) = floor.shown(ClosingPrice)
    assert close.price8 == 10 * 10**8


def test_exchange_cancels_an_order():
    floor = Floor()
    order = floor.order(BUY, 10, 10)
    (accepted,) = floor.reports(OrderAccepted)
    floor.do(ExpelOrder(accepted.order_id))
    assert [type(item) for item in floor.items()] == [DeleteOrderMbo]
    (gone,) = floor.reports(OrderCancelled)
    assert (gone.cl_ord_id, gone.reason) == (order, ExecRestatementReason.MARKET_OPTION)
    with pytest.raises(UsageError, match="no active order"):
        floor.do(ExpelOrder(accepted.order_id))


def test_deletion_of_a_side_moves_the_theoretical_price():
    floor = Floor(phase=TradingStatus.RESERVED)
    floor.order(BUY, 10, 10)
    floor.order(SELL, 10, 10, session=2)
    floor.do(DeleteSide(SHARE, SELL))
    assert [type(item) for item in floor.items()][:2] == [MassDeleteOrders, TheoreticalOpeningPrice]
    assert floor.items(TheoreticalOpeningPrice)[0].deleted
    floor.do(DeleteSide(SHARE, SELL))
    assert not floor.last.market


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (EnterImplied(SHARE, SELL, px(9.99), 10), "must not cross"),
        (EnterImplied(SHARE, BUY, px(10.5), 10), "must not cross"),
        (EnterImplied(SHARE, SELL, px(11), 0), "quantity greater than zero"),
        (EnterImplied(SHARE, SELL, px(11) + 1, 5), "multiple of its tick"),
        (EnterImplied(OTHER, SELL, px(11), 5), "not eligible"),
    ],
)
def test_an_impossible_implied_order_is_refused(command, reason):
    floor = Floor(future(implied_market_indicator=True), future(OTHER))
    floor.order(BUY, 1, 10)
    floor.order(SELL, 1, 10.5)
    with pytest.raises(UsageError, match=reason):
        floor.do(command)


def test_000_6_5_13_book_reset_sends_the_orders_again_as_recovery():
    floor = Floor()
    floor.order(BUY, 10, 10)
    floor.order(BUY, 20, 9, max_floor=5)
    floor.order(SELL, 30, 11)
    before = floor.engine.book(SHARE)
    floor.do(ResetBook(SHARE))
    unit = floor.unit()
    assert unit.event
    empty, *orders = unit.items
    assert isinstance(empty, EmptyBook)
    assert all(isinstance(order, NewOrderMbo) and order.recovery for order in orders)
    assert [(o.side, o.price, o.size, o.position) for o in orders] == [
        (BUY, px(10), 10, 1),
        (BUY, px(9), 5, 2),
        (SELL, px(11), 30, 1),
    ]
    assert floor.engine.book(SHARE) == before
    floor.check_feed()


@pytest.mark.parametrize(
    ("command", "first"), [(ResetChannel(1), ChannelReset), (ResetStream(1), SequenceReset)]
)
def test_000_6_5_12_channel_reset_sends_the_existing_books(command, first):
    floor = Floor(share(), share(OTHER), share(OTHER + 1, channel=2))
    floor.order(BUY, 10, 10)
    trade(floor, 11)
    floor.order(BUY, 10, 10, security_id=OTHER + 1)
    figures = floor.shown()
    floor.do(command)
    reset, book = floor.last.market
    assert not reset.event
    assert [type(item) for item in reset.items] == [first]
    assert book.event
    assert {item.security_id for item in floor.items(EmptyBook, NewOrderMbo)} == {SHARE}
    # Statistics are unchanged.
    assert floor.shown() == figures
    with pytest.raises(UsageError, match="no instrument is on channel 9; choose from 1, 2"):
        floor.do(replace(command, channel=9))


def test_an_instrument_is_listed_changed_and_removed_during_the_day():
    floor = Floor()
    fresh = share(OTHER)
    floor.do(AddInstrument(fresh))
    (definition,) = floor.items()
    assert definition == SecurityDefinition(SecurityUpdateAction.ADD, fresh, floor.now)
    floor.order(BUY, 15, 10, security_id=OTHER)
    assert floor.reject_code() is None
    floor.order(BUY, 5, 10, security_id=OTHER, time_in_force=TimeInForce.AT_THE_CLOSE)
    changed = share(OTHER, min_lot_size=100, min_order_qty=100)
    floor.do(ChangeInstrument(changed))
    assert floor.items()[0].action == SecurityUpdateAction.MODIFY
    floor.order(BUY, 15, 10, security_id=OTHER)
    assert floor.reject_code() == 2115
    floor.do(RemoveInstrument(OTHER))
    assert [type(item) for item in floor.items()] == [MassDeleteOrders, SecurityDefinition]
    assert len(floor.reports(OrderCancelled)) == 2
    floor.order(BUY, 100, 10, security_id=OTHER)
    assert floor.reject_code() == 2047


def test_002_10_1_a_relisted_instrument_continues_its_trade_numbers():
    floor = Floor(share(), share(OTHER))

    def traded():
        floor.order(BUY, 100, 10, security_id=OTHER)
        floor.order(SELL, 100, 10, security_id=OTHER)
        return floor.items(Trade)[0].trade_id

    assert [traded(), traded()] == [10, 20]
    floor.do(RemoveInstrument(OTHER))
    floor.do(AddInstrument(share(OTHER)))
    # Numbers are unique for instrument and trading date; those of the next day start again.
    assert traded() == 30
    floor.do(RemoveInstrument(OTHER))
    floor.do(StartDay(floor.engine.trade_date + timedelta(1)))
    floor.do(AddInstrument(share(OTHER)))
    floor.do(SetGroupPhase("XX", TradingStatus.OPEN))
    assert traded() == 10


def test_a_removed_instrument_no_longer_follows_its_group():
    floor = Floor(share(), share(OTHER))
    floor.do(SetSecurityStatus(OTHER, TradingStatus.PAUSE))
    floor.do(RemoveInstrument(OTHER))
    floor.do(SetGroupPhase("XX", TradingStatus.RESERVED))
    assert not floor.items(SecurityStatus)
    assert [instrument.security_id for instrument in floor.engine.instruments] == [SHARE]


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (AddInstrument(share()), "already listed"),
        (ChangeInstrument(share(OTHER)), "security ID"),
        (ChangeInstrument(share(security_group="YY")), "cannot change its group"),
        (ChangeInstrument(share(market_segment_id=72)), "or market segment during the day"),
        (RemoveInstrument(OTHER), "security ID"),
        (BustTrade(OTHER, 10), "security ID"),
        (EnterTrade(SHARE, px(10), 0), "quantity of a trade must be"),
        (EnterTrade(SHARE, 0, 10), "must be greater than zero"),
        (EnterTrade(SHARE, px(10), 10, seller_days=5), "not a forward"),
        (AmendTrade(SHARE, 10), "no trade 10"),
        (SetOpenInterest(SHARE, -1), "must not be negative"),
        (PublishNews("a", "b", security_id=OTHER), "security ID"),
        (ResetBook(OTHER), "security ID"),
    ],
)
def test_errors_are_reported_and_change_nothing(command, reason):
    floor = Floor()
    floor.order(BUY, 10, 10)
    before = floor.engine.book(SHARE)
    with pytest.raises(UsageError, match=reason):
        floor.do(command)
    assert floor.engine.book(SHARE) == before


def test_something_that_is_no_command_is_refused():
    floor = Floor()
    with pytest.raises(UsageError, match="str is not a command"):
        floor.engine.apply("open sesame", floor.now)
    with pytest.raises(UsageError, match="two instruments"):
        Floor(share(), share())


def test_000_13_11_3_settlement_prices_on_their_schedule():
    floor = Floor(future(price_type=PriceType.PERCENTAGE))
    steps = (
        (PREVIOUS, SettlPriceType.FINAL),
        (PREVIOUS, SettlPriceType.UPDATED),
        (DAILY, SettlPriceType.UPDATED),
        (DAILY, SettlPriceType.FINAL),
    )
    for number, (flag, kind) in enumerate(steps):
        floor.do(SetSettlementPrice(SHARE, px(10 + number), flag, kind))
        unit = floor.unit()
        assert not unit.event
        assert unit.items == [
            SettlementPrice(
                SHARE,
                px(10 + number),
                flag,
                PriceType.PERCENTAGE,
                kind,
                day_number(DAY),
                floor.now,
                day_number(DAY) if flag == DAILY else None,
            )
        ]
    # The latest for each day is valid.
    assert [(s.flag, s.price) for s in floor.shown(SettlementPrice)] == [
        (PREVIOUS, px(11)),
        (DAILY, px(13)),
    ]


def test_000_13_11_3_a_settlement_price_can_name_its_date():
    floor = Floor(future())
    for named in (date(1970, 1, 1), date(2026, 5, 20), date(2149, 6, 5)):
        floor.do(SetSettlementPrice(SHARE, px(10), PREVIOUS, settl_date=named))
        (item,) = floor.unit().items
        assert (item.flag, item.trade_date, item.settl_date) == (
            PREVIOUS,
            day_number(DAY),
            day_number(named),
        )
    for named in (date(1969, 12, 31), date(2149, 6, 6), date.max):
        with pytest.raises(UsageError, match=f"from 1970-01-01 to 2149-06-05, was {named}"):
            floor.do(SetSettlementPrice(SHARE, px(11), settl_date=named))
    assert [(s.flag, s.price) for s in floor.shown(SettlementPrice)] == [(PREVIOUS, px(10))]


def test_closing_price_open_interest_and_last_trade_are_published_separately():
    floor = Floor()
    floor.do(SetClosingPrice(SHARE, 1_000_000_001, PREVIOUS, date(2026, 5, 19)))
    assert floor.unit().items == [
        ClosingPrice(
            SHARE,
            1_000_000_001,
            PREVIOUS,
            day_number(date(2026, 5, 19)),
            day_number(DAY),
            floor.now,
        )
    ]
    assert not floor.unit().event
    floor.do(SetOpenInterest(SHARE, 77))
    assert floor.unit().items == [OpenInterest(SHARE, 77, day_number(DAY), floor.now)]
    floor.do(AdjustLastTrade(SHARE, px(10), 5))
    (last,) = floor.unit().items
    assert isinstance(last, LastTradePrice)
    assert (last.price, last.size, last.trade_condition) == (px(10), 5, 0)
    assert floor.shown(LastTradePrice) == [last]


def test_news_on_an_instrument_or_on_the_market():
    floor = Floor()
    floor.do(PublishNews("Fato relevante", "á" * 3000, "http://example.org", security_id=SHARE))
    assert floor.unit().items == [
        News(
            SHARE,
            NewsSource.MARKET_SURVEILLANCE,
            None,
            None,
            floor.now,
            "Fato relevante",
            "á" * 3000,
            "http://example.org",
        )
    ]
    assert not floor.unit().event
    floor.do(PublishNews("Aviso", "", language="pt", news_id=5))
    (item,) = floor.items(News)
    assert (item.security_id, item.language, item.news_id) == (None, "pt", 5)


@settings(max_examples=60, deadline=None)
@given(
    trades=st.lists(st.tuples(st.integers(90, 110), st.integers(1, 50)), min_size=1, max_size=12),
    busted=st.lists(st.integers(0, 11), max_size=6, unique=True),
    crossed=st.booleans(),
)
def test_000_13_8_statistics_are_exact_after_any_trades_and_busts(trades, busted, crossed):
    floor = Floor(share(previous_close=10**9))
    numbers = []
    for ticks, quantity in trades:
        if crossed:
            floor.do(EnterTrade(SHARE, ticks * 100, quantity, crossed=True))
            numbers.append(floor.items(Trade)[0].trade_id)
        else:
            numbers.append(trade(floor, ticks / 100, quantity))
    left = list(zip(numbers, trades, strict=True))
    for index in busted:
        if index < len(trades):
            floor.do(BustTrade(SHARE, numbers[index]))
            left = [entry for entry in left if entry[0] != numbers[index]]
    (figures,) = floor.shown(ExecutionStatistics)
    volume = sum(quantity for _, (_, quantity) in left)
    notional = sum(ticks * 100 * quantity for _, (ticks, quantity) in left)
    assert figures.trade_volume == volume
    assert figures.number_of_trades == len(left)
    if not left:
        assert figures.vwap_px is None
        assert not floor.shown(OpeningPrice, HighPrice, LowPrice, LastTradePrice)
        return
    assert abs(figures.vwap_px * volume - notional) * 2 <= volume
    # Busts change no price while a trade is left (§19).
    prices = [ticks * 100 for ticks, _ in trades]
    assert [item.price for item in floor.shown(HighPrice)] == [max(prices)]
    assert [item.price for item in floor.shown(LowPrice)] == [min(prices)]
    assert [item.price for item in floor.shown(OpeningPrice)] == [prices[0]]
    assert [item.price for item in floor.shown(LastTradePrice)] == [prices[-1]]
    assert figures.net_chg_prev_day8 == prices[-1] * 10_000 - 10**9
