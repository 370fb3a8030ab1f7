"""State of a followed channel other than books: events, trades, states, statistics, news."""

from __future__ import annotations

import struct
from datetime import date, timedelta
from decimal import Decimal

import pytest

from pregao import events as channel_events
from pregao.feed.channel.channel import Channel
from pregao.feed.channel.market_state import MAX_DATES
from pregao.feed.channel.settings import ChannelSettings
from pregao.feed.fastpath.channel import FastChannel
from pregao.sbe.codec import SchemaCodec
from pregao.schemas.bundle import bundled
from pregao.umdf import templates
from pregao.umdf.phases import GroupKey, Status
from pregao.umdf.sequencing import PacketKey
from pregao.units import Side
from tests.feed.channel_messages import (
    DAY,
    END,
    SNAPSHOT,
    Driven,
    channel_reset,
    definition,
    empty_book,
    encode,
    heartbeat,
    order,
    packet,
    snapshot,
)

P1 = GroupKey("P1")


def channel(**settings):
    """A channel seen from its first packet, of two instruments of one group."""
    driven = Driven(from_the_start=True, **settings)
    driven.send(heartbeat(1))
    driven.definitions(1, [definition(total=2), definition(2222, "VALE3", total=2)])
    driven.events()
    return driven


def trade(rpt, number, price=10, *, flags=0, condition=0, sub_type=None, security=1111):
    return encode(
        templates.TRADE, securityID=security, matchEventIndicator=flags, tradingSessionID=1,
        tradeCondition=condition, mDEntryPx=Decimal(price), mDEntrySize=100, tradeID=number,
        mDEntryBuyer=3, mDEntrySeller=8, tradeDate=DAY, trdSubType=sub_type, transactTime=5,
        rptSeq=rpt,
    )  # fmt: skip


def bust(rpt, number, *, flags=END):
    return encode(
        templates.TRADE_BUST, securityID=1111, matchEventIndicator=flags, tradingSessionID=1,
        mDEntryPx=Decimal(10), mDEntrySize=100, tradeID=number, tradeDate=DAY, transactTime=6,
        rptSeq=rpt,
    )  # fmt: skip


def high(rpt, price, security=1111):
    return encode(
        templates.HIGH_PRICE, securityID=security, matchEventIndicator=END, tradeDate=DAY,
        mDEntryPx=Decimal(price), mDEntryTimestamp=1, rptSeq=rpt, mDUpdateAction="NEW",
    )  # fmt: skip


def theoretical(rpt, price, action="NEW"):
    return encode(
        templates.THEORETICAL_OPENING_PRICE, securityID=1111, matchEventIndicator=END,
        tradeDate=DAY, mDEntryPx=Decimal(price), mDEntrySize=5, mDEntryTimestamp=1, rptSeq=rpt,
        mDUpdateAction=action,
    )  # fmt: skip


def imbalance(rpt, size):
    return encode(
        templates.AUCTION_IMBALANCE, securityID=1111, matchEventIndicator=END,
        imbalanceCondition=256, mDEntrySize=size, mDEntryTimestamp=1, rptSeq=rpt,
        mDUpdateAction="NEW",
    )  # fmt: skip


def band(rpt, low, kind):
    return encode(
        max(templates.PRICE_BANDS), securityID=1111, matchEventIndicator=END, priceBandType=kind,
        priceLimitType=None, priceBandMidpointPriceType=None, lowLimitPrice=Decimal(low),
        highLimitPrice=None, tradingReferencePrice=None, mDEntryTimestamp=1, rptSeq=rpt,
    )  # fmt: skip


def status(rpt, state, event=None, security=1111):
    return encode(
        templates.SECURITY_STATUS, securityID=security, matchEventIndicator=END,
        tradingSessionID=1, securityTradingStatus=state, securityTradingEvent=event,
        tradeDate=DAY, tradSesOpenTime=None, transactTime=1, rptSeq=rpt,
    )  # fmt: skip


