"""``pregao info``: the account of captures, in tables and in JSON."""

import json

import pytest

from pregao.capture import PcapWriter, tcp_frame, udp_frame
from tests.cli.market import (
    DEFINITION,
    INCREMENTAL,
    SNAPSHOT,
    START,
    Market,
    definition,
    heartbeat,
    order,
    reset,
    small_market,
)


def capture_info(pregao, *arguments):
    result = pregao("info", *arguments, "--json")
    assert result.code == 0, result.err
    return json.loads(result.out)


@pytest.fixture
def day(tmp_path):
    return small_market().write(tmp_path / "day.pcap")


def test_the_account_of_a_small_day(pregao, day):
    found = capture_info(pregao, day)
    assert found["files"] == [{"name": str(day), "format": "pcap", "compression": None}]
    assert found["link_types"] == [{"number": 1, "name": "Ethernet"}]
    assert (found["packets"], found["udp"]["packets"], found["messages"]) == (8, 8, 9)
    assert found["first"] == "2026-05-21T13:00:00.000000000Z"
    assert found["last"] == "2026-05-21T13:00:00.000007000Z"
    assert found["channels"] == [72]
    assert found["versions"] == [{"schema_id": 2, "version": 16, "messages": 9, "read_with": 16}]
    first, second = found["flows"]
    assert (first["address"], first["port"]) == DEFINITION
    assert (first["stream"], first["heartbeats"]) == ("definition", 1)
    assert first["loops"] == {"loops_seen": 1, "complete": 1, "longest": 3}
    assert (second["stream"], second["heartbeats"], second["messages"]) == ("incremental", 1, 5)
    (run,) = second["sequences"]
    assert (run["version"], run["first"], run["last"], run["packets"]) == (1, 1, 3, 3)
    assert (run["missing"], run["duplicates"], run["late"]) == (0, 0, 0)
    assert found["templates"][0] == {
        "template": 50,
        "message": "Order_MBO_50",
        "versions": [16],
        "messages": 3,
        "per_second": {"mean": round(3 / 7e-6, 3), "peak": 30},
    }
    assert found["rejects"]["reasons"] == {}
    assert found["gaps"] == found["unknown"] == found["unsupported"] == []


def test_gaps_duplicates_and_late_packets(pregao, tmp_path):
    market = Market()
    for number in (5, 6, 6, 10, 8, 11):
        market.send(order(), number=number)
    market.send(heartbeat(), number=0)
    market.send(order(), version=2, number=1).send(order(), version=2, number=4)
    found = capture_info(pregao, market.write(tmp_path / "g.pcap"))
    (flow,) = found["flows"]
    assert (flow["missing"], flow["duplicates"], flow["late"]) == (4, 1, 1)
    assert [(run["first"], run["last"]) for run in flow["sequences"]] == [(5, 11), (1, 4)]
    assert [(gap["sequence_version"], gap["first"], gap["last"]) for gap in found["gaps"]] == [
        (1, 7, 7),
        (1, 9, 9),
        (2, 2, 3),
    ]
    assert found["gaps"][0]["flow"] == "233.252.14.1:30001"


def test_loops_are_no_gaps(pregao, tmp_path):
    market = Market()
    for loop in range(1, 6):
        for number in range(1, 4):
            market.send(definition(number, "X"), to=DEFINITION, version=loop, number=number)
        market.send(reset(), to=DEFINITION, version=loop, number=4)
    (flow,) = capture_info(pregao, market.write(tmp_path / "l.pcap"))["flows"]
    assert flow["loops"] == {"loops_seen": 5, "complete": 5, "longest": 4}
    assert (flow["missing"], flow["duplicates"]) == (0, 0)


def test_feeds_are_counted_separately(pregao, tmp_path):
    first = Market().send(order(), number=1).send(order(), number=2).write(tmp_path / "a.pcap")
    second = Market().send(order(), number=2, to=("233.252.15.1", 30001)).write(tmp_path / "b.pcap")
    found = capture_info(pregao, first, second)
    assert [flow["packets"] for flow in found["flows"]] == [2, 1]
    assert sum(flow["duplicates"] for flow in found["flows"]) == 0
    again = capture_info(pregao, first, first)
    assert [flow["duplicates"] for flow in again["flows"]] == [2]


