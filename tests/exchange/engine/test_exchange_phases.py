"""Phases of groups and states of instruments (000 §14), trading days and the passing of time."""

from __future__ import annotations

from datetime import date

import pytest

from pregao.clock import MINUTE
from pregao.errors import UsageError
from pregao.exchange.engine.model.enums import (
    OpenCloseSettlFlag,
    OrdStatus,
    TimeInForce,
    TradingSession,
    TradingStatus,
)
from pregao.exchange.engine.model.events import (
    AuctionImbalance,
    ClosingPrice,
    DeleteOrderMbo,
    ExecutionStatistics,
    HighPrice,
    LastTradePrice,
    LowPrice,
    OpeningPrice,
    SecurityGroupPhase,
    SecurityStatus,
    TheoreticalOpeningPrice,
    Trade,
    TradeBust,
)
from pregao.exchange.engine.model.operations_commands import (
    AdvanceTime,
    BustTrade,
    EndDay,
    RejoinGroup,
    SetClosingPrice,
    SetGroupPhase,
    SetSecurityStatus,
    StartDay,
)
from pregao.exchange.engine.model.reports import OrderCancelled
from pregao.exchange.engine.phases.trading_phases import ruling
from pregao.umdf.phases import TradingEvent
from pregao.units import day_number
from tests.exchange.floor import BUY, DAY, OTHER, SELL, SHARE, Floor, px, share

PAUSE, CLOSE, OPEN = TradingStatus.PAUSE, TradingStatus.CLOSE, TradingStatus.OPEN
FORBIDDEN, RESERVED = TradingStatus.FORBIDDEN, TradingStatus.RESERVED
FINAL = TradingStatus.FINAL_CLOSING_CALL
PREVIOUS = OpenCloseSettlFlag.ENTRY_FROM_PREVIOUS_BUSINESS_DAY
REJOINS = TradingEvent.SECURITY_REJOINS_SECURITY_GROUP_STATUS
CHANGED = TradingEvent.SECURITY_STATUS_CHANGE


@pytest.mark.parametrize(
    ("phase", "own", "expected"),
    [
        (OPEN, None, OPEN),
        (OPEN, PAUSE, PAUSE),
        (OPEN, RESERVED, RESERVED),
        (OPEN, CLOSE, CLOSE),
        (PAUSE, OPEN, PAUSE),
        (PAUSE, RESERVED, PAUSE),
        (PAUSE, CLOSE, CLOSE),
        (CLOSE, OPEN, CLOSE),
        (CLOSE, RESERVED, CLOSE),
        (FORBIDDEN, OPEN, FORBIDDEN),
        (FORBIDDEN, RESERVED, RESERVED),
        (RESERVED, OPEN, RESERVED),
        (RESERVED, PAUSE, PAUSE),
        (FINAL, OPEN, FINAL),
        (FINAL, RESERVED, RESERVED),
        *[(phase, FORBIDDEN, FORBIDDEN) for phase in (OPEN, PAUSE, CLOSE, RESERVED, FINAL)],
    ],
)
def test_000_14_the_more_restrictive_of_group_and_instrument_rules(phase, own, expected):
    assert ruling(phase, own) == expected


def test_a_closed_group_closes_an_instrument_with_its_own_state():
    floor = Floor()
    floor.do(SetSecurityStatus(SHARE, OPEN))
    floor.do(SetGroupPhase("XX", CLOSE))
    floor.order(BUY, 1, 10)
    assert floor.reject_code() == 1003
    view = floor.engine.book(SHARE)
    assert (view.ruling_status, view.security_status.status) == (CLOSE, OPEN)


def test_000_14_2_an_auction_continues_in_pre_close():
    floor = Floor(share(), share(OTHER))
    floor.do(SetSecurityStatus(SHARE, RESERVED))
    floor.do(SetGroupPhase("XX", FORBIDDEN))
    floor.order(BUY, 1, 10)
    assert floor.reject_code() is None
    floor.order(BUY, 1, 10, security_id=OTHER)
    assert floor.reject_code() == 7029


