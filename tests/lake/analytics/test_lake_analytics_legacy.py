"""Analytics of the legacy feed: one session on both feeds gives the same rows, except for what
the feed does not publish."""

from __future__ import annotations

from collections import Counter

import pytest

from pregao.clock import MILLISECOND, SECOND
from pregao.exchange.simulation.network_faults import FaultRates
from pregao.exchange.simulation.settings import LegacyDepth, RunPoint, SimulationSettings
from pregao.exchange.simulation.simulation import Simulation
from pregao.lake.analytics.run import ANALYTICS, analyse
from pregao.lake.books.build import build_books
from pregao.lake.ingest.pipeline import ingest
from pregao.lake.ingest.protocols.legacy_channels import VARIABLE
from pregao.lake.storage.lake_store import LakeStore
from tests.exchange.capture_replay import captured
from tests.lake.analytics_support import assert_same_on_spark
from tests.lake.days import rows

POSITION_COLUMNS = {
    "event", "start_event", "end_event", "sequence_version", "sequence_number", "index_in_packet",
}  # fmt: skip
"""Where something is in the stream, which is another on each feed."""
TABLES = ["status", "auctions", "session_stats", "latency", "orders"]
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
    analyse(None, LakeStore(str(lake)), tables=TABLES)
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
    packets = Counter(row["sending_time_ns"] > 0 for row in rows(legacy, "legacy_packets"))
    assert packets[False] > 100  # later chunks of a message
    analyse(None, LakeStore(str(legacy)), tables=["clock_offsets"])
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
    # Entries do not state their session, and trades not whether they are late.
    but = ["trading_session_id", "last", "last_price_high", "last_price_low"]
    found = row_counts(legacy, "session_stats", but)
    assert found == row_counts(binary, "session_stats", but)
    assert all(dict(row)["equal"] for row in found)


def test_the_times_of_every_message_are_in_latency(legacy):
    found = rows(legacy, "latency")
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
    analyse(None, LakeStore(str(lake)), tables=ANALYTICS)
    assert rows(lake, "orders") == []
    assert rows(lake, "status")


def test_spark_makes_the_same_rows(spark, legacy):
    build_lake = assert_same_on_spark(spark, LakeStore(str(legacy)), ["auctions", "orders"])
    assert build_lake["orders"] > 500
