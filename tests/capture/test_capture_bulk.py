"""The bulk path: the same datagrams and the same account as packet by packet, in flat arrays."""

from __future__ import annotations

import gzip
import io
import itertools
import random
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pregao.capture import (
    CaptureStatistics,
    Flow,
    TruncatedTail,
    datagrams,
    read_blocks,
    read_packets,
    split_points,
)
from pregao.capture import blocks as blocks_module
from pregao.errors import CaptureError
from tests.capture.building import (
    RAW,
    Raw,
    capture_files,
    enhanced,
    framed,
    interface,
    ipv4,
    ipv6,
    pcap_file,
    pcap_header,
    pcap_record,
    section,
    simple,
    udp,
)

# Datagrams, statistics, truncated tail and error.
Outcome = tuple[list[tuple[Any, ...]], CaptureStatistics, TruncatedTail | None, str | None]


def one_by_one(content: bytes, **options: Any) -> Outcome:
    found = []
    reader = read_packets(io.BytesIO(content), **options)
    items = datagrams(reader)
    error = None
    try:
        for item in items:
            found.append((item.time_ns, item.flow, item.payload, item.number, item.position))
    except CaptureError as raised:
        error = str(raised)
    return found, items.statistics, reader.truncated_tail, error


def in_bulk(content: bytes, **options: Any) -> Outcome:
    found = []
    reader = read_blocks(io.BytesIO(content), **options)
    error = None
    try:
        for block in reader:
            assert len(block) > 0
            for index in range(len(block)):
                flow = reader.flows[block.flow[index]]
                found.append(
                    (
                        int(block.time_ns[index]),
                        flow,
                        block.payload(index),
                        int(block.number[index]),
                        int(block.position[index]),
                    )
                )
    except CaptureError as raised:
        error = str(raised)
    return found, reader.statistics, reader.truncated_tail, error


@settings(max_examples=150, deadline=None)
@given(capture_files, st.sampled_from([64, 100, 1000, 1 << 20]))
def test_bulk_gives_exactly_what_packet_by_packet_gives(content, block_bytes):
    assert in_bulk(content, block_bytes=block_bytes) == one_by_one(content)


@settings(max_examples=60, deadline=None)
@given(capture_files, st.data())
def test_bulk_and_packet_by_packet_agree_on_damaged_captures(content, data):
    if not content:
        return
    broken = bytearray(content[: data.draw(st.integers(0, len(content)))])
    for _ in range(data.draw(st.integers(0, 3))):
        if broken:
            broken[data.draw(st.integers(0, len(broken) - 1))] = data.draw(st.integers(0, 255))

    def outcome(path: Any, **options: int) -> Outcome | str:
        try:
            return cast(Outcome, path(bytes(broken), **options))
        except CaptureError as error:
            return str(error)

    assert outcome(in_bulk, block_bytes=128) == outcome(one_by_one)


def test_the_generated_captures_have_everything_in_them():
    total, errors = CaptureStatistics(), 0

    @settings(max_examples=150, deadline=None, derandomize=True, database=None)
    @given(capture_files)
    def collect(content: bytes) -> None:
        nonlocal errors
        _, statistics, _, error = one_by_one(content)
        total.add(statistics)
        errors += error is not None

    collect()
    assert min(total.udp, total.tcp, total.cut, total.fragments_joined) > 10
    assert min(total.fragments_dropped, total.fragments_pending, total.reassembled) > 3
    assert min(len(total.malformed), len(total.other)) > 5
    assert 0 < errors < 75


def test_clocks_of_every_kind_convert_alike_in_kernel_and_plain_code():
    frame = framed(ipv4(udp(b"tick")))
    rng = random.Random(4)
    for tsresol in range(256):
        for tsoffset in (None, 5, -(2**33), 2**62):
            ticks = [rng.getrandbits(rng.randint(1, 64)) for _ in range(6)]
            content = section() + interface(tsresol=tsresol, tsoffset=tsoffset)
            content += b"".join(enhanced(tick, frame) for tick in ticks)
            assert in_bulk(content) == one_by_one(content)


def test_the_order_of_the_file_is_kept_between_kernel_and_plain_code():
    packets = [
        Raw(k, framed(ipv6(udp(b"%d" % k)), version=6) if k % 3 else framed(ipv4(udp(b"%d" % k))))
        for k in range(50)
    ]
    reader = read_blocks(io.BytesIO(pcap_file(packets)))
    (block,) = reader
    assert [block.payload(k) for k in range(50)] == [b"%d" % k for k in range(50)]
    assert block.time_ns.tolist() == list(range(50))
    assert block.number.tolist() == list(range(1, 51))


