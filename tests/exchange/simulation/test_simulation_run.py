"""Complete runs: the captures and their truth, read by code that does not know the engine."""

from __future__ import annotations

import errno
import hashlib
import json
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pregao.clock import SECOND
from pregao.errors import UsageError
from pregao.exchange.simulation.network_faults import FaultRates
from pregao.exchange.simulation.settings import (
    SCHEMA_VERSIONS,
    Compression,
    RunPoint,
    SimulationSettings,
    parse_moment,
    parse_reset,
)
from pregao.exchange.simulation.simulation import Simulation
from pregao.exchange.simulation.truth import TruthWriter
from pregao.exchange.traders.profiles import bundled_profiles, load_profile
from pregao.umdf.templates import IMPLIED
from tests.exchange.capture_replay import (
    Replay,
    arbitrated,
    captured,
    checked_books,
    joined_late,
    json_lines,
    packets,
)
from tests.exchange.feed_reader import END


def run(out: Path, profile: str = "equities", **changes: Any) -> dict[str, Any]:
    chosen: dict[str, Any] = {
        "duration_ns": 6 * SECOND,
        "rate": 250.0,
        "instruments": 12,
        "truth_books": 4,
    } | changes
    Simulation(SimulationSettings(profile=profile, out=out, **chosen)).run()
    summary: dict[str, Any] = json.loads((out / "truth/summary.json").read_text())
    return summary


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A day without faults, for all tests that only read it."""
    out: Path = tmp_path_factory.mktemp("plain")
    run(out)
    return out


def hashes(out: Path) -> dict[str, str]:
    return {
        str(path.relative_to(out)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(out.rglob("*"))
        if path.is_file()
    }


def test_same_settings_same_bytes(tmp_path):
    faults = dict.fromkeys(("A", "B", "snapshot", "definition"), FaultRates(0.02, 0.02, 0.02))
    for name in ("one", "two"):
        run(tmp_path / name, faults=faults)
    run(tmp_path / "other", faults=faults, seed=2)
    one, two, other = (hashes(tmp_path / name) for name in ("one", "two", "other"))
    assert len(one) == 8
    assert one == two
    assert not set(one.values()) & set(other.values())


def test_faults_do_not_change_what_the_market_does(plain, tmp_path):
    run(
        tmp_path / "faulty",
        faults=dict.fromkeys(("A", "B", "snapshot", "definition"), FaultRates(0.1)),
    )
    for name in ("books.jsonl", "trades.jsonl"):
        sound, faulty = (each / "truth" / name for each in (plain, tmp_path / "faulty"))
        assert sound.read_bytes() == faulty.read_bytes()


@pytest.mark.parametrize("profile", bundled_profiles())
def test_each_profile_gives_books_and_trades_that_a_replay_agrees_with(tmp_path, profile):
    summary = run(tmp_path, profile, instruments=None, rate=300.0)
    assert summary["trades"] > (5 if profile == "thin-derivatives" else 20)
    busts = 0
    for number in map(int, summary["channels"]):
        lines = list(checked_books(tmp_path, number, 16))
        assert lines
        assert sum(line["final"] for line in lines) * 4 <= len(lines) * 2
        replay = Replay(16)
        for packet in arbitrated(tmp_path, number):
            replay.apply(packet)
        traded = [x for x in json_lines(tmp_path / "truth/trades.jsonl") if x["channel"] == number]
        assert replay.trades == [
            (x["security_id"], x["trade_id"], x["price"], x["size"])
            for x in traded
            if x["action"] == "NEW"
        ]
        assert replay.busts == [
            (x["security_id"], x["trade_id"]) for x in traded if x["action"] == "BUST"
        ]
        busts += len(replay.busts)
    assert busts == summary["busts"]
    assert busts or not load_profile(profile).operations["bust"]


def test_000_18_1_implied_orders_of_a_day_are_derived_from_the_legs(tmp_path):
    run(tmp_path, "derivatives", instruments=None, rate=400.0)
    compared = 0
    for definitions in sorted(tmp_path.glob("*_InstrumentDefinition.pcap")):
        legs = {
            decoded.values["securityID"]: decoded.values["noLegs"]
            for packet in packets(definitions)
            for decoded in packet.messages
            if decoded.message.name == "SecurityDefinition_12"
            and decoded.values["impliedMarketIndicator"] == "IMPLIED"
        }
        replay = Replay(16)
        for packet in arbitrated(tmp_path, int(definitions.name[:3])):
            for decoded in packet.messages:
                values = decoded.values
                replay.message(decoded.message.name.rsplit("_", 1)[0], values)
                if decoded.message.name != "Order_MBO_50" or not (
                    values["matchEventIndicator"] & IMPLIED and values["mDUpdateAction"] == "NEW"
                ):
                    continue
                implied = Decimal(0)
                for leg in legs[values["securityID"]]:
                    buys = (leg["legSide"] == "BUY") == (values["mDEntryType"] == "BID")
                    kind = "BID" if buys else "OFFER"
                    sign = 1 if leg["legSide"] == "BUY" else -1
                    best = Decimal(replay.book(leg["legSecurityID"], kind)[0][0])
                    implied += sign * leg["legRatioQty"] * best
                assert values["mDEntryPx"] == implied
                compared += 1
    assert compared > 20


@pytest.mark.parametrize("version", SCHEMA_VERSIONS)
def test_each_schema_version_can_be_replayed(tmp_path, version):
    summary = run(tmp_path, schema_version=version, instruments=8, duration_ns=4 * SECOND)
    assert summary["trades"] > 5
    lines = list(checked_books(tmp_path, 51, version))
    assert len(lines) >= 4 * 8
    assert any(len(line["bids"]) > 5 for line in lines)
    seen = {decoded.version for packet in arbitrated(tmp_path, 51) for decoded in packet.messages}
    assert seen == {version}


def test_000_12_1_most_replaced_orders_of_an_anonymous_market_keep_their_numbers(tmp_path):
    replaced: dict[bool, int] = {True: 0, False: 0}
    run(tmp_path, "thin-derivatives", schema_version=8, duration_ns=10 * SECOND)
    assert all(checked_books(tmp_path, 72, 8))
    for packet in arbitrated(tmp_path, 72):
        for gone, came in pairwise(packet.messages):
            if [x.message.name for x in (gone, came)] == ["DeleteOrder_MBO_51", "Order_MBO_50"]:
                in_one_event = not gone["matchEventIndicator"] & END
                if in_one_event and gone["mDEntrySize"] is not None:
                    replaced[gone["secondaryOrderID"] == came["secondaryOrderID"]] += 1
    # On a real feed of this version it was 347 of 355.
    assert replaced[True] > 20
    assert replaced[True] > 5 * replaced[False]


def test_every_packet_is_on_both_feeds_at_its_own_time(plain):
    feeds = [captured(plain / f"051_Incremental_{feed}.pcap") for feed in "AB"]
    payloads = [[datagram.payload for datagram in feed] for feed in feeds]
    assert payloads[0] == payloads[1]
    times = [[datagram.time_ns for datagram in feed] for feed in feeds]
    assert times[0] != times[1]
    for feed in times:
        assert feed == sorted(feed)
    for datagram, packet in zip(feeds[0], packets(plain / "051_Incremental_A.pcap"), strict=True):
        assert packet.header.sending_time_ns < datagram.time_ns
        assert len(datagram.payload) <= 1400
    assert len({(x.dst, x.dst_port) for feed in feeds for x in feed}) == 2


def test_auctions_publish_news_if_a_profile_defines_their_end(tmp_path):
    """Extensions and random ends; other profiles' auctions end when they are scheduled to."""
    run(tmp_path, "thin-derivatives", duration_ns=30 * SECOND, rate=4000.0)
    headlines = {
        found.values["headline"].rpartition(" - ")[2]
        for path in sorted(tmp_path.glob("*_Incremental_A.pcap"))
        for packet in packets(path)
        for found in packet.messages
        if found.message.name == "News_5"
    }
    assert {"random end", "extension"} <= headlines
    rules = [load_profile(name).auction_ends for name in bundled_profiles()]
    assert rules[:3] == [None] * 3


