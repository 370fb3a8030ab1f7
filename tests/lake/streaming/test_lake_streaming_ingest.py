"""Streaming growing files into tables gives the same as one ingest of the same files."""

import gzip
import os
import shutil
from pathlib import Path

import pytest

from pregao.capture import read_packets
from pregao.clock import SECOND
from pregao.errors import CaptureError
from pregao.lake.datasource.rolling_files import RollingFiles, next_offset, ranges_between
from pregao.lake.ingest.options import IngestOptions
from pregao.lake.ingest.pipeline import ingest
from pregao.lake.ingest.verify import check_lake
from pregao.lake.storage.lake_store import LakeStore
from pregao.lake.streaming.stream import StreamPace, follow_locally
from pregao.lake.streaming.stream_ingest import StreamIngest
from tests.lake.days import SMALL, assert_same, day, rows, tables

FAULTY = {
    "loss": "A=0.02,B=0.03",
    "reorder": "0.01",
    "duplicate": "0.01",
    "reset_at": ("sequence@0.5",),
}


def faulty_day():
    return day(**SMALL, **FAULTY)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    lake = tmp_path_factory.mktemp("whole")
    ingest([str(faulty_day())], str(lake))
    return lake


def streamed(folder, lake, once=True, max_bytes=200_000, **options):
    """Follow what is there; gives the reports of the batches."""
    reports = []
    ingesting = StreamIngest(RollingFiles(str(folder), 0), str(lake), IngestOptions(**options))
    follow_locally(ingesting, StreamPace(once=once, max_bytes=max_bytes), reports.append)
    return reports


@pytest.mark.parametrize("size", [60_000, 130_000])
def test_batches_give_the_tables_of_one_ingest(whole, tmp_path, size):
    reports = streamed(faulty_day(), tmp_path, max_bytes=size)
    assert len(reports) > 2
    assert_same(whole, tmp_path)
    checked = check_lake(LakeStore(tmp_path))
    assert checked.faults == []
    assert checked.units == len(reports)


def test_a_batch_of_several_tasks_gives_the_same(whole, tmp_path):
    reports = streamed(faulty_day(), tmp_path, max_bytes=600_000, target_bytes=40_000)
    assert max(report.tasks for report in reports) > 2
    assert_same(whole, tmp_path)


def rolled(folder, packets_per_file=150):
    """The captures of the day as rolling files: several for each, in sequence."""
    folder.mkdir()
    for capture in sorted(Path(faulty_day()).glob("*.pcap")):
        content = capture.read_bytes()
        with read_packets(capture) as reader:
            starts = [packet.position for packet in reader][::packets_per_file]
        for number, (start, end) in enumerate(
            zip(starts, [*starts[1:], len(content)], strict=True)
        ):
            name = f"{capture.name}{number or ''}"
            (folder / name).write_bytes(content[:24] + content[start:end])
    return folder


def test_files_that_grow_and_roll_are_followed(tmp_path):
    """At each step every line has grown to another size, mostly inside a packet."""
    complete = rolled(tmp_path / "complete")
    lake = tmp_path / "lake"
    folder = tmp_path / "growing"
    folder.mkdir()
    files = RollingFiles(str(folder), 0)
    ingesting = StreamIngest(files, str(lake))
    offset, batches = {}, 0
    contents = {path.name: path.read_bytes() for path in sorted(complete.iterdir())}
    lines = {}
    for name in contents:
        lines.setdefault(name.rstrip("0123456789"), []).append(name)
    steps = 6
    for step in range(1, steps + 1):
        for number, names in enumerate(lines.values()):
            total = sum(len(contents[name]) for name in names)
            left = total * step // steps - (17 * number if step < steps else 0)
            for name in sorted(names, key=lambda name: (len(name), name)):
                if left > 0:
                    (folder / name).write_bytes(contents[name][:left])
                left -= len(contents[name])
        later = next_offset(offset, files.look())
        batches += len(ingesting.take(ranges_between(files, offset, later)))
        offset = later
    assert batches == steps
    once = tmp_path / "once"
    ingest([str(complete)], str(once))
    # The feeds' files were not cut at the same times: the first feed may be another one.
    assert_same_messages(once, lake)
    # A packet out of order may have been missing when the file was scanned.
    assert {*map(repr, rows(once, "gaps"))} <= {*map(repr, rows(lake, "gaps"))}


def assert_same_messages(one, other, but=()):
    """Messages and events are equal, whichever feed delivered them first."""
    loose = {"feed", "feed_difference_ns", "capture_time_ns", "outcome", *but}
    for table in tables(one):
        if table in ("instruments", "gaps", "rejects"):
            continue
        found = [
            sorted(
                repr({k: v for k, v in row.items() if k not in loose}) for row in rows(lake, table)
            )
            for lake in (one, other)
        ]
        assert found[0] == found[1], table