def phase(state, event=None, group="P1"):
    return encode(
        templates.SECURITY_GROUP_PHASE, securityGroup=group, matchEventIndicator=END,
        tradingSessionID=1, tradingSessionSubID=state, securityTradingEvent=event,
        tradeDate=DAY, tradSesOpenTime=None, transactTime=1,
    )  # fmt: skip


def news(number, count, text):
    return encode(
        templates.NEWS, securityID=1111, newsSource="OTHER", totalTextLength=4, partCount=count,
        matchEventIndicator=END, partNumber=number, origTime=1, headline=b"Aviso", text=text,
        uRLLink=b"",
    )  # fmt: skip


def shown(driven, security=1111):
    return {
        key: each.values.get("mDEntryPx", each.values.get("lowLimitPrice"))
        for key, each in driven.channel.statistics(security).items()
    }


# Events


def test_10_a_book_is_emitted_once_at_the_end_of_its_event():
    driven = channel()
    driven.send(packet(1, order(1, 1, flags=0), trade(2, 7), order(3, 2, flags=0)))
    assert [type(each).__name__ for each in driven.events()] == ["TradeDone"]
    driven.send(packet(2, order(1, 5, security=2222, flags=0), order(4, 3)))
    changed = driven.events(channel_events.BookChanged)
    assert [each.security_id for each in changed] == [1111, 2222]
    assert len({each.event for each in changed}) == 1
    assert {each.packet_key for each in changed} == {PacketKey(1, 2)}
    assert {each.sending_ns for each in changed} == {10**18 + 2}


def test_10_an_event_with_a_lost_end_is_emitted_before_the_gap():
    driven = channel()
    driven.send(packet(1, order(1, 1, flags=0)), packet(3, order(3, 3)))
    driven.wait()
    kinds = [type(each).__name__ for each in driven.events()]
    assert kinds[:2] == ["BookChanged", "GapFound"]


def test_events_that_are_not_consumed_are_dropped_and_counted():
    driven = channel(max_events=10)
    for number in range(1, 36):
        driven.send(packet(number, order(number, number)))
    found = driven.events()
    assert isinstance(found[0], channel_events.EventsMissed)
    assert found[0].count + len(found) - 1 == 35
    # Its packet is that of the last dropped event, and before that of the next one.
    assert found[0].packet_key == PacketKey(1, found[0].count)
    assert found[0].sending_ns == 10**18 + found[0].count
    assert len(found) - 1 <= 10
    assert driven.channel.counters.events_missed == found[0].count
    assert len(driven.orders()) == 35
    assert driven.events() == []


# Trades


def test_13_3_and_13_4_trades_busts_and_corrections_are_emitted_in_order():
    driven = channel()
    driven.send(packet(1, trade(1, 7, flags=END)), packet(2, trade(2, 8, 11, flags=END)))
    driven.send(packet(3, bust(3, 8)), packet(4, trade(4, 7, 12, flags=END)))
    done = driven.events(channel_events.TradeDone, channel_events.TradeBusted)
    assert [(type(each).__name__, each.trade_id, each.price_mantissa) for each in done] == [
        ("TradeDone", 7, 100_000), ("TradeDone", 8, 110_000),
        ("TradeBusted", 8, 100_000), ("TradeDone", 7, 120_000),
    ]  # fmt: skip
    assert [each.corrects for each in done if isinstance(each, channel_events.TradeDone)] == [
        0,
        0,
        1,
    ]


def test_12_1_1_trades_change_no_book():
    """Only the messages of orders do, also if a trade has the price and size of an order."""
    driven = channel()
    driven.send(packet(1, order(1, 1)), packet(2, order(2, 2, 300)))
    driven.send(packet(3, trade(3, 7, flags=END)), packet(4, bust(4, 7)))
    assert len(driven.events(channel_events.TradeDone)) == 1
    book = driven.channel.book(1111)
    assert [(each.order_id, each.size) for each in book.orders(Side.BID)] == [(1, 100), (2, 300)]
    assert book.state.name == "VALID"