def test_000_14_2_an_auction_of_the_group_continues_in_pre_close_until_its_end():
    floor = Floor(share(), share(OTHER), phase=CLOSE)
    end = floor.now + MINUTE
    floor.do(SetGroupPhase("XX", RESERVED, open_time_ns=end))
    floor.do(SetSecurityStatus(OTHER, PAUSE))
    floor.order(BUY, 10, 10)
    floor.order(SELL, 4, 10, session=2)
    (price,) = floor.shown(TheoreticalOpeningPrice)
    floor.do(SetGroupPhase("XX", FORBIDDEN))
    # Its own state comes before the phase, so that receivers keep the theoretical price.
    held, change = floor.last.market
    assert not held.event
    (status,) = held.items
    assert (status.security_id, status.status, status.event) == (SHARE, RESERVED, CHANGED)
    assert status.open_time_ns == end
    assert [item.phase for item in change.items] == [FORBIDDEN]
    assert floor.shown(TheoreticalOpeningPrice) == [price]
    floor.order(BUY, 1, 10)
    assert floor.reject_code() is None
    floor.do(AdvanceTime(), after=MINUTE)
    uncrossing, change = floor.last.market
    assert [trade.size for trade in uncrossing.items if isinstance(trade, Trade)] == [4]
    (status,) = change.items
    assert (status.status, status.event) == (FORBIDDEN, REJOINS)
    floor.order(BUY, 1, 10)
    assert floor.reject_code() == 7029
    floor.check_feed()


def test_000_14_2_an_auction_of_the_group_without_an_end_continues_in_pre_close():
    floor = Floor(share(), share(OTHER), phase=CLOSE)
    floor.do(SetGroupPhase("XX", RESERVED))
    floor.order(BUY, 10, 10)
    floor.order(SELL, 4, 10, session=2)
    floor.do(SetGroupPhase("XX", FORBIDDEN))
    *held, change = floor.last.market
    assert [(each.security_id, each.status) for unit in held for each in unit.items] == [
        (SHARE, RESERVED), (OTHER, RESERVED),
    ]  # fmt: skip
    assert [item.phase for item in change.items] == [FORBIDDEN]
    floor.do(AdvanceTime(), after=60 * MINUTE)
    assert not floor.last.market
    floor.do(RejoinGroup(SHARE))
    uncrossing, change = floor.last.market
    assert [trade.size for trade in uncrossing.items if isinstance(trade, Trade)] == [4]
    floor.order(BUY, 1, 10)
    assert floor.reject_code() == 7029
    floor.order(BUY, 1, 10, security_id=OTHER)
    assert floor.reject_code() is None
    floor.check_feed()


def test_000_14_2_an_auction_that_has_reached_its_end_trades_before_pre_close():
    floor = Floor(phase=CLOSE)
    floor.do(SetGroupPhase("XX", RESERVED, open_time_ns=floor.now + MINUTE))
    floor.order(BUY, 10, 10)
    floor.order(SELL, 4, 10, session=2)
    floor.do(SetGroupPhase("XX", FORBIDDEN), after=MINUTE)
    uncrossing, change = floor.last.market
    assert [trade.size for trade in uncrossing.items if isinstance(trade, Trade)] == [4]
    assert [item.phase for item in change.items] == [FORBIDDEN]
    floor.order(BUY, 1, 10)
    assert floor.reject_code() == 7029
    floor.check_feed()


@pytest.mark.parametrize("phase", [PAUSE, CLOSE])
def test_a_theoretical_price_is_deleted_where_the_groups_phase_ends_an_auction(phase):
    """The instrument's own state stays as published, so that no other message implies it."""
    floor = Floor()
    floor.do(SetSecurityStatus(SHARE, RESERVED))
    floor.order(BUY, 100, 10)
    floor.order(SELL, 200, 10)
    floor.do(SetGroupPhase("XX", phase))
    kinds = (TheoreticalOpeningPrice, AuctionImbalance)
    deleted = floor.items(*kinds)
    assert [type(item) for item in deleted] == list(kinds)
    assert all(item.deleted for item in deleted)


def test_000_14_2_in_pre_open_all_instruments_rejoin_but_the_forbidden():
    floor = Floor(share(), share(OTHER))
    floor.do(SetSecurityStatus(SHARE, PAUSE))
    floor.do(SetSecurityStatus(OTHER, FORBIDDEN))
    floor.do(SetGroupPhase("XX", RESERVED, open_time_ns=9_999))
    unit = floor.unit()
    assert not unit.event
    phase, rejoined = unit.items
    assert (phase.phase, phase.open_time_ns) == (RESERVED, 9_999)
    assert (rejoined.security_id, rejoined.status, rejoined.event) == (SHARE, RESERVED, REJOINS)
    assert rejoined.open_time_ns == 9_999
    floor.order(BUY, 1, 10, security_id=OTHER)
    assert floor.reject_code() == 7029


def test_000_14_a_forbidden_instrument_stays_so_until_it_rejoins_its_group():
    floor = Floor()
    floor.do(SetSecurityStatus(SHARE, FORBIDDEN))
    for phase in (CLOSE, RESERVED, OPEN):
        floor.do(SetGroupPhase("XX", phase, new_session=phase == CLOSE))
        floor.order(BUY, 1, 10)
        assert floor.reject_code() == 7029
    floor.do(StartDay(date(2026, 5, 22)))
    floor.order(BUY, 1, 10)
    assert floor.reject_code() == 7029
    floor.do(RejoinGroup(SHARE))
    floor.order(BUY, 1, 10)
    assert floor.reject_code() is None