def test_the_day_has_an_opening_auction_a_closing_call_and_an_after_market(plain):
    replay = Replay(16)
    phases: list[str] = []
    theoretical_before_open = 0
    for packet in arbitrated(plain, 51):
        replay.apply(packet)
        for decoded in packet.messages:
            if decoded.message.name == "SecurityGroupPhase_10":
                phase = decoded.values["tradingSessionSubID"]
                if decoded.values["securityGroup"].startswith("01") and phases[-1:] != [phase]:
                    phases.append(phase)
            elif decoded.message.name == "TheoreticalOpeningPrice_16" and "OPEN" not in phases:
                theoretical_before_open += 1
    assert phases == [
        "CLOSE", "RESERVED", "OPEN", "FINAL_CLOSING_CALL", "CLOSE", "RESERVED", "OPEN", "CLOSE",
    ]  # fmt: skip
    assert theoretical_before_open > 0
    # The trades of the uncrossing have no summary, so there are more trades than in summaries.
    assert replay.templates["OpeningPrice"] > 0
    assert replay.templates["ClosingPrice"] > 0


def test_the_snapshot_stream_shows_the_books_of_the_truth(plain):
    """A snapshot made after the last change of an instrument has the orders of its final book."""
    last: dict[int, tuple[int | None, list[int]]] = {}
    now = 0
    for packet in packets(plain / "051_Snapshot.pcap"):
        for decoded in packet.messages:
            if decoded.message.name == "SnapshotFullRefresh_Header_30":
                now = decoded.values["securityID"]
                last[now] = decoded.values["lastRptSeq"], []
            elif decoded.message.name == "SnapshotFullRefresh_Orders_MBO_71":
                last[now][1].extend(
                    entry["secondaryOrderID"] for entry in decoded.values["noMDEntries"]
                )
    compared = 0
    for line in json_lines(plain / "truth/books.jsonl"):
        rpt_seq, numbers = last.get(line["security_id"], (None, []))
        if line["final"] and rpt_seq == line["rpt_seq"]:
            compared += 1
            assert numbers == [order[2] for order in line["bids"] + line["asks"]]
    assert compared >= 6


