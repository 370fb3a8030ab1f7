"""Analytics of the legacy feed: one session on both feeds gives the same rows, except for what
the feed does not publish."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal

import pytest

from pregao.capture import PcapWriter, udp_frame
from pregao.clock import MILLISECOND, SECOND
from pregao.exchange.simulation.network_faults import FaultRates
from pregao.exchange.simulation.settings import LegacyDepth, RunPoint, SimulationSettings
from pregao.exchange.simulation.simulation import Simulation
from pregao.lake.analytics.run import ANALYTICS, analyse
from pregao.lake.books.book_at import book_at
from pregao.lake.books.build import build_books
from pregao.lake.ingest.pipeline import ingest
from pregao.lake.ingest.protocols.legacy_channels import VARIABLE
from pregao.lake.storage.lake_store import LakeStore
from pregao.legacy.times import timestamp_digits
from pregao.units import Side
from tests.exchange.capture_replay import captured
from tests.lake.analytics_support import latency_times
from tests.lake.days import rows
from tests.legacy.writing import datagram, entry

POSITION_COLUMNS = {
    "event", "start_event", "end_event", "sequence_version", "sequence_number", "index_in_packet",
}  # fmt: skip
"""Columns of positions in a stream, which differ between the feeds."""
TABLES = ["status", "auctions", "session_stats", "venue_trades", "latency", "orders"]
FILLS = {"reductions", "reduced_quantity", "fills", "filled_quantity", "end_reason"}
"""Columns that depend on the aggressor, which the legacy feed does not publish."""


def simulated(out, kind=LegacyDepth.ORDERS, **changes):
    settings = {
        "profile": "equities", "duration_ns": 25 * SECOND, "rate": 120.0, "instruments": 6,
        "truth_books": 1, "legacy": kind,
    }  # fmt: skip
    Simulation(SimulationSettings(out=out, **(settings | changes))).run()
    return out


def build_lake(lake, captures):
    """A lake with captures and all of their analytics."""
    assert ingest([str(path) for path in sorted(captures)], str(lake)).committed
    build_books(str(lake))
    analyse(LakeStore(str(lake)), tables=TABLES)
    return lake


@pytest.fixture(scope="module")
def day(tmp_path_factory):
    return simulated(tmp_path_factory.mktemp("day"))


@pytest.fixture(scope="module")
def binary(day, tmp_path_factory):
    captures = [path for path in day.glob("*.pcap") if "Legacy" not in path.name]
    return build_lake(tmp_path_factory.mktemp("binary") / "lake", captures)


@pytest.fixture(scope="module")
def legacy(day, tmp_path_factory):
    return build_lake(tmp_path_factory.mktemp("legacy") / "lake", day.glob("*Legacy*.pcap"))


def test_packets_without_a_sending_time_set_no_clock_offset(legacy):
    packets = Counter(row["sending_time_ns"] is not None for row in rows(legacy, "legacy_packets"))
    assert packets[False] > 100  # later chunks of a message
    analyse(LakeStore(str(legacy)), tables=["clock_offsets"])
    found = rows(legacy, "clock_offsets")
    assert sum(row["packets"] for row in found) == packets[True]
    # Sending times have milliseconds.
    assert all(0 <= row["min_ns"] <= row["median_ns"] < SECOND for row in found)


def plain(value, name=""):
    """A value as both feeds have it: times have milliseconds on one of them."""
    if isinstance(value, list):
        return tuple(plain(each) for each in value)
    if isinstance(value, dict):
        return tuple((own, plain(each, own)) for own, each in value.items())
    return value // MILLISECOND if name.endswith("_ns") and value is not None else value


def row_counts(lake, table, but=()):
    return Counter(
        tuple(
            (name, plain(value, name))
            for name, value in row.items()
            if name not in {*POSITION_COLUMNS, *but}
        )
        for row in rows(lake, table)
    )


def test_both_feeds_give_the_same_phases_and_states(binary, legacy):
    states = row_counts(legacy, "status")
    assert states == row_counts(binary, "status")
    assert {dict(row)["status"] for row in states} >= {"OPEN", "RESERVED", "CLOSE"}


def test_both_feeds_give_the_same_auctions(binary, legacy):
    auctions = row_counts(legacy, "auctions")
    assert auctions == row_counts(binary, "auctions")
    assert any(dict(row)["uncross_trades"] for row in auctions)
    assert any(dict(row)["theoretical"] for row in auctions)


def test_both_feeds_give_the_same_sessions(binary, legacy):
    # Entries do not state their session, trades not whether they are late; crosses do not count
    # in the average price.
    but = ["trading_session_id", "last", "last_price_high", "last_price_low", "published_vwap"]
    found = row_counts(legacy, "session_stats", but)
    assert found == row_counts(binary, "session_stats", but)
    assert all(dict(row)["equal"] for row in found)


def test_the_times_of_every_message_are_in_latency(legacy):
    found = latency_times(LakeStore(legacy))
    entries = rows(legacy, "legacy_incremental_refresh")
    statuses = rows(legacy, "legacy_security_status")
    listed = [row for row in rows(legacy, "legacy_security_list") if row["stream"] == "incremental"]
    every = [*entries, *statuses, *listed]
    assert sum(row["messages"] for row in found) == len(every)
    sent = {row["msg_seq_num"]: row["sending_time_ns"] for row in every}
    assert Counter(row["t11_ns"] for row in found) == Counter(sent.values())
    assert all(row["network_ns"] is None or row["network_ns"] >= 0 for row in found)
    assert any(row["t5_ns"] is not None for row in found)
    assert {row["t4_ns"] for row in found} == {row["aggressor_time_ns"] for row in found} == {None}


def lives(lake):
    return {(row["security_id"], row["secondary_order_id"]): row for row in rows(lake, "orders")}


def differing(one, other, but):
    return [
        name
        for name in one
        if name not in {*POSITION_COLUMNS, *but}
        and plain(one[name], name) != plain(other[name], name)
    ]


def test_both_feeds_give_the_same_orders(binary, legacy):
    theirs, ours = lives(binary), lives(legacy)
    assert ours.keys() == theirs.keys()
    assert len(ours) > 500
    # A difference of times in milliseconds is off by one; messages split events into ticks.
    but = {"lifetime_ns", "queue_position", *FILLS}
    for order, row in ours.items():
        assert not differing(row, theirs[order], but), order
    unlike = [order for order, row in ours.items() if differing(row, theirs[order], but - FILLS)]
    assert len(unlike) < len(ours) / 50
    assert sum(row["fills"] for row in ours.values()) > 50


def test_orders_are_never_mistaken_for_others_after_loss(day, binary, tmp_path):
    rates = FaultRates(0.08, 0.0, 0.0)
    faults = {"A": rates, "B": rates, "snapshot": FaultRates(), "definition": FaultRates()}
    folder = simulated(tmp_path / "day", faults=faults)
    lake = build_lake(tmp_path / "lake", folder.glob("*Legacy*.pcap"))
    theirs, ours = lives(binary), lives(lake)
    assert ours.keys() <= theirs.keys()
    reasons = Counter(row["end_reason"] for row in ours.values())
    assert reasons["UNOBSERVED"]
    assert any(row["origin"] == "snapshot" for row in ours.values())
    for order, row in ours.items():
        but = {name for name in row if name not in ("side", "firm", "entered_ns")}
        assert not differing(row, theirs[order], but), order
        if row["end_reason"] in ("FILLED", "CANCELLED"):
            assert plain(row["ended_ns"], "_ns") == plain(theirs[order]["ended_ns"], "_ns"), order


def test_a_day_begun_in_the_middle_knows_phases_from_snapshots(tmp_path):
    folder = simulated(tmp_path / "day", late_join=RunPoint(share=0.5))
    lakes = {
        feed: build_lake(
            tmp_path / feed,
            [path for path in folder.glob("*.pcap") if ("Legacy" in path.name) == (feed == "old")],
        )
        for feed in ("old", "new")
    }
    last = {
        feed: {
            (row["security_group"], row["security_id"]): (row["status"], row["phase"])
            for row in rows(lake, "status")
            if row["until_ns"] is None
        }
        for feed, lake in lakes.items()
    }
    assert any(row["source"] == "snapshot phase" for row in rows(lakes["old"], "status"))
    assert last["old"] == last["new"]


def test_a_lake_with_both_feeds_has_the_analytics_of_the_binary_one(
    day, binary, tmp_path, monkeypatch
):
    flows = {
        f"{one.flow.dst}:{one.flow.dst_port}"
        for path in day.glob("*Legacy*.pcap")
        for one in captured(path)[:1]
    }
    monkeypatch.setenv(VARIABLE, ",".join(f"{flow}=201" for flow in sorted(flows)))
    lake = build_lake(tmp_path / "lake", day.glob("*.pcap"))
    for table in ("status", "auctions", "session_stats"):
        assert rows(lake, table) == rows(binary, table)


def test_levels_are_no_orders(tmp_path):
    folder = simulated(tmp_path / "day", LegacyDepth.PRICES, duration_ns=8 * SECOND)
    lake = tmp_path / "lake"
    assert ingest([str(path) for path in sorted(folder.glob("*Legacy*.pcap"))], str(lake)).committed
    analyse(LakeStore(str(lake)), tables=ANALYTICS)
    assert rows(lake, "orders") == []
    assert rows(lake, "status")


# Messages written by hand

NOON = 1_376_308_800
"""2013-08-12 12:00:00 UTC, in seconds."""
SHARE = 1111


def sent(second):
    return timestamp_digits((NOON + second) * SECOND)


def entries_at(number, *entries, second=0):
    own = [{"MDEntryDate": 20130812, "MDEntryTime": 120000000, **each} for each in entries]
    return datagram("IncrementalRefresh_152", number, SendingTime=sent(second), MDEntries=own)


def trade(number, size, price, venue=None, action=0, **more):
    own = {"TradeID": str(number), "MDStreamID": venue, **more}
    return entry("2", action, SHARE, 1, size=size, price=price, **own)


def new_session(number):
    return datagram(
        "SecurityStatus_142", number, SendingTime=sent(0), TradeDate=20130812,
        TransactTime=sent(0), SecurityID=SHARE, SecurityTradingStatus=17, SecurityTradingEvent=4,
    )  # fmt: skip


def shown_at(number, last, *rows, second=0, security=SHARE):
    """A snapshot of the market recovery stream; rows are its entries."""
    return datagram(
        "SnapshotFullRefresh_153", number, SendingTime=sent(second), LastMsgSeqNumProcessed=last,
        RptSeq=1, SecurityID=security, TotNumReports=1, MDEntries=list(rows),
    )  # fmt: skip


def lake_of(folder, monkeypatch, incremental, snapshots=(), tables=("session_stats", "bars")):
    """A lake with these datagrams of channel 51, and the analytics of their trades."""
    monkeypatch.setenv(VARIABLE, "233.1.1.1:5001=51,233.1.1.1:5002=51")
    flows = [(5001, each) for each in incremental] + [(5002, each) for each in snapshots]
    with PcapWriter(folder / "a.pcap") as writer:
        for at, (port, payload) in enumerate(flows):
            frame = udp_frame("10.0.0.1", 9, "233.1.1.1", port, payload)
            writer.write(NOON * SECOND + at, frame)
    lake = LakeStore(str(folder / "lake"))
    assert ingest([str(folder / "a.pcap")], str(folder / "lake")).committed
    analyse(lake, tables=["trades", "venue_trades", *tables])
    return folder / "lake"


def venues():
    return [
        new_session(1),
        entries_at(2, trade(10, 100, "10", TradeVolume=100)),
        entries_at(3, trade(10, 7, "99", "X"), trade(10, 8, "98", "X")),
        entries_at(4, trade(11, 5, "97", "O"), trade(12, 6, "96", "C")),
        entries_at(5, trade(12, None, "96", "C", action=2), trade(10, 9, "95", "S")),
        entries_at(6, trade(20, 50, "11", "E", TradeCondition="X", TradeVolume=150)),
        entries_at(
            7,
            entry("B", 0, SHARE, 1, size=2, price="1550", TradeVolume=150),
            entry("B", 0, SHARE, 1, size=9, price="9", TradeVolume=40, MDStreamID="O"),
            entry("9", 0, SHARE, 1, price="10"),
            entry("9", 0, SHARE, 1, price="98", MDStreamID="X"),
            entry("4", 0, SHARE, 1, price="10"),
            entry("4", 0, SHARE, 1, price="97", MDStreamID="X"),
            entry("7", 0, SHARE, 1, price="11"),
            entry("7", 0, SHARE, 1, price="99", MDStreamID="X"),
            entry("8", 0, SHARE, 1, price="10"),
            entry("8", 0, SHARE, 1, price="1", MDStreamID="C"),
        ),
    ]


def test_002_10_only_the_electronic_market_makes_trades_bars_and_statistics(tmp_path, monkeypatch):
    lake = lake_of(tmp_path, monkeypatch, venues())
    electronic = {
        (row["venue"], row["trade_id"]): (int(row["price"]), row["size"], row["publications"])
        for row in rows(lake, "trades")
    }
    assert electronic == {("E", 10): (10, 100, 1), ("E", 20): (11, 50, 1)}
    others = {
        (row["venue"], row["trade_id"]): (
            int(row["price"]), row["size"], row["publications"], row["busted"],
        )
        for row in rows(lake, "venue_trades")
    }  # fmt: skip
    assert others == {
        ("X", 10): (98, 8, 2, False), ("O", 11): (97, 5, 1, False), ("C", 12): (96, 6, 1, True),
        ("S", 10): (95, 9, 1, False),
    }  # fmt: skip
    (bar,) = [row for row in rows(lake, "bars") if row["interval"] == "1d"]
    assert (bar["volume"], int(bar["high"]), int(bar["low"]), bar["trades"]) == (150, 11, 10, 2)


def test_002_10_1_flags_that_the_feed_does_not_publish_are_null(tmp_path, monkeypatch):
    """It has no conditions or sub types for them; whether a trade is late is not known."""
    lake = lake_of(tmp_path, monkeypatch, venues())
    names = ("opening", "crossed", "same_price", "multi_asset", "out_of_sequence", "on_behalf",
             "regular", "block", "leg", "rlp", "sweep", "sets_last_price")  # fmt: skip
    found = {row["trade_id"]: [row[name] for name in names] for row in rows(lake, "trades")}
    unknown = [None] * 7
    assert found == {
        10: [False, False, False, False, *unknown, True],
        20: [False, True, False, False, *unknown, True],
    }


def test_002_7_and_15_10_averages_without_crosses_and_volumes_are_compared(tmp_path, monkeypatch):
    lake = lake_of(tmp_path, monkeypatch, venues())
    (stats,) = rows(lake, "session_stats")
    names = ("open", "high", "low", "volume", "vwap", "trades")
    published = [stats[f"published_{name}"] for name in names]
    assert published == [10, 11, 10, 150, 10, 2]
    assert (stats["compared"], stats["differences"]) == (list(names), [])
    # Ours has every trade, as on the binary feed.
    assert float(stats["vwap"]) == pytest.approx(1550 / 150)


def test_002_10_2_without_summaries_the_volume_is_that_of_the_trades(tmp_path, monkeypatch):
    lake = lake_of(tmp_path, monkeypatch, venues()[:-1])
    (stats,) = rows(lake, "session_stats")
    assert (stats["published_volume"], stats["published_trades"]) == (150, None)
    assert stats["published_vwap"] is None
    assert "volume" in stats["compared"]
    assert not {"vwap", "trades"} & {*stats["compared"], *stats["differences"]}


def test_002_7_a_wrong_average_is_found(tmp_path, monkeypatch):
    more = [entries_at(8, entry("9", 0, SHARE, 1, price="10.3333"))]
    (stats,) = rows(lake_of(tmp_path, monkeypatch, venues() + more), "session_stats")
    assert stats["differences"] == ["vwap"]


def test_002_10_3_a_deleted_average_is_none(tmp_path, monkeypatch):
    incremental = [
        new_session(1),
        entries_at(2, trade(10, 100, "10"), entry("9", 0, SHARE, 1, price="10")),
        entries_at(3, trade(20, 50, "11", TradeCondition="X")),
        entries_at(4, trade(10, None, "10", action=2), entry("9", 2, SHARE, 1, price="10")),
    ]
    (stats,) = rows(lake_of(tmp_path, monkeypatch, incremental), "session_stats")
    assert stats["published_vwap"] is None
    assert "vwap" not in stats["differences"]


def test_002_6_1_statistics_of_a_snapshot_are_as_of_its_last_message(tmp_path, monkeypatch):
    shown = [
        {"MDEntryType": "B", "MDEntrySize": 1, "TradeVolume": 100},
        {"MDEntryType": "B", "MDEntrySize": 4, "TradeVolume": 4000, "MDStreamID": "X"},
        {"MDEntryType": "9", "MDEntryPx": Decimal(10)},
        {"MDEntryType": "7", "MDEntryPx": Decimal(10)},
        {"MDEntryType": "8", "MDEntryPx": Decimal(9)},
    ]
    # It was sent after the second trade, but is as of the message before it.
    incremental = [
        entries_at(5, trade(10, 100, "10", TradeVolume=100)),
        entries_at(6, trade(20, 50, "11", TradeVolume=150), entry("7", 0, SHARE, 1, price="11")),
        entries_at(7, entry("0", 0, SHARE, 1, position=1, size=1, price="10"), second=3),
    ]
    lake = lake_of(tmp_path, monkeypatch, incremental, [shown_at(1, 5, *shown, second=2)])
    (stats,) = rows(lake, "session_stats")
    initial = [stats[f"initial_{name}"] for name in ("high", "low", "volume", "vwap", "trades")]
    assert initial == [10, 9, 100, 10, 1]
    assert (stats["session"], stats["published_volume"]) == (0, 150)
    assert (stats["compared"], stats["differences"]) == (["high", "low", "volume"], [])


@pytest.mark.parametrize("milliseconds", [True, False])
def test_002_15_11_the_channel_decides_the_unit_of_every_time(tmp_path, monkeypatch, milliseconds):
    # On PUMA 1234 is 1.234 s after midnight, on MEGABOLSA 12:34.
    usual = 120000123 if milliseconds else 120000
    incremental = [
        entries_at(1, {**trade(1, 5, "10"), "MDEntryTime": 1234}),
        entries_at(2, {**trade(2, 5, "10"), "MDEntryTime": usual}),
    ]
    lake = lake_of(tmp_path, monkeypatch, incremental, tables=())
    midnight = (NOON - 12 * 3600) * 1000
    found = {row["trade_id"]: row["time_ns"] // MILLISECOND for row in rows(lake, "trades")}
    assert found == {
        1: midnight + (1_234 if milliseconds else 754_000),
        2: NOON * 1000 + (123 if milliseconds else 0),
    }


def test_002_9_1_1_a_change_without_a_price_keeps_it_in_the_lake(tmp_path, monkeypatch):
    def bid(number, action, position, size, price=None):
        own = entry("0", action, SHARE, number, position=position, size=size, price=price)
        return entries_at(number, own)

    incremental = [
        bid(1, 0, 1, 100, "10.5"), bid(2, 0, 2, 200, "10.4"), bid(3, 0, 3, 300, "10.3"),
        bid(4, 1, 2, 50),
    ]  # fmt: skip
    lake = lake_of(tmp_path, monkeypatch, incremental, tables=())
    build_books(str(lake))
    book = book_at(LakeStore(str(lake)), str(SHARE)).book
    assert [(order.price, order.size) for order in book.orders(Side.BID)] == [
        (105_000, 100), (104_000, 50), (103_000, 300),
    ]  # fmt: skip
    (last,) = [row for row in rows(lake, "ticks") if row["sequence_number"] == 4]
    assert (last["bid_price_2"], last["bid_size_2"]) == (Decimal("10.4"), 50)


def test_days_of_the_legacy_feed_are_rebuilt_when_its_translation_changes(tmp_path, monkeypatch):
    lake = LakeStore(str(lake_of(tmp_path, monkeypatch, venues(), tables=())))
    again = analyse(lake, tables=["trades", "venue_trades"])
    assert {each.rows for each in again} == {None}
    monkeypatch.setattr("pregao.lake.analytics.run.LEGACY_RULES", -1)
    again = analyse(lake, tables=["trades", "venue_trades"])
    assert [(each.table, each.rows) for each in again] == [("trades", 2), ("venue_trades", 4)]


def listed_at(number, *securities):
    """A definition of instruments of group DI."""
    own = [
        {
            "Symbol": f"DI{security}", "SecurityID": security, "ApplIDs": [{"ApplID": "51"}],
            "SecurityUpdateAction": "A", "Product": 4, "SecurityType": "FUT",
            "SecuritySubType": "1", "SecurityDesc": "DI", "CFICode": "F", "CountryOfIssue": "BR",
            "IssueDate": 20130101, "SecurityValidityTimestamp": 0, "SecurityGroup": "DI",
        }
        for security in securities
    ]  # fmt: skip
    return datagram(
        "SecurityList_149", number, SendingTime=str(sent(0)), TotNoRelatedSym=len(own),
        LastFragment="Y", RelatedSym=own,
    )  # fmt: skip


def state_at(number, second, **values):
    return datagram(
        "SecurityStatus_142", number, SendingTime=sent(second), TradeDate=20130812,
        TransactTime=sent(second), **values,
    )  # fmt: skip


def test_002_11_1_an_undefined_state_is_unknown_in_the_table(tmp_path, monkeypatch):
    second, third, fourth = SHARE + 1, SHARE + 2, SHARE + 3
    incremental = [
        listed_at(1, SHARE, second, third, fourth),
        state_at(2, 1, SecurityGroup="DI", TradingSessionSubID="17"),
        state_at(3, 2, SecurityID=SHARE, SecurityTradingStatus=20),
        state_at(4, 3, SecurityID=SHARE, SecurityTradingStatus=17),
        state_at(5, 4, SecurityID=second, SecurityTradingStatus=2),
        state_at(6, 5, SecurityID=second, SecurityTradingStatus=20),
    ]
    shown = {"MDEntryType": "c", "TradingSessionSubID": "17", "SecurityTradingStatus": 20}
    neither = {"MDEntryType": "c", "TradingSessionSubID": "20", "SecurityTradingStatus": 20}
    snapshots = [
        shown_at(1, 6, shown, second=6, security=third),
        shown_at(2, 6, neither, second=6, security=fourth),
    ]
    lake = lake_of(tmp_path, monkeypatch, incremental, snapshots, tables=["status"])
    found = {}
    for row in sorted(rows(lake, "status"), key=lambda row: row["from_ns"] or NOON * 2 * SECOND):
        if row["security_id"] is not None:
            own = (row["status"], row["own_status"], row["trades_continuously"])
            found.setdefault(row["security_id"], []).append(own)
    follows, unknown = ("OPEN", False, True), ("UNKNOWN", True, False)
    assert found == {
        SHARE: [follows, unknown, follows],
        second: [follows, ("PAUSE", True, False), unknown],
        third: [follows, unknown],
        fourth: [follows, unknown],
    }
