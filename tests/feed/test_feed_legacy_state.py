"""State of a legacy channel other than books: instruments, phases, statistics, trades, news."""

from __future__ import annotations

from decimal import Decimal

import pytest

from pregao.feed.legacy.state import LegacyState, StatisticKey
from pregao.legacy.loop_line import LoopEnded, LoopMessage
from pregao.legacy.messages import MessageReader
from pregao.legacy.reassembly import AssembledMessage
from pregao.umdf.phases import GroupKey, Status
from tests.legacy.writing import SENT, entry, message

READER = MessageReader()
TODAY = {"MDEntryDate": 20130812}


def read(template, number=1, **values):
    return READER.read(AssembledMessage(number, message(template, number, **values)))


def apply_entries(state, *entries):
    own = [{"MDEntryTime": 120000000, **each} for each in entries]
    state.message(read("IncrementalRefresh_152", MDEntries=own))


def row(security, symbol, group="DI", action="A"):
    return {
        "Symbol": symbol, "SecurityID": security, "ApplIDs": [{"ApplID": "10"}],
        "SecurityUpdateAction": action, "Product": 4, "SecurityType": "FUT",
        "SecuritySubType": "1", "SecurityDesc": symbol, "CFICode": "F", "CountryOfIssue": "BR",
        "IssueDate": 20130101, "SecurityValidityTimestamp": 0, "SecurityGroup": group,
    }  # fmt: skip


def listed(number, rows, total, last):
    return read(
        "SecurityList_149", number, TotNoRelatedSym=total, LastFragment=last, RelatedSym=rows,
        SendingTime=str(SENT),
    )  # fmt: skip


def status(state, **values):
    state.message(read("SecurityStatus_142", TradeDate=20130812, TransactTime=SENT, **values))


def market():
    state = LegacyState()
    state.message(listed(1, [row(1, "DI1F14"), row(2, "DI1F15"), row(3, "DOLF14", "US")], 3, "Y"))
    return state


@pytest.mark.parametrize("last", ["Y", "1"])
def test_002_5_3_4_the_list_of_instruments_is_complete_with_the_last_fragment(last):
    state = LegacyState()
    state.message(listed(9, [row(9, "OLD")], 1, "Y"))
    state.definition(LoopMessage(1, listed(2, [row(3, "DOLF14")], 3, last)))
    assert not state.complete  # the first message of the loop is missing
    state.definition(LoopEnded(1))
    state.definition(LoopMessage(2, listed(1, [row(1, "DI1F14"), row(2, "DI1F15")], 3, "N")))
    assert not state.complete
    state.definition(LoopMessage(2, listed(2, [row(3, "DOLF14")], 3, last)))
    assert state.complete
    assert sorted(state.instruments) == [1, 2, 3]


def test_002_8_instruments_are_created_changed_and_deleted_during_the_day():
    state = market()
    state.message(listed(5, [row(4, "DI1F16")], 1, "Y"))
    state.message(listed(6, [row(4, "DI1F17", action="M")], 1, "Y"))
    assert state.instruments[4].symbol == "DI1F17"
    state.message(listed(7, [row(4, "DI1F17", action="D")], 1, "Y"))
    assert 4 not in state.instruments


def test_002_11_a_group_is_its_code_and_exchange():
    state = market()
    status(state, SecurityGroup="DI", SecurityExchange="BVMF", TradingSessionSubID="17")
    assert [state.phases.status(each) for each in (1, 2, 3)] == [
        Status.OPEN, Status.OPEN, Status.UNKNOWN,
    ]  # fmt: skip
    status(state, SecurityGroup="DI", SecurityExchange="XBSP", TradingSessionSubID="4")
    assert state.phases.status(1) is Status.OPEN
    assert state.phases.phase(GroupKey("DI", "XBSP")) is Status.CLOSE


def test_002_15_6_an_instrument_leaves_its_group_and_rejoins_it():
    state = market()
    open_group = {"SecurityGroup": "DI", "TradingSessionSubID": "17"}
    status(state, **open_group)
    # Following: its own state separates it, be it another one or the same.
    status(state, SecurityID=1, SecurityTradingStatus=2)
    assert (state.phases.status(1), state.phases.is_separate(1)) == (Status.PAUSE, True)
    # Separated: the phase of the group never lets it rejoin.
    status(state, SecurityGroup="DI", TradingSessionSubID="02")
    assert state.phases.is_separate(1)
    status(state, **open_group)
    assert state.phases.status(1) is Status.PAUSE
    # Separated: another state replaces its own, the group's lets it rejoin.
    status(state, SecurityID=1, SecurityTradingStatus=18)
    assert state.phases.status(1) is Status.FORBIDDEN
    status(state, SecurityID=1, SecurityTradingStatus=17)
    assert (state.phases.status(1), state.phases.is_separate(1)) == (Status.OPEN, False)
    status(state, SecurityGroup="DI", TradingSessionSubID="04")
    assert state.phases.status(1) is Status.CLOSE
    # Following, with the state that the group has: it separates all the same.
    status(state, SecurityID=2, SecurityTradingStatus=4)
    assert state.phases.is_separate(2)