def test_faults_in_the_truth_are_those_in_the_capture(plain, tmp_path):
    rates = {
        "A": FaultRates(0.03, 0.02, 0.02),
        "B": FaultRates(0.05, 0.01, 0.03),
        "snapshot": FaultRates(0.1),
        "definition": FaultRates(),
    }
    run(tmp_path / "faulty", faults=rates)
    truth = json.loads((tmp_path / "faulty/truth/faults.json").read_text())["channels"]["51"]
    sent = _numbers(plain / "051_Incremental_A.pcap")
    assert len(sent) == len(set(sent)) > 500
    missing = {}
    for feed in "AB":
        got = _numbers(tmp_path / f"faulty/051_Incremental_{feed}.pcap")
        missing[feed] = set(sent) - set(got)
        late = 0
        latest = (0, 0)
        for index, key in enumerate(got):
            if key < latest and key not in got[:index]:
                late += 1
            latest = max(latest, key)
        assert truth[feed] == {
            "lost": len(missing[feed]),
            "reordered": late,
            "duplicated": len(got) - len(set(got)),
        }
        assert all(truth[feed].values())
    assert truth["lost_on_both"] == len(missing["A"] & missing["B"]) > 0
    snapshots = [_numbers(each / "051_Snapshot.pcap") for each in (plain, tmp_path / "faulty")]
    assert truth["snapshot"]["lost"] == len(snapshots[0]) - len(snapshots[1]) > 0
    assert not any(truth["definition"].values())


def _numbers(path: Path) -> list[tuple[int, int]]:
    return [
        (packet.header.sequence_version, packet.header.sequence_number)
        for packet in packets(path)
        if packet.header.sequenced
    ]


def test_late_join_leaves_out_earlier_packets(plain, tmp_path):
    summary = run(tmp_path / "late", late_join=parse_moment("--late-join", "0.5"))
    begin = summary["capture_from_ns"]
    assert begin == summary["start_ns"] + 3 * SECOND
    for name in ("051_Incremental_A.pcap", "051_Snapshot.pcap", "051_InstrumentDefinition.pcap"):
        whole, late = (
            [x.payload for x in captured(each / name)] for each in (plain, tmp_path / "late")
        )
        assert late
        assert whole[-len(late) :] == late
        assert packets(tmp_path / "late" / name)[0].header.sending_time_ns >= begin
    assert (plain / "truth/books.jsonl").read_bytes() == (
        tmp_path / "late/truth/books.jsonl"
    ).read_bytes()


def test_resets_resend_the_books(tmp_path):
    resets = tuple(parse_reset(text) for text in ("0.4", "sequence@0.7"))
    summary = run(tmp_path, resets=resets)
    assert summary["channels"]["51"]["sequence_version"] == 2
    replay = Replay(16)
    for packet in arbitrated(tmp_path, 51):
        replay.apply(packet)
    assert replay.templates["ChannelReset"] == 2
    assert replay.templates["SequenceReset"] == 1
    assert replay.templates["EmptyBook"] >= 2 * 8
    lines = list(checked_books(tmp_path, 51, 16))
    assert {line["sequence_version"] for line in lines} == {1, 2}


def test_messages_end_the_run_and_fill_its_duration(tmp_path):
    summary = run(tmp_path, rate=None, messages=3000)
    assert 3000 <= summary["messages"] < 3200
    length = summary["end_ns"] - summary["start_ns"]
    assert 5 * SECOND < length <= 6 * SECOND
    assert list(checked_books(tmp_path, 51, 16))


def test_a_rate_with_messages_ends_the_run_early(tmp_path):
    summary = run(tmp_path, rate=2000.0, messages=1500)
    assert 1500 <= summary["messages"] < 1700
    assert summary["end_ns"] - summary["start_ns"] < 3 * SECOND