def test_trades_of_a_stale_book_are_emitted_once_and_immediately():
    driven = channel()
    driven.send(packet(1, order(1, 1)), packet(3, trade(3, 7, flags=END)))
    driven.wait()
    assert driven.state() == "STALE"
    assert len(driven.events(channel_events.TradeDone)) == 1
    driven.snapshots(1, [snapshot(2, 2, security=1111)])
    assert driven.state() == "EMPTY"
    assert driven.events(channel_events.TradeDone) == []


def test_13_3_the_last_price_is_that_of_the_last_trade_in_sequence():
    driven = channel()
    driven.send(packet(1, trade(1, 7, 10, flags=END)))
    driven.send(packet(2, trade(2, 8, 11, flags=END, condition=templates.OUT_OF_SEQUENCE)))
    driven.send(packet(3, trade(3, 9, 12, flags=END, sub_type="LEG_TRADE")))
    assert shown(driven) == {("LastTradePrice", None): Decimal(10)}
    driven.send(packet(4, trade(4, 10, 13, flags=END)))
    assert shown(driven) == {("LastTradePrice", None): Decimal(13)}
    assert [each.makes_last for each in driven.events(channel_events.TradeDone)] == [
        True,
        False,
        False,
        True,
    ]


# States


def test_14_states_follow_the_group_leave_it_and_rejoin():
    driven = channel()
    driven.send(packet(1, phase("OPEN")))
    assert [(each.group, each.now) for each in driven.events(channel_events.PhaseChanged)] == [
        (P1, Status.OPEN)
    ]
    driven.send(packet(2, status(1, "PAUSE", "SECURITY_STATUS_CHANGE")))
    driven.send(packet(3, phase("CLOSE")))
    changed = [(each.security_id, each.now) for each in driven.events(channel_events.StatusChanged)]
    assert changed == [(1111, Status.PAUSE), (2222, Status.CLOSE)]
    driven.send(packet(4, status(2, "OPEN", "SECURITY_REJOINS_SECURITY_GROUP_STATUS")))
    # It implies the group's phase as well.
    changed = [(each.security_id, each.now) for each in driven.events(channel_events.StatusChanged)]
    assert sorted(changed) == [(1111, Status.OPEN), (2222, Status.OPEN)]


def test_14_phases_of_a_snapshot_loop_count_if_the_incremental_stream_had_none():
    driven = Driven()
    driven.send(heartbeat(11))
    driven.definitions(1, [definition()])
    driven.snapshots(1, [phase("OPEN")], [snapshot(10, 4, stats=1), status(None, None)])
    assert driven.channel.phases.status(1111) is Status.OPEN
    driven.send(packet(11, phase("PAUSE")))
    # A loop that is older than that message changes nothing...
    driven.send(packet(12, empty_book()))
    driven.snapshots(2, [phase("OPEN")], [snapshot(12, 4, stats=1), status(None, None)])
    assert driven.channel.phases.status(1111) is Status.PAUSE
    # ...but after a loss it is trusted.
    driven.send(heartbeat(15))
    driven.wait()
    assert (SNAPSHOT, "A") in driven.joined
    driven.snapshots(3, [phase("CLOSE")], [snapshot(14, 4, stats=1), status(None, None)])
    assert driven.channel.phases.status(1111) is Status.CLOSE


def in_version(version, template, values):
    """A message of a version; one above 17 has its layout and a longer block."""
    codec = SchemaCodec(bundled("umdf", min(version, 17))).codec(template)
    message = codec.encode(values)
    if version <= 17:
        return message
    length = int.from_bytes(message[:2], "little") + 4
    return struct.pack("<HHHH", length, template, 2, version) + message[8:] + b"\x7f" * 4


def channel_of(kind):
    """The channel of `channel`, of either implementation."""
    driven = channel()
    driven.channel = kind(ChannelSettings(7, from_the_start=True))
    driven.channel.start(driven.now)
    driven.send(heartbeat(1))
    driven.definitions(1, [definition(total=2), definition(2222, "VALE3", total=2)])
    driven.events()
    return driven