def test_columns_have_the_stated_types_and_lengths():
    (block,) = read_blocks(io.BytesIO(pcap_file([Raw(1, framed(ipv4(udp(b"abc"))))])))
    types = {
        name: getattr(block, name).dtype
        for name in ("buffer", "time_ns", "offset", "length", "number", "position", "flow")
    }
    assert types == {
        "buffer": np.uint8,
        "time_ns": np.int64,
        "offset": np.int64,
        "length": np.int32,
        "number": np.int64,
        "position": np.int64,
        "flow": np.int32,
    }
    assert (block.position.tolist(), block.length.tolist(), len(block)) == ([24], [3], 1)


@pytest.mark.parametrize("version", [4, 6])
def test_words_can_be_loaded_after_the_last_payload_byte(version):
    packet = ipv4(udp(b"last")) if version == 4 else ipv6(udp(b"last"))
    content = pcap_file([Raw(1, framed(packet, version=version))])
    (block,) = read_blocks(io.BytesIO(content))
    end = int(block.offset[-1] + block.length[-1])
    assert len(block.buffer) >= end + 8
    assert block.buffer[end : end + 8].tolist() == [0] * 8


def test_a_record_longer_than_the_block_is_read_whole():
    packets = [Raw(k, framed(ipv4(udp(bytes([k]) * 60_000)))) for k in range(3)]
    content = pcap_file(packets)
    assert in_bulk(content, block_bytes=64) == one_by_one(content)
    assert len(in_bulk(content, block_bytes=64)[0]) == 3


def test_blocks_stay_valid_while_the_reader_continues():
    packets = [Raw(k, framed(ipv4(udp(b"%05d" % k)))) for k in range(500)]
    blocks = list(read_blocks(io.BytesIO(pcap_file(packets)), block_bytes=1000))
    assert len(blocks) > 10
    found = [block.payload(k) for block in blocks for k in range(len(block))]
    assert found == [b"%05d" % k for k in range(500)]


def test_flows_are_numbered_once_however_their_datagrams_come():
    whole = framed(ipv4(udp(b"whole one")))
    body = udp(b"in two fragments")
    pieces = [
        framed(ipv4(body[:8], fragment=0x2000)),
        framed(ipv4(body[8:], fragment=1)),
    ]
    for frames in ([whole, *pieces, whole], [*pieces, whole], [*pieces, *pieces]):
        reader = read_blocks(
            io.BytesIO(pcap_file([Raw(k, f) for k, f in enumerate(frames)])), block_bytes=64
        )
        assert {flow for block in reader for flow in block.flow.tolist()} == {0}
        assert reader.flows == [("10.0.0.1", 5000, "233.1.2.3", 6000)]


def test_thousands_of_flows_keep_their_numbers():
    count = 3000
    packets = [
        Raw(k, framed(ipv4(udp(b"%d" % (k % count), dst_port=k % count), dst=b"\xe9\x01\x00\x01")))
        for k in range(2 * count)
    ]
    packets[100] = Raw(100, framed(ipv6(udp(b"100", dst_port=100)), version=6))
    reader = read_blocks(io.BytesIO(pcap_file(packets)), block_bytes=20_000)
    for block in reader:
        for index in range(len(block)):
            port = reader.flows[block.flow[index]].dst_port
            assert block.payload(index) == b"%d" % port
    assert len(reader.flows) == len(set(reader.flows)) == count + 1


def test_a_flood_of_flows_is_refused_with_advice():
    packets = [Raw(k, framed(ipv4(udp(b"", dst_port=k)))) for k in range(20)]
    with pytest.raises(CaptureError, match=r"more than 10 UDP flows.*max_flows"):
        list(read_blocks(io.BytesIO(pcap_file(packets)), max_flows=10))


def test_the_flow_table_finds_what_was_put_in_after_growing(monkeypatch):
    monkeypatch.setattr(blocks_module, "_FIRST_CAPACITY", 2)
    table = blocks_module.FlowTable("x", 1000)
    flows = [Flow("10.0.0.1", k, "10.0.0.2", 1) for k in range(40)]
    flows[7] = Flow("fd00::1", 7, "fd00::2", 1)
    assert [table.index(flow) for flow in flows] == list(range(40))
    assert [table.index(flow) for flow in flows] == list(range(40))
    assert table.flows == flows


