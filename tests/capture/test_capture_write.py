"""Writing captures: what is written is what is read, and the checksums are right."""

from __future__ import annotations

import gzip
import io
import struct
from ipaddress import IPv4Address

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pregao.capture import (
    PcapWriter,
    UdpFramer,
    UdpRecords,
    datagrams,
    read_packets,
    segments,
    tcp_frame,
    udp_frame,
)
from pregao.errors import CaptureError, EncodeError

addresses = st.ip_addresses(v=4).map(str)
ports = st.integers(0, 65535)


def checksum(data: bytes) -> int:
    """The ones' complement sum of 16-bit words, one word after the other (RFC 1071)."""
    total: int = 0
    for (word,) in struct.iter_unpack(">H", data + bytes(len(data) % 2)):
        total += word
        total = (total & 0xFFFF) + (total >> 16)
    return total


@settings(max_examples=150, deadline=None)
@given(addresses, ports, addresses, ports, st.binary(max_size=300), ports, st.booleans())
def test_the_checksums_of_a_udp_frame_are_right(src, src_port, dst, dst_port, payload, ident, tag):
    frame = udp_frame(src, src_port, dst, dst_port, payload, ident=ident, vlan=100 if tag else None)
    packet = frame[18:] if tag else frame[14:]
    assert checksum(packet[:20]) == 0xFFFF
    pseudo = packet[12:20] + struct.pack(">HH", 17, 8 + len(payload))
    assert checksum(pseudo + packet[20:]) == 0xFFFF
    assert packet[26:28] != b"\0\0"
    assert struct.unpack(">H", packet[4:6]) == (ident,)


@settings(max_examples=100, deadline=None)
@given(addresses, ports, addresses, ports, st.binary(max_size=100), st.integers(0, 2**32 - 1))
def test_a_tcp_frame_is_read_back_and_its_checksums_are_right(
    src, src_port, dst, dst_port, payload, sequence
):
    frame = tcp_frame(src, src_port, dst, dst_port, payload, sequence=sequence, flags=0x12)
    packet = frame[14:]
    assert checksum(packet[:20]) == 0xFFFF
    pseudo = packet[12:20] + struct.pack(">HH", 6, 20 + len(payload))
    assert checksum(pseudo + packet[20:]) == 0xFFFF
    file = io.BytesIO()
    with PcapWriter(file) as writer:
        writer.write(1, frame)
    file.seek(0)
    (segment,) = segments(read_packets(file))
    assert segment.flow == (src, src_port, dst, dst_port)
    assert (segment.sequence, segment.flags, segment.payload) == (sequence, 0x12, payload)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 2**32 * 10**9 - 1), st.binary(max_size=200), addresses, ports,
            addresses | st.just("239.128.7.9"), ports,
        ),
        max_size=9,
    )
)  # fmt: skip
def test_records_in_bulk_are_those_written_one_by_one(sent):
    length = np.array([len(each[1]) for each in sent], np.int32)
    offset = (np.cumsum(length, dtype=np.int64) - length).astype(np.int64)
    buffer = np.frombuffer(b"".join(each[1] for each in sent) + bytes(8), np.uint8)
    times = np.array([each[0] for each in sent], np.int64)
    source, destination = (
        np.array([int(IPv4Address(each[at])) << 16 | each[at + 1] for each in sent], np.int64)
        for at in (2, 4)
    )
    made = UdpRecords().build(buffer, offset, length, times, source, destination).tobytes()
    file = io.BytesIO()
    with PcapWriter(file) as writer:
        for ident, (time_ns, payload, *flow) in enumerate(sent):
            writer.write(time_ns, udp_frame(*flow, payload, ident=ident))
    assert UdpRecords.header + made == file.getvalue()


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 2**32 * 10**9 - 1), st.binary(max_size=99)), max_size=9),
    st.integers(0, 65535),
)
def test_written_records_are_read_back(frames, link_type):
    file = io.BytesIO()
    with PcapWriter(file, link_type) as writer:
        for time_ns, frame in frames:
            writer.write(time_ns, frame)
    file.seek(0)
    found = [(p.time_ns, p.data, p.original_length, p.link_type) for p in read_packets(file)]
    assert found == [(time_ns, frame, len(frame), link_type) for time_ns, frame in frames]


@settings(max_examples=60, deadline=None)
@given(addresses, ports, addresses, ports, st.lists(st.binary(max_size=99), max_size=5))
def test_a_framer_gives_the_datagrams_of_its_flow(src, src_port, dst, dst_port, payloads):
    framer = UdpFramer(src, src_port, dst, dst_port, vlan=7, ident=65534)
    file = io.BytesIO()
    with PcapWriter(file) as writer:
        for number, payload in enumerate(payloads):
            frame = framer.frame(payload)
            assert struct.unpack_from(">H", frame, 22) == ((65534 + number) % 65536,)
            writer.write(number, frame)
    file.seek(0)
    found = list(datagrams(read_packets(file)))
    assert [item.payload for item in found] == payloads
    flows = {(item.src, item.src_port, item.dst, item.dst_port) for item in found}
    assert flows <= {(src, src_port, dst, dst_port)}


