"""State of a legacy channel other than books: instruments, phases, statistics, trades, news."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from pregao.feed.legacy.state import LegacyState, StatisticKey
from pregao.legacy.loop_line import LoopEnded, LoopMessage
from pregao.legacy.messages import MessageReader
from pregao.legacy.reassembly import AssembledMessage
from pregao.legacy.streams import MEGABOLSA
from pregao.umdf.phases import GroupKey, Status
from pregao.umdf.sequencing import PacketKey
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
    state.lost(PacketKey(1, 9))
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
    # Without a phase (tag 625) the state of the group (tag 326) is that of its instruments.
    status(state, SecurityGroup="US", SecurityTradingStatus=4)
    assert state.phases.status(3) is Status.CLOSE


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
    assert {key.entry_type for key in state.statistics[1]} == {"2", "5", "6", "C"}
    # The last trade stays, without its volume.
    last = state.statistics[1][StatisticKey("2", "E")]
    assert (last["MDEntryPx"], last["TradeVolume"]) == (1, None)
    assert state.volumes == {}


def test_002_11_3_a_snapshot_of_the_session_before_brings_nothing_of_it_back():
    state = market()
    status(state, SecurityGroup="DI", TradingSessionSubID="17", SecurityTradingEvent=4)
    of_session = [(kind, "1", {"MDEntrySize": 1}) for kind in "34789AB"]
    last = {"TradeID": "7", "MDEntrySize": 5, "TradeVolume": 50}
    state.snapshot(shown(1, *of_session, ("2", "10", last), ("6", "11", {})), PacketKey(1, 1))
    assert {key.entry_type for key in state.statistics[1]} == {"2", "6"}
    trade = state.statistics[1][StatisticKey("2", "E")]
    assert (trade["MDEntryPx"], trade["TradeVolume"], state.volumes) == (10, None, {})


def test_002_10_statistics_of_venues_are_kept_separately():
    state = market()
    apply_entries(state, entry("B", 0, 1, 1, size=10, price="100"))
    apply_entries(state, entry("B", 0, 1, 2, size=3, price="30", MDStreamID="O"))
    kept = state.statistics[1]
    assert kept[StatisticKey("B", "E")]["MDEntrySize"] == 10
    assert kept[StatisticKey("B", "O")]["MDEntrySize"] == 3


VENUES = ["E", "X", "S", "O", "C"]
reported = st.fixed_dictionaries(
    {
        "MDEntryType": st.sampled_from("2234789ABC"),
        "MDUpdateAction": st.sampled_from([0, 0, 0, 2]),
        "MDStreamID": st.sampled_from([None, *VENUES]),
        "MDEntryPx": st.integers(1, 99).map(Decimal),
        "MDEntrySize": st.integers(1, 9),
        "TradeID": st.integers(1, 3).map(str),
        "MDEntryTime": st.integers(120000000, 120000002),
        "TradeVolume": st.none() | st.integers(1, 99),
        "TradeCondition": st.sampled_from([None, None, "X", "U"]),
    }
)


def of_venue(state, venue):
    """Return the part of a state that concerns one venue."""
    statistics = state.statistics.get(1, {})
    return (
        {key: value for key, value in statistics.items() if key.stream_id == venue},
        {key: value for key, value in state.volumes.items() if key[1] == venue},
        {key: value for key, value in state.last_trades.items() if key[1] == venue},
        [trade for trade in state.take_trades() if trade.stream_id == venue],
    )


def trade_row(venue, time):
    return {
        "MDEntryType": "2", "MDUpdateAction": 0, "MDStreamID": venue, "MDEntryPx": Decimal(1),
        "MDEntrySize": 1, "TradeID": "1", "MDEntryTime": time, "TradeVolume": None,
        "TradeCondition": None,
    }  # fmt: skip


@settings(max_examples=100, deadline=None)
@given(entries=st.lists(reported, max_size=12))
@example(entries=[trade_row("E", 120000002), trade_row("X", 120000001)])
def test_002_10_what_a_venue_reports_is_as_if_there_were_no_other(entries):
    rows = [{"SecurityID": 1, "RptSeq": 1, **TODAY, **each} for each in entries]
    for venue in VENUES:
        mixed, alone = market(), market()
        for each in rows:
            apply_entries(mixed, each)
            if (each["MDStreamID"] or "E") == venue:
                apply_entries(alone, each)
        assert of_venue(mixed, venue) == of_venue(alone, venue)


def test_002_10_only_the_electronic_market_sets_the_last_price():
    state = market()
    for number, venue in enumerate([None, "E", *VENUES[1:]]):
        apply_entries(
            state,
            entry("2", 0, 1, 1, price="10", size=1, TradeID=str(number), MDStreamID=venue, **TODAY),
        )
    found = [(trade.stream_id, trade.makes_last) for trade in state.take_trades()]
    assert found == [("E", True), ("E", True), *((venue, False) for venue in VENUES[1:])]


def test_002_10_2_trade_volume_of_a_venue_is_stored_whole():
    state = market()
    apply_entries(state, entry("B", 0, 1, 1, size=7, price="1500.25", TradeVolume=300))
    apply_entries(state, entry("B", 0, 1, 2, size=2, price="20", TradeVolume=40, MDStreamID="O"))
    volume = {
        key.stream_id: (each["MDEntryPx"], each["MDEntrySize"], each["TradeVolume"])
        for key, each in state.statistics[1].items()
    }
    assert volume == {"E": (Decimal("1500.25"), 7, 300), "O": (Decimal(20), 2, 40)}


@pytest.mark.parametrize("kind", ["7", "8", "9"])
def test_002_10_3_high_low_and_average_are_replaced_and_deleted_one_by_one(kind):
    state = market()
    for at, own in enumerate("789"):
        apply_entries(state, entry(own, 0, 1, 1, price=str(10 + at)))
    apply_entries(state, entry(kind, 0, 1, 2, price="20"))
    assert state.statistics[1][StatisticKey(kind, "E")]["MDEntryPx"] == 20
    assert len(state.statistics[1]) == 3
    apply_entries(state, entry(kind, 2, 1, 3, price="20"))
    assert {key.entry_type for key in state.statistics[1]} == set("789") - {kind}


@pytest.mark.parametrize("kind", ["4", "5", "6"])
def test_002_10_4_to_10_6_without_a_flag_a_price_is_of_the_day(kind):
    state = market()
    apply_entries(state, entry(kind, 0, 1, 1, price="9.5"))
    apply_entries(state, entry(kind, 0, 1, 2, price="9.7", OpenCloseSettlFlag=0))
    apply_entries(state, entry(kind, 0, 1, 3, price="9.1", OpenCloseSettlFlag=4))
    prices = {key.kind: each["MDEntryPx"] for key, each in state.statistics[1].items()}
    assert prices == {0: Decimal("9.7"), 4: Decimal("9.1")}
    apply_entries(state, entry(kind, 2, 1, 4))
    assert [key.kind for key in state.statistics[1]] == [4]


def test_002_10_5_the_closing_price_is_of_the_day_before_until_there_is_one_of_the_day():
    state = market()
    apply_entries(
        state, entry("5", 0, 1, 1, price="9.5", OpenCloseSettlFlag=4, LastTradeDate=20130809)
    )
    assert list(state.statistics[1]) == [StatisticKey("5", "E", 4)]
    apply_entries(state, entry("5", 0, 1, 2, price="9.9", NetChgPrevDay=Decimal("0.4")))
    closing, before = (state.statistics[1][StatisticKey("5", "E", kind)] for kind in (0, 4))
    assert (closing["MDEntryPx"], closing["NetChgPrevDay"]) == (Decimal("9.9"), Decimal("0.4"))
    assert (before["MDEntryPx"], before["LastTradeDate"]) == (Decimal("9.5"), 20130809)
    # A new session keeps both: they are not among its statistics (§11.3).
    status(state, SecurityGroup="DI", TradingSessionSubID="17", SecurityTradingEvent=4)
    assert len(state.statistics[1]) == 2


def test_002_10_6_a_settlement_price_without_type_is_per_unit():
    state = market()
    apply_entries(state, entry("6", 0, 1, 1, price="99.5", SettlPriceType=1))
    apply_entries(
        state, entry("6", 0, 1, 2, price="3", OpenCloseSettlFlag=4, SettlPriceType=3, PriceType="1")
    )
    found = {key.kind: each["PriceType"] for key, each in state.statistics[1].items()}
    assert found == {0: "2", 4: "1"}


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
    assert list(state.statistics[1]) == [StatisticKey("4", "E", 0)]
    assert len(state.statistics[2]) == 2


def theoretical(price="9"):
    return ("4", price, {"OpenCloseSettlFlag": 5}), ("A", None, {"MDEntrySize": 100})


def test_002_10_7_a_snapshot_of_the_auction_brings_no_theoretical_price_back():
    state = market()
    for phase in ("21", "17"):
        status(state, SecurityGroup="DI", TradingSessionSubID=phase)
    ended = state._position
    state.snapshot(shown(1, *theoretical(), ("7", "12", {})), PacketKey(1, 1))
    assert [key.entry_type for key in state.statistics[1]] == ["7"]
    state.snapshot(shown(1, *theoretical()), ended)
    assert [key.entry_type for key in state.statistics[1]] == ["4", "A"]


def test_002_10_7_a_snapshot_that_shows_the_group_after_its_auction_ends_those_of_its_instruments():
    state = market()
    status(state, SecurityGroup="DI", TradingSessionSubID="21")
    apply_entries(state, entry("4", 0, 2, 1, price="9", OpenCloseSettlFlag=5))
    apply_entries(state, entry("A", 0, 2, 2, size=100, TradeCondition="P"))
    as_of = PacketKey(1, state._position.sequence_number + 1)  # the change of phase is lost
    state.snapshot(shown(1, ("c", None, {"TradingSessionSubID": "17"})), as_of)
    assert state.phases.status(2) is Status.OPEN
    assert state.statistics[2] == {}


def test_002_10_7_the_imbalance_has_side_and_quantity_and_is_deleted():
    state = market()
    apply_entries(state, entry("A", 0, 1, 1, size=100, TradeCondition="P"))
    apply_entries(state, entry("A", 0, 1, 2, size=30, TradeCondition="Q"))
    (shown,) = state.statistics[1].values()
    assert (shown["MDEntrySize"], shown["TradeCondition"]) == (30, "Q")
    apply_entries(state, entry("A", 2, 1, 3))
    assert state.statistics[1] == {}


def test_002_10_8_open_interest_is_the_last_number_of_contracts():
    state = market()
    for size in (500, 480):
        apply_entries(state, entry("C", 0, 1, 1, size=size))
    assert state.statistics[1][StatisticKey("C", "E")]["MDEntrySize"] == 480
    # It is not a statistic of the session (§11.3).
    status(state, SecurityGroup="DI", TradingSessionSubID="17", SecurityTradingEvent=4)
    assert list(state.statistics[1]) == [StatisticKey("C", "E")]


def band(low, rpt=1, **more):
    own = {"LowLimitPrice": Decimal(low), "HighLimitPrice": Decimal(20), **more}
    return entry("g", 0, 1, rpt, **own)


def test_002_13_1_the_volume_of_the_clearing_house_is_independent_of_that_of_trades():
    state = market()
    apply_entries(state, entry("2", 0, 1, 1, price="10", size=50, TradeID="1", TradeVolume=50))
    apply_entries(state, entry("B", 0, 1, 2, size=1, price="400", TradeVolume=40))
    apply_entries(state, entry("2", 0, 1, 3, price="10", size=20, TradeID="2", TradeVolume=70))
    assert state.volumes == {(1, "E"): 70}
    assert state.statistics[1][StatisticKey("B", "E")]["TradeVolume"] == 40


def test_002_10_9_a_band_without_type_is_the_oscillation_tunnel_in_prices():
    state = market()
    apply_entries(state, band(1))
    apply_entries(state, band(2, PriceBandType="1", PriceLimitType=2))
    apply_entries(state, band(3, PriceBandType="2", PriceLimitType=1))
    apply_entries(state, band(4, PriceBandType="0"))
    found = {
        key.kind: (each["PriceBandType"], each["PriceLimitType"], each["LowLimitPrice"])
        for key, each in state.statistics[1].items()
    }
    assert found == {0: ("0", 0, 4), 1: ("1", 2, 2), 2: ("2", 1, 3)}
    apply_entries(state, entry("g", 2, 1, 5))
    assert {key.kind for key in state.statistics[1]} == {1, 2}


def test_002_10_10_index_values_are_statistics_of_the_session():
    state = market()
    apply_entries(
        state,
        entry("3", 0, 1, 1, price="68000", TickDirection="2"),
        entry("4", 0, 1, 2, price="66000"),
        entry("5", 0, 1, 3, price="65000"),
        entry("6", 0, 1, 4, price="69000"),
        entry("7", 0, 1, 5, price="69500"),
        entry("8", 0, 1, 6, price="65900"),
        entry("9", 0, 1, 7, price="68654"),
    )
    prices = {key.entry_type: int(each["MDEntryPx"]) for key, each in state.statistics[1].items()}
    assert prices == {
        "3": 68000, "4": 66000, "5": 65000, "6": 69000, "7": 69500, "8": 65900, "9": 68654,
    }  # fmt: skip
    index = state.statistics[1][StatisticKey("3", "E")]
    assert index["TickDirection"] == "2"
    status(state, SecurityGroup="DI", TradingSessionSubID="17", SecurityTradingEvent=4)
    assert {key.entry_type for key in state.statistics[1]} == {"5", "6"}


def test_002_14_1_1_a_definition_of_an_index_has_its_portfolio_in_order():
    parts = [("ALLL11", 11, "1.136"), ("AMBV4", 12, "1.047"), ("PETR4", 13, "16.008")]
    own = {
        **row(1, "IBOV", "IDX"),
        "Underlyings": [
            {"UnderlyingSymbol": symbol, "UnderlyingSecurityID": number, "IndexPct": Decimal(part)}
            for symbol, number, part in parts
        ],
    }
    state = LegacyState()
    state.message(listed(1, [own, row(2, "PETRA20")], 2, "Y"))
    found = [
        (each["UnderlyingSymbol"], each["UnderlyingSecurityID"], str(each["IndexPct"]))
        for each in state.instruments[1].values["Underlyings"]
    ]
    assert found == parts
    # Another definition replaces it, whole.
    state.message(listed(2, [{**own, "Underlyings": own["Underlyings"][1:]}], 1, "Y"))
    shares = [each["IndexPct"] for each in state.instruments[1].values["Underlyings"]]
    assert shares == [Decimal("1.047"), Decimal("16.008")]
    # An option states no ISIN (§14.3): that of its underlying is not made up.
    assert not state.instruments[2].values.get("SecurityAltID")


@pytest.mark.parametrize("from_snapshot", [False, True])
def test_002_14_1_2_new_statistics_of_an_index_replace_the_last_ones(from_snapshot):
    state = market()
    first = {"3": "68000", "4": "66000", "6": "69000", "7": "69000", "8": "66000", "9": "68654"}
    apply_entries(state, *[entry(kind, 0, 1, 0, price=price) for kind, price in first.items()])
    second = {**first, "3": "70000.5", "7": "70000.5", "9": "68700"}
    if from_snapshot:
        state.snapshot(shown(1, *[(kind, price, {}) for kind, price in second.items()]))
    else:
        # Every 30 seconds all of them are sent as new.
        apply_entries(state, *[entry(kind, 0, 1, 0, price=price) for kind, price in second.items()])
    prices = {key.entry_type: each["MDEntryPx"] for key, each in state.statistics[1].items()}
    assert prices == {kind: Decimal(price) for kind, price in second.items()}


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
    # A bust is no trade, however late.
    bust = entry("2", 2, 1, 5, price="11", TradeID="20", **TODAY)
    apply_entries(state, {**bust, "MDEntryTime": 130000000})
    assert (state.last_trades[1, "E"].trade_id, state.last_trades[1, "E"].size) == ("20", 50)
    assert state.statistics[1][StatisticKey("2", "E")]["MDEntryPx"] == Decimal(9)


def test_002_10_1_note_1_the_last_trade_is_that_of_the_latest_time_and_number():
    state, last = market(), []
    # Of two trades of one time, the number decides, which is no text: 9 is before 30.
    for number, time in ((20, 120000500), (10, 120000400), (30, 120000500), (9, 120000500)):
        trade = entry("2", 0, 1, 1, price=number, size=1, TradeID=str(number), **TODAY)
        apply_entries(state, {**trade, "MDEntryTime": time})
        last.append(state.last_trades[1, "E"].trade_id)
    assert last == ["20", "20", "30", "30"]


def test_002_10_11_news():
    state = market()
    state.message(read("News_143", Headline="aviso", LinesOfText=[{"Text": "leilão"[:4]}]))
    (item,) = state.news
    assert (item["Headline"], item["LinesOfText"][0]["Text"]) == ("aviso", "leil")


def test_002_10_11_news_without_a_language_is_portuguese():
    state = market()
    state.message(read("News_143", Headline="aviso"))
    state.message(read("News_143", Headline="notice", LanguageCode="en"))
    assert [each["LanguageCode"] for each in state.news] == ["pt", "en"]


STATISTIC = st.tuples(
    st.just("statistic"), st.sampled_from([1, 2]),
    st.fixed_dictionaries(
        {
            "MDEntryType": st.sampled_from("47789ABC"),
            "MDUpdateAction": st.sampled_from([0, 0, 0, 2]),
            "MDStreamID": st.sampled_from([None, "O"]),
            "OpenCloseSettlFlag": st.sampled_from([None, 5]),
        }
    ),
)  # fmt: skip
TRADE = st.tuples(
    st.just("statistic"), st.sampled_from([1, 2]),
    st.fixed_dictionaries(
        {
            "MDEntryType": st.just("2"),
            "MDUpdateAction": st.just(0),
            "MDStreamID": st.sampled_from([None, "X"]),
            "TradeID": st.integers(1, 5).map(str),
            "MDEntrySize": st.just(1),
            "TradeVolume": st.integers(1, 99),
        }
    ),
)  # fmt: skip
STATES = st.sampled_from([2, 4, 17, 18, 20, 21])
GROUP_STATUS = st.tuples(
    st.just("group"), st.sampled_from([None, 4]), st.sampled_from(["02", "17", "21"])
)
OWN_STATUS = st.tuples(st.just("own"), st.sampled_from([1, 2]), STATES)


def apply_message(state, number, kind, about, what):
    """Apply a generated message; its price is its number."""
    key = PacketKey(1, number)
    if kind == "statistic":
        own = {"SecurityID": about, "RptSeq": number, "MDEntryPx": Decimal(number), **TODAY, **what}
        own |= {"MDEntryTime": 120000000 + number if what["MDEntryType"] == "2" else 120000000}
        state.message(read("IncrementalRefresh_152", number, MDEntries=[own]), packet_key=key)
        return
    values = {"SecurityGroup": "DI", "TradingSessionSubID": what, "SecurityTradingEvent": about}
    if kind == "own":
        values = {"SecurityID": about, "SecurityTradingStatus": what}
    status = read("SecurityStatus_142", number, TradeDate=20130812, TransactTime=SENT, **values)
    state.message(status, packet_key=key)


def known(state):
    instruments = [
        (
            {key: row["MDEntryPx"] for key, row in state.statistics.get(each, {}).items()},
            state.phases.status(each),
        )
        for each in (1, 2)
    ]
    last = {venue: trade.trade_id for venue, trade in state.last_trades.items()}
    return instruments, state.volumes, last


CODES = {
    Status.PAUSE: 2, Status.CLOSE: 4, Status.OPEN: 17, Status.FORBIDDEN: 18, Status.UNKNOWN: 20,
    Status.RESERVED: 21,
}  # fmt: skip


def snapshot_of(state, security):
    """The snapshot that shows a state, as a decoded message."""
    rows = []
    for key, row in state.statistics.get(security, {}).items():
        volume = state.volumes.get((security, key.stream_id)) if key.entry_type == "2" else None
        rows.append({**row, "TradeVolume": volume})
    phase = state.phases.phase(GroupKey("DI"))
    own = state.phases.status(security) if state.phases.is_separate(security) else None
    assume(own is not phase)  # no snapshot shows that it is separate with its group's state
    if phase is not Status.UNKNOWN or own is not None:
        rows.append(
            {
                "MDEntryType": "c",
                "TradingSessionSubID": str(CODES[phase]) if phase in CODES else None,
                "SecurityTradingStatus": None if own is None else CODES[own],
            }
        )
    values = {"SecurityID": security, "LastMsgSeqNumProcessed": 0, "RptSeq": 1, "MDEntries": []}
    shown = read("SnapshotFullRefresh_153", **values)
    return shown._replace(values={**shown.values, "MDEntries": rows})


@settings(max_examples=250, deadline=None)
@given(
    messages=st.lists(STATISTIC | TRADE | GROUP_STATUS | OWN_STATUS, min_size=1, max_size=14),
    lost=st.sets(st.integers(1, 14)),
    numbers=st.tuples(st.integers(0, 14), st.integers(0, 14)),
    delays=st.tuples(st.integers(0, 14), st.integers(0, 14)),
)
def test_002_6_1_lost_messages_and_a_late_snapshot_are_as_if_nothing_was_lost(
    messages, lost, numbers, delays
):
    """Whatever is lost up to a snapshot's number, and however late it arrives."""
    last = len(messages)
    as_of = [min(number, last) for number in numbers]
    arrives = [min(number + delay, last) for number, delay in zip(as_of, delays, strict=True)]
    truth, followed = market(), market()
    shown = {}
    for number in range(last + 1):
        if number:
            apply_message(truth, number, *messages[number - 1])
            if number not in lost or number > min(as_of):
                apply_message(followed, number, *messages[number - 1])
        for at, security in enumerate((1, 2)):
            if number == as_of[at]:
                shown[security] = snapshot_of(truth, security)
            if number == arrives[at]:
                followed.snapshot(shown[security], PacketKey(1, as_of[at]))
    # The phase of a group in a snapshot is that of its own number.
    assert known(followed) == known(truth)


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