def test_000_14_3_statistics_reset_on_a_change_of_session():
    floor = Floor()
    floor.order(BUY, 10, 10)
    floor.order(SELL, 10, 10, session=2)
    session_figures = (OpeningPrice, HighPrice, LowPrice, ExecutionStatistics, LastTradePrice)
    assert len(floor.shown(*session_figures)) == 5
    floor.do(SetGroupPhase("XX", OPEN, TradingSession.NON_REGULAR, new_session=True))
    (phase,) = floor.items()
    assert phase.event == TradingEvent.TRADING_SESSION_CHANGE
    assert phase.trading_session == TradingSession.NON_REGULAR
    assert not floor.shown(*session_figures)
    floor.order(BUY, 10, 10)
    floor.order(SELL, 10, 10, session=2)
    (trade,) = floor.items(Trade)
    # It opens the new session; trade numbers continue within the day.
    assert floor.items(OpeningPrice)
    assert (trade.trade_id, trade.trading_session) == (20, TradingSession.NON_REGULAR)
    assert floor.items(ExecutionStatistics)[0].number_of_trades == 1


def test_a_bust_of_an_earlier_session_leaves_the_figures_of_this_one_alone():
    floor = Floor()
    floor.order(BUY, 10, 10)
    floor.order(SELL, 10, 10, session=2)
    (old,) = floor.items(Trade)
    floor.do(SetGroupPhase("XX", OPEN, TradingSession.NON_REGULAR, new_session=True))
    floor.order(BUY, 12, 10)
    floor.order(SELL, 12, 10, session=2)
    floor.do(BustTrade(SHARE, old.trade_id))
    assert [bust.trade_id for bust in floor.items(TradeBust)] == [old.trade_id]
    (figures,) = floor.items(ExecutionStatistics)
    assert (figures.number_of_trades, figures.trade_volume) == (1, 12)
    assert not floor.items(OpeningPrice)
    assert not floor.items(HighPrice)


def test_000_14_3_statistics_reset_of_one_instrument():
    floor = Floor()
    floor.order(BUY, 10, 10)
    floor.order(SELL, 10, 10, session=2)
    floor.do(SetSecurityStatus(SHARE, OPEN, new_session=True))
    (status,) = floor.items()
    assert status.event == TradingEvent.TRADING_SESSION_CHANGE
    assert not floor.shown(HighPrice, LowPrice, OpeningPrice, ExecutionStatistics)


def test_a_new_session_in_an_auction_republishes_the_theoretical_price():
    floor = Floor(phase=RESERVED)
    floor.order(BUY, 10, 10)
    floor.order(SELL, 10, 10, session=2)
    floor.do(SetGroupPhase("XX", RESERVED, new_session=True))
    assert floor.items(TheoreticalOpeningPrice)


def test_an_auction_of_one_instrument_ends_automatically_at_its_time():
    floor = Floor()
    end = floor.now + 5 * MINUTE
    floor.do(SetSecurityStatus(SHARE, RESERVED, open_time_ns=end))
    (status,) = floor.items()
    assert status.open_time_ns == end == floor.engine.next_due_ns
    floor.order(BUY, 10, 10)
    floor.order(SELL, 10, 10, session=2)
    assert not floor.items(Trade)
    # The order that comes later finds the auction already over, at the time it was due.
    floor.now = end + 1_000
    floor.order(BUY, 1, 9)
    assert [(t.size, t.transact_time_ns) for t in floor.items(Trade)] == [(10, end)]
    (status,) = floor.items(SecurityStatus)
    assert (status.status, status.event, status.transact_time_ns) == (OPEN, REJOINS, end)
    assert floor.engine.next_due_ns is None
    # The uncrossing, the state, and the order.
    assert len(floor.last.market) == 3
    floor.check_feed()


def test_time_alone_ends_auctions_in_the_order_of_their_ends():
    floor = Floor(share(), share(OTHER))
    start = floor.now
    floor.do(SetSecurityStatus(SHARE, RESERVED, open_time_ns=start + 2_000))
    floor.do(SetSecurityStatus(OTHER, RESERVED, open_time_ns=start + 1_000))
    assert floor.engine.next_due_ns == start + 1_000
    floor.do(AdvanceTime(), after=500)
    assert not floor.last.market
    floor.do(AdvanceTime(), after=5_000)
    assert [item.security_id for item in floor.items(SecurityStatus)] == [OTHER, SHARE]
    floor.do(AdvanceTime())
    assert not floor.last.market