@pytest.mark.parametrize("kind", [Channel, FastChannel])
@pytest.mark.parametrize("version", [16, 17, 18])
def test_14_2_phases_18_and_21_rule_under_every_name(version, kind):
    """Version 17 renamed them; 18 is unknown and read as 17."""
    driven = channel_of(kind)

    def group(value):
        return in_version(
            version, templates.SECURITY_GROUP_PHASE,
            {"securityGroup": "P1", "matchEventIndicator": END, "tradingSessionID": 1,
             "tradingSessionSubID": value, "securityTradingEvent": None, "tradeDate": DAY,
             "tradSesOpenTime": None, "transactTime": 1},
        )  # fmt: skip

    driven.send(packet(1, group(21), theoretical(1, 10)))
    assert driven.channel.phases.status(1111) is Status.RESERVED
    assert set(shown(driven)) == {("TheoreticalOpeningPrice", None)}
    driven.send(packet(2, group(18)))
    assert driven.channel.phases.status(2222) is Status.PRE_CLOSE
    assert shown(driven) == {}  # its auction is over
    changed = [(each.before, each.now) for each in driven.events(channel_events.PhaseChanged)]
    assert changed == [(Status.UNKNOWN, Status.RESERVED), (Status.RESERVED, Status.PRE_CLOSE)]


# Statistics


def settlement(rpt, price, flag=None, settl_date=None, version=17):
    values = {
        "securityID": 1111, "matchEventIndicator": END, "tradeDate": DAY,
        "mDEntryPx": Decimal(price), "mDEntryTimestamp": 1, "openCloseSettlFlag": flag,
        "priceType": None, "settlPriceType": "FINAL", "rptSeq": rpt, "settlDate": settl_date,
    }  # fmt: skip
    if version < 17:
        del values["settlDate"]
    return in_version(version, templates.SETTLEMENT_PRICE, values)


def test_13_11_3_settlement_prices_without_a_flag_go_by_their_date():
    """In version 17 the flag is optional; where it is sent it decides, as in older versions."""
    driven = channel()
    first, second = date(2026, 5, 20), date(2026, 5, 21)
    driven.send(
        packet(1, settlement(1, 10, "DAILY", version=16), settlement(2, 11, "DAILY", first)),
        packet(2, settlement(3, 12, None, first), settlement(4, 13, None, second)),
        packet(3, settlement(5, 14, None, first), settlement(6, 15), settlement(7, 16)),
    )
    assert shown(driven) == {
        ("SettlementPrice", "DAILY"): Decimal(11), ("SettlementPrice", "2026-05-20"): Decimal(14),
        ("SettlementPrice", "2026-05-21"): Decimal(13), ("SettlementPrice", None): Decimal(16),
    }  # fmt: skip
    kinds = [each.kind for each in driven.events(channel_events.StatisticChanged)]
    days = ["2026-05-20", "2026-05-21", "2026-05-20"]
    assert kinds == ["DAILY", "DAILY", *days, None, None]


@pytest.mark.parametrize("kind", [Channel, FastChannel])
def test_13_9_3_the_close_of_the_day_becomes_that_of_the_previous_day(kind):
    driven = channel_of(kind)

    def close(rpt, price, flag, day):
        return encode(
            templates.CLOSING_PRICE, securityID=1111, matchEventIndicator=END,
            openCloseSettlFlag=flag, mDEntryPx=Decimal(price), lastTradeDate=None, tradeDate=day,
            mDEntryTimestamp=1, rptSeq=rpt,
        )  # fmt: skip

    previous, daily = "ENTRY_FROM_PREVIOUS_BUSINESS_DAY", "DAILY"
    driven.send(packet(1, close(1, 9, previous, DAY), close(2, 10, daily, DAY)))
    # A correction of the same day does not end that of the day.
    driven.send(packet(2, close(3, 8, previous, DAY)))
    name = "ClosingPrice"
    assert shown(driven) == {(name, previous): Decimal(8), (name, daily): Decimal(10)}
    driven.send(packet(3, close(4, 10, previous, DAY + timedelta(days=1))))
    assert shown(driven) == {(name, previous): Decimal(10)}


