"""Reading pcapng files: sections, interfaces, clocks, kinds of packet blocks, and damage."""

from __future__ import annotations

import contextlib
import io
import random
import struct
import tracemalloc
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pregao.capture import Packet, TruncatedTail, read_packets
from pregao.errors import CaptureError
from tests.capture.building import (
    block,
    enhanced,
    interface,
    obsolete,
    option,
    pcapng_files,
    section,
    simple,
)


def read(content: bytes) -> list[Packet]:
    return list(read_packets(io.BytesIO(content)))


@pytest.mark.parametrize("order", "<>")
def test_packets_of_all_three_kinds_of_block(order):
    content = (
        section(order=order, options=option(1, b"a comment", order=order))
        + interface(1, order=order)
        + interface(101, order=order, tsresol=9)
        + enhanced(5, b"one", 70, order=order, options=option(1, b"note", order=order))
        + block(5, bytes(12), order=order)
        + obsolete(2**32 + 7, b"two22", interface=1, order=order)
        + block(0x40000BAD, b"private!", order=order)
        + simple(b"three", order=order)
    )
    reader = read_packets(io.BytesIO(content))
    found = [
        (p.time_ns, p.data, p.original_length, p.link_type, p.number, p.interface) for p in reader
    ]
    assert found == [
        (5000, b"one", 70, 1, 1, 0),
        (2**32 + 7, b"two22", 5, 101, 2, 1),
        (0, b"three", 5, 1, 3, 0),
    ]
    assert reader.format == "pcapng"
    assert reader.truncated_tail is None


def test_sections_have_their_own_byte_order_and_interfaces():
    content = (
        section(order="<")
        + interface(1, order="<")
        + enhanced(1, b"a", order="<")
        + section(order=">")
        + interface(113, order=">", tsresol=9)
        + enhanced(1, b"b", order=">")
        + section(order="<")
        + interface(276, order="<")
        + interface(228, order="<")
        + enhanced(1, b"c", interface=1, order="<")
    )
    found = [(p.data, p.link_type, p.time_ns, p.interface) for p in read(content)]
    assert found == [(b"a", 1, 1000, 0), (b"b", 113, 1, 1), (b"c", 228, 1000, 3)]


def test_positions_are_those_of_the_blocks():
    head = section() + interface()
    content = head + enhanced(1, b"a") + block(4, b"names") + enhanced(2, b"bcd")
    first, second = read(content)
    assert first.position == len(head)
    assert second.position == len(head) + 36 + 20


@settings(max_examples=150, deadline=None)
@given(
    st.integers(0, 2**64 - 1),
    st.integers(0, 255),
    st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1)),
)
def test_times_are_exact_for_every_resolution_and_offset(ticks, tsresol, tsoffset):
    content = section() + interface(tsresol=tsresol, tsoffset=tsoffset) + enhanced(ticks, b"")
    base, exponent = (2, tsresol - 128) if tsresol >= 128 else (10, tsresol)
    exact = Fraction(ticks * 10**9, base**exponent) // 1 + (tsoffset or 0) * 10**9
    if -(2**63) <= exact < 2**63:
        assert read(content)[0].time_ns == exact
    else:
        with pytest.raises(CaptureError, match="does not fit 64 bits"):
            read(content)


def test_a_simple_packet_is_as_long_as_the_snap_length_of_interface_0():
    content = section() + interface(snaplen=4) + simple(b"abcd", 1000)
    (packet,) = read(content)
    assert (packet.data, packet.original_length) == (b"abcd", 1000)


def test_a_file_cut_at_any_byte_yields_its_complete_packets_and_reports_the_rest():
    pieces = [section(), interface(), enhanced(1, b"abc"), simple(b"de"), obsolete(3, b"f")]
    content = b"".join(pieces)
    ends = [sum(map(len, pieces[:k])) for k in range(len(pieces) + 1)]
    for size in range(len(content) + 1):
        if size < ends[1]:
            with pytest.raises(CaptureError, match="<stream>: at byte"):
                read(content[:size])
            continue
        reader = read_packets(io.BytesIO(content[:size]))
        whole = max(k for k, end in enumerate(ends) if end <= size)
        assert [p.data for p in reader] == [b"abc", b"de", b"f"][: max(0, whole - 2)]
        left = size - ends[whole]
        assert reader.truncated_tail == (TruncatedTail(ends[whole], left) if left else None)


