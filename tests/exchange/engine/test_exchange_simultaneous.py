"""Simultaneous auctions of two instruments (000 §15): both printed scenarios, and the window."""

from __future__ import annotations

import pytest

from pregao.clock import MILLISECOND, SECOND, parse_ns
from pregao.errors import UsageError
from pregao.exchange.engine.model.commands import CrossSide, MassCancel, NewCross
from pregao.exchange.engine.model.enums import PriceBandType, TradingStatus
from pregao.exchange.engine.model.events import News, SecurityStatus, Trade
from pregao.exchange.engine.model.operations_commands import (
    AdvanceTime,
    PairAuctions,
    RejoinGroup,
    RemoveInstrument,
    SetGroupPhase,
    SetPriceBand,
    SetSecurityStatus,
)
from pregao.exchange.engine.model.reports import OrderCancelled
from pregao.umdf.phases import TradingEvent
from tests.exchange.floor import BUY, OTHER, SELL, SHARE, Floor, future, px

DOL, WDO = SHARE, OTHER
OPEN, RESERVED = TradingStatus.OPEN, TradingStatus.RESERVED
DELAY = 5 * MILLISECOND
CHANGED = TradingEvent.SECURITY_STATUS_CHANGE


def at(time: str) -> int:
    return parse_ns(f"2026-05-21T{time}")


def pair(time: str, phase: TradingStatus = OPEN, **groups: str) -> Floor:
    instruments = (
        future(DOL, symbol="DOLF24", security_group=groups.get("dol", "XX")),
        future(WDO, symbol="WDOF24", security_group=groups.get("wdo", "XX")),
    )
    floor = Floor(*instruments, phase=phase, synchronism_ns=DELAY)
    floor.now = at(time)
    floor.do(PairAuctions(DOL, WDO), after=0)
    return floor


def go(floor: Floor, time: str, after: int = 0) -> None:
    floor.now = at(time) + after
    floor.do(AdvanceTime(), after=0)


def status(floor: Floor, security_id: int) -> TradingStatus:
    return floor.engine.book(security_id).ruling_status


def cross(floor: Floor, security_id: int) -> None:
    """Orders that will trade when the auction ends."""
    floor.order(BUY, 10, 10, security_id=security_id)
    floor.order(SELL, 10, 10, security_id=security_id, session=2)


def test_000_15_3_pre_open_auction_with_extension_in_a_single_contract():
    floor = pair("08:54:59", TradingStatus.CLOSE)
    floor.do(SetGroupPhase("XX", OPEN))
    for security_id in (DOL, WDO):
        floor.do(SetSecurityStatus(security_id, RESERVED, open_time_ns=at("09:00:00")))
        cross(floor, security_id)
    go(floor, "08:59:50")
    floor.do(SetSecurityStatus(DOL, RESERVED, open_time_ns=at("09:00:30")))
    go(floor, "09:00:00")
    # Step 3: WDO waits for an answer, without a scheduled end.
    (published,) = floor.items(SecurityStatus)
    assert (published.security_id, published.status, published.event) == (WDO, RESERVED, CHANGED)
    assert published.open_time_ns is None
    (news,) = floor.items(News)
    assert news.headline == "Auction for instrument WDOF24 - synchronization"
    assert news.text == "Call for instrument WDOF24 -Reason: synchronization"
    assert news.security_id == WDO
    # Steps 4 and 5: DOL cannot end yet.
    go(floor, "09:00:00", DELAY)
    assert [item.security_id for item in floor.items()] == [WDO]
    assert isinstance(floor.items()[0], News)
    assert [status(floor, each) for each in (DOL, WDO)] == [RESERVED, RESERVED]
    floor.order(BUY, 1, 9, security_id=WDO)
    assert floor.reject_code() is None
    # Steps 6 to 8: at the end of DOL both end, WDO first.
    go(floor, "09:00:30", DELAY - 1)
    assert status(floor, WDO) == RESERVED
    go(floor, "09:00:30", DELAY)
    assert [trade.security_id for trade in floor.items(Trade)] == [WDO, DOL]
    assert [item.security_id for item in floor.items(SecurityStatus)] == [WDO, DOL]
    assert [status(floor, each) for each in (DOL, WDO)] == [OPEN, OPEN]
    floor.check_feed()


def test_000_15_4_intraday_auction():
    floor = pair("11:59:59")
    floor.now = at("12:00:00")
    floor.do(SetSecurityStatus(DOL, RESERVED, open_time_ns=at("12:05:00")), after=0)
    dol, wdo = floor.items(SecurityStatus)
    assert (dol.security_id, dol.open_time_ns) == (DOL, at("12:05:00"))
    assert (wdo.security_id, wdo.status, wdo.open_time_ns) == (WDO, RESERVED, None)
    assert [news.security_id for news in floor.items(News)] == [WDO]
    for security_id in (DOL, WDO):
        cross(floor, security_id)
    go(floor, "12:04:20")
    floor.do(SetSecurityStatus(DOL, RESERVED, open_time_ns=at("12:05:30")))
    go(floor, "12:05:30")
    assert [status(floor, each) for each in (DOL, WDO)] == [RESERVED, RESERVED]
    floor.order(BUY, 1, 10, security_id=DOL)
    (rejected,) = floor.reports()
    assert rejected.code == 7153
    assert rejected.text == (
        "Instrument has an auction synchronism in progress "
        "'Instrument DOLF24 in Simultaneous Auction closing.'"
    )
    go(floor, "12:05:30", DELAY)
    assert [trade.security_id for trade in floor.items(Trade)] == [WDO, DOL]
    assert [status(floor, each) for each in (DOL, WDO)] == [OPEN, OPEN]


