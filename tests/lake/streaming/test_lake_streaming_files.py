"""Rolling files: read up to the last complete packet, each byte once, in bounded batches."""

import gzip
import os
import random
import shutil
from functools import cache

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from pregao.capture import PcapWriter, read_packets, udp_frame
from pregao.clock import SECOND, VirtualClock
from pregao.errors import CaptureError
from pregao.lake.datasource.rolling_files import (
    FileOffset,
    RollingFiles,
    next_offset,
    ranges_between,
)
from pregao.lake.datasource.stream_reader import as_json, from_json
from pregao.lake.ingest.pcap_index import PcapSeeker
from pregao.lake.storage.filesystem import Location

NOW = 2_000_000_000 * SECOND


def capture_bytes(path, times, size=40, seed=0):
    """A capture with packets at these times; payloads hold what looks like records."""
    with PcapWriter(path) as writer:
        for number, time in enumerate(times):
            payload = bytes((seed + number * 7 + k) % 5 for k in range(size + number % 30))
            writer.write(time, udp_frame("10.0.0.1", 1, "233.252.14.1", 30001, payload))
    return path.read_bytes()


@cache
def boundaries(content):
    """Every offset at which a record begins or the last one ends."""
    offsets, at = [24], 24
    while at + 16 <= len(content):
        at += 16 + int.from_bytes(content[at + 8 : at + 12], "little")
        if at <= len(content):
            offsets.append(at)
    return offsets


def looked(folder, quiet_ns=0, clock=None):
    return RollingFiles(str(folder), quiet_ns, clock or VirtualClock(NOW))


def positions(ranges):
    """The packets of ranges, by file and position."""
    found = []
    for each in ranges:
        with read_packets(each.location.uri, start=each.begin, end=each.end) as reader:
            found += [(each.name, packet.position) for packet in reader]
            assert reader.truncated_tail is None
    return found


@st.composite
def growths(draw):
    """Files, and what is appended to which of them at each step."""
    names = draw(st.lists(st.sampled_from("abcd"), min_size=1, max_size=4, unique=True))
    packets = {name: draw(st.integers(0, 60)) for name in names}
    shares = {name: [*sorted(draw(st.lists(st.floats(0, 1), max_size=5))), 1.0] for name in names}
    return packets, shares


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(growths(), st.integers(1, 5000) | st.none(), st.integers(1, 3) | st.none(), st.data())
def test_every_packet_is_in_exactly_one_batch(tmp_path, growth, max_bytes, max_files, data):
    packets, shares = growth
    folder = tmp_path / "rolling"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    contents = {}
    for number, (name, count) in enumerate(packets.items()):
        step = data.draw(st.integers(1, 10**9))
        times = [SECOND * 1000 + step * k for k in range(count)]
        contents[name] = capture_bytes(tmp_path / "made.pcap", times, seed=number)
    files = looked(folder)
    offset = {}
    taken = []
    for step in range(6):
        for name, content in contents.items():
            share = shares[name][min(step, len(shares[name]) - 1)]
            (folder / f"{name}.pcap").write_bytes(content[: int(share * len(content))])
        for _ in range(data.draw(st.integers(0, 3)) if step < 5 else 1000):
            later = next_offset(offset, files.look(), max_bytes=max_bytes, max_files=max_files)
            if later == offset:
                break
            ranges = ranges_between(files, offset, later)
            assert ranges
            assert max_files is None or len(ranges) <= max_files
            assert from_json(as_json(later)) == later
            taken += positions(ranges)
            offset = later
        else:
            assert step < 5
    wanted = [
        (f"{name}.pcap", boundary)
        for name, content in contents.items()
        for boundary in boundaries(content)[:-1]
    ]
    assert sorted(taken) == sorted(wanted)


def test_a_file_is_read_up_to_its_last_complete_packet(tmp_path):
    content = capture_bytes(tmp_path / "made.pcap", [SECOND * k for k in range(1, 30)])
    path = tmp_path / "folder" / "x.pcap"
    path.parent.mkdir()
    files = looked(path.parent)
    for size in range(0, len(content), 37):
        path.write_bytes(content[:size])
        os.utime(path, ns=(NOW, NOW - size))
        whole = [offset for offset in boundaries(content) if 24 < offset <= size]
        found = files.look()
        assert [file.end for file in found] == whole[-1:]
        if found:
            assert found[0].last_time_ns == len(whole) * SECOND