def shown(security, *rows, **values):
    """A snapshot of an instrument; rows are (type, price, more)."""
    entries = [
        {"MDEntryType": kind, "MDEntryPx": None if price is None else Decimal(price), **more}
        for kind, price, more in rows
    ]
    own = {"LastMsgSeqNumProcessed": 1, "RptSeq": 1, "SecurityID": security, **values}
    return read("SnapshotFullRefresh_153", MDEntries=entries, **own)


def test_002_6_1_a_snapshot_removes_what_it_does_not_show():
    state = market()
    apply_entries(state, entry("7", 0, 1, 1, price="12"), entry("8", 0, 1, 2, price="9"))
    apply_entries(state, entry("2", 0, 1, 3, price="10", size=1, TradeID="7", TradeVolume=5))
    apply_entries(state, entry("8", 0, 1, 4, price="8"))
    as_of = PacketKey(1, 3)  # as of the trade
    state.snapshot(shown(1, ("7", "13", {})), as_of)
    prices = {key.entry_type: row["MDEntryPx"] for key, row in state.statistics[1].items()}
    # The low price is newer than the snapshot; the last trade is not in it.
    assert prices == {"7": 13, "8": 8}
    assert (state.volumes, state.last_trades) == ({}, {})
    # A snapshot of before the removal does not bring it back.
    state.snapshot(shown(1, ("2", "10", {"TradeID": "7", "MDEntrySize": 1})), PacketKey(1, 2))
    assert state.last_trades == {}


