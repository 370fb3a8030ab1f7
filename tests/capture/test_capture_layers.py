"""From frames to datagrams and segments: every link, odd lengths, and the account of packets."""

from __future__ import annotations

import contextlib
import io
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pregao.capture import (
    CaptureStatistics,
    Datagram,
    Packet,
    PacketDissector,
    PacketItem,
    Segment,
    TruncatedPacket,
    datagrams,
    dissect,
    read_packets,
    segments,
)
from pregao.errors import CaptureError
from tests.capture.building import (
    COOKED,
    COOKED_2,
    ETHERNET,
    LINK_TYPES,
    LOOP,
    NULL,
    RAW,
    RAW_4,
    RAW_6,
    Raw,
    capture_files,
    framed,
    ipv4,
    ipv6,
    ipv6_fragment,
    pcap_file,
    tcp,
    udp,
)


def item_of(data: bytes, link_type: int = ETHERNET, original: int | None = None) -> PacketItem:
    layers = PacketDissector()
    length = len(data) if original is None else original
    item = layers.item(Packet(77, data, length, link_type, 24, 1, 0))
    assert layers.statistics.packets == layers.statistics.accounted == 1
    return item


def payload_of(item: PacketItem) -> bytes:
    assert isinstance(item, Datagram | Segment)
    return item.payload


def reason_of(item: PacketItem) -> str:
    return f"{item.kind}: {getattr(item, 'reason', '')}"


def account_of(content: bytes) -> tuple[Counter[str], CaptureStatistics]:
    """The kinds of items that a capture gives, up to its damage if it has any, and the account."""
    kinds: Counter[str] = Counter()
    items = dissect(read_packets(io.BytesIO(content)))
    with contextlib.suppress(CaptureError):
        for item in items:
            kinds[item.kind] += 1
    return kinds, items.statistics


@settings(max_examples=200, deadline=None)
@given(capture_files)
def test_every_packet_is_accounted_for_exactly_once(content):
    kinds, statistics = account_of(content)
    assert statistics.packets == statistics.accounted == kinds.total()
    assert kinds == Counter(
        udp=statistics.udp,
        tcp=statistics.tcp,
        cut=statistics.cut,
        malformed=statistics.malformed.total(),
        other=statistics.other.total(),
        fragment=statistics.fragments,
    )
    assert statistics.fragments == (
        statistics.fragments_pending + statistics.fragments_joined + statistics.fragments_dropped
    )


@pytest.mark.parametrize("link_type", LINK_TYPES)
@pytest.mark.parametrize("version", [4, 6])
def test_a_datagram_in_every_kind_of_frame(link_type, version):
    packet = ipv4(udp(b"hello")) if version == 4 else ipv6(udp(b"hello"))
    item = item_of(framed(packet, link_type, version=version), link_type)
    if (link_type, version) in ((RAW_4, 6), (RAW_6, 4)):
        assert item.kind == "malformed"
    elif version == 4:
        assert item == Datagram(77, "10.0.0.1", 5000, "233.1.2.3", 6000, b"hello", 1, 24)
    else:
        many = "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"
        assert item == Datagram(77, "fd00::1", 5000, many, 6000, b"hello", 1, 24)


@pytest.mark.parametrize("link_type", [ETHERNET, COOKED, COOKED_2])
@pytest.mark.parametrize("tags", [(0x8100,), (0x88A8, 0x8100), (0x9100, 0x9100, 0x8100)])
@pytest.mark.parametrize("version", [4, 6])
def test_vlan_tags_are_stepped_over(link_type, tags, version):
    packet = ipv4(udp(b"tagged")) if version == 4 else ipv6(udp(b"tagged"))
    frame = framed(packet, link_type, tags=tags, version=version)
    assert payload_of(item_of(frame, link_type)) == b"tagged"
    short = item_of(frame[: len(frame) - len(packet) - 1], link_type)
    assert short.kind == "malformed"


@pytest.mark.parametrize("family", [2, 10, 23, 24, 28, 30])
@pytest.mark.parametrize("order", ["little", "big"])
def test_the_loopback_family_may_be_in_either_byte_order(family, order):
    packet = ipv4(udp(b"lo")) if family == 2 else ipv6(udp(b"lo"))
    frame = family.to_bytes(4, order) + packet
    assert payload_of(item_of(frame, NULL)) == b"lo"
    if order == "big":
        assert payload_of(item_of(frame, LOOP)) == b"lo"


