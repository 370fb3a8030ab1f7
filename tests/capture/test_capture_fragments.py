"""Joining IP fragments: any order, bounded memory, overlaps abandoned, everything counted."""

from __future__ import annotations

import io
import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pregao.capture import FragmentLimits, datagrams, dissect, read_packets
from pregao.capture.fragments import FragmentReassembler
from pregao.capture.statistics import CaptureStatistics
from pregao.errors import DecodeError
from tests.capture.building import Raw, framed, ipv4, ipv6_fragment, pcap_file, udp

SECOND = 10**9


def pieces_of(body: bytes, cuts: list[int]) -> list[tuple[int, bool, bytes]]:
    """The body cut at multiples of eight: offset, whether more follow, bytes."""
    edges = sorted({0, *(8 * cut for cut in cuts if 0 < 8 * cut < len(body)), len(body)})
    return [(start, end < len(body), body[start:end]) for start, end in itertools.pairwise(edges)]


@settings(max_examples=150, deadline=None)
@given(st.binary(min_size=1, max_size=300), st.lists(st.integers(1, 37)), st.data())
def test_fragments_in_any_order_give_the_datagram_with_the_last_of_them(body, cuts, data):
    pieces = data.draw(st.permutations(pieces_of(body, cuts)))
    repeats = data.draw(st.lists(st.integers(0, len(pieces) - 1), max_size=3))
    statistics = CaptureStatistics()
    fragments = FragmentReassembler(statistics)
    results = []
    for number, (offset, more, part) in enumerate(pieces):
        results.append(fragments.add("key", offset, more, part, number))
        if number in repeats and number < len(pieces) - 1:
            assert fragments.add("key", offset, more, part, number) is None
    assert results == [None] * (len(pieces) - 1) + [body]
    assert statistics.fragments_pending == 0
    assert statistics.fragments_joined == len(pieces) - 1
    assert statistics.fragments == statistics.fragments_joined + statistics.fragments_dropped
    assert statistics.reassembled == 1


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 3),
            st.integers(0, 6),
            st.booleans(),
            st.integers(0, 24),
            st.integers(0, 80),
        ),
        max_size=60,
    )
)
def test_whatever_comes_the_limits_hold_and_the_account_is_right(steps):
    limits = FragmentLimits(datagrams=2, bytes=600, age_ns=20 * SECOND)
    statistics = CaptureStatistics()
    fragments = FragmentReassembler(statistics, limits)
    taken = 0
    for key, block, more, size, when in steps:
        try:
            whole = fragments.add(key, 8 * block, more, bytes(size), when * SECOND)
        except DecodeError:
            continue
        taken += whole is None
        assert len(fragments._partials) <= limits.datagrams
        assert 0 <= fragments._cost <= limits.bytes
    assert statistics.fragments == taken
    assert statistics.fragments == (
        statistics.fragments_pending + statistics.fragments_joined + statistics.fragments_dropped
    )
    held = sum(len(partial.parts) for partial in fragments._partials.values())
    assert statistics.fragments_pending == held


def test_a_datagram_in_fragments_has_the_time_and_location_of_the_completing_one():
    body = udp(b"0123456789abcdef")
    frames = [
        framed(ipv4(body[16:], fragment=2)),
        framed(ipv4(udp(b"between"))),
        framed(ipv4(body[:8], fragment=0x2000)) + b"\xee" * 9,
        framed(ipv4(body[8:16], fragment=0x2000 | 1)),
    ]
    content = pcap_file([Raw(100 + k, frame) for k, frame in enumerate(frames)])
    items = list(dissect(read_packets(io.BytesIO(content))))
    assert [item.kind for item in items] == ["fragment", "udp", "fragment", "udp"]
    found = list(datagrams(read_packets(io.BytesIO(content))))
    assert [(item.time_ns, item.number, item.payload) for item in found] == [
        (101, 2, b"between"),
        (103, 4, b"0123456789abcdef"),
    ]