def test_002_5_3_5_an_instrument_that_is_in_no_snapshot_of_a_loop_has_no_statistics():
    state = market()
    for security in (1, 2):
        apply_entries(state, entry("7", 0, security, 1, price="12"))
        apply_entries(state, entry("2", 0, security, 2, price="10", size=1, TradeVolume=5))
    apply_entries(state, entry("8", 0, 2, 3, price="8"))
    state.lost(PacketKey(1, 4))
    state.loop(PacketKey(1, 5), [1])
    assert {key.entry_type for key in state.statistics[1]} == {"2", "7"}
    assert {key.entry_type for key in state.statistics[2]} == {"8"}  # newer than the loop
    assert state.volumes == {(1, "E"): 5}
    assert list(state.last_trades) == [(1, "E")]
    assert not state.phases_doubted


def test_002_10_1_the_last_trade_of_a_snapshot_counts():
    state = market()
    last = {
        "TradeID": "70",
        "MDEntrySize": 3,
        "TradeVolume": 900,
        "MDEntryTime": "120000500",
        **TODAY,
    }
    state.snapshot(shown(1, ("2", "10.5", last)))
    trade = state.last_trades[1, "E"]
    assert (trade.price, trade.trade_id, state.volumes) == (Decimal("10.5"), "70", {(1, "E"): 900})
    assert state.statistics[1][StatisticKey("2", "E")]["TradeID"] == "70"
    assert state.take_trades() == []  # it was published before
    # An earlier trade that is sent later is not the last one.
    late = entry("2", 0, 1, 2, price="9", size=1, TradeID="60", TradeVolume=901, **TODAY)
    apply_entries(state, {**late, "MDEntryTime": 120000400})
    (found,) = state.take_trades()
    assert not found.makes_last
    assert (state.last_trades[1, "E"].trade_id, state.volumes[1, "E"]) == ("70", 901)