@pytest.mark.parametrize("kind", [Channel, FastChannel])
def test_19_a_bust_leaves_the_last_price_while_a_trade_is_left(kind):
    driven = channel_of(kind)

    def counted(rpt, trades):
        return encode(
            templates.EXECUTION_STATISTICS, securityID=1111, matchEventIndicator=END,
            tradingSessionID=1, tradeDate=DAY, tradeVolume=100 * trades, vwapPx=None,
            netChgPrevDay=None, numberOfTrades=trades, mDEntryTimestamp=6, rptSeq=rpt,
        )  # fmt: skip

    last = ("LastTradePrice", None)
    driven.send(packet(1, trade(1, 7, 10), trade(2, 8, 11), counted(3, 2)))
    driven.send(packet(2, bust(4, 8, flags=0), counted(5, 1)))
    assert shown(driven)[last] == Decimal(11)
    driven.send(packet(3, bust(6, 7, flags=0), counted(7, 0)))
    assert last not in shown(driven)


def test_the_number_of_settlement_dates_is_limited():
    driven = channel()
    dates = [date(2026, 1, 1) + timedelta(days=3 * n % 40) for n in range(40)]
    for at, each in enumerate(dates, 1):
        driven.send(packet(at, settlement(at, at, None, each)))
    kept = [key[1] for key in shown(driven)]
    assert sorted(kept) == [str(each) for each in sorted(set(dates))[-MAX_DATES:]]
    removed = [e for e in driven.events(channel_events.StatisticChanged) if e.values is None]
    assert len(removed) == 40 - MAX_DATES


def test_13_11_bands_of_different_types_are_side_by_side():
    driven = channel()
    driven.send(packet(1, band(1, 9, "HARD_LIMIT"), band(2, 8, "AUCTION_LIMITS")))
    driven.send(packet(2, band(3, 7, "HARD_LIMIT")))
    assert shown(driven) == {
        ("PriceBand", "HARD_LIMIT"): Decimal(7), ("PriceBand", "AUCTION_LIMITS"): Decimal(8),
    }  # fmt: skip
    (first, second, third) = driven.events(channel_events.StatisticChanged)
    assert (first.kind, second.kind, third.kind) == ("HARD_LIMIT", "AUCTION_LIMITS", "HARD_LIMIT")


def test_13_10_theoretical_price_and_imbalance_are_cleared_after_the_auction():
    driven = channel()
    driven.send(packet(1, phase("RESERVED"), theoretical(1, 10), imbalance(2, 5), high(3, 11)))
    assert set(shown(driven)) == {
        ("TheoreticalOpeningPrice", None), ("AuctionImbalance", None), ("HighPrice", None),
    }  # fmt: skip
    driven.send(packet(2, phase("OPEN")))
    assert set(shown(driven)) == {("HighPrice", None)}
    gone = [
        each.name for each in driven.events(channel_events.StatisticChanged) if each.values is None
    ]
    assert gone == ["TheoreticalOpeningPrice", "AuctionImbalance"]


def test_13_10_an_instrument_still_in_auction_keeps_them_when_its_group_opens():
    driven = channel()
    driven.send(packet(1, phase("RESERVED"), status(1, "RESERVED", "SECURITY_STATUS_CHANGE")))
    driven.send(packet(2, theoretical(2, 10)), packet(3, phase("OPEN")))
    assert set(shown(driven)) == {("TheoreticalOpeningPrice", None)}


def test_a_statistic_that_is_withdrawn_is_no_more():
    driven = channel()
    driven.send(packet(1, phase("RESERVED"), theoretical(1, 10)))
    driven.send(packet(2, theoretical(2, 10, "DELETE")))
    assert shown(driven) == {}