def test_datagrams_are_distinguished_by_addresses_protocol_and_identification():
    one, two = udp(b"AAAAAAAAAAAA"), udp(b"BBBBBBBBBBBB")
    other = b"\x0a\x00\x00\x09"
    frames = [
        framed(ipv4(one[:8], fragment=0x2000, ident=1)),
        framed(ipv4(two[:8], fragment=0x2000, ident=2)),
        framed(ipv4(one[:8], fragment=0x2000, ident=1, src=other)),
        framed(ipv4(two[8:], fragment=1, ident=2)),
        framed(ipv4(one[8:], fragment=1, ident=1)),
    ]
    items = datagrams(read_packets(io.BytesIO(pcap_file([Raw(0, f) for f in frames]))))
    assert [item.payload for item in items] == [b"BBBBBBBBBBBB", b"AAAAAAAAAAAA"]
    assert items.statistics.fragments_pending == 1


def test_ipv6_fragments_with_an_extension_header_inside():
    extension = bytes([17, 0]) + bytes(6)
    body = extension + udp(b"twelve bytes")
    frames = [
        framed(ipv6_fragment(body[16:], 16, 0, protocol=60), version=6),
        framed(ipv6_fragment(body[:16], 0, 1, protocol=60), version=6),
    ]
    items = datagrams(read_packets(io.BytesIO(pcap_file([Raw(0, f) for f in frames]))))
    assert [item.payload for item in items] == [b"twelve bytes"]


def test_a_fragment_cut_by_the_snap_length_is_not_used():
    body = udp(bytes(16))
    first = framed(ipv4(body[:16], fragment=0x2000))
    packets = [Raw(0, first[:-1], len(first)), Raw(1, framed(ipv4(body[16:], fragment=2)))]
    items = dissect(read_packets(io.BytesIO(pcap_file(packets))))
    assert [item.kind for item in items] == ["cut", "fragment"]


@pytest.mark.parametrize(
    ("offset", "more", "part"),
    [
        (8, True, bytes(16)),  # reaches into the third
        (0, True, bytes(16)),  # the same start, but longer
        (0, True, b"different"[:8]),  # the same offset, other bytes
        (0, False, bytes(8)),  # the same bytes, but now the last
        (32, False, bytes(8)),  # a second last fragment
        (32, True, bytes(8)),  # after the last
        (16, True, bytes(8)),  # the last fragment again, but with more to follow
    ],
)
def test_fragments_that_contradict_each_other_give_up_the_datagram(offset, more, part):
    statistics = CaptureStatistics()
    fragments = FragmentReassembler(statistics)
    assert fragments.add("key", 0, True, bytes(8), 0) is None
    assert fragments.add("key", 16, False, bytes(8), 0) is None
    with pytest.raises(DecodeError, match="overlapping IP fragments"):
        fragments.add("key", offset, more, part, 0)
    assert (statistics.fragments, statistics.fragments_dropped) == (2, 2)
    assert statistics.fragments_pending == 0
    assert fragments._cost == 0


@pytest.mark.parametrize(
    ("offset", "more", "part", "reason"),
    [
        (0, True, b"", "empty IP fragment"),
        (0, True, bytes(9), "IP fragment length is not a multiple of 8"),
        (65528, False, bytes(8), "IP fragment reaches beyond 65535 bytes"),
    ],
)
def test_impossible_fragments_are_malformed(offset, more, part, reason):
    fragments = FragmentReassembler(CaptureStatistics())
    with pytest.raises(DecodeError, match=reason):
        fragments.add("key", offset, more, part, 0)


def test_old_fragments_are_dropped():
    statistics = CaptureStatistics()
    fragments = FragmentReassembler(statistics)
    assert fragments.add("old", 0, True, bytes(8), 0) is None
    assert fragments.add("young", 0, True, bytes(8), 10 * SECOND) is None
    assert fragments.add("young", 16, False, bytes(8), 31 * SECOND) is None
    assert fragments.add("old", 8, False, bytes(8), 31 * SECOND) is None
    assert fragments.add("young", 8, True, bytes(8), 31 * SECOND) == bytes(24)
    assert (statistics.fragments_dropped, statistics.fragments_pending) == (1, 1)