def test_002_11_4_a_snapshot_before_its_definition_is_kept_for_it():
    state = LegacyState()
    state.snapshot(
        shown(4, ("c", None, {"TradingSessionSubID": "17"}), ("7", "12", {}), ("6", "11", {}))
    )
    assert state.phases.status(4) is Status.UNKNOWN
    # Its group begins a session and opens before the definition arrives.
    status(state, SecurityGroup="DI", TradingSessionSubID="02", SecurityTradingEvent=4)
    state.message(listed(1, [row(4, "DI1F16")], 1, "Y"))
    assert state.phases.status(4) is Status.PAUSE
    assert [key.entry_type for key in state.statistics[4]] == ["6"]
    other = LegacyState()
    other.snapshot(shown(4, ("c", None, {"TradingSessionSubID": "17"})))
    other.message(listed(1, [row(4, "DI1F16")], 1, "Y"))
    assert other.phases.status(4) is Status.OPEN


def test_002_8_after_a_loss_a_whole_loop_of_definitions_is_needed_again():
    state = LegacyState()
    rows = [row(1, "DI1F14"), row(2, "DI1F15")]
    state.definition(LoopMessage(1, listed(1, rows, 2, "Y")))
    assert state.complete
    state.definition(LoopMessage(2, listed(1, [row(1, "OLDER")], 2, "N")))
    assert state.instruments[1].symbol == "DI1F14"  # the incremental stream has all changes
    state.lost(PacketKey(1, 8))
    assert not state.complete
    # The rest of a loop is not a loop; what the incremental stream defines is newer than the loop.
    state.definition(LoopMessage(3, listed(2, [row(2, "DI1F15")], 2, "Y")))
    state.definition(LoopEnded(3))
    assert not state.complete
    state.message(listed(9, [row(3, "DI1F16"), row(1, "DI1X14", action="M")], 2, "Y"))
    state.definition(LoopMessage(4, listed(1, [row(1, "DI1F14")], 1, "Y")))
    assert state.complete
    assert {each: own.symbol for each, own in state.instruments.items()} == {
        1: "DI1X14", 3: "DI1F16",
    }  # fmt: skip