def damaged(piece: bytes, at: int, value: int) -> bytes:
    return piece[:at] + struct.pack("<I", value) + piece[at + 4 :]


HEAD = section() + interface()
PACKET = enhanced(1, b"abcd")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (HEAD + damaged(PACKET, 32, 40), "length is 36 at its start and 40 at its end"),
        (HEAD + damaged(PACKET, 4, 8), "a block claims 8 bytes"),
        (HEAD + damaged(PACKET, 4, 37), "a block claims 37 bytes"),
        (HEAD + damaged(PACKET, 4, 2**32 - 4), "a block claims 4294967292 bytes"),
        (HEAD + damaged(PACKET, 20, 5), "claims 5 captured bytes in a block of 36"),
        (HEAD + damaged(PACKET, 20, 2**32 - 1), "claims 4294967295 captured bytes"),
        (HEAD + damaged(PACKET, 8, 1), "refers to interface 1, which was not described before"),
        (section() + PACKET, "refers to interface 0, which was not described before"),
        (section() + simple(b"x"), "refers to interface 0, which was not described before"),
        (HEAD + simple(b"abcd", 9), "the packet needs 9 bytes in a block of 20"),
        (HEAD + enhanced(0, bytes(300_000)), "claims 300000 captured bytes, above the limit"),
        (HEAD + block(6, bytes(16)), "an enhanced packet block of 28 bytes is shorter"),
        (HEAD + block(2, bytes(16)), "an obsolete packet block of 28 bytes is shorter"),
        (HEAD + block(3, b""), "a simple packet block of 12 bytes is shorter"),
        (section() + block(1, b""), "an interface block of 12 bytes is shorter"),
        (section(major=2), "pcapng version 2.0 is not supported"),
        (damaged(section(), 8, 0x12345678), "the section header has no byte-order magic"),
        (HEAD + damaged(section(), 8, 0), "the section header has no byte-order magic"),
        (section() + block(1, bytes(8) + option(9, b"12")), "if_tsresol has 2 bytes instead of 1"),
        (section() + block(1, bytes(8) + option(14, b"1")), "if_tsoffset has 1 bytes instead of 8"),
        (section() + block(1, bytes(8) + b"\1\0\x99\0"), "an option runs past its interface block"),
    ],
)
def test_damage_is_refused_with_the_position_and_the_reason(content, reason):
    with pytest.raises(CaptureError) as raised:
        read(content)
    assert reason in str(raised.value)
    assert str(raised.value).startswith("<stream>: at byte ")


def test_interfaces_are_bounded():
    content = section() + interface() * 65_536
    assert read(content) == []
    with pytest.raises(CaptureError, match="more than 65536 interfaces in a section"):
        read(content + interface())
    assert read(content + section() + interface()) == []


def test_a_huge_claimed_block_costs_no_memory_and_is_a_truncated_tail():
    content = HEAD + struct.pack("<II", 6, 64 << 20) + bytes(20)
    tracemalloc.start()
    reader = read_packets(io.BytesIO(content))
    assert list(reader) == []
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8 << 20
    assert reader.truncated_tail == TruncatedTail(len(HEAD), 28)


@settings(max_examples=60, deadline=None)
@given(pcapng_files(), st.randoms(use_true_random=False))
def test_any_damage_gives_packets_or_a_capture_error(content, rng):
    broken = bytearray(content)
    for _ in range(rng.randint(0, 4)):
        broken[rng.randrange(len(broken))] = rng.choice([0, 1, 0x7F, 0x80, 0xFF])
    numbers: list[int] = []
    with contextlib.suppress(CaptureError):
        numbers.extend(p.number for p in read(bytes(broken)))
    assert numbers == list(range(1, len(numbers) + 1))


def test_thousands_of_random_files_give_packets_or_a_capture_error():
    rng = random.Random(21)
    base = HEAD + PACKET + simple(b"x") + obsolete(1, b"yz")
    outcomes = {"packets": 0, "error": 0}
    rounds = 3000
    for _ in range(rounds):
        content = bytearray(base)
        for _ in range(rng.randint(0, 4)):
            content[rng.randrange(len(content))] = rng.randrange(256)
        try:
            read(bytes(content[: rng.randint(0, 2 * len(content))]))
            outcomes["packets"] += 1
        except CaptureError:
            outcomes["error"] += 1
    assert min(outcomes.values()) > 300
    assert sum(outcomes.values()) == rounds