def test_002_11_3_a_new_session_resets_its_statistics():
    state = market()
    for kind in ("3", "4", "5", "6", "7", "8", "9", "A", "B", "C"):
        apply_entries(state, entry(kind, 0, 1, 1, size=1, price="1"))
    apply_entries(state, entry("4", 0, 1, 2, price="1", OpenCloseSettlFlag=5))
    apply_entries(state, entry("2", 0, 1, 3, price="1", size=5, TradeVolume=50))
    assert state.volumes == {(1, "E"): 50}
    status(state, SecurityGroup="DI", TradingSessionSubID="17", SecurityTradingEvent=4)
    assert {key.entry_type for key in state.statistics[1]} == {"5", "6", "C"}
    assert state.volumes == {}


def test_002_10_statistics_of_venues_are_kept_separately():
    state = market()
    apply_entries(state, entry("B", 0, 1, 1, size=10, price="100"))
    apply_entries(state, entry("B", 0, 1, 2, size=3, price="30", MDStreamID="O"))
    kept = state.statistics[1]
    assert kept[StatisticKey("B", "E")]["MDEntrySize"] == 10
    assert kept[StatisticKey("B", "O")]["MDEntrySize"] == 3


def test_002_10_6_settlement_prices_of_both_days_are_kept():
    state = market()
    apply_entries(state, entry("6", 0, 1, 1, price="99.5", OpenCloseSettlFlag=4, SettlPriceType=1))
    apply_entries(state, entry("6", 0, 1, 2, price="99.7", OpenCloseSettlFlag=0, SettlPriceType=2))
    assert {key.kind for key in state.statistics[1]} == {0, 4}


def test_002_10_7_the_theoretical_price_is_cleared_when_the_auction_ends():
    state = market()
    status(state, SecurityGroup="DI", TradingSessionSubID="21")
    for security in (1, 2):
        apply_entries(state, entry("4", 0, security, 1, price="9", OpenCloseSettlFlag=5))
        apply_entries(state, entry("A", 0, security, 2, size=100, TradeCondition="P"))
    apply_entries(state, entry("4", 0, 1, 3, price="8"))
    status(state, SecurityID=2, SecurityTradingStatus=21)  # its auction continues
    status(state, SecurityGroup="DI", TradingSessionSubID="17")
    assert list(state.statistics[1]) == [StatisticKey("4", "E")]
    assert len(state.statistics[2]) == 2


def test_002_15_8_puma_deletes_the_theoretical_price():
    state = market()
    apply_entries(state, entry("4", 0, 1, 1, price="9", OpenCloseSettlFlag=5))
    apply_entries(state, entry("4", 2, 1, 2, OpenCloseSettlFlag=5))
    assert state.statistics[1] == {}


def test_002_10_1_trades_busts_and_what_is_no_trade():
    state = market()
    apply_entries(
        state,
        entry("2", 0, 1, 1, price="10", size=100, TradeID="10", MDEntryBuyer="3", **TODAY),
        entry("2", 0, 1, 2, price="11", size=50, TradeID="20", TradeCondition="X L", **TODAY),
        entry("2", 0, 1, 3, price="9", TradeCondition="U", **TODAY),
        entry("2", 2, 1, 4, price="10", TradeID="10", **TODAY),
    )
    trades = state.take_trades()
    assert [(trade.trade_id, trade.size, trade.busted) for trade in trades] == [
        ("10", 100, False), ("20", 50, False), ("10", None, True),
    ]  # fmt: skip
    assert trades[1].conditions == {"X", "L"}
    assert trades[0].buyer == "3"
    assert state.take_trades() == []
    assert state.statistics[1][StatisticKey("2", "E")]["MDEntryPx"] == Decimal(9)


def test_002_10_1_note_1_the_last_trade_is_that_of_the_latest_time_and_number():
    state = market()
    for number, time in (("2", 120000500), ("1", 120000400), ("3", 120000500)):
        trade = entry("2", 0, 1, 1, price=number, size=1, TradeID=number, **TODAY)
        apply_entries(state, {**trade, "MDEntryTime": time})
        if number != "3":
            assert state.last_trades[1, "E"].trade_id == "2"
    assert state.last_trades[1, "E"].trade_id == "3"


def test_002_10_11_news():
    state = market()
    state.message(read("News_143", Headline="aviso", LinesOfText=[{"Text": "leilão"[:4]}]))
    assert [each["Headline"] for each in state.news] == ["aviso"]


def test_002_11_4_snapshots_carry_states_and_statistics():
    state = market()
    rows = [
        {"MDEntryType": "c", "TradingSessionSubID": "17", "SecurityTradingStatus": 2},
        {"MDEntryType": "7", "MDEntryPx": Decimal("12.5")},
        {"MDEntryType": "0", "MDEntryPx": Decimal(12), "MDEntrySize": 1},
    ]
    state.snapshot(
        read(
            "SnapshotFullRefresh_153",
            LastMsgSeqNumProcessed=1,
            RptSeq=1,
            SecurityID=1,
            MDEntries=rows,
        )
    )
    assert state.phases.status(1) is Status.PAUSE
    assert state.phases.status(2) is Status.OPEN
    assert list(state.statistics[1]) == [StatisticKey("7", "E")]
