"""Split points: the true packet boundaries, whatever the payloads look like."""

from __future__ import annotations

import bisect
import io
import itertools
import random
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pregao.capture import (
    TruncatedTail,
    boundary_at_time,
    first_boundary,
    read_packets,
    split_points,
)
from pregao.capture import _file_kernels as kernels
from pregao.capture.split import boundary_finder
from pregao.errors import CaptureError, UsageError
from tests.capture.building import (
    Raw,
    framed,
    interface,
    ipv4,
    pcap_file,
    pcap_header,
    pcap_record,
    pcapng_files,
    section,
    udp,
)

NOW = 1_700_000_000 * 10**9


def truth(content: bytes) -> list[int]:
    """Every boundary of a capture, found by walking it; the size comes last."""
    reader = read_packets(io.BytesIO(content))
    found = [packet.position for packet in reader]
    if reader.truncated_tail:
        found.append(reader.truncated_tail.position)
    return [*found, len(content)]


def expected(boundaries: list[int], offset: int) -> int:
    return boundaries[min(bisect.bisect_left(boundaries, offset), len(boundaries) - 1)]


def market_capture(rng: random.Random, size: int, order: str = "<", nanos: bool = True) -> bytes:
    """A capture like the market's: small messages with many zeros in them."""
    packets, made, now = [], 0, NOW
    while made < size:
        words = rng.randint(4, 30) if rng.random() < 0.95 else rng.randint(30, 180)
        payload = b"".join(
            struct.pack("<q", rng.getrandbits(rng.choice([4, 8, 16, 20, 40]))) for _ in range(words)
        )
        now += rng.choice([100, 10_000, 1_000_000])
        packets.append(Raw(now, framed(ipv4(udp(payload)), tags=(0x8100,))))
        made += len(packets[-1].data) + 16
    return pcap_file(packets, order=order, nanos=nanos)


@pytest.mark.parametrize(("order", "nanos"), [("<", True), ("<", False), (">", True)])
def test_boundaries_of_an_ordinary_capture_are_found_nearby(order, nanos):
    rng = random.Random(1)
    content = market_capture(rng, 3 << 20, order, nanos)
    boundaries = truth(content)
    with boundary_finder(io.BytesIO(content)) as finder:
        assert finder is not None
        for offset in [rng.randrange(3 << 19, len(content) - 300_000) for _ in range(60)]:
            assert finder.first_boundary(offset) == expected(boundaries, offset)
        assert finder.walked == 0
        # About 1.5 MiB around each offset, however large the file is.
        assert finder.bytes_read < 60 * 7 * 262_160
        # Close to the end a false chain may seem cut by it, and a walk has to decide.
        for offset in range(len(content) - 500, len(content), 9):
            assert finder.first_boundary(offset) == expected(boundaries, offset)


