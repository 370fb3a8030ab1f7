"""Implausible packets are accepted, counted and reported; they never break an ingest."""

import gzip
import shutil
import struct
from datetime import date
from pathlib import Path
from string import ascii_uppercase

import pytest

from pregao.capture import PcapWriter, datagrams, read_packets, udp_frame
from pregao.clock import SECOND
from pregao.lake.ingest import planner, task
from pregao.lake.ingest.options import IngestOptions
from pregao.lake.ingest.pipeline import ingest
from pregao.sbe.codec import SchemaCodec
from pregao.schemas.bundle import bundled
from pregao.umdf.layout import MIN_MESSAGE_SIZE, PACKET_HEADER_SIZE
from pregao.umdf.packets import PacketDecoder, PacketHeader, encode_packet
from tests.cli.market import DEFINITION, Market, definition, order
from tests.lake.days import SMALL, day, rows


def test_a_message_of_template_0_is_of_an_unknown_template(tmp_path):
    """The schema states the packet header as a message of that number; none is ever sent."""
    source = next(Path(day()).glob("*Incremental_A.pcap"))
    with read_packets(source) as reader:
        first = next(iter(datagrams(reader)))
    payload = bytearray(first.payload)
    # Of the first message's header: block length, then the template.
    struct.pack_into("<H", payload, PACKET_HEADER_SIZE + MIN_MESSAGE_SIZE - 6, 0)
    outcome = PacketDecoder().decode(bytes(payload)).outcomes[0]
    assert outcome.frame.template_id == 0
    assert outcome.decoded is None
    capture = tmp_path / "odd.pcap"
    with PcapWriter(capture) as writer:
        frame = udp_frame("10.0.0.1", 1, "233.1.1.1", 5000, bytes(payload))
        writer.write(first.time_ns, frame)
    report = ingest([str(capture)], str(tmp_path / "lake"))
    assert report.committed
    assert list(report.json()["messages"]["unknown_by_template"]) == ["0 (version 16)"]


def test_a_value_that_no_column_holds_is_null_and_counted_and_its_message_kept(tmp_path):
    pack = SchemaCodec(bundled("umdf", 16)).codec(50).packer(
        "securityID", "mDUpdateAction", "mDEntryType", "mDEntryPx", "mDEntrySize",
        "secondaryOrderID", "mDInsertTimestamp",
    )  # fmt: skip
    number = (5, 0, ord("0"), 100_000, 7, 1)
    body = encode_packet(
        PacketHeader(72, 1, 1, 1_779_368_400_000_000_000),
        [pack(*number, 2**63), pack(*number, 2**63 - 1)],
    )
    capture = tmp_path / "odd.pcap"
    with PcapWriter(capture) as writer:
        frame = udp_frame("10.0.0.1", 1, "233.1.1.1", 5000, body)
        writer.write(1_779_368_400_000_000_000, frame)
    lake = str(tmp_path / "lake")
    report = ingest([str(capture)], lake)
    counts = report.json()["messages"]
    assert (counts["decoded"], counts["rejected"]) == (2, 0)
    assert counts["nulled_values"] == {"Order_MBO_50.md_insert_timestamp_ns": 1}
    times = [row["md_insert_timestamp_ns"] for row in rows(lake, "umdf_order_mbo_50")]
    assert times == [None, 2**63 - 1]


def test_definitions_with_an_issue_date_that_is_no_date_are_stored_without_it(tmp_path):
    """Also in a lake whose definitions all had one."""
    lake = str(tmp_path / "lake")
    of_days = {
        "first": {1001: date(2026, 5, 21)},
        "second": {2001: -719163, 2002: date(1970, 1, 1), 2003: 2932897, 2004: date(1, 1, 1)},
        "third": {3001: 2**31 - 1},
    }
    for name, days in of_days.items():
        market = Market()
        for number, (security, issued) in enumerate(days.items(), 1):
            message = definition(security, f"DEMO{security}", issueDate=issued)
            market.send(message, to=DEFINITION, number=number)
        counts = ingest([str(market.write(tmp_path / f"{name}.pcap"))], lake).json()["messages"]
        assert (counts["decoded"], counts["rejected"]) == (len(days), 0)
        odd = sum(isinstance(issued, int) for issued in days.values())
        column = "SecurityDefinition_12.issue_date"
        assert counts.get("nulled_values", {}) == ({column: odd} if odd else {})
    for table in ("umdf_security_definition_12", "instruments"):
        stored = {row["security_id"]: row["issue_date"] for row in rows(lake, table)}
        assert stored == {
            1001: date(2026, 5, 21), 2001: None, 2002: date(1970, 1, 1), 2003: None,
            2004: date(1, 1, 1), 3001: None,
        }, table  # fmt: skip