def test_002_8_the_loop_in_which_messages_are_lost_is_not_enough():
    state = LegacyState()
    state.definition(LoopMessage(1, listed(1, [row(1, "DI1F14")], 2, "N")))
    state.lost(PacketKey(1, 8))  # perhaps a change of the first instrument
    state.definition(LoopMessage(1, listed(2, [row(2, "DI1F15")], 2, "Y")))
    assert not state.complete
    state.definition(LoopMessage(2, listed(1, [row(1, "DI1X14"), row(2, "DI1F15")], 2, "Y")))
    assert state.complete
    assert state.instruments[1].symbol == "DI1X14"


def test_002_8_3_a_deleted_instrument_loses_all_that_is_known_of_it():
    state = market()
    for venue in ("E", "X"):
        trade = {"TradeID": "7", "TradeVolume": 5, "MDStreamID": venue}
        apply_entries(state, entry("2", 0, 1, 1, price="10", size=1, **trade))
    apply_entries(state, entry("7", 0, 1, 3, price="12"))
    status(state, SecurityID=1, SecurityTradingStatus=2)
    state.message(listed(5, [row(1, "DI1F14", action="D")], 1, "Y"))
    assert 1 not in state.statistics
    assert (state.volumes, state.last_trades) == ({}, {})
    assert state.phases.status(1) is Status.UNKNOWN
    # A snapshot of before the deletion shows it still.
    state.snapshot(shown(1, ("7", "12", {})), PacketKey(1, 2))
    assert 1 not in state.statistics
    state.message(listed(6, [row(1, "DI1F14")], 1, "Y"))
    apply_entries(state, entry("7", 0, 1, 1, price="13"))
    state.snapshot(shown(1, ("8", "9", {})), PacketKey(1, 2))
    prices = {key.entry_type: each["MDEntryPx"] for key, each in state.statistics[1].items()}
    assert prices == {"7": 13}


