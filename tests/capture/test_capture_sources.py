"""Sources of captures: paths, streams, filesystems, compressed or not, complete or cut."""

from __future__ import annotations

import gzip
import io
import os
import random
import threading
import zlib
from typing import Any

import pyarrow as pa
import pyarrow.fs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pregao.capture import TruncatedTail, read_blocks, read_packets, split_points
from pregao.capture.source import open_source
from pregao.errors import CaptureError, UsageError
from tests.capture.building import Raw, framed, ipv4, pcap_file, udp

CONTENT = pcap_file([Raw(k, framed(ipv4(udp(b"%d" % k * (k % 50))))) for k in range(200)])
EXPECTED = list(read_packets(io.BytesIO(CONTENT)))
LARGE = pcap_file([Raw(k, framed(ipv4(udp(random.Random(k).randbytes(1400))))) for k in range(700)])
LARGE_EXPECTED = list(read_packets(io.BytesIO(LARGE)))


def zstd(content: bytes) -> bytes:
    return bytes(pa.Codec("zstd").compress(content, asbytes=True))


class Pipe(io.RawIOBase):
    """A stream that cannot seek and gives a few bytes at a time."""

    def __init__(self, content: bytes, step: int = 7) -> None:
        self.content, self.step = content, step

    def readable(self) -> bool:
        return True

    def readinto(self, view: Any) -> int:
        count = min(self.step, len(view), len(self.content))
        view[:count] = self.content[:count]
        self.content = self.content[count:]
        return count


class OnlyRead:
    """A file object of the poorest kind."""

    def __init__(self, content: bytes) -> None:
        self.read = io.BytesIO(content).read


STORED = {
    "plain": CONTENT,
    "gzip": gzip.compress(CONTENT, mtime=0),
    "gzip of several members": b"".join(
        gzip.compress(CONTENT[k : k + 999], mtime=0) for k in range(0, len(CONTENT), 999)
    ),
    "gzip padded with zeros": gzip.compress(CONTENT, mtime=0) + bytes(512),
    "zstd": zstd(CONTENT),
    "zstd of several frames": b"".join(
        zstd(CONTENT[k : k + 999]) for k in range(0, len(CONTENT), 999)
    ),
    "zstd after a skippable frame": b"\x53\x2a\x4d\x18\x03\0\0\0abc" + zstd(CONTENT),
}


@pytest.mark.parametrize("stored", STORED)
def test_the_same_packets_from_every_kind_of_source(stored, tmp_path):
    content = STORED[stored]
    path = tmp_path / "no ending"
    path.write_bytes(content)
    local = pyarrow.fs.LocalFileSystem()
    assert list(read_packets(path)) == EXPECTED
    assert list(read_packets(str(path))) == EXPECTED
    assert list(read_packets(path.as_uri())) == EXPECTED
    assert list(read_packets((local, str(path)))) == EXPECTED
    assert list(read_packets(io.BytesIO(content))) == EXPECTED
    assert list(read_packets(Pipe(content))) == EXPECTED
    assert list(read_packets(OnlyRead(content))) == EXPECTED
    with path.open("rb") as file:
        assert list(read_packets(file)) == EXPECTED
        assert not file.closed
    with read_blocks((local, str(path)), block_bytes=999) as blocks:
        assert sum(len(block) for block in blocks) == len(EXPECTED)


def test_a_capture_on_a_filesystem_that_is_not_local():
    memory = pyarrow.fs._MockFileSystem()
    with memory.open_output_stream("day.pcap.gz", compression=None) as out:
        out.write(gzip.compress(CONTENT, mtime=0))
    assert list(read_packets((memory, "day.pcap.gz"))) == EXPECTED


def test_a_named_pipe(tmp_path):
    path = tmp_path / "fifo"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_bytes, args=(CONTENT,))
    writer.start()
    assert list(read_packets(path)) == EXPECTED
    writer.join()