def test_the_link_address_of_a_multicast_group_is_derived_from_it():
    frame = udp_frame("10.0.0.1", 1, "233.252.14.3", 2, b"")
    assert frame[:6] == bytes.fromhex("01005e7c0e03")
    assert frame[6:12] == bytes.fromhex("02000a000001")
    unicast = udp_frame("10.0.0.1", 1, "10.0.0.2", 2, b"", src_mac="aa:bb:cc:dd:ee:ff")
    assert unicast[:12] == bytes.fromhex("02000a000002aabbccddeeff")
    named = udp_frame("10.0.0.1", 1, "233.1.1.1", 2, b"", dst_mac=b"123456", ttl=3)
    assert named[:6] == b"123456"
    assert named[22] == 3


def test_a_frame_beyond_the_snap_length_is_cut_and_its_length_kept():
    file = io.BytesIO()
    with PcapWriter(file, snaplen=10) as writer:
        writer.write(1, b"x" * 25)
        writer.write(2, b"y" * 5, original_length=60)
    file.seek(0)
    assert [(p.data, p.original_length) for p in read_packets(file)] == [
        (b"x" * 10, 25),
        (b"y" * 5, 60),
    ]


@pytest.mark.parametrize("ending", ["", ".gz", ".zst"])
def test_the_ending_of_the_path_decides_on_compression(tmp_path, ending):
    paths = [tmp_path / f"{name}.pcap{ending}" for name in "ab"]
    frames = [udp_frame("10.0.0.1", 1, "233.1.1.1", 2, bytes(200)) for _ in range(3000)]
    for path in paths:
        with PcapWriter(path) as writer:
            for number, frame in enumerate(frames):
                writer.write(number, frame)
            writer.flush()
        writer.close()
    assert [p.data for p in read_packets(paths[0])] == frames
    assert (paths[0].stat().st_size < 100_000) == bool(ending)
    assert paths[0].read_bytes() == paths[1].read_bytes()
    if ending == ".gz":
        assert gzip.decompress(paths[0].read_bytes())[:4] == b"\x4d\x3c\xb2\xa1"


@pytest.mark.parametrize("ending", ["", ".gz", ".zst"])
def test_flushed_records_can_be_read_while_the_writer_continues(tmp_path, ending):
    path = tmp_path / f"a.pcap{ending}"
    with PcapWriter(path) as writer:
        writer.write(1, b"one")
        writer.flush()
        assert [p.data for p in read_packets(path)] == [b"one"]
        writer.write(2, b"two")
    assert [p.data for p in read_packets(path)] == [b"one", b"two"]


def test_a_file_that_was_handed_over_is_flushed_but_not_closed(tmp_path):
    path = tmp_path / "a.pcap"
    with path.open("wb") as file:
        with PcapWriter(file) as writer:
            writer.write(1, b"one")
            writer.flush()
            assert [p.data for p in read_packets(path)] == [b"one"]
        assert not file.closed


def test_a_capture_without_packets_is_a_capture(tmp_path):
    PcapWriter(tmp_path / "a.pcap").close()
    assert list(read_packets(tmp_path / "a.pcap")) == []


@pytest.mark.parametrize(
    ("build", "reason"),
    [
        (lambda: udp_frame("10.0.0.1", 1, "10.0.0.2", 2, bytes(65508)), "at most 65507 bytes"),
        (lambda: tcp_frame("10.0.0.1", 1, "10.0.0.2", 2, bytes(65496)), "at most 65495 bytes"),
        (lambda: udp_frame("fd00::1", 1, "10.0.0.2", 2, b""), "Not an IPv4 address: 'fd00::1'"),
        (lambda: PcapWriter(io.BytesIO(), 65536), "link_type does not fit 16 bits"),
        (lambda: PcapWriter(io.BytesIO(), snaplen=-1), "snaplen does not fit 32 bits"),
        (lambda: udp_frame("10.0.0.1 x", 1, "10.0.0.2", 2, b""), "Not an IPv4 address"),
        (lambda: udp_frame("10.0.1", 1, "10.0.0.2", 2, b""), "Not an IPv4 address: '10.0.1'"),
        (lambda: udp_frame("10.0.0.1", 65536, "10.0.0.2", 2, b""), "port does not fit 16 bits"),
        (lambda: udp_frame("10.0.0.1", 1, "10.0.0.2", -1, b""), "port does not fit 16 bits"),
        (lambda: udp_frame("10.0.0.1", 1, "10.0.0.2", 2, b"", ttl=256), "ttl does not fit 8"),
        (lambda: udp_frame("10.0.0.1", 1, "10.0.0.2", 2, b"", vlan=4096), "vlan does not fit 12"),
        (lambda: udp_frame("10.0.0.1", 1, "10.0.0.2", 2, b"", src_mac="aa:bb"), "six bytes"),
        (lambda: udp_frame("10.0.0.1", 1, "10.0.0.2", 2, b"", src_mac="zz"), "six bytes"),
        (lambda: PcapWriter(io.BytesIO()).write(-1, b""), "from 1970 to 2106"),
        (lambda: PcapWriter(io.BytesIO()).write(2**32 * 10**9, b""), "from 1970 to 2106"),
    ],
)
def test_what_cannot_be_written_is_refused(build, reason):
    with pytest.raises(EncodeError, match=reason):
        build()


def test_an_unwritable_path_is_reported_with_the_reason(tmp_path):
    with pytest.raises(CaptureError, match="cannot be written: No such file or directory"):
        PcapWriter(tmp_path / "absent" / "a.pcap")