def test_padding_does_not_leak_into_the_payload():
    frame = framed(ipv4(udp(b"ab"))) + b"\xee" * 18
    assert payload_of(item_of(frame)) == b"ab"
    trailing = framed(ipv4(udp(b"ab") + b"\xdd" * 5))
    assert payload_of(item_of(trailing)) == b"ab"
    assert payload_of(item_of(framed(ipv6(udp(b"")), version=6) + b"\xee")) == b""
    assert payload_of(item_of(framed(ipv4(tcp(b""), 6)) + b"\xee" * 6)) == b""


def test_ip_and_tcp_options_are_stepped_over():
    assert payload_of(item_of(framed(ipv4(udp(b"x"), options=b"\1" * 40)))) == b"x"
    segment = item_of(framed(ipv4(tcp(b"x", offset=8, options=bytes(12)), 6)))
    assert payload_of(segment) == b"x"


@pytest.mark.parametrize("captured", range(0, 14 + 20 + 8 + 5))
def test_a_cut_packet_is_reported_and_never_decoded(captured):
    frame = framed(ipv4(udp(b"whole")))
    assert item_of(frame[:captured], original=len(frame)).kind == "cut"
    # The same bytes, but stated to be the complete frame: then the frame is wrong.
    assert item_of(frame[:captured]).kind == "malformed"


def test_a_packet_cut_in_its_padding_only_is_whole():
    frame = framed(ipv4(udp(b"whole")))
    assert payload_of(item_of(frame, original=len(frame) + 20)) == b"whole"


def test_a_truncated_item_has_its_original_size():
    frame = framed(ipv4(udp(b"whole")))
    item = item_of(frame[:40], original=47)
    assert item == TruncatedPacket(77, 40, 47, 1, 24)


@pytest.mark.parametrize("captured", range(14 + 40 + 16 + 8 + 3))
def test_a_cut_ipv6_packet_is_reported_wherever_it_is_cut(captured):
    hop, destination = bytes([60, 0]) + bytes(6), bytes([17, 0]) + bytes(6)
    frame = framed(ipv6(hop + destination + udp(b"six"), 0), version=6)
    assert len(frame) == 14 + 40 + 16 + 8 + 3
    assert item_of(frame[:captured], original=len(frame)).kind == "cut"
    assert item_of(frame[:captured]).kind == "malformed"


@pytest.mark.parametrize(
    ("packet", "reason"),
    [
        (ipv4(udp(b"x"), version=5), "IP version is not 4 in an IPv4 packet"),
        (ipv4(udp(b"x"), words=4), "IPv4 header length is below 20"),
        (ipv4(udp(b"x"), total=19), "IPv4 total length is shorter than the header"),
        (ipv4(udp(b"x"), total=0), "IPv4 total length is shorter than the header"),
        (ipv4(udp(b"x"), words=15, total=50), "IPv4 total length is shorter than the header"),
        (ipv4(udp(b"x"), total=28), "UDP length runs past the IP packet"),
        (ipv4(udp(b"x"), total=27), "UDP header runs past the IP packet"),
        (ipv4(udp(b"x"), total=500), "IPv4 packet runs past the frame"),
        (ipv4(udp(b"x", length=7)), "UDP length is below 8"),
        (ipv4(udp(b"x", length=0)), "UDP length is below 8"),
        (ipv4(udp(b"x", length=10)), "UDP length runs past the IP packet"),
        (ipv4(udp(b"x", length=65535)), "UDP length runs past the IP packet"),
        (ipv4(tcp(b"", offset=4), 6), "TCP header length is below 20"),
        (ipv4(tcp(b"", offset=6), 6), "TCP header runs past the IP packet"),
        (ipv4(tcp()[:19], 6), "TCP header runs past the IP packet"),
    ],
)
def test_contradicting_lengths_are_malformed(packet, reason):
    assert reason_of(item_of(framed(packet))) == f"malformed: {reason}"


@pytest.mark.parametrize(
    ("packet", "reason"),
    [
        (ipv6(udp(b"x"), length=500), "IPv6 packet runs past the frame"),
        (ipv6(udp(b"x"), length=0), "UDP header runs past the IP packet"),
        (ipv6(b"\x11\x01" + bytes(6), 0), "IPv6 extension header runs past the packet"),
        (ipv6(b"\x11\x00", 60), "IPv6 extension header runs past the packet"),
        (ipv6(b"\x11\x00" + bytes(2), 44), "IPv6 extension header runs past the packet"),
        (b"\x50" + ipv6(udp(b"x"))[1:], "IP version is not 6 in an IPv6 packet"),
        (
            ipv6_fragment(b"\x2c\x00" + bytes(6), 0, 0, protocol=60),
            "IPv6 fragment inside a fragment",
        ),
    ],
)
def test_contradicting_ipv6_lengths_are_malformed(packet, reason):
    assert reason_of(item_of(framed(packet, version=6))) == f"malformed: {reason}"