def test_a_stream_is_read_from_its_current_position():
    file = io.BytesIO(b"something else" + CONTENT)
    file.seek(14)
    assert list(read_packets(file)) == EXPECTED
    file.seek(14)
    points = split_points(file, 1000)
    file.seek(14)
    assert next(read_packets(file, start=points[1])).position == points[1]


def test_files_given_by_the_caller_stay_open_and_others_are_closed(tmp_path):
    handed = io.BytesIO(CONTENT)
    list(read_packets(handed))
    assert not handed.closed
    path = tmp_path / "a.pcap"
    path.write_bytes(CONTENT)
    with read_packets(path) as reader:
        next(reader)
    exhausted = read_packets(path)
    list(exhausted)
    assert reader.source._stored.stream.closed
    assert exhausted.source._stored.stream.closed
    blocks = read_blocks(path)
    list(blocks)
    assert blocks.source._stored.stream.closed


@pytest.mark.parametrize("name", ["gzip", "gzip of several members", "zstd"])
def test_a_compressed_capture_cut_short_gives_its_complete_packets(name, tmp_path):
    content = zstd(LARGE) if name == "zstd" else STORED[name]
    expected = LARGE_EXPECTED if name == "zstd" else EXPECTED
    path = tmp_path / "cut"
    cuts_with_packets = 0
    for size in range(0, len(content), len(content) // 150):
        path.write_bytes(content[:size])
        try:
            reader = read_packets(path)
        except CaptureError:
            continue
        found = list(reader)
        assert found == expected[: len(found)]
        tail = reader.truncated_tail
        end = found[-1].position + 16 + len(found[-1].data) if found else 24
        assert tail is None or tail.position == end
        if reader.source.cut:
            assert tail is not None
            assert tail.compressed
            cuts_with_packets += bool(found)
    assert cuts_with_packets > 20


def test_nothing_is_lost_from_a_cut_zstd_file_that_can_be_read_again(tmp_path):
    # Separate frames, so that all of them except the last are known to be complete.
    step = 300_000
    frames = [zstd(LARGE[k : k + step]) for k in range(0, len(LARGE), step)]
    path = tmp_path / "cut.zst"
    path.write_bytes(b"".join(frames[:2]) + frames[2][:20])
    with open_source(path) as source:
        assert source.read(1 << 20) == LARGE[: 2 * step]
        assert source.cut
    reader = read_packets(path)
    found = list(reader)
    assert found == LARGE_EXPECTED[: len(found)]
    end = found[-1].position + 16 + len(found[-1].data)
    assert reader.truncated_tail == TruncatedTail(end, 2 * step - end, compressed=True)
    assert str(reader.truncated_tail).startswith("the compressed data ends early, ")


def test_a_truncated_zstd_pipe_loses_little_and_reports_it():
    stored = zstd(LARGE)
    reader = read_packets(Pipe(stored[: len(stored) // 2], 1000))
    found = list(reader)
    assert found == LARGE_EXPECTED[: len(found)]
    assert len(found) > 150
    assert reader.truncated_tail is not None
    assert reader.truncated_tail.compressed


def test_a_gzip_stream_cut_between_members_is_whole():
    content = STORED["gzip of several members"]
    first = len(gzip.compress(CONTENT[:999], mtime=0))
    reader = read_packets(io.BytesIO(content[:first]))
    assert len(list(reader)) > 0
    assert reader.truncated_tail is not None
    assert not reader.truncated_tail.compressed


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (gzip.compress(CONTENT, mtime=0)[:-8] + b"\0" * 8, "the gzip data is damaged"),
        (gzip.compress(CONTENT, mtime=0) + b"garbage", "the gzip data is damaged"),
        (b"\x1f\x8b" + b"\xff" * 30, "the gzip data is damaged"),
        (zstd(CONTENT) + b"garbage", "the zstd data is damaged"),
        (b"\x28\xb5\x2f\xfd" + b"\xff" * 30, "the zstd data is damaged"),
        (gzip.compress(b"", mtime=0), "the file is empty"),
        (gzip.compress(b"just text", mtime=0), "not a capture"),
        (gzip.compress(CONTENT, mtime=0)[:5], "the file is empty"),
    ],
)
def test_damaged_compression_is_refused_with_the_reason(content, reason):
    with pytest.raises(CaptureError, match=f"<stream>: at byte .*{reason}"):
        list(read_packets(io.BytesIO(content)))


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=60), st.sampled_from([b"\x1f\x8b\x08", b"\x28\xb5\x2f\xfd"]))
def test_any_compressed_bytes_give_packets_or_a_capture_error(noise, head):
    with pytest.raises(CaptureError):
        list(read_packets(io.BytesIO(head + noise)))


