"""A second protocol goes through the same ingest: surveyed, arbitrated, accounted, committed."""

import shutil
import struct
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from pregao.capture import PcapWriter, datagrams, read_packets, udp_frame
from pregao.lake.ingest.options import IngestOptions
from pregao.lake.ingest.pipeline import ingest
from pregao.lake.ingest.protocol import IngestProtocol, PayloadKeys, ProtocolEvidence, WalkResult
from pregao.lake.ingest.registry import PROTOCOLS
from pregao.lake.ingest.schemas import DATE_FIELD, KEY, column_of
from pregao.lake.ingest.verify import check_lake
from pregao.lake.storage.commit_unit import TableSpec
from pregao.lake.storage.lake_store import LakeStore
from pregao.umdf.sequencing import PacketKey
from tests.lake.days import assert_same, day, rows

# A datagram: a mark, a channel, a number, a value; nothing else.
FORM = struct.Struct("<4sBIq")
MARK = b"TICK"
START_NS = 1_779_360_000_000_000_000


def fields(block):
    """The columns of a block; the channel is -1 where a datagram is not in the form."""
    found = [
        FORM.unpack(payload) if len(payload) == FORM.size else (b"", 0, 0, 0)
        for payload in map(block.payload, range(len(block)))
    ]
    sound = np.array([mark == MARK for mark, *_ in found], np.bool_)
    channel, number, value = np.array([each[1:] for each in found], np.int64).reshape(-1, 3).T
    return sound, np.where(sound, channel, -1), np.where(sound, number, 0), value


def look(block, flows):
    sound, channel, _, _ = fields(block)
    seen = {}
    for flow in np.unique(block.flow).tolist():
        own = channel[sound & (block.flow == flow)].tolist()
        seen[flows[flow]] = ProtocolEvidence(len(own), Counter({1: len(own)}), Counter(own))
    return seen


def keys(block, _flows):
    _, channel, number, _ = fields(block)
    none = np.zeros(len(block), np.int64)
    return PayloadKeys(channel.astype(np.int16), none.astype(np.int32), number, none)


def packet_key_of(payload, _flow):
    mark, channel, number, _ = FORM.unpack(payload)
    return (channel, PacketKey(0, number)) if mark == MARK else None


class Decoder:
    def decode(self, payloads):
        sound = payloads.packets.channel[payloads.chosen] >= 0
        values = np.array(
            [
                FORM.unpack_from(payloads.buffer, at)[3] if good else 0
                for at, good in zip(payloads.offset.tolist(), sound.tolist(), strict=True)
            ],
            np.int64,
        )
        taken = np.flatnonzero(sound & payloads.emit)
        every, first = np.arange(len(payloads)), np.zeros(len(payloads), np.int32)
        for day_ in np.unique(payloads.days[taken]).tolist():
            own = taken[payloads.days[taken] == day_]
            columns = [*payloads.key_columns(own, every, first, None, 1), pa.array(values[own])]
            names = [*(entry.name for entry in KEY), "value"]
            payloads.result.put("tick_tick", day_, pa.Table.from_arrays(columns, names=names))
        payloads.result.sums.messages["Tick"] += len(taken)
        payloads.result.sums.walked_messages += len(taken)
        for row in np.flatnonzero(~sound & payloads.emit).tolist():
            at = int(payloads.offset[row])
            payloads.reject(row, None, at, at + int(payloads.length[row]), "not a tick")
        for role in payloads.packets.role[payloads.chosen[sound]].tolist():
            payloads.result.evidence[role, 1] += 1
        return WalkResult(sound.astype(np.int32), ~sound)


TICKS = IngestProtocol(
    name="tick",
    account_prefix="tick_",
    look=look,
    stream_of=lambda kinds: "ticks" if kinds else "unknown",
    arbitrated=frozenset({"ticks"}),
    keys=keys,
    packet_key=packet_key_of,
    decoder=lambda _schema_files: Decoder(),
    tables=lambda: [
        TableSpec(
            "tick_tick",
            pa.schema([*KEY, column_of("value", pa.int64(), "Its value."), DATE_FIELD]),
            description="Ticks.",
        )
    ],
    table_of=lambda message: f"tick_{message.lower()}",
)


@pytest.fixture(autouse=True)
def two_protocols(monkeypatch):
    monkeypatch.setitem(PROTOCOLS, TICKS.name, TICKS)


def tick_frame(feed, number, channel=51):
    payload = FORM.pack(MARK, channel, number, 1000 + number)
    return udp_frame("10.0.0.1", 1, f"233.1.1.{feed}", 5000, payload)


def tick_capture(path, feed, numbers, noise=0):
    """Feed 1 is ahead of feed 2 by a millisecond."""
    with PcapWriter(path) as writer:
        for number in numbers:
            writer.write(
                START_NS + number * 10_000_000 + feed * 1_000_000, tick_frame(feed, number)
            )
        for number in range(noise):
            frame = udp_frame("10.0.0.1", 1, f"233.1.1.{feed}", 5000, b"noise")
            writer.write(START_NS + 9_000_000_000 + number, frame)
    return str(path)