def test_packets_before_a_damaged_record_are_given_before_the_error():
    good = pcap_file([Raw(1, framed(ipv4(udp(b"one")))), Raw(2, framed(ipv4(udp(b"two"))))])
    content = good + pcap_record(3, 0, b"", captured=0x7FFFFFFF)
    reader = read_blocks(io.BytesIO(content))
    assert [next(reader).payload(k) for k in (0,)] == [b"one"]
    with pytest.raises(CaptureError, match=f"at byte {len(good)}: the record claims 2147483647"):
        next(reader)


def test_compressed_captures_give_the_same_blocks():
    content = pcap_file([Raw(k, framed(ipv4(udp(b"%d" % k)))) for k in range(300)])
    assert in_bulk(gzip.compress(content), block_bytes=500) == one_by_one(content)


def test_a_file_on_disk_and_its_ranges_give_the_same(tmp_path):
    rng = random.Random(1)
    packets = [Raw(k, framed(ipv4(udp(rng.randbytes(rng.randint(0, 99)))))) for k in range(900)]
    path = tmp_path / "a.pcap"
    path.write_bytes(pcap_file(packets))
    whole = one_by_one(path.read_bytes())[0]
    points = split_points(path, 5000)
    assert len(points) > 10
    found = []
    for start, end in itertools.pairwise([*points, None]):
        reader = read_blocks(path, start, end, 700)
        for block in reader:
            for index in range(len(block)):
                found.append((block.payload(index), int(block.position[index])))
        assert reader.truncated_tail is None
    assert found == [(payload, position) for _, _, payload, _, position in whole]


def test_an_empty_range_has_no_blocks():
    content = pcap_file([Raw(1, framed(ipv4(udp(b"one"))))])
    assert list(read_blocks(io.BytesIO(content), 24, 24)) == []
    assert list(read_blocks(io.BytesIO(content), len(content))) == []


def test_simple_packet_blocks_and_enhanced_ones_mix():
    frames = [framed(ipv4(udp(b"%d" % k))) for k in range(6)]
    content = section() + interface()
    content += b"".join(simple(f) if k % 2 else enhanced(k, f) for k, f in enumerate(frames))
    found, statistics, tail, error = in_bulk(content)
    assert [payload for _, _, payload, _, _ in found] == [b"%d" % k for k in range(6)]
    assert [number for _, _, _, number, _ in found] == [1, 2, 3, 4, 5, 6]
    assert [time for time, *_ in found] == [0, 0, 2000, 0, 4000, 0]
    assert (statistics.udp, tail, error) == (6, None, None)


@pytest.mark.parametrize("link_type", [1, 113, 276, 101, 12, 14, 228])
def test_the_kernel_takes_the_ordinary_case_without_the_plain_code(monkeypatch, link_type):
    def refuse(*_: Any) -> None:
        raise AssertionError("the plain code was asked for an ordinary packet")

    monkeypatch.setattr("pregao.capture.layers.PacketDissector.item", refuse)
    for tags in [(), (0x8100,), (0x88A8, 0x8100)][: 3 if link_type in (1, 113, 276) else 1]:
        frame = framed(ipv4(udp(b"x"), options=b"\x01" * 8), link_type, tags=tags)
        for content in (
            pcap_file([Raw(1, frame)], link_type),
            pcap_file([Raw(1, frame)], link_type, order=">", nanos=False),
            section() + interface(link_type) + enhanced(1, frame),
        ):
            assert [len(block) for block in read_blocks(io.BytesIO(content))] == [1]


def test_a_raw_frame_shorter_than_its_headers_is_no_datagram():
    content = pcap_header(RAW) + pcap_record(0, 0, b"\x45")
    assert in_bulk(content) == one_by_one(content)
    assert in_bulk(content)[1].malformed.total() == 1


def test_the_link_types_are_those_of_the_file_or_of_the_last_section():
    assert read_blocks(io.BytesIO(pcap_header(RAW))).link_types == [RAW]
    reader = read_blocks(io.BytesIO(section() + interface(9) + section() + interface(1)))
    assert reader.link_types == []
    assert list(reader) == []
    assert reader.link_types == [1]
