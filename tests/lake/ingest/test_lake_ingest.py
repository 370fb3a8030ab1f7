"""Captures to tables: complete, exactly once, and the same however the captures are cut."""

import gzip
import json
import random
import shutil
from collections import Counter
from pathlib import Path

import pytest
from deltalake import DeltaTable

from pregao.capture import PcapWriter, UdpFramer, datagrams, read_packets, udp_frame
from pregao.errors import CaptureError, UsageError
from pregao.lake.ingest.options import IngestOptions
from pregao.lake.ingest.pipeline import ingest
from pregao.lake.ingest.report import AccountingError
from pregao.lake.ingest.verify import check_lake
from pregao.lake.storage.lake_store import LakeStore
from pregao.umdf.packets import PacketDecoder, PacketHeader, encode_packet, frames
from tests.lake.days import SMALL, assert_same, day, rows, tables
from tests.sbe.support import shown

KEY = "channel", "stream", "sequence_version", "sequence_number", "index_in_packet"
FAULTY = {
    "loss": "A=0.02,B=0.03",
    "reorder": "0.01",
    "duplicate": "0.01",
    "reset_at": ("sequence@0.5",),
}


def faulty_day(**more):
    return day(**({"duration": "12s"} | FAULTY | more))


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A lake built from the faulty day by one task."""
    lake = tmp_path_factory.mktemp("whole")
    report = ingest([str(faulty_day())], str(lake))
    assert report.tasks == 1
    return lake, report


def test_every_message_of_the_captures_is_in_its_table_once(whole):
    """Against the message codec, packet by packet, the first copy of each key."""
    lake, _ = whole
    decoder = PacketDecoder()
    wanted: dict[str, list[dict]] = {}
    seen = set()
    arrivals = []
    for capture in sorted(Path(faulty_day()).glob("*.pcap")):
        with read_packets(capture) as reader:
            arrivals += [(d.time_ns, capture.name, d) for d in datagrams(reader)]
    for _, name, datagram in sorted(arrivals, key=lambda item: item[0]):
        packet = decoder.decode(datagram.payload)
        key = (packet.header.channel, packet.header.sequence_version, packet.header.sequence_number)
        if "Incremental" in name and packet.header.sequenced:
            if key in seen:
                continue
            seen.add(key)
        for outcome in packet.outcomes:
            message = outcome.decoded.message
            row = shown(message, outcome.decoded.values)
            row["schema_version"] = outcome.frame.version
            row["_key"] = (*key, outcome.frame.index_in_packet, datagram.time_ns)
            wanted.setdefault(f"umdf_{message.name.lower()}", []).append(row)
    found = {}
    for table in tables(lake):
        for row in rows(lake, table) if table.startswith("umdf_") else ():
            key = (
                row["channel"], row["sequence_version"], row["sequence_number"] or 0,
                row["index_in_packet"], row["capture_time_ns"],
            )  # fmt: skip
            found.setdefault(table, []).append((key, row))
    names = {name.replace("umdf_", "").replace("_", ""): name for name in found}
    assert {n.replace("umdf_", "").replace("_", "") for n in wanted} == set(names)
    for name, messages in wanted.items():
        table = found[names[name.replace("umdf_", "").replace("_", "")]]
        messages.sort(key=lambda row: row["_key"])
        table.sort(key=lambda pair: pair[0])
        assert len(messages) == len(table), name
        for message, (key, row) in zip(messages, table, strict=True):
            assert message.pop("_key") == key
            for column, value in message.items():
                assert without_later(row[column], value) == value, (name, column)


def without_later(found, wanted):
    """A value without the members that only other schema versions have."""
    if isinstance(wanted, list):
        return [without_later(a, b) for a, b in zip(found, wanted, strict=True)]
    if isinstance(wanted, dict):
        assert all(found[name] is None for name in found.keys() - wanted.keys())
        return {name: without_later(found[name], wanted[name]) for name in wanted}
    return found


@pytest.mark.parametrize("size", [20_000, 60_000, 120_000])
def test_any_cutting_gives_the_same_tables(whole, tmp_path, size):
    report = ingest([str(faulty_day())], str(tmp_path), IngestOptions(target_bytes=size))
    assert report.tasks > 3
    assert_same(whole[0], tmp_path)


def test_compressed_captures_give_the_same_tables(whole, tmp_path):
    packed = tmp_path / "packed"
    packed.mkdir()
    for capture in Path(faulty_day()).glob("*.pcap"):
        (packed / f"{capture.name}.gz").write_bytes(gzip.compress(capture.read_bytes()))
    lake = tmp_path / "lake"
    ingest([str(packed)], str(lake))
    assert_same(whole[0], lake)


def test_streamed_windows_give_the_same_tables(whole, tmp_path, monkeypatch):
    """A compressed capture is read in windows: tiny ones must give what one large one gives."""
    from pregao.lake.ingest import planner, task

    monkeypatch.setattr(task, "BLOCK_BYTES", 16 * 1024)
    real = planner.IngestTask

    def small_windows(**fields):
        return real(**fields, window_bytes=100_000)

    monkeypatch.setattr(planner, "IngestTask", small_windows)
    windows = []
    decode = task.WindowDecoder.decode
    monkeypatch.setattr(
        task.WindowDecoder,
        "decode",
        lambda self, *given: windows.append(1) or decode(self, *given),
    )
    packed = tmp_path / "packed"
    packed.mkdir()
    for capture in Path(faulty_day()).glob("*.pcap"):
        (packed / f"{capture.name}.gz").write_bytes(gzip.compress(capture.read_bytes()))
    lake = tmp_path / "lake"
    ingest([str(packed)], str(lake), IngestOptions(skew_ns=200_000_000))
    assert len(windows) > 10
    assert_same(whole[0], lake)


def test_the_report_accounts_for_everything(whole):
    lake, report = whole
    content = report.json()
    packets = content["packets"]
    assert packets["udp"] == sum(
        packets[name] for name in ("decoded", "duplicate", "rejected", "filtered")
    )
    assert packets["udp"] == len(rows(lake, "packets"))
    outcomes = Counter(row["outcome"] for row in rows(lake, "packets"))
    assert outcomes["duplicate"] == packets["duplicate"] > 0
    by_template = {
        name: len(rows(lake, table))
        for name, table in (
            (name, f"umdf_{snake(name)}") for name in content["messages"]["by_template"]
        )
    }
    assert by_template == content["messages"]["by_template"]


def snake(name):
    from pregao.sbe.model import snake_case

    return snake_case(name)


def test_gaps_are_those_that_were_injected(whole):
    lake, _ = whole
    truth = json.loads((faulty_day() / "truth" / "faults.json").read_text())
    lost = {"A": 0, "B": 0}
    for row in rows(lake, "gaps"):
        lost[row["feed"]] += row["last_missing"] - row["first_missing"] + 1
    assert lost["A"] > 0
    assert lost["B"] > 0
    text = json.dumps(truth)
    assert "loss" in text or "lost" in text
    both = [row for row in rows(lake, "gaps") if row["closed_by"] is None]
    one = [row for row in rows(lake, "gaps") if row["closed_by"] == "feed B"]
    assert one
    for row in both:
        assert row["feed"] in ("A", "B")


def test_gaps_have_the_time_of_the_packet_after_them(whole):
    lake, _ = whole
    arrived: dict[tuple, dict[int, int]] = {}
    for row in rows(lake, "packets"):
        if row["stream"] == "incremental" and row["sequence_number"] is not None:
            stream = (row["channel"], row["sequence_version"], row["feed"])
            times = arrived.setdefault(stream, {})
            time = row["capture_time_ns"]
            times[row["sequence_number"]] = min(time, times.get(row["sequence_number"], time))
    found = [row for row in rows(lake, "gaps") if row["feed"] is not None]
    assert found
    for row in found:
        times = arrived[row["channel"], row["sequence_version"], row["feed"]]
        next_number = min(number for number in times if number > row["last_missing"])
        assert row["capture_time_ns"] == times[next_number]


def test_events_are_whole(whole):
    """An event of the channel ends with its one flag, whatever instruments it is spread over."""
    lake, _ = whole
    flags: dict[tuple, list] = {}
    for table in tables(lake):
        for row in rows(lake, table) if table.startswith("umdf_") else ():
            if row["stream"] == "incremental" and row["sequence_number"] is not None:
                key = (row["sequence_version"], row["sequence_number"], row["index_in_packet"])
                flag = row.get("match_event_indicator")
                flags.setdefault((row["channel"], row["event"]), []).append((key, flag))
    several = 0
    for messages in flags.values():
        messages.sort()
        assert all(not (flag or 0) & 0x80 for _, flag in messages[:-1])
        several += len(messages) > 1
    assert several > 10


def test_again_adds_nothing(whole, tmp_path):
    lake = tmp_path / "lake"
    shutil.copytree(whole[0], lake)
    report = ingest([str(faulty_day())], str(lake))
    assert not report.captures
    assert len(report.skipped) == len(list(Path(faulty_day()).glob("*.pcap")))
    renamed = tmp_path / "renamed"
    renamed.mkdir()
    for number, capture in enumerate(sorted(Path(faulty_day()).glob("*.pcap"))):
        shutil.copy(capture, renamed / f"other{number}.pcap")
    assert not ingest([str(renamed)], str(lake)).captures
    assert_same(whole[0], lake)


def test_a_later_capture_of_the_other_feed_adds_only_missing_packets(whole, tmp_path):
    source = Path(faulty_day())
    lake = tmp_path / "lake"
    second = [str(path) for path in source.glob("*Incremental_B.pcap")]
    first = [str(path) for path in source.glob("*.pcap") if str(path) not in second]
    ingest(first, str(lake))
    before = len(rows(lake, "umdf_order_mbo_50"))
    report = ingest(second, str(lake))
    assert report.committed
    added = [row for row in rows(lake, "packets") if row["feed"] == "B"]
    assert Counter(row["outcome"] for row in added)["decoded"] > 0
    assert len(rows(lake, "umdf_order_mbo_50")) > before
    assert events_of(lake) == events_of(whole[0])
    assert len(rows(lake, "packets")) == len(rows(whole[0], "packets"))


def test_events_of_several_ingests_are_those_of_one(tmp_path):
    """Every message has a packet of its own, and every ingest a part of the packets."""
    packets = [
        (each.time_ns, encode_packet(PacketHeader(84, 1, number, each.time_ns), [message]))
        for number, (each, message) in enumerate(messages_of(Path(day(**SMALL))), 1)
    ]
    draw = random.Random(5)
    lots = [draw.choice(("0", "1", "2", "01", "12", "02")) for _ in packets]
    captures = {}
    for part in ("0", "1", "2", "012"):
        captures[part] = str(tmp_path / f"{part}.pcap")
        framer = UdpFramer("10.0.0.1", 40000, "233.252.14.1", 30001)
        with PcapWriter(Path(captures[part])) as writer:
            for (time_ns, payload), lot in zip(packets, lots, strict=True):
                if set(part) & set(lot):
                    writer.write(time_ns, framer.frame(payload))
    ingest([captures["012"]], str(tmp_path / "whole"))
    expected = events_of(tmp_path / "whole")
    assert len(expected) == len(packets)
    lake, changed = tmp_path / "lake", 0
    before: dict = {}
    for part in "201":
        assert ingest([captures[part]], str(lake)).committed
        events = events_of(lake)
        changed += sum(events[key] != event for key, event in before.items())
        before = events
    assert before == expected
    assert changed > len(packets) // 20
    assert not check_lake(LakeStore(lake)).faults


def messages_of(folder):
    """The messages of feed A of a channel, each with its datagram, in order."""
    capture = min(folder.glob("*Incremental_A.pcap"))
    with read_packets(capture) as reader:
        for each in datagrams(reader):
            for part in frames(each.payload):
                yield each, bytes(each.payload[part.position + 4 : part.end])


def events_of(lake):
    """The event of every incremental message, by its key and table."""
    return {
        (table.name, *(row[key] for key in KEY)): row["event"]
        for table in Path(lake).glob("umdf_*")
        if "event" in (found := DeltaTable(str(table)).to_pyarrow_table()).column_names
        for row in found.select([*KEY, "event"]).to_pylist()
        if row["event"] is not None
    }


def test_duplicates_in_one_command_count_once(tmp_path):
    source = next(Path(faulty_day()).glob("*Incremental_A.pcap"))
    shutil.copy(source, tmp_path / "one.pcap")
    shutil.copy(source, tmp_path / "two.pcap")
    report = ingest(
        [str(tmp_path / "one.pcap"), str(tmp_path / "two.pcap")], str(tmp_path / "lake")
    )
    assert len(report.captures) == 1
    assert len(report.skipped) == 1


def test_two_versions_of_the_same_file(whole, tmp_path):
    """One byte differs: another capture, whose keys are all there already."""
    source = next(Path(faulty_day()).glob("*Incremental_A.pcap"))
    changed = bytearray(source.read_bytes())
    changed[len(changed) // 2] ^= 1
    other = tmp_path / "other.pcap"
    other.write_bytes(changed)
    lake = tmp_path / "lake"
    shutil.copytree(whole[0], lake)
    report = ingest([str(other)], str(lake))
    assert report.committed
    assert len(rows(lake, "umdf_trade_53")) == len(rows(whole[0], "umdf_trade_53"))


def test_feeds_with_a_difference_above_the_skew_fail_the_accounting(tmp_path):
    """The copies of feed B come five seconds later: with too small a skew nothing is committed."""
    source = Path(day())
    late = tmp_path / "late"
    late.mkdir()
    for capture in source.glob("*.pcap"):
        if "Incremental_B" not in capture.name:
            shutil.copy(capture, late)
            continue
        with PcapWriter(late / capture.name) as writer, read_packets(capture) as reader:
            for packet in reader:
                writer.write(packet.time_ns + 5_000_000_000, packet.data)
    lake = tmp_path / "lake"
    cut = IngestOptions(target_bytes=60_000, skew_ns=1_000_000_000)
    with pytest.raises(AccountingError, match="--max-feed-skew"):
        ingest([str(late)], str(lake), cut)
    assert rows(lake, "packets") == []
    patient = IngestOptions(target_bytes=60_000, skew_ns=6_000_000_000)
    assert ingest([str(late)], str(lake), patient).committed
    trades = {
        (row["sequence_number"], row["feed_difference_ns"]) for row in rows(lake, "umdf_trade_53")
    }
    assert all(difference and difference > 4_000_000_000 for _, difference in trades)


def test_a_filtered_channel_is_counted_and_left_out(tmp_path):
    report = ingest([str(day(instruments=40))], str(tmp_path), IngestOptions(channels=(53,)))
    counts = report.json()["packets"]
    assert counts["filtered"] > 0
    assert {row["channel"] for row in rows(tmp_path, "umdf_order_mbo_50")} <= {53}


@pytest.mark.parametrize("version", [7, 8, 9, 10, 15])
def test_older_schema_versions_share_the_tables(tmp_path, version):
    ingest([str(day())], str(tmp_path))
    report = ingest([str(day(schema_version=version, seed=2, day="2026-05-22"))], str(tmp_path))
    assert report.json()["schema_versions"] == [version]
    orders = rows(tmp_path, "umdf_order_mbo_50")
    newer = [row for row in orders if row["date"].day == 21]
    older = [row for row in orders if row["date"].day == 22]
    assert older
    assert newer
    assert {row["schema_version"] for row in newer} == {16}
    assert {row["schema_version"] for row in older} == {version}
    assert all(row["md_entry_position_no"] is None for row in newer)
    if version < 15:
        assert all(row["md_entry_position_no"] >= 1 for row in older)
        assert all(row["transact_time_ns"] is None for row in older)
    instruments = rows(tmp_path, "instruments")
    assert len({(row["date"], row["channel"], row["security_id"]) for row in instruments}) == len(
        instruments
    )


def test_a_truncated_last_packet_is_reported(tmp_path):
    source = next(Path(day()).glob("*Incremental_A.pcap"))
    cut = tmp_path / "cut.pcap"
    cut.write_bytes(source.read_bytes()[:-7])
    report = ingest([str(cut)], str(tmp_path / "lake"))
    assert report.captures[0].truncated_tail is not None
    assert report.committed


def test_noise_becomes_rejects(tmp_path):
    noise = tmp_path / "noise.pcap"
    with PcapWriter(noise) as writer:
        for number in range(50):
            payload = bytes([number]) * number
            writer.write(
                1_750_000_000_000_000_000 + number,
                udp_frame("10.0.0.1", 1, "233.252.14.1", 30001, payload),
            )
    report = ingest([str(noise)], str(tmp_path / "lake"))
    assert report.json()["packets"]["rejected"] == 50
    rejects = rows(tmp_path / "lake", "rejects")
    assert len(rejects) == 50
    assert all(row["reason"] for row in rejects)


@pytest.mark.parametrize(
    ("content", "reason"), [(b"", "empty"), (b"x", "capture"), (b"hello world" * 99, "capture")]
)
def test_a_file_of_something_else_is_a_one_line_error(tmp_path, content, reason):
    path = tmp_path / "thing.pcap"
    path.write_bytes(content)
    with pytest.raises(CaptureError, match=reason) as caught:
        ingest([str(path)], str(tmp_path / "lake"))
    assert "thing.pcap" in str(caught.value)


def test_nothing_to_ingest(tmp_path):
    with pytest.raises(UsageError, match="no captures found"):
        ingest([str(tmp_path / "nothing")], str(tmp_path / "lake"))