def of_many_feeds(path, missing):
    """A capture of one channel on 40 destinations, of which some miss one of three packets."""
    market = Market()
    for number in (1, 2, 3):
        message = order(secondaryOrderID=number, rptSeq=number)
        for last in range(1, 41):
            if (last, number) not in missing:
                market.send(message, to=(f"233.252.14.{last}", 30001), number=number, after=0)
    return str(market.write(path))


def test_more_than_26_feeds_of_a_channel_are_told_apart(tmp_path):
    lake = str(tmp_path / "lake")
    ingest([of_many_feeds(tmp_path / "a.pcap", {(27, 2), (40, 2), (26, 2)})], lake)
    packets = rows(lake, "packets")
    feeds = {row["destination"]: row["feed"] for row in packets}
    names = [feeds[f"233.252.14.{last}:30001"] for last in range(1, 41)]
    assert names == [*ascii_uppercase, *(f"A{letter}" for letter in ascii_uppercase[:14])]
    assert len(packets) == 3 * 40 - 3
    gaps = [(row["feed"], row["first_missing"], row["closed_by"]) for row in rows(lake, "gaps")]
    assert sorted(gaps) == [("AA", 2, "feed A"), ("AN", 2, "feed A"), ("Z", 2, "feed A")]
    assert len(rows(lake, "umdf_order_mbo_50")) == 3
    # A flow of an earlier ingest keeps its feed, and a further one gets the next name.
    later = Market().send(order(rptSeq=4), to=("233.252.14.40", 30001), number=4)
    later.send(order(rptSeq=4), to=("233.252.14.0", 30001), number=4)
    ingest([str(later.write(tmp_path / "b.pcap"))], lake)
    added = {
        row["destination"]: row["feed"]
        for row in rows(lake, "packets")
        if row["sequence_number"] == 4
    }
    assert added == {"233.252.14.0:30001": "AO", "233.252.14.40:30001": "AN"}


ODD_TIMES = {"2106": (2**32 - 1) * SECOND, "1970": 1}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    lake = tmp_path_factory.mktemp("whole")
    ingest([str(day(**SMALL))], str(lake))
    return lake


def with_odd_time(folder, time_ns, share):
    """The day, with one packet of feed A captured at another time; and that packet's number."""
    folder.mkdir()
    for capture in Path(day(**SMALL)).glob("*.pcap"):
        if "Incremental_A" not in capture.name:
            shutil.copy(capture, folder)
            continue
        with read_packets(capture) as reader:
            packets = [(packet.time_ns, packet.data) for packet in reader]
        index = min(int(len(packets) * share), len(packets) - 1)
        packets[index] = (time_ns, packets[index][1])
        with PcapWriter(folder / capture.name) as writer:
            for time, data in packets:
                writer.write(time, data)
    return folder


@pytest.mark.parametrize("share", [0, 0.3, 0.5, 1])
@pytest.mark.parametrize("when", ODD_TIMES)
def test_one_invalid_time_moves_no_cut(whole, tmp_path, when, share):
    folder = with_odd_time(tmp_path / "day", ODD_TIMES[when], share)
    report = ingest([str(folder)], str(tmp_path / "lake"), IngestOptions(target_bytes=60_000))
    assert report.committed
    assert report.tasks > 3
    (note,) = (note for note in report.notes if "far from those" in note)
    assert when in note
    assert "1 packet has" in note
    same_messages(whole, tmp_path / "lake")
    spans = [(c.first_time_ns, c.last_time_ns) for c in report.captures]
    assert max(last for _, last in spans) - min(first for first, _ in spans) < 3600 * SECOND


@pytest.mark.parametrize("when", ODD_TIMES)
def test_nor_a_window_of_a_compressed_capture(whole, tmp_path, monkeypatch, when):
    monkeypatch.setattr(task, "BLOCK_BYTES", 16 * 1024)
    real = planner.IngestTask
    monkeypatch.setattr(
        planner, "IngestTask", lambda **fields: real(**fields, window_bytes=100_000)
    )
    folder = with_odd_time(tmp_path / "day", ODD_TIMES[when], 0.4)
    for capture in folder.glob("*.pcap"):
        (folder / f"{capture.name}.gz").write_bytes(gzip.compress(capture.read_bytes()))
        capture.unlink()
    report = ingest([str(folder)], str(tmp_path / "lake"), IngestOptions(skew_ns=200_000_000))
    assert report.committed
    assert any("far from those" in note for note in report.notes)
    same_messages(whole, tmp_path / "lake")


def same_messages(one, other):
    def keys(lake, table):
        names = ("channel", "stream", "sequence_version", "sequence_number", "index_in_packet")
        return sorted([row[name] for name in names] for row in rows(lake, table))

    for table in ("umdf_order_mbo_50", "umdf_trade_53", "umdf_delete_order_mbo_51"):
        assert keys(one, table) == keys(other, table)
    assert len(rows(one, "packets")) == len(rows(other, "packets"))