def test_versions_rejects_unknown_and_unsupported(pregao, tmp_path):
    old = b"\4\0\2\0\2\0\3\0" + bytes(4)
    new = b"\4\0\2\0\2\0\x63\0" + bytes(4)
    strange = b"\4\0\x31\0\2\0\x10\0" + bytes(4)
    market = Market().send(old, new, strange, order()).raw(b"DNS?", to=("10.0.0.9", 53))
    path = market.write(tmp_path / "v.pcap")
    found = capture_info(pregao, path)
    assert [(v["version"], v["read_with"]) for v in found["versions"]] == [
        (3, None),
        (16, 16),
        (99, 17),
    ]
    assert found["unknown"] == [{"template": 49, "version": 16, "messages": 1}]
    assert found["unsupported"] == [{"address": "10.0.0.9", "port": 53, "packets": 1}]
    assert found["rejects"]["messages"] == 1
    assert found["rejects"]["packets"] == 1
    assert [reject["packet"] for reject in found["rejects"]["first"]] == [1, 2]
    shown = pregao("info", path).out
    for words in (
        "rejected: 2",
        "3 (1 messages, refused)",
        "99 (1 messages, read with 17)",
        "not market data: 1 packets to 10.0.0.9:53",
        "(unknown)",
    ):
        assert words in shown


def test_packets_that_are_not_udp(pregao, tmp_path):
    path = tmp_path / "mixed.pcap"
    payload = small_market().packets[3][1]
    with PcapWriter(path, snaplen=160) as writer:
        writer.write(START, udp_frame("10.0.0.1", 1, *INCREMENTAL, payload))
        writer.write(START, udp_frame("10.0.0.1", 1, *INCREMENTAL, payload + payload))
        writer.write(START, tcp_frame("10.0.0.1", 1, "10.0.0.2", 2, b"words"))
        writer.write(START, bytes(12) + b"\x08\x06" + bytes(28))
    data = path.read_bytes()
    path.write_bytes(data[:-5])
    found = capture_info(pregao, path)
    assert (found["packets"], found["udp"]["packets"]) == (3, 1)
    assert (found["not_udp"]["tcp"], found["cut_by_snap_length"]) == (1, 1)
    assert found["truncated"][0]["file"] == str(path)
    shown = pregao("info", path).out
    for words in ("not UDP: 1 × TCP", "truncated by the snap length: 1 packets", "ends early"):
        assert words in shown
    path.write_bytes(data)
    assert capture_info(pregao, path)["not_udp"]["other"] == {"ARP": 1}


def test_a_damaged_capture_is_reported(pregao, day, tmp_path):
    data = bytearray(day.read_bytes())
    data[24 + 8 : 24 + 12] = b"\xff\xff\xff\x7f"
    day.write_bytes(data)
    found = capture_info(pregao, day)
    assert found["packets"] == 0
    assert "at byte 24" in found["damaged"][0]
    assert (found["first"], found["seconds"], found["flows"]) == (None, 0.0, [])
    assert "the rest of that file was not read" in pregao("info", day).out


def test_streams_can_be_named(pregao, tmp_path):
    path = Market().send(heartbeat(), number=0, to=SNAPSHOT).write(tmp_path / "h.pcap")
    assert capture_info(pregao, path)["flows"][0]["stream"] == "unknown"
    named = capture_info(pregao, path, "--stream", "233.252.14.2:30002=snapshot")
    assert named["flows"][0]["stream"] == "snapshot"


def test_peaks_are_counted_over_100_ms(pregao, tmp_path):
    path = tmp_path / "p.pcap"
    payload = Market().send(order()).packets[0][1]
    with PcapWriter(path) as writer:
        for n in range(20):  # ten in the first tenth of a second, then one per second
            after = n * 9_000_000 if n < 10 else n * 10**9
            writer.write(START + after, udp_frame("10.0.0.1", 1, *INCREMENTAL, payload))
    found = capture_info(pregao, path)
    assert found["per_second"]["messages"] == {"mean": round(20 / 19, 3), "peak": 100}
    assert found["per_second"]["packets"]["peak"] == 100
    assert found["flows"][0]["per_second"]["peak"] == 100


def test_tables_for_people(pregao, day, tmp_path):
    shown = pregao("info", day).out
    for words in (
        "pcap, Ethernet",
        "8 packets, ",
        "channels: 72",
        "schema versions: 16 (9 messages)",
        "233.252.14.1:30001",
        "1 loops, 1 complete, up to 3",
        "1: 1–3",
        "Order_MBO_50",
        "33.3%",
        "rejected: nothing",
    ):
        assert words in shown
    packed = small_market().write(tmp_path / "b.pcap.zst")
    assert "2 files: pcap, zstd pcap" in pregao("info", day, packed).out


def test_names_in_brackets_are_shown_unchanged(pregao, tmp_path):
    path = small_market().write(tmp_path / "[bold]day[-bold].pcap")
    assert "[bold]day[-bold].pcap: pcap" in pregao("info", path).out


def test_standard_input(pregao, day):
    result = pregao("info", "-", "--json", stdin=day.read_bytes())
    assert json.loads(result.out)["files"][0]["name"] == "<stdin>"


def test_info_needs_a_capture(pregao, tmp_path):
    assert pregao("info").code == 2
    assert "there is no such file" in pregao("info", tmp_path / "x.pcap").err
