"""Reading pcap files: both byte orders, both time units, and every kind of damage."""

from __future__ import annotations

import io
import os
import random
import tracemalloc
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pregao.capture import Packet, TruncatedTail, read_packets
from pregao.errors import CaptureError, UsageError
from tests.capture.building import Raw, pcap_file, pcap_header, pcap_record

PACKETS = [Raw(1_700_000_000 * 10**9 + 5, b"first"), Raw(7, b""), Raw(2 * 10**9, b"third one", 99)]

records = st.lists(
    st.tuples(
        st.integers(0, 2**32 - 1),
        st.integers(0, 2**32 - 1),
        st.binary(max_size=100),
        st.integers(0, 2**32 - 1),
    ),
    max_size=20,
)


def read(content: bytes, **options: Any) -> list[Packet]:
    return list(read_packets(io.BytesIO(content), **options))


@settings(deadline=None)
@given(records, st.sampled_from("<>"), st.booleans(), st.integers(0, 2**16 - 1))
def test_every_record_comes_back_with_its_fields(content, order, nanos, link_type):
    out = pcap_header(link_type, order=order, nanos=nanos)
    expected: list[tuple[Any, ...]] = []
    for seconds, fraction, data, original in content:
        # The fraction may be a second or more: the arithmetic says what that means.
        time_ns = seconds * 10**9 + fraction * (1 if nanos else 1000)
        expected.append((time_ns, data, original, link_type, len(out), len(expected) + 1, 0))
        out += pcap_record(seconds, fraction, data, original, order=order)
    reader = read_packets(io.BytesIO(out))
    found = [
        (p.time_ns, p.data, p.original_length, p.link_type, p.position, p.number, p.interface)
        for p in reader
    ]
    assert found == expected
    assert reader.truncated_tail is None
    assert reader.format == "pcap"


@pytest.mark.parametrize("order", "<>")
def test_a_file_cut_at_any_byte_yields_its_complete_packets_and_reports_the_rest(order):
    content = pcap_file(PACKETS, order=order)
    ends = [24, 24 + 21, 24 + 21 + 16, len(content)]
    for size in range(len(content) + 1):
        if size < 24:
            with pytest.raises(CaptureError, match="<stream>: at byte"):
                read(content[:size])
            continue
        reader = read_packets(io.BytesIO(content[:size]))
        whole = max(k for k, end in enumerate(ends) if end <= size)
        assert [p.data for p in reader] == [p.data for p in PACKETS[:whole]]
        left = size - ends[whole]
        expected = TruncatedTail(ends[whole], left) if left else None
        assert reader.truncated_tail == expected


def test_the_truncated_tail_is_reported_in_one_line():
    reader = read_packets(io.BytesIO(pcap_file(PACKETS)[:-3]))
    list(reader)
    assert (
        str(reader.truncated_tail) == "the capture ends early, 22 bytes into the record at byte 61"
    )


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "at byte 0: the file is empty"),
        (b"\xd4", "at byte 0: not a capture: it starts with d4"),
        (b"a,b\n1,2\n", "not a capture: it starts with 61 2c 62 0a 31 2c 32 0a"),
        (b"\xd4\xc3\xb2\xa1", "at byte 4: the file ends inside the pcap header"),
        (b"BZh91AY&SY", "bzip2 data; decompress it first"),
        (b"\xfd7zXZ\0\0\0", "xz data; decompress it first"),
        (b"PK\x03\x04....", "a zip archive"),
        (b"snoop\0\0\0\0\0\0\2", "a snoop capture"),
        (pcap_header(magic=0xA1B2CD34), "at byte 0: this is the modified pcap format"),
        (pcap_header(magic=0xA1B2CD34, order=">"), "at byte 0: this is the modified pcap format"),
        (pcap_header()[:4] + b"\5\0\0\0" + pcap_header()[8:], "at byte 4: pcap version 5.0"),
    ],
)
def test_a_file_that_is_no_capture_is_refused_with_the_reason(content, reason):
    with pytest.raises(CaptureError) as raised:
        read(content)
    assert reason in str(raised.value)


@pytest.mark.parametrize(
    ("snaplen", "limit"),
    [(0, 262144), (96, 262144), (65535, 262144), (300_000, 300_000), (2**32 - 1, 1 << 20)],
)
def test_a_record_may_be_as_long_as_a_reasonable_snap_length(snaplen, limit):
    head = pcap_header(snaplen=snaplen)
    good = head + pcap_record(0, 0, bytes(limit))
    assert [len(p.data) for p in read(good)] == [limit]
    with pytest.raises(CaptureError, match=f"at byte 24: the record claims {limit + 1} captured"):
        read(head + pcap_record(0, 0, bytes(limit + 1)))