def mixed_capture(path, umdf, feed, numbers):
    """One capture with packets of both protocols, in the order of time."""
    with read_packets(umdf) as reader:
        packets = [(packet.time_ns, packet.data) for packet in reader]
    first = packets[0][0]
    ticks = [(first + number * 1_000_000 + feed, tick_frame(feed, number)) for number in numbers]
    with PcapWriter(path) as writer:
        for time_ns, frame in sorted(packets + ticks, key=lambda each: each[0]):
            writer.write(time_ns, frame)
    return str(path)


def test_a_second_protocol_next_to_umdf_in_one_lake(tmp_path):
    lake = tmp_path / "lake"
    numbers = [*range(1, 301)]
    feeds = [
        tick_capture(tmp_path / "a.pcap", 1, [n for n in numbers if n not in (7, 8, 100)]),
        tick_capture(tmp_path / "b.pcap", 2, [n for n in numbers if n not in (8, 200)], noise=2),
    ]
    report = ingest([str(day()), *feeds], str(lake))
    assert report.committed
    ticks = rows(lake, "tick_tick")
    assert sorted(row["sequence_number"] for row in ticks) == [n for n in numbers if n != 8]
    assert all(row["value"] == 1000 + row["sequence_number"] for row in ticks)
    by_feed = Counter((row["feed"], row["feed_difference_ns"]) for row in ticks)
    assert by_feed == {("A", 1_000_000): 296, ("A", None): 1, ("B", None): 2}
    outcomes = Counter(row["outcome"] for row in rows(lake, "tick_packets"))
    assert outcomes == {"decoded": 299, "duplicate": 296, "rejected": 2}
    gaps = {(r["feed"], r["first_missing"], r["last_missing"], r["closed_by"])
            for r in rows(lake, "tick_gaps")}  # fmt: skip
    assert gaps == {
        ("A", 7, 7, "feed B"), ("A", 8, 8, None), ("A", 100, 100, "feed B"),
        ("B", 8, 8, None), ("B", 200, 200, "feed A"),
    }  # fmt: skip
    assert [row["reason"] for row in rows(lake, "tick_rejects")] == ["not a tick"] * 2
    protocols = report.json()["protocols"]
    assert protocols["tick"]["messages"]["by_template"] == {"Tick": 299}
    assert protocols["umdf"]["messages"]["decoded"] == report.messages - 299
    # What is of UMDF is as if the other were not there, though channels have the same numbers.
    alone = tmp_path / "alone"
    ingest([str(day())], str(alone))
    assert_same(alone, lake, but=("tick_tick", "tick_packets", "tick_gaps", "tick_rejects"))
    assert check_lake(LakeStore(str(lake))).faults == []
    assert not ingest([str(day()), *feeds], str(lake)).captures


@pytest.mark.parametrize("size", [IngestOptions().target_bytes, 40_000])
def test_a_capture_that_holds_two_protocols(tmp_path, size):
    """However it is cut: each packet is its own protocol's, and the capture is counted once."""
    umdf = sorted(Path(day()).glob("*Incremental_*.pcap"))
    made = [
        mixed_capture(tmp_path / f"{number}.pcap", capture, number + 1, range(1, 2000))
        for number, capture in enumerate(umdf[:2])
    ]
    report = ingest(made, str(tmp_path / "lake"), IngestOptions(target_bytes=size))
    assert report.committed
    udp = sum(capture.statistics.udp for capture in report.captures)
    taken = len(rows(tmp_path / "lake", "packets")) + len(rows(tmp_path / "lake", "tick_packets"))
    assert taken == udp == sum(len(list(_datagrams(path))) for path in made)
    ticks = rows(tmp_path / "lake", "tick_tick")
    assert sorted(row["sequence_number"] for row in ticks) == [*range(1, 2000)]
    ingest([str(path) for path in umdf[:2]], str(tmp_path / "alone"))
    orders = "umdf_order_mbo_50"
    assert rows(tmp_path / "lake", orders) == rows(tmp_path / "alone", orders)
    assert check_lake(LakeStore(str(tmp_path / "lake"))).faults == []


def _datagrams(path):
    with read_packets(path) as reader:
        yield from datagrams(reader)


def test_feed_b_of_the_second_protocol_comes_later(tmp_path):
    lake = tmp_path / "lake"
    ingest([tick_capture(tmp_path / "a.pcap", 1, range(1, 100, 2))], str(lake))
    report = ingest([tick_capture(tmp_path / "b.pcap", 2, range(1, 100))], str(lake))
    assert report.roles[0]["protocol"] == "tick"
    assert report.roles[0]["feed"] == "B"
    assert sorted(r["sequence_number"] for r in rows(lake, "tick_tick")) == [*range(1, 100)]
    assert check_lake(LakeStore(str(lake))).faults == []


def test_a_lake_of_the_time_before_a_second_protocol(tmp_path, monkeypatch):
    """Its tables are added, and what was there is still known."""
    lake = tmp_path / "lake"
    monkeypatch.delitem(PROTOCOLS, TICKS.name)
    ingest([str(day())], str(lake))
    monkeypatch.setitem(PROTOCOLS, TICKS.name, TICKS)
    copied = tmp_path / "day"
    shutil.copytree(day(), copied)
    tick_capture(copied / "ticks.pcap", 1, range(1, 10))
    report = ingest([str(copied)], str(lake))
    assert [capture.name for capture in report.captures] == ["ticks.pcap"]
    assert len(rows(lake, "tick_tick")) == 9
    assert check_lake(LakeStore(str(lake))).faults == []