@pytest.mark.parametrize("by_group", [True, False])
def test_14_3_a_new_session_resets_session_data(by_group):
    driven = channel()
    driven.send(packet(1, trade(1, 7, flags=END), high(2, 11), band(3, 9, "HARD_LIMIT")))
    change = "TRADING_SESSION_CHANGE"
    driven.send(packet(2, phase("CLOSE", change) if by_group else status(4, "CLOSE", change)))
    assert shown(driven) == {("PriceBand", "HARD_LIMIT"): Decimal(9)}


def test_6_5_12_a_channel_reset_clears_books_and_no_statistics():
    driven = channel()
    driven.send(packet(1, order(1, 1), high(2, 11)), packet(2, channel_reset()))
    assert (driven.state(), shown(driven)) == ("EMPTY", {("HighPrice", None): Decimal(11)})


def test_a_snapshot_replaces_updates_up_to_its_packet_key_and_nothing_newer():
    driven = channel()
    driven.send(packet(1, high(1, 11), band(2, 9, "HARD_LIMIT")))
    driven.send(packet(3, high(4, 13)))  # the second packet is lost
    driven.wait()
    driven.events()
    driven.snapshots(1, [snapshot(2, 3, stats=2), high(None, 12), theoretical(None, 10)])
    assert shown(driven) == {
        ("HighPrice", None): Decimal(13), ("TheoreticalOpeningPrice", None): Decimal(10),
    }  # fmt: skip


def test_statistics_lost_before_an_empty_book_come_from_the_next_snapshot():
    driven = channel()
    driven.send(packet(1, high(1, 11)), packet(3, empty_book()))
    driven.wait()
    assert (driven.state(), shown(driven)) == ("EMPTY", {("HighPrice", None): Decimal(11)})
    driven.snapshots(1, [snapshot(2, 2, stats=1), high(None, 12)])
    assert (SNAPSHOT, "A") in driven.joined  # that one is of before
    driven.snapshots(2, [snapshot(3, None, stats=1), high(None, 12)])
    assert shown(driven) == {("HighPrice", None): Decimal(12)}


# Instruments and news


def test_instruments_are_added_changed_and_deleted_during_the_day():
    driven = channel()
    driven.send(packet(1, definition(3333, "ABEV3")))
    driven.send(packet(2, definition(2222, "VALE5", action="MODIFY")), packet(3, high(1, 11)))
    driven.send(packet(4, definition(1111, action="DELETE")))
    changes = [
        (each.symbol, each.change.value) for each in driven.events(channel_events.InstrumentChanged)
    ]
    assert changes == [("ABEV3", "added"), ("VALE5", "changed"), ("PETR4", "deleted")]
    assert set(driven.channel.instruments) == {2222, 3333}
    assert driven.channel.statistics(1111) == {}


def test_6_5_8_after_a_loss_a_complete_loop_lists_the_instruments():
    driven = channel()
    driven.send(packet(3, definition(4444, "ITUB4")))
    driven.wait()
    driven.events()
    # 2222 was deleted and 3333 added in what was lost.
    driven.definitions(2, [definition(total=2), definition(3333, "ABEV3", total=2)])
    changes = [
        (each.symbol, each.change.value) for each in driven.events(channel_events.InstrumentChanged)
    ]
    assert changes == [("ABEV3", "added"), ("VALE3", "deleted")]
    assert set(driven.channel.instruments) == {1111, 3333, 4444}


def test_000_5_8_news_is_joined_from_its_parts_in_any_order():
    driven = channel()
    driven.send(packet(1, news(2, 2, b"lo")), packet(2, news(1, 2, b"Le")))
    (received,) = driven.events(channel_events.NewsReceived)
    assert (received.news.headline, received.news.text) == ("Aviso", "Lelo")
    driven.send(packet(3, news(1, 2, b"Le")))
    driven.send(heartbeat(4))
    for _ in range(70):
        driven.wait(10**9)
        driven.send(heartbeat(4))
    assert driven.channel.counters.news_dropped == 1