def test_packets_before_a_damaged_record_are_given():
    content = pcap_file(PACKETS) + pcap_record(0, 0, b"", captured=2**32 - 1)
    reader = read_packets(io.BytesIO(content))
    assert [next(reader).data for _ in PACKETS] == [p.data for p in PACKETS]
    with pytest.raises(CaptureError, match="at byte 86: the record claims 4294967295"):
        next(reader)


def test_the_bits_above_the_link_type_are_not_part_of_it():
    content = pcap_header(0x5400_0001) + pcap_record(0, 0, b"frame")
    assert read(content)[0].link_type == 1


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=200), st.sampled_from([b"", pcap_header(), pcap_header(order=">")]))
@example(b"\0" * 40, pcap_header())
def test_any_bytes_give_packets_or_a_capture_error(noise, head):
    try:
        packets = read(head + noise)
    except CaptureError:
        return
    assert sum(16 + len(packet.data) for packet in packets) <= len(noise)


def test_thousands_of_random_files_give_packets_or_a_capture_error():
    rng = random.Random(20)
    outcomes = {"packets": 0, "error": 0}
    rounds = 3000
    for _ in range(rounds):
        content = bytearray(pcap_file(PACKETS, nanos=rng.random() < 0.5))
        for _ in range(rng.randint(0, 6)):
            content[rng.randrange(len(content))] = rng.choice([0, 1, 0x7F, 0x80, 0xFF])
        try:
            read(bytes(content[: rng.randint(0, len(content))]))
            outcomes["packets"] += 1
        except CaptureError as error:
            outcomes["error"] += str(error).startswith("<stream>: at byte ")
    assert min(outcomes.values()) > 300
    assert sum(outcomes.values()) == rounds


def test_a_growing_file_is_read_up_to_its_size_when_opened(tmp_path):
    path = tmp_path / "growing.pcap"
    content = pcap_file(PACKETS)
    path.write_bytes(content[:-4])
    with read_packets(path) as reader:
        next(reader)
        with path.open("ab") as file:
            file.write(content[-4:] + pcap_record(9, 9, b"later"))
        assert [p.data for p in reader] == [b""]
        assert reader.truncated_tail == TruncatedTail(61, 21)
    assert len(list(read_packets(path))) == 4


def test_a_file_that_shrinks_while_it_is_read_ends_early_with_a_warning(tmp_path):
    path = tmp_path / "shrinking.pcap"
    path.write_bytes(pcap_file([Raw(k, bytes(200_000)) for k in range(20)]))
    with read_packets(path) as reader:
        next(reader)
        os.truncate(path, 300_000)
        rest = list(reader)
    assert len(rest) < 19
    assert reader.truncated_tail is not None


def test_memory_does_not_depend_on_the_size_of_the_file():
    class Endless(io.RawIOBase):
        """64 MiB of packets that are nowhere stored."""

        def __init__(self) -> None:
            self.record = pcap_record(1, 1, bytes(262_128))
            self.left = 256
            self.waiting = pcap_header()

        def readable(self) -> bool:
            return True

        def readinto(self, view: Any) -> int:
            if not self.waiting and self.left:
                self.left -= 1
                self.waiting = self.record
            count = min(len(view), len(self.waiting))
            view[:count] = self.waiting[:count]
            self.waiting = self.waiting[count:]
            return count

    tracemalloc.start()
    count = len([packet.number for packet in read_packets(Endless())])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert count == 256
    assert peak < 8 << 20


def test_a_range_has_the_packets_with_a_record_start_in_it():
    content = pcap_file(PACKETS)
    assert [p.data for p in read(content, start=45)] == [b"", b"third one"]
    assert [p.data for p in read(content, start=45, end=46)] == [b""]
    assert [p.data for p in read(content, start=24, end=61)] == [b"first", b""]
    assert [p.data for p in read(content, end=25)] == [b"first"]
    assert [(p.number, p.position) for p in read(content, start=61)] == [(1, 61)]
    assert read(content, start=len(content)) == []


def test_a_range_of_what_cannot_seek_is_refused():
    class Pipe(io.BytesIO):
        def seekable(self) -> bool:
            return False

    with pytest.raises(UsageError, match="cannot be read in ranges"):
        read_packets(Pipe(pcap_file(PACKETS)), start=45)