def test_files_that_roll_in_step_give_exactly_the_same(tmp_path):
    folder = rolled(tmp_path / "rolled")
    once, lake = tmp_path / "once", tmp_path / "lake"
    ingest([str(folder)], str(once))
    assert len(streamed(folder, lake, max_bytes=120_000)) > 2
    assert_same(once, lake)


def test_one_feed_long_after_the_other_adds_only_missing_packets(whole, tmp_path):
    folder, lake = tmp_path / "folder", tmp_path / "lake"
    folder.mkdir()
    late = sorted(Path(faulty_day()).glob("*_Incremental_B.pcap"))
    for capture in faulty_day().glob("*.pcap"):
        if capture not in late:
            shutil.copy(capture, folder)
    streamed(folder, lake)
    for capture in late:
        shutil.copy(capture, folder)
    reports = streamed(folder, lake)
    assert sum(report.messages for report in reports) > 0
    # The start of an event was unknown in gaps that were closed only later.
    assert_same_messages(whole, lake, but=["event"])
    assert check_lake(LakeStore(lake)).faults == []


def test_again_adds_nothing(whole, tmp_path):
    """Without a checkpoint everything is asked for again; the lake knows what it has."""
    streamed(faulty_day(), tmp_path)
    assert streamed(faulty_day(), tmp_path, max_bytes=77_777) == []
    assert_same(whole, tmp_path)


def test_streamed_files_are_left_alone_by_an_ingest(whole, tmp_path):
    folder = tmp_path / "files"
    shutil.copytree(faulty_day(), folder)
    streamed(tmp_path, tmp_path / "lake")
    captures = sorted(folder.glob("*.pcap"))
    report = ingest([str(path) for path in captures], str(tmp_path / "lake"))
    assert sorted(report.skipped) == [path.name for path in captures]
    assert set(report.skipped.values()) == {"by a stream"}
    assert_same(whole, tmp_path / "lake")
    content = captures[0].read_bytes()
    captured = int.from_bytes(content[32:36], "little")
    with captures[0].open("ab") as file:  # now there is a packet more than the stream saw
        file.write(content[24 : 40 + captured])
    assert captures[0].name not in ingest([str(captures[0])], str(tmp_path / "lake")).skipped


def test_earlier_ingests_are_left_alone(whole, tmp_path):
    shutil.copytree(whole, tmp_path / "lake")
    assert streamed(faulty_day(), tmp_path / "lake") == []
    assert_same(whole, tmp_path / "lake")


def test_two_streams_over_the_same_files(whole, tmp_path):
    """Each has its own idea of what was taken; the lake lets every range in once."""
    files = RollingFiles(str(faulty_day()), 0)
    first = StreamIngest(files, str(tmp_path))
    second = StreamIngest(files, str(tmp_path))
    offset = {}
    for turn in range(100):
        later = next_offset(offset, files.look(), max_bytes=90_000)
        if later == offset:
            break
        ranges = ranges_between(files, {} if turn % 3 == 2 else offset, later)
        (first if turn % 2 else second).take(ranges)
        (second if turn % 2 else first).take(ranges)
        offset = later
    assert turn > 2
    assert_same(whole, tmp_path)


def test_compressed_files_are_ingested_completely(whole, tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    for capture in faulty_day().glob("*.pcap"):
        (folder / f"{capture.name}.gz").write_bytes(gzip.compress(capture.read_bytes()))
    lake = tmp_path / "lake"
    assert len(streamed(folder, lake, max_bytes=10**9)) == 1
    assert streamed(folder, lake) == []
    assert_same(whole, lake)


def test_the_newest_packets_wait_for_the_other_feed(tmp_path):
    """A running stream keeps back the last second, until no file grows any longer."""
    folder = tmp_path / "folder"
    folder.mkdir()
    for name in ("A", "B"):
        source = next(faulty_day().glob(f"*_Incremental_{name}.pcap"))
        shutil.copy(source, folder)
    files = RollingFiles(str(folder), 3600 * SECOND)
    available = files.look()
    newest = min(file.last_time_ns for file in available)
    until = files.until(available, SECOND)
    assert until == newest - SECOND
    held = next_offset({}, available, until_ns=until)
    for each in ranges_between(files, {}, held):
        with read_packets(each.location.uri, start=each.begin, end=each.end) as reader:
            assert max(packet.time_ns for packet in reader) < until
    for path in folder.iterdir():
        os.utime(path, (0, 0))
    quiet = files.look()
    assert files.until(quiet, SECOND) is None


def test_a_file_that_was_cut_meanwhile_stops_the_stream(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    source = next(faulty_day().glob("*_Incremental_A.pcap"))
    shutil.copy(source, folder / "a.pcap")
    files = RollingFiles(str(folder), 0)
    ranges = ranges_between(files, {}, next_offset({}, files.look()))
    (folder / "a.pcap").write_bytes(source.read_bytes()[:3000])
    with pytest.raises(CaptureError, match=r"a\.pcap was truncated"):
        StreamIngest(files, str(tmp_path / "lake")).take(ranges)