def test_a_capture_of_a_capture_being_copied_is_cut_at_the_outer_packets():
    rng = random.Random(2)
    inner = market_capture(rng, 1 << 20)[24:]
    packets = [
        Raw(NOW + k, framed(ipv4(udp(inner[k * 1400 : (k + 1) * 1400]))))
        for k in range(len(inner) // 1400)
    ] * 4
    content = pcap_file(packets)
    boundaries = truth(content)
    for offset in [rng.randrange(2 << 20, len(content)) for _ in range(40)]:
        assert first_boundary(io.BytesIO(content), offset) == expected(boundaries, offset)


# ---- small captures in which the payloads lie ----------------------------------------------

MAX_LENGTH = 200


@st.composite
def lying_captures(draw: st.DrawFn) -> bytes:
    """Captures whose payloads contain complete records that may run into the true ones."""
    order, nanos = draw(st.sampled_from("<>")), draw(st.booleans())
    now = draw(st.sampled_from([0, NOW]))
    step = draw(st.sampled_from([0, 60, 10**9]))
    out = [pcap_header(order=order, nanos=nanos)]
    constant = draw(st.one_of(st.none(), st.integers(0, 70)))
    for _ in range(draw(st.integers(1, 90))):
        now += step
        kind = draw(st.sampled_from(["zeros", "noise", "record", "chain", "ones", "overrun"]))
        size = draw(st.integers(0, 70)) if constant is None else constant
        seconds, fraction = now // 10**9, now % 10**9 // (1 if nanos else 1000)
        if kind == "zeros":
            data = bytes(size)
        elif kind == "ones":
            data = b"\1\0\0\0" * (size // 4)
        elif kind == "noise":
            data = draw(st.binary(min_size=size, max_size=size))
        elif kind == "record":
            data = pcap_record(seconds, fraction, b"liar", order=order)
        elif kind == "chain":
            data = pcap_record(seconds, fraction, b"", order=order) * (size // 16)
        else:
            # A record that claims to extend past this packet, into the next ones.
            reach = draw(st.integers(0, MAX_LENGTH))
            data = pcap_record(seconds, fraction, b"xx", reach, captured=reach, order=order)
        if constant is not None and kind in ("zeros", "ones"):
            fraction = len(data)  # then the false chain four bytes before looks right, too
        out.append(pcap_record(seconds, fraction, data, order=order))
    return b"".join(out)


@settings(max_examples=80, deadline=None)
@given(lying_captures(), st.data())
def test_the_first_boundary_is_always_the_true_one(content, data):
    content = content[: len(content) - data.draw(st.integers(0, 40))]
    if len(content) < 24:
        return
    boundaries = truth(content)
    with boundary_finder(io.BytesIO(content), max_captured_length=MAX_LENGTH) as finder:
        assert finder is not None
        known = 24
        for offset in range(0, len(content) + 5, 3):
            found = finder.first_boundary(offset)
            assert found == expected(boundaries, max(offset, 24))
            assert finder.first_boundary(offset, known) == found
            if offset % 11 == 0 and found < len(content):
                known = found


def test_lying_captures_are_distinguished_nearby_or_walked():
    """Both ways of the search are used on the captures that the test above is made with."""
    walked = nearby = 0

    @settings(max_examples=60, deadline=None, derandomize=True, database=None)
    @given(lying_captures())
    def search(content: bytes) -> None:
        nonlocal walked, nearby
        with boundary_finder(io.BytesIO(content), max_captured_length=MAX_LENGTH) as finder:
            assert finder is not None
            for offset in range(4 * (MAX_LENGTH + 16) + 25, len(content), 50):
                before = finder.walked
                finder.first_boundary(offset)
                walked += finder.walked > before
                nearby += finder.walked == before

    search()
    assert walked > 20
    assert nearby > 20


@settings(max_examples=60, deadline=None)
@given(lying_captures(), st.integers(1, 3000))
def test_the_ranges_together_are_exactly_the_file(content, target):
    whole = [(p.position, p.time_ns, p.data) for p in read_packets(io.BytesIO(content))]
    points = split_points(io.BytesIO(content), target)
    assert points[0] == 24
    assert points == sorted(set(points))
    found = []
    for start, end in itertools.pairwise([*points, None]):
        part = read_packets(io.BytesIO(content), start=start, end=end)
        found += [(p.position, p.time_ns, p.data) for p in part]
        assert part.truncated_tail is None
    assert found == whole


@settings(max_examples=40, deadline=None)
@given(lying_captures(), st.lists(st.integers(0, 8000), max_size=6))
def test_any_cuts_at_all_give_exactly_the_file(content, cuts):
    whole = [p.position for p in read_packets(io.BytesIO(content))]
    with boundary_finder(io.BytesIO(content), max_captured_length=MAX_LENGTH) as finder:
        assert finder is not None
        points = sorted({24, *(finder.first_boundary(cut) for cut in cuts)})
    found = []
    for start, end in itertools.pairwise([*points, None]):
        found += [p.position for p in read_packets(io.BytesIO(content), start=start, end=end)]
    assert found == whole


# ---- the kernel and its plain twin ---------------------------------------------------------


def survivors(
    data: bytes, starts: int, target: int, max_length: int, order: str, final: bool
) -> list[int]:
    """Follow the chain of every start on its own."""
    end = len(data)

    def follow(at: int) -> int | None:
        """The next boundary of a chain: the end if the file ends first; None if impossible."""
        if at + 16 > end:
            return end if final else None
        captured = struct.unpack_from(f"{order}I", data, at + 8)[0]
        return min(at + 16 + captured, end) if captured <= max_length else None

    found = set()
    for start in range(min(starts, end + 1)):
        at: int | None = start
        while at is not None and at < target:
            at = follow(at)
        if at is None:
            continue
        first, alive = at, True
        while at is not None and at + 16 <= end:
            at = follow(at)
            alive = at is not None
        if alive:
            found.add(first)
    return sorted(found)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.sampled_from([b"\0", b"\1", b"\x10", b"\xff"]), max_size=200).map(b"".join),
    st.integers(0, 60),
    st.integers(0, 100),
    st.sampled_from([0, 16, 300]),
    st.sampled_from("<>"),
)
def test_the_kernel_finds_the_survivors_of_the_plain_function(
    data, starts, ahead, max_length, order
):
    target = min(ahead, len(data))
    found = np.empty(500, np.int64)
    count = kernels.surviving_boundaries(
        np.frombuffer(data, np.uint8),
        len(data),
        starts,
        target,
        order == ">",
        max_length,
        True,
        np.zeros(len(data) + 1, np.uint8),
        found,
    )
    assert found[:count].tolist() == survivors(data, starts, target, max_length, order, True)


# ---- edges ---------------------------------------------------------------------------------


def test_offsets_at_the_edges():
    content = pcap_file([Raw(NOW, b"abc"), Raw(NOW, b"defgh")])
    for offset, boundary in ((-5, 24), (0, 24), (24, 24), (25, 43), (43, 43), (44, 64), (999, 64)):
        assert first_boundary(io.BytesIO(content), offset) == boundary


def test_the_partial_last_record_belongs_to_the_range_it_starts_in():
    content = pcap_file([Raw(NOW, bytes(100)) for _ in range(5)])[:-30]
    last = 24 + 4 * 116
    assert first_boundary(io.BytesIO(content), last + 1) == len(content)
    tails = []
    for start, end in itertools.pairwise([*split_points(io.BytesIO(content), 100), None]):
        part = read_packets(io.BytesIO(content), start=start, end=end)
        list(part)
        tails.append(part.truncated_tail)
    assert tails == [None] * 4 + [TruncatedTail(last, 86)]


def test_endless_zeros_are_walked():
    content = pcap_header() + bytes(16) * 200
    with boundary_finder(io.BytesIO(content), max_captured_length=20) as finder:
        assert finder is not None
        assert finder.first_boundary(3000) == 24 + 16 * 186
        assert finder.walked == 1


def test_a_damaged_capture_reports_where_the_search_ended():
    bad = pcap_header() + pcap_record(1, 1, bytes(50)) * 40 + b"\xff" * 4000
    with boundary_finder(io.BytesIO(bad), max_captured_length=60) as finder:
        assert finder is not None
        with pytest.raises(CaptureError, match=f"at byte {24 + 66 * 40}: the record claims"):
            finder.first_boundary(5500)


@settings(max_examples=10, deadline=None)
@given(pcapng_files())
def test_a_pcapng_is_one_range(content):
    assert split_points(io.BytesIO(content), 10) == [0]


def test_what_cannot_be_split_is_reported():
    with pytest.raises(UsageError, match="only in an uncompressed pcap"):
        first_boundary(io.BytesIO(section() + interface()), 10)
    with pytest.raises(UsageError, match="target_bytes must be at least 1"):
        split_points(io.BytesIO(pcap_header()), 0)
    with pytest.raises(UsageError, match="cannot be read in ranges"):
        read_packets(io.BytesIO(section() + interface()), start=28)


def test_an_empty_capture_is_one_empty_range():
    assert split_points(io.BytesIO(pcap_header()), 100) == [24]
    assert first_boundary(io.BytesIO(pcap_header()), 50) == 24


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(0, 5), min_size=0, max_size=60),
    st.integers(-2, 200),
)
def test_the_boundary_at_a_time_is_the_first_packet_not_before_it(steps, when):
    times = list(itertools.accumulate(steps))
    packets = [Raw(time_ns, bytes(time_ns % 7 * 9)) for time_ns in times]
    content = pcap_file(packets)
    boundaries = truth(content)
    assert (
        boundary_at_time(io.BytesIO(content), when) == boundaries[bisect.bisect_left(times, when)]
    )


def test_the_boundary_at_a_time_of_a_large_capture_is_found_by_halving():
    content = market_capture(random.Random(5), 3 << 20)
    packets = list(read_packets(io.BytesIO(content)))
    for packet in packets[:: len(packets) // 7]:
        found = boundary_at_time(io.BytesIO(content), packet.time_ns)
        assert found == next(p.position for p in packets if p.time_ns >= packet.time_ns)
