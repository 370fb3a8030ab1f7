"""EntryPoint captures in the lake: the same ingest as market data, every byte accounted for."""

import shutil
from collections import Counter

import pytest

from pregao.capture import PcapWriter, read_packets
from pregao.errors import NothingFoundError
from pregao.lake.ingest.options import IngestOptions
from pregao.lake.ingest.pipeline import ingest
from pregao.lake.ingest.verify import check_lake
from pregao.lake.storage.lake_store import LakeStore
from tests.entrypoint.captured_talk import CLIENT, conversation, segments_of, write_capture
from tests.entrypoint.raw_peer import KEY, SESSION
from tests.lake.days import assert_same, day, rows

TALK = conversation(20)
SECOND = conversation(7, version=6, session_id=SESSION + 1, ids=1000)


def both(path):
    """Two connections of two versions in one capture."""
    other = segments_of(SECOND, client=("10.1.0.8", 40_002), size=70)
    return write_capture(path, segments_of(TALK), other)


def test_both_directions_of_all_connections(tmp_path):
    lake = tmp_path / "lake"
    report = ingest([both(tmp_path / "a.pcap")], str(lake))
    assert report.committed
    orders = rows(lake, "ep_simple_new_order")
    assert sorted(row["cl_ord_id"] for row in orders) == [*range(1, 21), *range(1000, 1007)]
    assert {row["sender"] for row in orders} == {"client"}
    assert Counter(row["schema_version"] for row in orders) == {2: 20, 6: 7}
    assert {row["flow"] for row in orders} == {
        "10.1.0.7:40001>10.2.0.9:9000", "10.1.0.8:40002>10.2.0.9:9000",
    }  # fmt: skip
    reports = rows(lake, "ep_execution_report_new")
    assert {row["sender"] for row in reports} == {"exchange"}
    for row in orders + reports:
        header = row["business_header"]
        assert row["sequence_number"] == header["msg_seq_num"]
        assert row["sending_time_ns"] == header["sending_time_ns"]
    assert all(row["sequence_number"] is None for row in rows(lake, "ep_sequence"))
    assert all(row["sending_time_ns"] is None for row in rows(lake, "ep_negotiate"))
    total = len(TALK.frames) + len(SECOND.frames)
    assert len(rows(lake, "ep_packets")) == total == report.messages
    assert rows(lake, "ep_rejects") == []
    capture = report.captures[0]
    assert capture.first_time_ns == TALK.sent[0].time_ns
    assert check_lake(LakeStore(str(lake))).faults == []
    again = ingest([both(tmp_path / "b.pcap")], str(lake))
    assert not again.captures
    assert again.skipped


def test_no_credentials_reach_the_lake(tmp_path):
    lake = tmp_path / "lake"
    ingest([both(tmp_path / "a.pcap")], str(lake))
    for table in ("ep_negotiate", "ep_establish"):
        for row in rows(lake, table):
            assert set(row["credentials"]) == {"*"}
    for file in lake.rglob("*.parquet"):
        assert KEY.encode() not in file.read_bytes()


def test_bytes_that_are_no_message_are_rejects(tmp_path):
    """The middle of a connection, and bytes lost: skipped bytes are reported and kept."""
    lake = tmp_path / "lake"
    segments = segments_of(TALK, size=60, syn=False)
    kept = [each for number, each in enumerate(segments) if number not in (0, 1, 2, 20)]
    path = write_capture(tmp_path / "a.pcap", kept)
    report = ingest([path], str(lake))
    rejected = rows(lake, "ep_rejects")
    assert rejected
    assert {row["reason"] for row in rejected} == {
        "bytes that are not a message; decoding resumed at the next message"
    }
    skipped = sum(len(row["bytes"]) for row in rejected)
    sizes = [row["size"] for row in rows(lake, "ep_packets")]
    assert sum(sizes) == sum(len(each[5]) for each in kept)
    decoded = [row["size"] for row in rows(lake, "ep_packets") if row["outcome"] == "decoded"]
    assert sum(sizes) - sum(decoded) == skipped
    assert report.sums.packets["rejected"] == len(rejected)
    assert check_lake(LakeStore(str(lake))).faults == []


def test_a_folder_with_market_data_and_sessions(tmp_path):
    """Market data is as without them; the report has both."""
    folder = tmp_path / "day"
    shutil.copytree(day(), folder)
    both(folder / "orders.pcap")
    lake = tmp_path / "lake"
    report = ingest([str(folder)], str(lake))
    protocols = report.json()["protocols"]
    assert protocols["entrypoint"]["messages"]["decoded"] == len(TALK.frames) + len(SECOND.frames)
    alone = tmp_path / "alone"
    ingest([str(day())], str(alone))
    theirs = [name for name in LakeStore(str(lake)).table_names() if name.startswith("ep_")]
    assert_same(alone, lake, but=theirs)
    assert not any(name.startswith("ep_") for name in LakeStore(str(alone)).table_names())
    assert check_lake(LakeStore(str(lake))).faults == []


@pytest.mark.parametrize("size", [IngestOptions().target_bytes, 40_000])
def test_one_capture_with_market_data_and_sessions(tmp_path, size):
    """However it is cut, each packet is its own protocol's; also where sessions begin late."""
    source = sorted(day().glob("*Incremental_*.pcap"))[0]
    with read_packets(source) as reader:
        packets = [(packet.time_ns, packet.data) for packet in reader]
    late = packets[-len(packets) // 10][0]
    write_capture(tmp_path / "sessions.pcap", segments_of(TALK))
    with read_packets(tmp_path / "sessions.pcap") as reader:
        own = [(late + number, packet.data) for number, packet in enumerate(reader)]
    with PcapWriter(tmp_path / "mixed.pcap") as writer:
        for time_ns, data in sorted(packets + own, key=lambda each: each[0]):
            writer.write(time_ns, data)
    lake = tmp_path / "lake"
    report = ingest([str(tmp_path / "mixed.pcap")], str(lake), IngestOptions(target_bytes=size))
    assert len(rows(lake, "ep_packets")) == len(TALK.frames)
    assert report.captures[0].statistics.tcp == len(own)
    ingest([str(source)], str(tmp_path / "alone"))
    orders = "umdf_order_mbo_50"
    assert rows(lake, orders) == rows(tmp_path / "alone", orders)
    assert check_lake(LakeStore(str(lake))).faults == []


def test_other_tcp_traffic_is_not_ingested(tmp_path):
    web = [(1 + at, CLIENT, ("10.9.9.9", 443), at, 24, b"GET / HTTP/1.1\r\n" * 50)
           for at in range(0, 80_000, 800)]  # fmt: skip
    path = write_capture(tmp_path / "web.pcap", web)
    with pytest.raises(NothingFoundError, match="100 TCP packets, none of EntryPoint"):
        ingest([path], str(tmp_path / "lake"))
    assert not (tmp_path / "lake").exists()