def test_a_file_that_expands_enormously_is_read_in_bounded_steps():
    bomb = gzip.compress(CONTENT + bytes(64 << 20))
    reader = read_packets(io.BytesIO(bomb))
    assert [next(reader) for _ in EXPECTED] == EXPECTED
    assert len(reader._window.data) <= 2 << 20


def test_unreadable_paths_are_reported_with_the_reason(tmp_path):
    with pytest.raises(CaptureError, match="is a directory; specify a capture file in it"):
        read_packets(tmp_path)
    with pytest.raises(CaptureError, match=r"absent\.pcap: there is no such file"):
        read_packets(tmp_path / "absent.pcap")
    with pytest.raises(CaptureError, match="there is no such file"):
        read_packets((tmp_path / "absent.pcap").as_uri())
    with pytest.raises(CaptureError, match="cannot be opened"):
        read_packets((pyarrow.fs.LocalFileSystem(), str(tmp_path)))
    with pytest.raises(CaptureError, match="cannot be opened"):
        read_packets("nothing://known/here")
    with pytest.raises(CaptureError, match="cannot be opened"):
        read_packets("a\0b")
    empty = tmp_path / "empty.pcap"
    empty.touch()
    with pytest.raises(CaptureError, match=r"empty\.pcap: at byte 0: the file is empty"):
        read_packets(empty)


def test_invalid_sources_are_reported_with_what_is_allowed():
    wrong: Any
    for wrong, reason in (
        (io.StringIO("text"), "binary mode"),
        (42, "not a int"),
        (("here", "path"), "pyarrow filesystem"),
    ):
        with pytest.raises(UsageError, match=reason):
            read_packets(wrong)


def test_a_stream_that_fails_is_a_capture_error():
    class Failing(Pipe):
        def readinto(self, view: Any) -> int:
            if len(self.content) < 1000:
                raise OSError(5, "Input/output error")
            return super().readinto(view)

    for content in (CONTENT, zlib.compress(CONTENT, wbits=31), zstd(CONTENT)):
        with pytest.raises(CaptureError, match="cannot be read: Input/output error"):
            list(read_packets(Failing(content, 100)))


def test_streams_of_text_or_nothing_are_distinguished():
    class Text:
        def read(self, count: int) -> Any:
            return "text"[:count]

    class NotYet:
        def read(self, count: int) -> None:
            return None

    with pytest.raises(UsageError, match="must return bytes"):
        read_packets(Text())
    with pytest.raises(CaptureError, match="no data yet"):
        read_packets(NotYet())


def test_a_compressed_capture_is_one_range():
    assert split_points(io.BytesIO(STORED["gzip"]), 100) == [0]
    assert list(read_packets(io.BytesIO(STORED["gzip"]), start=0)) == EXPECTED
    with pytest.raises(UsageError, match="cannot be read in ranges"):
        read_packets(io.BytesIO(STORED["gzip"]), start=100)


def test_the_tail_counts_the_rest():
    reader = read_packets(Pipe(CONTENT[:-1]))
    list(reader)
    last = EXPECTED[-1]
    assert reader.truncated_tail == TruncatedTail(last.position, 15 + len(last.data))