def test_time_does_not_go_back():
    floor = Floor()
    with pytest.raises(UsageError, match="time must not decrease"):
        floor.engine.apply(AdvanceTime(), floor.now - 1)


def test_end_of_day_expires_day_orders():
    floor = Floor()
    day = floor.order(BUY, 1, 10)
    floor.order(BUY, 2, 10, time_in_force=TimeInForce.GOOD_TILL_CANCEL)
    floor.order(BUY, 3, 10, time_in_force=TimeInForce.GOOD_TILL_DATE, expire_date=date(2026, 5, 22))
    dated = floor.order(BUY, 4, 10, time_in_force=TimeInForce.GOOD_TILL_DATE, expire_date=DAY)
    closing = floor.order(BUY, 5, 10, time_in_force=TimeInForce.AT_THE_CLOSE)
    floor.do(SetGroupPhase("XX", CLOSE))
    floor.do(EndDay())
    unit = floor.unit()
    assert unit.event
    assert [type(item) for item in unit.items] == [DeleteOrderMbo, DeleteOrderMbo]
    reports = floor.reports(OrderCancelled)
    assert [report.cl_ord_id for report in reports] == [day, dated, closing]
    assert {report.status for report in reports} == {OrdStatus.EXPIRED}
    assert floor.book(BUY) == [(px(10), 2), (px(10), 3)]
    floor.check_feed()


def test_a_new_day_resets_numbers_and_statistics_and_publishes_the_close():
    floor = Floor(share(), share(OTHER), share(OTHER + 1))
    for security_id in (SHARE, OTHER):
        floor.order(BUY, 10, 10, security_id=security_id)
        floor.order(SELL, 10, 10, session=2, security_id=security_id)
    floor.do(SetClosingPrice(OTHER, 1_234_567_890))
    floor.do(StartDay(date(2026, 5, 22)))
    (phase,) = floor.items(SecurityGroupPhase)
    assert phase.event == TradingEvent.TRADING_SESSION_CHANGE
    assert phase.trade_date == day_number(date(2026, 5, 22))
    assert [(c.security_id, c.price8, c.flag) for c in floor.items(ClosingPrice)] == [
        (SHARE, 10 * 10**8, PREVIOUS),
        (OTHER, 1_234_567_890, PREVIOUS),
    ]
    assert not any(unit.event for unit in floor.last.market)
    floor.order(BUY, 10, 11)
    floor.order(SELL, 10, 11, session=2)
    assert floor.items(Trade)[0].trade_id == 10
    assert floor.items(OpeningPrice)[0].net_chg_prev_day8 == 10**8


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (SetGroupPhase("ZZ", OPEN), "group named 'ZZ'"),
        (SetGroupPhase("XX", TradingStatus.UNKNOWN_OR_INVALID), "cannot be set as a state"),
        (SetSecurityStatus(5, OPEN), "security ID 5"),
        (SetSecurityStatus(SHARE, TradingStatus.UNKNOWN_OR_INVALID), "cannot be set as a state"),
        (SetSecurityStatus(SHARE, RESERVED, open_time_ns=5), "must be in the future"),
        (RejoinGroup(SHARE), "already follows"),
        (StartDay(date(2026, 5, 20)), "is before"),
    ],
)
def test_errors_of_market_operations_are_reported_and_change_nothing(command, reason):
    floor = Floor()
    before = floor.engine.book(SHARE)
    with pytest.raises(UsageError, match=reason):
        floor.do(command)
    assert floor.engine.book(SHARE) == before
    assert floor.engine.trade_date == DAY


def test_due_actions_are_not_lost_when_a_command_is_refused():
    floor = Floor()
    end = floor.now + 1_000
    floor.do(SetSecurityStatus(SHARE, RESERVED, open_time_ns=end))
    floor.order(BUY, 10, 10)
    floor.order(SELL, 10, 10, session=2)
    with pytest.raises(UsageError, match="already follows"):
        floor.do(RejoinGroup(SHARE), after=5_000)
    floor.do(AdvanceTime())
    assert [(t.size, t.transact_time_ns) for t in floor.items(Trade)] == [(10, end)]
    floor.check_feed()


def test_a_new_day_ends_an_unended_previous_day():
    floor = Floor()
    floor.order(BUY, 1, 10)
    floor.order(BUY, 2, 10, time_in_force=TimeInForce.GOOD_TILL_CANCEL)
    floor.do(StartDay(DAY))
    assert len(floor.book(BUY)) == 2
    floor.do(StartDay(date(2026, 5, 22)))
    assert floor.book(BUY) == [(px(10), 2)]
    assert floor.reports(OrderCancelled)[0].status == OrdStatus.EXPIRED
    floor.check_feed()