@pytest.mark.parametrize("compression", [Compression.GZIP, Compression.ZSTD])
def test_compressed_captures_hold_the_same_packets(tmp_path, compression):
    short: dict[str, Any] = {"duration_ns": SECOND, "instruments": 3}
    run(tmp_path / "plain", **short)
    run(tmp_path / "small", compression=compression, **short)
    name = "051_Incremental_A.pcap"
    small = tmp_path / "small" / f"{name}{compression.ending}"
    assert [x.payload for x in captured(small)] == [
        x.payload for x in captured(tmp_path / "plain" / name)
    ]


def test_many_instruments_are_generated_with_distinct_names(tmp_path):
    summary = run(tmp_path, instruments=120, duration_ns=2 * SECOND)
    symbols = [each["symbol"] for each in summary["instruments"]]
    assert len(symbols) == len(set(symbols)) == 120
    names = {
        decoded.values["symbol"]
        for number in map(int, summary["channels"])
        for packet in packets(tmp_path / f"{number:03d}_InstrumentDefinition.pcap")
        for decoded in packet.messages
        if decoded.message.name == "SecurityDefinition_12"
    }
    assert set(symbols) <= names


def test_a_late_join_by_share_of_the_run(tmp_path):
    simulation = Simulation(
        SimulationSettings(
            profile="equities",
            out=tmp_path,
            duration_ns=60 * SECOND,
            late_join=RunPoint(share=0.25),
        )
    )
    day = simulation.day
    assert simulation.capture_from_ns == day.start_ns + 15 * SECOND


@settings(max_examples=5, deadline=None)
@given(st.integers(0, 10**9), st.sampled_from(bundled_profiles()), st.sampled_from(SCHEMA_VERSIONS))
def test_any_seed_gives_books_that_a_replay_agrees_with(seed, profile, version):
    with TemporaryDirectory() as name:
        out = Path(name)
        changes = {"seed": seed, "schema_version": version, "duration_ns": 2 * SECOND}
        summary = run(out, profile, instruments=None, rate=200.0, **changes)
        for number in map(int, summary["channels"]):
            assert list(checked_books(out, number, version))


def test_a_session_that_begins_in_the_middle_of_the_day(tmp_path):
    """Trades of the previous session no longer count and are not busted."""
    schedule = tmp_path / "schedule.toml"
    schedule.write_text(
        "".join(
            f'[[schedule.default]]\ntime = "{time}"\nphase = "{phase}"\nnew_session = {new}\n'
            for time, phase, new in (
                ("10:00", "RESERVED", "true"),
                ("10:05", "OPEN", "false"),
                ("11:00", "RESERVED", "true"),
                ("11:05", "OPEN", "false"),
                ("12:00", "CLOSE", "false"),
            )
        ),
        encoding="utf-8",
    )
    out = tmp_path / "day"
    summary = run(out, "stress", schedule_file=schedule, instruments=None)
    assert summary["busts"] > 0
    for number in map(int, summary["channels"]):
        assert list(checked_books(out, number, 16))


def test_a_full_disk_is_a_one_line_error(tmp_path, monkeypatch):
    def full(*_arguments: object, **_named: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(TruthWriter, "book", full)
    with pytest.raises(UsageError, match="cannot be written: No space left on device"):
        run(tmp_path / "day")


def test_a_late_joiner_has_the_same_books_in_the_end(tmp_path):
    late = parse_moment("--late-join", "0.5")
    faults = dict.fromkeys(("A", "B", "snapshot", "definition"), FaultRates(duplicate=0.1))
    summary = run(tmp_path, late_join=late, faults=faults)
    assert summary["channels"]["51"]["last_sequence_number"] > 500
    replay = joined_late(tmp_path, 51)
    compared = 0
    for line in json_lines(tmp_path / "truth/books.jsonl"):
        if line["final"]:
            compared += len(line["bids"]) + len(line["asks"])
            assert replay.book(line["security_id"], "BID") == line["bids"]
            assert replay.book(line["security_id"], "OFFER") == line["asks"]
            assert replay.rpt_seq[line["security_id"]] == line["rpt_seq"]
    assert compared > 50


def test_what_has_happened_is_sent_a_little_later(tmp_path):
    """T5 comes before T10, by microseconds, and packets keep their order."""
    run(tmp_path, instruments=8, duration_ns=4 * SECOND)
    sent, seen = [], 0
    for packet in arbitrated(tmp_path, 51):
        sent.append(packet.header.sending_time_ns)
        for decoded in packet.messages:
            # A trade that is entered by hand may have happened long ago.
            if decoded.message.name.startswith(("Order_MBO", "DeleteOrder")):
                happened = decoded["transactTime"]
                assert happened <= sent[-1] < happened + SECOND
                seen += happened < sent[-1]
    assert seen > 100
    assert sent == sorted(sent)