def test_the_end_of_a_large_file_is_found_without_walking_it(tmp_path, monkeypatch):
    from pregao.capture import source

    noise = random.Random(1)
    with PcapWriter(tmp_path / "made.pcap") as writer:
        for time in range(10_000):
            payload = noise.randbytes(1200)
            writer.write(NOW + time, udp_frame("10.0.0.1", 1, "233.252.14.1", 30001, payload))
    content = (tmp_path / "made.pcap").read_bytes()
    path = tmp_path / "folder" / "large.pcap"
    path.parent.mkdir()
    path.write_bytes(content[:-5])
    read = 0
    plain = source.ByteSource.read_at

    def counted(self, position, count):
        nonlocal read
        result = plain(self, position, count)
        read += len(result)
        return result

    monkeypatch.setattr(source.ByteSource, "read_at", counted)
    (found,) = looked(path.parent).look()
    assert found.end == boundaries(content)[-2]
    assert read < len(content) / 2


def test_batches_go_forward_in_time_over_all_files(tmp_path):
    """With a bound, both feeds' files end at about the same time."""
    folder = tmp_path / "folder"
    folder.mkdir()
    for seed, name in enumerate("ab"):
        capture_bytes(folder / f"{name}.pcap", [SECOND + 1000 * k for k in range(3000)], seed=seed)
    files = looked(folder)
    total = sum(file.end - file.begin for file in files.look())
    offset, batches = {}, 0
    while (later := next_offset(offset, files.look(), max_bytes=total // 8)) != offset:
        ranges = ranges_between(files, offset, later)
        assert sum(each.end - each.begin for each in ranges) <= total // 8 * 1.3
        last = {}
        for each in ranges:
            with read_packets(each.location.uri, start=each.begin, end=each.end) as reader:
                last[each.name] = [packet.time_ns for packet in reader][-1]
        assert len(last) == 2
        assert abs(last["a.pcap"] - last["b.pcap"]) <= 1000
        offset, batches = later, batches + 1
    assert 7 <= batches <= 16


def test_files_one_after_the_other_fill_a_batch(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    for number in range(10):
        start = SECOND * (1 + 100 * number)
        capture_bytes(folder / f"x{number}.pcap", [start + 1000 * k for k in range(200)])
    files = looked(folder)
    size = files.look()[0].end
    first = next_offset({}, files.look(), max_bytes=3 * size + size // 2)
    assert set(first) == {f"x{number}.pcap" for number in range(4)}
    assert [first[f"x{number}.pcap"].end == size for number in range(3)] == [True] * 3


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.lists(st.integers(0, 10**9), min_size=1, max_size=150),
    st.lists(st.integers(-5, 10**9 + 5), min_size=1, max_size=10),
    st.integers(1, 2000),
)
@example(times=[0, 10, 1000], wanted=[9], stretch=1)
def test_a_time_maps_to_the_first_packet_not_before_it(tmp_path, times, wanted, stretch):
    times = sorted(NOW + time for time in times)
    content = capture_bytes(tmp_path / "made.pcap", times, size=200)
    offsets = boundaries(content)
    with (
        pytest.MonkeyPatch.context() as patch,
        PcapSeeker(Location.parse(tmp_path / "made.pcap")) as opened,
    ):
        patch.setattr("pregao.lake.ingest.pcap_index._WALK_BYTES", stretch)
        patch.setattr("pregao.lake.ingest.pcap_index._BACK_BYTES", stretch)
        patch.setattr("pregao.capture.split._FOLLOWED_BYTES", stretch)
        opened.add_known_times((times[0], offsets[0]), (times[-1] + 1, offsets[-1]))
        for time in (*(NOW + time for time in wanted), *times[:5]):
            before = sum(each < time for each in times)
            assert opened.at_time(time) == offsets[before]
            assert opened.forward(time, offsets[0]) == offsets[before]
            assert opened.back(time, offsets[-1]) == offsets[before]


def test_what_is_read_around_a_range_reaches_over_the_span(tmp_path):
    times = [NOW + SECOND // 100 * k for k in range(20_000)]
    content = capture_bytes(tmp_path / "made.pcap", times, size=60)
    offsets = boundaries(content)
    begin, end = offsets[9000], offsets[9500]
    with PcapSeeker(Location.parse(tmp_path / "made.pcap")) as opened:
        first, last = times[9000] - SECOND, times[9499] + SECOND
        low, high = opened.around(begin, end, first, last, offsets[-1])
        assert low in offsets
        assert offsets[0] < low <= offsets[8900]
        assert high in offsets
        assert offsets[9600] <= high < offsets[-1]
        assert opened.around(begin, end, first, last, end)[1] == end
        assert opened.around(24, end, first, last, end)[0] == 24


def test_until_a_time(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    times = [SECOND + k for k in range(100)]
    content = capture_bytes(folder / "a.pcap", times)
    files = looked(folder)
    assert next_offset({}, files.look(), until_ns=SECOND) == {}
    found = next_offset({}, files.look(), until_ns=SECOND + 40)
    assert found["a.pcap"].end == boundaries(content)[40]
    assert next_offset({}, files.look(), until_ns=2 * SECOND)["a.pcap"].end == len(content)


def test_compressed_files_are_ingested_once_they_are_quiet(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    content = capture_bytes(tmp_path / "made.pcap", [SECOND * k**3 for k in range(1, 99)])
    path = folder / "a.pcap.gz"
    path.write_bytes(gzip.compress(content))
    clock = VirtualClock(path.stat().st_mtime_ns + SECOND)
    files = looked(folder, quiet_ns=5 * SECOND, clock=clock)
    assert files.look() == []
    clock.advance(5 * SECOND)
    offset = next_offset({}, files.look())
    (taken,) = ranges_between(files, {}, offset)
    assert (taken.whole, taken.begin, taken.end) == (True, 0, path.stat().st_size)
    assert next_offset(offset, files.look()) == offset
    with path.open("ab") as more:
        more.write(gzip.compress(content))
    clock.advance(3600 * SECOND)
    with pytest.raises(CaptureError, match="grew after it was read"):
        next_offset(offset, files.look())


def test_a_file_of_the_same_name_with_another_head_is_a_new_one(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    capture_bytes(folder / "ring.pcap", [SECOND * k for k in range(1, 9)])
    files = looked(folder)
    before = next_offset({}, files.look())
    capture_bytes(folder / "ring.pcap", [SECOND * k for k in range(11, 14)], size=90)
    after = next_offset(before, files.look())
    (taken,) = ranges_between(files, before, after)
    assert taken.begin == 24
    assert len(positions([taken])) == 3


def test_a_file_that_became_shorter_is_an_error(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    content = capture_bytes(folder / "a.pcap", [SECOND * k for k in range(1, 9)])
    files = looked(folder)
    offset = next_offset({}, files.look())
    (folder / "a.pcap").write_bytes(content[: boundaries(content)[3]])
    with pytest.raises(CaptureError, match="was truncated"):
        next_offset(offset, files.look())


def test_other_files_and_hidden_ones_are_left_alone(tmp_path):
    (tmp_path / "notes.txt").write_text("not a capture")
    (tmp_path / ".x.pcap").write_text("being written by a tool")
    (tmp_path / "empty.pcap").touch()
    (tmp_path / "sub").mkdir()
    capture_bytes(tmp_path / "sub" / "a.pcap", [SECOND])
    assert [file.name for file in looked(tmp_path).look()] == ["sub/a.pcap"]
    assert looked(tmp_path / "nowhere").look() == []
    pattern = looked(tmp_path / "*" / "*.pcap")
    (found,) = pattern.look()
    assert found.name == str(tmp_path / "sub" / "a.pcap")
    (taken,) = ranges_between(pattern, {}, {found.name: FileOffset(found.head, found.end)})
    assert taken.location.uri == found.name


def test_a_file_that_is_no_capture_is_named(tmp_path):
    (tmp_path / "letter.pcap").write_bytes(b"Dear reader, this is no capture. " * 20)
    files = looked(tmp_path)
    (found,) = files.look()
    assert found.whole  # its reader decides what it is
