"""Captures of the legacy feed in a lake: the same pipeline, separate tables."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from decimal import Decimal

import pyarrow.compute as pc
import pytest

from pregao.capture import PcapWriter, udp_frame
from pregao.clock import DAY, MILLISECOND, SECOND
from pregao.errors import UsageError
from pregao.exchange.simulation.network_faults import FaultRates
from pregao.exchange.simulation.settings import LegacyDepth, SimulationSettings
from pregao.exchange.simulation.simulation import Simulation
from pregao.fast.codec import Encoder
from pregao.fast.xml import load_templates
from pregao.lake.execution.runner import SerialRunner
from pregao.lake.ingest.options import IngestOptions
from pregao.lake.ingest.pipeline import ingest
from pregao.lake.ingest.protocols.legacy_channels import VARIABLE, channel_of
from pregao.lake.ingest.verify import check_lake
from pregao.lake.ingest.writer import write_rows
from pregao.lake.sql.duckdb_engine import DuckdbEngine
from pregao.lake.sql.examples import example
from pregao.lake.storage.commit_unit import CommitUnit
from pregao.lake.storage.lake_store import LakeStore
from pregao.legacy.messages import MessageReader, MsgType
from pregao.legacy.reassembly import Assembler, read_chunks, write_chunks
from pregao.legacy.tables import column_name
from pregao.legacy.times import timestamp_digits
from tests.exchange.capture_replay import captured, json_lines
from tests.lake.days import rows
from tests.legacy.writing import (
    SENT,
    datagram,
    entry,
    heartbeat,
    incremental,
    news,
    reset,
    snapshot,
)

START = 1_376_308_800_000_000_000
RATES = FaultRates(0.1, 0.0, 0.05)


@pytest.fixture(scope="module")
def day(tmp_path_factory):
    """A day on both feeds; the legacy feeds A and B lose a tenth each."""
    out = tmp_path_factory.mktemp("day")
    faults = {"A": RATES, "B": RATES, "snapshot": FaultRates(), "definition": FaultRates()}
    Simulation(
        SimulationSettings(
            profile="derivatives",
            out=out,
            duration_ns=4 * SECOND,
            rate=150.0,
            instruments=6,
            truth_books=1,
            legacy=LegacyDepth.ORDERS,
            faults=faults,
        )
    ).run()
    return out


@pytest.fixture(scope="module")
def lake(day, tmp_path_factory):
    """A lake with both feeds of the day."""
    folder = tmp_path_factory.mktemp("lake") / "lake"
    assert ingest([str(path) for path in sorted(day.glob("*.pcap"))], str(folder)).committed
    return folder


def messages(*paths):
    """The messages of captures, each number of a stream once, by the plain reader."""
    reader, found = MessageReader(), {}
    for path in paths:
        assembler = Assembler()
        for packet in captured(path):
            for chunk in read_chunks(packet.payload):
                whole = assembler.add(chunk, packet.time_ns)
                if whole is not None:
                    message = reader.read(whole)
                    found.setdefault((message.number, message.type), message)
    return list(found.values())


def test_rows_are_what_the_plain_reader_reads(day, lake):
    feeds = sorted(day.glob("*Legacy_Incremental_*.pcap"))
    expected = Counter()
    constants = ("SecurityIDSource", "SecurityExchange", "MsgType", "ApplVerID")
    for message in messages(*feeds):
        if message.type is MsgType.INCREMENTAL_REFRESH:
            for each in message.values["MDEntries"]:
                shown = {
                    column_name(name): Decimal(value) if isinstance(value, Decimal) else value
                    for name, value in each.items()
                    if name not in constants
                }
                if "open_close_settl_flag" in shown:
                    shown["open_close_settl_flag"] = str(shown["open_close_settl_flag"])
                shown["msg_seq_num"] = message.number
                expected[tuple(sorted(shown.items()))] += 1
    found = Counter()
    for row in rows(lake, "legacy_incremental_refresh"):
        assert row["sequence_number"] == row["msg_seq_num"]
        assert row["stream"] == "incremental"
        keys = ("channel", "stream", "sequence_version", "sequence_number", "index_in_packet",
                "event", "sending_time_ns", "capture_time_ns", "feed", "feed_difference_ns",
                "capture_id", "schema_version", "sending_time", "trade_date", "date")  # fmt: skip
        own = {k: v for k, v in row.items() if v is not None and k not in keys}
        if row["trade_date"] is not None:
            own["trade_date"] = row["trade_date"]
        found[tuple(sorted(own.items()))] += 1
    assert found == expected
    assert sum(found.values()) > 300


def test_trades_are_those_of_the_exchange_and_not_counted_twice(day, lake):
    ingested = [
        (row["security_id"], int(row["trade_id"]))
        for row in rows(lake, "legacy_incremental_refresh")
        if row["md_entry_type"] == "2" and row["md_update_action"] == 0 and row["trade_id"]
    ]
    truth = [
        (line["security_id"], line["trade_id"])
        for line in json_lines(day / "truth/trades.jsonl")
        if line["action"] == "NEW"
    ]
    lost = json.loads((day / "truth/faults.json").read_text())["channels"]
    assert all(channel["legacy A"]["lost"] for channel in lost.values())
    # An amended trade is published again under its number.
    assert Counter(ingested) <= Counter(truth)
    assert len(ingested) > 0.85 * len(truth)


def test_the_query_for_trades_leaves_out_cancelled_trades(day, lake):
    trades = (
        DuckdbEngine(LakeStore(str(lake))).query(example("legacy_trades").sql).rows().to_pylist()
    )
    standing = {}
    for line in json_lines(day / "truth/trades.jsonl"):
        key = (line["security_id"], line["trade_id"])
        standing[key] = (Decimal(line["price"]), line["size"]) if line["action"] == "NEW" else None
    found = {(row["security_id"], int(row["trade_id"])): row for row in trades}
    assert len(found) == len(trades) > 20
    wrong = [
        key
        for key, row in found.items()
        if standing[key] not in (None, (row["price"], row["size"])) or row["symbol"] is None
    ]
    # A cancellation or correction that neither feed delivered is not known.
    assert len(wrong) <= 0.05 * len(found)


def test_both_feeds_of_a_session_lie_side_by_side(day, lake, tmp_path):
    binary = [str(path) for path in sorted(day.glob("*.pcap")) if "Legacy" not in path.name]
    ingest(binary, str(tmp_path / "alone"))
    table = "umdf_trade_53"
    assert rows(lake, table) == rows(tmp_path / "alone", table)
    assert check_lake(LakeStore(str(lake))).faults == []


def test_feeds_gaps_and_streams_are_accounted_for(lake):
    packets = rows(lake, "legacy_packets")
    outcomes = Counter(row["outcome"] for row in packets)
    assert set(outcomes) == {"decoded", "duplicate"}
    assert {row["stream"] for row in packets} == {"incremental", "recovery", "definition"}
    closed = Counter(row["closed_by"] for row in rows(lake, "legacy_gaps"))
    assert closed["feed A"]
    assert closed["feed B"]


def test_definitions_and_snapshots_in_chunks_have_their_rows(lake):
    listed = rows(lake, "legacy_security_list")
    assert {row["symbol"] for row in listed}
    assert json.loads(listed[0]["appl_ids"])[0]["ApplID"].isdigit()
    book = rows(lake, "legacy_snapshot_full_refresh")
    assert max(row["index_in_packet"] for row in book) > 20
    assert {row["md_entry_type"] for row in book} >= {"0", "1", "c"}


def capture(path, payloads):
    with PcapWriter(path) as writer:
        for number, (port, payload) in enumerate(payloads):
            frame = udp_frame("10.0.0.1", 9, "233.1.1.1", port, payload)
            writer.write(START + number * 1000, frame)
    return str(path)


def test_what_cannot_be_read_is_in_rejects_and_costs_nothing_else(tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, "233.1.1.1:5001=51,233.1.1.1:5002=51")
    bid = entry("0", 0, 1111, 1, position=1, size=100, price="10.5")
    broken = bytearray(news(3))
    broken[-1] &= 0x7F
    other_number = bytearray(news(4))
    other_number[3] = 9
    chunks = snapshot(1, 5, 5, *[("0", size, "10.00") for size in range(1, 200)])
    payloads = [
        (5001, incremental(1, bid)), (5001, news(2)), (5001, bytes(broken)),
        (5001, bytes(other_number)), (5001, news(5) + b"\x00\x01"), (5001, heartbeat(6)),
        (5001, reset()), (5001, incremental(1, bid)), *((5002, each) for each in chunks[:-1]),
    ]  # fmt: skip
    report = ingest([capture(tmp_path / "a.pcap", payloads)], str(tmp_path / "lake"))
    assert report.committed
    reasons = Counter(row["reason"] for row in rows(tmp_path / "lake", "legacy_rejects"))
    assert reasons == {
        "the message ends in the middle of a field": 1,
        "tag 34 is not the number in the header": 1,
        "too short for a technical header": 1,
        f"only {len(chunks) - 1} of {len(chunks)} chunks": 1,
    }
    assert [row["msg_seq_num"] for row in rows(tmp_path / "lake", "legacy_news")] == [2, 5]
    assert len(rows(tmp_path / "lake", "legacy_heartbeat")) == 1
    assert check_lake(LakeStore(str(tmp_path / "lake"))).faults == []


def test_002_14_1_1_the_portfolio_of_an_index_is_a_column_of_its_definition(tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, "233.1.1.1:5001=55")
    own = {
        "Symbol": "IBOV", "SecurityID": 1, "ApplIDs": [{"ApplID": "55"}],
        "SecurityUpdateAction": "A", "Product": 4, "SecurityType": "INDEX", "SecuritySubType": "1",
        "SecurityDesc": "IBOVESPA", "CFICode": "M", "CountryOfIssue": "BR", "IssueDate": 20130101,
        "SecurityValidityTimestamp": 0, "SecurityGroup": "IDX",
        "Underlyings": [
            {"UnderlyingSymbol": "ALLL11", "UnderlyingSecurityID": 11,
             "IndexPct": Decimal("1.136")},
            {"UnderlyingSymbol": "PETR4", "UnderlyingSecurityID": 13,
             "IndexPct": Decimal("16.008")},
        ],
    }  # fmt: skip
    listed = datagram(
        "SecurityList_149", 1, SendingTime=str(SENT), TotNoRelatedSym=1, LastFragment="Y",
        RelatedSym=[own],
    )  # fmt: skip
    assert ingest(
        [capture(tmp_path / "a.pcap", [(5001, listed), (5001, reset())])], str(tmp_path / "lake")
    ).committed
    (found,) = rows(tmp_path / "lake", "legacy_security_list")
    parts = [
        (each["UnderlyingSymbol"], each["UnderlyingSecurityID"], Decimal(str(each["IndexPct"])))
        for each in json.loads(found["underlyings"])
    ]
    assert (found["channel"], found["symbol"]) == (55, "IBOV")
    assert parts == [("ALLL11", 11, Decimal("1.136")), ("PETR4", 13, Decimal("16.008"))]


def test_a_flow_without_a_named_channel_is_an_error(tmp_path):
    own = capture(tmp_path / "a.pcap", [(5001, news(1)), (5001, news(2))])
    with pytest.raises(UsageError, match=r"PREGAO_LEGACY_CHANNELS='233\.1\.1\.1:5001=51'"):
        ingest([own], str(tmp_path / "lake"))


def test_channels_of_flows_can_be_named(monkeypatch):
    assert channel_of("233.252.14.5:30725") == channel_of("233.252.14.6:30726") == 72
    monkeypatch.setenv(VARIABLE, "233.1.1.1:5001=51, 233.1.1.2:6001=51")
    assert channel_of("233.1.1.1:5001") == channel_of("233.1.1.2:6001") == 51
    for wrong in ("nonsense", "233.1.1.1:5001=256", f"a:1={'9' * 5000}", "a:1=\u00b2"):
        monkeypatch.setenv(VARIABLE, wrong)
        with pytest.raises(UsageError, match="ADDRESS:PORT=CHANNEL"):
            channel_of("233.1.1.1:5001")


def sent(seconds):
    """The sending time of a message, ``seconds`` after the first."""
    return {"SendingTime": timestamp_digits(START + round(seconds * 1000) * MILLISECOND)}


def test_002_5_3_7_numbers_may_restart_within_a_second(tmp_path, monkeypatch):
    """Each channel is a case: what was received on feeds A and B."""
    old = [news(number, **sent(0)) for number in (1, 2)]
    new = [news(number, **sent(0.6)) for number in (1, 2)]
    again = reset(**sent(0.6))
    third = news(3, **sent(0.6))
    channels = {
        51: [[*old, again, *new]] * 2,
        52: [[*old, *new]] * 2,  # the reset was lost
        53: [[old[0], new[1], third], [old[1], again, third]],  # no feed's numbers go back
        # Each site states its own sending time.
        54: [[news(at, **sent(0.2 * at + late)) for at in (1, 2)] for late in (0, 0.3)],
    }
    flows = {
        f"233.1.{feed}.{channel}": (channel, payloads)
        for channel, feeds in channels.items()
        for feed, payloads in enumerate(feeds)
    }
    named = ",".join(f"{address}:5001={channel}" for address, (channel, _) in flows.items())
    monkeypatch.setenv(VARIABLE, named)
    with PcapWriter(tmp_path / "all.pcap") as writer:
        for address, (_, payloads) in flows.items():
            for payload in payloads:
                writer.write(START, udp_frame("10.0.0.1", 9, address, 5001, payload))
    assert ingest([str(tmp_path / "all.pcap")], str(tmp_path / "lake")).committed
    found = {channel: [] for channel in channels}
    for row in rows(tmp_path / "lake", "legacy_news"):
        sent_ms = (row["sending_time_ns"] - START) // MILLISECOND
        found[row["channel"]].append((sent_ms, row["msg_seq_num"]))
    assert {channel: sorted(own) for channel, own in found.items()} == {
        51: [(0, 1), (0, 2), (600, 1), (600, 2)],
        52: [(0, 1), (0, 2), (600, 1), (600, 2)],
        53: [(0, 1), (0, 2), (600, 2), (600, 3)],
        54: [(200, 1), (400, 2)],
    }
    lake = LakeStore(str(tmp_path / "lake"))
    assert check_lake(lake).faults == []
    packets = lake.delta("legacy_packets").to_pyarrow_table()
    decoded = packets.filter(pc.equal(packets["outcome"], "decoded")).drop_columns(["date"])
    own = decoded.filter(decoded["sequence_number"].is_valid())
    written = write_rows(lake.location, "legacy_packets", own.slice(0, 3), START // DAY)
    lake.commit(CommitUnit("twice", ("nobody",), lake.new_files([written])))
    expected = "legacy_packets: on 2013-08-12, 3 sequence numbers were decoded more than once"
    assert expected in check_lake(lake).faults


def test_002_5_3_7_numbers_that_restart_are_no_duplicates_and_no_gaps(tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, "233.1.1.1:5001=51,233.1.1.2:5001=51")
    first = [news(number, **sent(0)) for number in (1, 2, 3)]
    restarted = [reset(), *(news(number, **sent(5)) for number in (1, 2, 4))]
    for name, address in (("a", "233.1.1.1"), ("b", "233.1.1.2")):
        with PcapWriter(tmp_path / f"{name}.pcap") as writer:
            for at, payload in enumerate([*first, *restarted]):
                frame = udp_frame("10.0.0.1", 9, address, 5001, payload)
                writer.write(START + at * SECOND, frame)
    lake = tmp_path / "lake"
    report = ingest([str(tmp_path / "a.pcap"), str(tmp_path / "b.pcap")], str(lake))
    assert report.committed
    received = [(row["sending_time_ns"], row["msg_seq_num"]) for row in rows(lake, "legacy_news")]
    assert sorted(received) == [
        (START + wait * SECOND, number)
        for wait, numbers in ((0, (1, 2, 3)), (5, (1, 2, 4)))
        for number in numbers
    ]
    assert report.gaps == []
    assert check_lake(LakeStore(str(lake))).faults == []


def test_002_15_7_numbers_continue_over_the_hours_and_over_heartbeats(tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, "233.1.1.1:5001=51")
    payloads = [
        news(1, **sent(0)), heartbeat(2, **sent(10)), news(3, **sent(600)) + news(4, **sent(600)),
        news(5, **sent(3600)), news(8, **sent(7200)),
    ]  # fmt: skip
    own = capture(tmp_path / "a.pcap", [(5001, payload) for payload in payloads])
    report = ingest([own], str(tmp_path / "lake"))
    assert [(gap["first_missing"], gap["last_missing"]) for gap in report.gaps] == [(6, 7)]


NEWER = """<templates><template name="MDIncNew_300" id="300" dictionary="300">
<string name="MessageType" id="35"><constant value="X"/></string>
<uInt32 name="Number" id="34"/><uInt64 name="Sent" id="52"/>
<sequence name="Rows"><length name="NoRows" id="268"/>
<string name="Kind" id="269"/><uInt64 name="Instrument" id="48"/>
<uInt32 name="Count" id="83"/><decimal name="Price" id="270" presence="optional"/></sequence>
</template></templates>"""


def test_002_5_3_1_captures_are_read_with_the_templates_of_another_file(tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, "233.1.1.1:5001=51")
    file = tmp_path / "newer.xml"
    file.write_text(NEWER)
    encoder = Encoder(load_templates(file), reset_each_message=True)
    payloads = []
    for number in (1, 2):
        row = {"Kind": "0", "Instrument": 7, "Count": number, "Price": Decimal("1.5")}
        when = timestamp_digits(START)
        message = encoder.encode("MDIncNew_300", {"Number": number, "Sent": when, "Rows": [row]})
        payloads += [(5001, each) for each in write_chunks(number, message, 1420)]
    own = capture(tmp_path / "a.pcap", payloads)
    with_file = IngestOptions(schema_files=(str(file),))
    assert ingest([own], str(tmp_path / "lake"), with_file).committed
    found = rows(tmp_path / "lake", "legacy_incremental_refresh")
    names = ("msg_seq_num", "md_entry_type", "security_id", "rpt_seq", "md_entry_px")
    assert [tuple(row[name] for name in names) for row in found] == [
        (number, "0", 7, number, Decimal("1.5")) for number in (1, 2)
    ]
    assert {row["schema_version"] for row in found} == {300}
    # Without it, the template is unknown.
    report = ingest([own], str(tmp_path / "other"), allow_empty=True)
    assert not report.messages


@pytest.mark.parametrize("compressed", [False, True])
def test_002_5_3_7_a_reset_near_a_cut_between_tasks_loses_and_doubles_nothing(
    tmp_path, monkeypatch, compressed
):
    monkeypatch.setenv(VARIABLE, "233.1.1.1:5001=51,233.1.1.2:5001=51")
    # Numbers restart every few seconds, within the same ten minutes, and tasks are small: one cut
    # or another lies before, at and after a reset.
    sent_packets, number = [], 0
    for at in range(1_200):
        if at % 170 == 169:
            number = 0
            sent_packets.append((at, reset()))
        number += 1
        sent_packets.append((at, news(number, "n" * 60, **sent(at // 20))))
    ending = ".pcap.gz" if compressed else ".pcap"
    names = []
    for name, address, late in (("a", "233.1.1.1", 0), ("b", "233.1.1.2", 3_000_000)):
        names.append(str(tmp_path / f"{name}{ending}"))
        with PcapWriter(names[-1]) as writer:
            for at, payload in sent_packets:
                frame = udp_frame("10.0.0.1", 9, address, 5001, payload)
                writer.write(START + at * SECOND // 20 + late, frame)
    monkeypatch.setattr("pregao.lake.ingest.task.BLOCK_BYTES", 8_192)

    class SmallWindows(SerialRunner):
        def run(self, job, tasks, advanced):
            small = [replace(task, window_bytes=40_000) for task in tasks]
            return super().run(job, small, advanced)

    options = IngestOptions(target_bytes=16_384)
    report = ingest(names, str(tmp_path / "lake"), options, runner=SmallWindows())
    assert report.committed
    assert (report.tasks > 5) is not compressed
    found = Counter(
        (row["sending_time_ns"], row["msg_seq_num"])
        for row in rows(tmp_path / "lake", "legacy_news")
    )
    expected, number = Counter(), 0
    for at in range(1_200):
        number = 1 if at % 170 == 169 else number + 1
        expected[START + at // 20 * SECOND, number] += 1
    assert found == expected
    assert set(found.values()) == {1}