def test_an_authentication_header_is_stepped_over():
    header = bytes([17, 4]) + bytes(22)
    assert payload_of(item_of(framed(ipv6(header + udp(b"ok"), 51), version=6))) == b"ok"


def test_packets_that_are_neither_udp_nor_tcp_are_counted_by_kind():
    frames = [
        (bytes(12) + b"\x08\x06" + bytes(28), "ARP"),
        (bytes(12) + b"\x12\x34" + bytes(28), "ethertype 0x1234"),
        (bytes(12) + b"\x00\x2e" + bytes(46), "802.3 length instead of an ethertype"),
        (framed(ipv4(bytes(8), 1)), "ICMP"),
        (framed(ipv4(bytes(8), 2)), "IGMP"),
        (framed(ipv4(bytes(8), 200)), "IP protocol 200"),
        (framed(ipv6(bytes(8), 58), version=6), "ICMPv6"),
        (framed(ipv4(bytes(8), 1, fragment=0x2000)), "ICMP"),
        (framed(ipv6_fragment(bytes(8), 0, 1, protocol=50), version=6), "IP protocol 50"),
    ]
    packets = [Raw(k, data) for k, (data, _) in enumerate(frames)]
    items = dissect(read_packets(io.BytesIO(pcap_file(packets))))
    assert [reason_of(item) for item in items] == [f"other: {reason}" for _, reason in frames]
    assert items.statistics.other == Counter(reason for _, reason in frames)


def test_unselected_packets_may_be_cut_without_being_reported_as_cut():
    icmp = framed(ipv4(bytes(100), 1))
    assert item_of(icmp[:60], original=len(icmp)).kind == "other"


@pytest.mark.parametrize(
    ("data", "link_type", "found"),
    [
        (b"", ETHERNET, "malformed: frame ends inside the Ethernet header"),
        (bytes(15), COOKED, "malformed: frame ends inside the Linux cooked header"),
        (bytes(19), COOKED_2, "malformed: frame ends inside the Linux cooked header"),
        (b"", RAW, "malformed: frame is empty"),
        (b"\x95", RAW, "malformed: IP version is neither 4 nor 6"),
        (b"\x02\0\0", NULL, "malformed: frame ends inside the loopback header"),
        (b"\0\0\0\x07", NULL, "other: loopback family 7"),
        (b"\x02\0\0\0", LOOP, "other: loopback family 33554432"),
        (b"anything", 147, "other: link type 147"),
    ],
)
def test_frames_that_hold_no_ip(data, link_type, found):
    assert reason_of(item_of(data, link_type)) == found


def test_datagrams_and_segments_are_picked_out_and_the_rest_counted():
    frames = [
        framed(ipv4(udp(b"one"))),
        framed(ipv4(tcp(b"two", sequence=5, flags=0x18), 6)),
        framed(ipv4(udp(b""))),
        framed(ipv4(b"", 1)),
    ]
    content = pcap_file([Raw(k, data) for k, data in enumerate(frames)])
    found = datagrams(read_packets(io.BytesIO(content)))
    assert [(item.payload, item.number) for item in found] == [(b"one", 1), (b"", 3)]
    assert found.statistics == CaptureStatistics(
        packets=4,
        bytes=sum(map(len, frames)),
        udp=2,
        udp_bytes=3,
        tcp=1,
        other=Counter({"ICMP": 1}),
    )
    (segment,) = segments(read_packets(io.BytesIO(content)))
    assert (segment.payload, segment.sequence, segment.flags) == (b"two", 5, 0x18)
    assert segment.flow == ("10.0.0.1", 1000, "233.1.2.3", 2000)


@settings(max_examples=30, deadline=None)
@given(st.lists(capture_files, max_size=3))
def test_statistics_of_parts_add_up(contents):
    total, kinds = CaptureStatistics(), Counter[str]()
    for content in contents:
        found, statistics = account_of(content)
        kinds.update(found)
        total.add(statistics)
    assert total.packets == total.accounted == kinds.total()
    assert (total.udp, total.malformed.total()) == (kinds["udp"], kinds["malformed"])