def test_000_15_2_2_in_the_window_nothing_is_accepted():
    floor = pair("12:00:00")
    order = floor.order(BUY, 1, 9, security_id=DOL)
    floor.do(SetSecurityStatus(DOL, RESERVED, open_time_ns=at("12:05:00")))
    go(floor, "12:05:00")
    floor.order(BUY, 1, 9, security_id=DOL)
    assert floor.reject_code() == 7153
    floor.do(NewCross(1, 1, DOL, 1, px(10), CrossSide(101, 91), CrossSide(101, 92)))
    assert [report.code for report in floor.reports()] == [7153, 7153]
    floor.modify(order, 2, security_id=DOL)
    assert floor.reject_code() == 7153
    floor.cancel(order, security_id=DOL)
    assert floor.reject_code() == 7153
    floor.do(MassCancel(1, 99))
    assert not floor.reports(OrderCancelled)
    floor.order(BUY, 1, 9, security_id=WDO)
    assert floor.reject_code() is None
    go(floor, "12:05:00", DELAY)
    floor.cancel(order, security_id=DOL)
    assert floor.reports(OrderCancelled)


def test_an_auction_that_a_band_calls_takes_the_pair_along():
    floor = pair("12:00:00")
    floor.do(SetPriceBand(DOL, PriceBandType.AUCTION_LIMITS, low=px(9), high=px(10)))
    floor.order(SELL, 5, 11, security_id=DOL)
    floor.order(BUY, 5, 11, security_id=DOL, session=2)
    assert [status(floor, each) for each in (DOL, WDO)] == [RESERVED, RESERVED]
    assert floor.engine.next_due_ns is not None
    floor.now = floor.engine.next_due_ns + DELAY
    floor.do(AdvanceTime(), after=0)
    assert [status(floor, each) for each in (DOL, WDO)] == [OPEN, OPEN]
    assert floor.items(Trade)


def test_000_15_1_an_auction_can_be_ended_by_hand_without_asking():
    floor = pair("12:00:00")
    floor.do(SetSecurityStatus(DOL, RESERVED, open_time_ns=at("12:05:00")))
    floor.do(RejoinGroup(DOL))
    assert [status(floor, each) for each in (DOL, WDO)] == [OPEN, RESERVED]
    floor.do(RejoinGroup(WDO))
    assert status(floor, WDO) == OPEN
    go(floor, "12:06:00")
    assert not floor.last.market


def test_groups_that_open_at_different_times_wait_for_each_other():
    floor = pair("08:00:00", RESERVED, dol="DD", wdo="WW")
    for security_id in (DOL, WDO):
        cross(floor, security_id)
    floor.do(SetGroupPhase("WW", OPEN))
    assert status(floor, WDO) == RESERVED
    assert [news.security_id for news in floor.items(News)] == [WDO]
    assert not floor.items(Trade)
    floor.do(SetGroupPhase("DD", OPEN))
    assert [trade.security_id for trade in floor.items(Trade)] == [DOL, WDO]
    assert [status(floor, each) for each in (DOL, WDO)] == [OPEN, OPEN]
    floor.check_feed()


def test_one_group_opens_both_together():
    floor = pair("08:00:00", RESERVED)
    floor.do(SetGroupPhase("XX", OPEN))
    assert [status(floor, each) for each in (DOL, WDO)] == [OPEN, OPEN]
    assert not floor.items(News)


@pytest.mark.parametrize("wait", [False, True])
def test_an_instrument_that_waits_for_a_delisted_one_ends_its_auction(wait):
    floor = pair("12:00:00")
    floor.do(SetSecurityStatus(DOL, RESERVED, open_time_ns=at("12:10:00")))
    assert status(floor, WDO) == RESERVED
    cross(floor, WDO)
    if wait:
        # WDO's own end comes first: it asks DOL, which cannot end yet.
        floor.do(SetSecurityStatus(WDO, RESERVED, open_time_ns=at("12:05:00")))
        go(floor, "12:05:00", DELAY)
        assert status(floor, WDO) == RESERVED
    floor.do(RemoveInstrument(DOL))
    assert [trade.security_id for trade in floor.items(Trade)] == [WDO]
    (rejoined,) = floor.items(SecurityStatus)
    assert (rejoined.security_id, rejoined.status) == (WDO, OPEN)
    assert rejoined.event == TradingEvent.SECURITY_REJOINS_SECURITY_GROUP_STATUS
    assert status(floor, WDO) == OPEN


def test_an_instrument_with_an_end_of_its_own_keeps_it_when_its_pair_is_delisted():
    floor = pair("12:00:00")
    for security_id in (DOL, WDO):
        floor.do(SetSecurityStatus(security_id, RESERVED, open_time_ns=at("12:05:00")))
    floor.do(RemoveInstrument(DOL))
    assert status(floor, WDO) == RESERVED
    go(floor, "12:05:00")
    assert status(floor, WDO) == OPEN


def test_a_pair_ends_with_one_of_its_instruments():
    floor = pair("12:00:00")
    with pytest.raises(UsageError, match="already paired with WDOF24"):
        floor.do(PairAuctions(DOL, WDO))
    with pytest.raises(UsageError, match="itself"):
        floor.do(PairAuctions(DOL, DOL))
    floor.do(RemoveInstrument(WDO))
    floor.do(SetSecurityStatus(DOL, RESERVED, open_time_ns=at("12:05:00")))
    go(floor, "12:05:00")
    assert status(floor, DOL) == OPEN
    with pytest.raises(UsageError, match="synchronism_ns must be"):
        Floor(synchronism_ns=2 * SECOND)