@pytest.mark.parametrize("last", ["Y", "1", 1])
def test_002_3_1_3_the_last_fragment_may_be_an_integer(last):
    state = LegacyState()
    found = listed(1, [row(1, "DI1F14")], 1, "N")
    assert state.definition(LoopMessage(1, found)) is None
    assert not state.complete
    values = {**found.values, "LastFragment": last}
    state.definition(LoopMessage(2, found._replace(values=values)))
    assert state.complete


def test_002_11_1_an_undefined_state_is_unknown():
    state = market()
    status(state, SecurityGroup="DI", TradingSessionSubID="17")
    status(state, SecurityID=1, SecurityTradingStatus=20)
    assert (state.phases.status(1), state.phases.status(2)) == (Status.UNKNOWN, Status.OPEN)
    assert not state.phases.trades_continuously(1)
    status(state, SecurityID=1, SecurityTradingStatus=17)
    assert state.phases.status(1) is Status.OPEN
    state.snapshot(
        shown(2, ("c", None, {"TradingSessionSubID": "17", "SecurityTradingStatus": 20}))
    )
    assert state.phases.status(2) is Status.UNKNOWN


def test_002_11_on_megabolsa_the_state_of_a_group_is_that_of_its_instruments():
    state = LegacyState(separate_states=MEGABOLSA.separate_states)
    state.message(listed(1, [row(1, "PETR4"), row(2, "VALE5")], 2, "Y"))
    status(state, SecurityID=1, SecurityTradingStatus=2)
    group = {"SecurityGroup": "DI", "TradingSessionSubID": "17"}
    status(state, **group, SecurityTradingStatus=17)
    assert [state.phases.status(each) for each in (1, 2)] == [Status.OPEN, Status.OPEN]
    status(state, **group, SecurityTradingStatus=18)
    assert [state.phases.status(each) for each in (1, 2)] == [Status.FORBIDDEN, Status.FORBIDDEN]
    assert state.phases.phase(GroupKey("DI")) is Status.OPEN
    # An instrument of the group that is defined later has that state, too.
    state.message(listed(2, [row(3, "BBDC4")], 1, "Y"))
    assert state.phases.status(3) is Status.FORBIDDEN
    # A snapshot of before the group's message does not bring the old state back.
    state.snapshot(shown(1, ("c", None, {"SecurityTradingStatus": 2})), PacketKey(1, 2))
    assert state.phases.status(1) is Status.FORBIDDEN
    status(state, **group, SecurityTradingStatus=20)
    assert [state.phases.status(each) for each in (1, 2, 3)] == [Status.UNKNOWN] * 3
    # With the state of the group all of them follow it, whenever they were defined.
    status(state, SecurityGroup="DI", SecurityTradingStatus=17)
    state.message(listed(3, [row(4, "ITSA4")], 1, "Y"))
    assert [state.phases.is_separate(each) for each in (1, 2, 3, 4)] == [False] * 4
    status(state, SecurityGroup="DI", TradingSessionSubID="02")
    assert [state.phases.status(each) for each in (1, 2, 3, 4)] == [Status.PAUSE] * 4
    # On PUMA an instrument keeps its own state (§15.6).
    puma = market()
    status(puma, SecurityID=1, SecurityTradingStatus=2)
    status(puma, **group, SecurityTradingStatus=17)
    assert [puma.phases.status(each) for each in (1, 2)] == [Status.PAUSE, Status.OPEN]
