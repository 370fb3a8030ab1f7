"""Which capture is which: by content, compressed or not, whatever its name and looks."""

import gzip
import shutil
from pathlib import Path

import pytest

from pregao.capture import PcapWriter, read_packets
from pregao.lake.datasource.rolling_files import RollingFiles
from pregao.lake.ingest import fingerprint
from pregao.lake.ingest.exclusions import deduplicate
from pregao.lake.ingest.fingerprint import content_hash
from pregao.lake.ingest.pipeline import ingest
from pregao.lake.ingest.report import IngestReport
from pregao.lake.ingest.survey import CaptureSurvey
from pregao.lake.ingest.verify import check_lake
from pregao.lake.storage.filesystem import Location
from pregao.lake.storage.lake_store import LakeStore
from pregao.lake.streaming.stream import StreamPace, follow_locally
from pregao.lake.streaming.stream_ingest import StreamIngest
from tests.lake.days import assert_same, day, rows


def snapshots():
    return next(Path(day()).glob("*Snapshot.pcap"))


def packed(source, folder, name=None):
    path = folder / (name or f"{source.name}.gz")
    path.write_bytes(gzip.compress(source.read_bytes(), mtime=0))
    return path


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    lake = tmp_path_factory.mktemp("plain")
    ingest([str(snapshots())], str(lake))
    return lake


def test_a_capture_next_to_its_compressed_copy_counts_once(plain, tmp_path):
    folder = tmp_path / "captures"
    folder.mkdir()
    shutil.copy(snapshots(), folder)
    duplicate = packed(snapshots(), folder)
    report = ingest([str(folder)], str(tmp_path / "lake"))
    assert report.committed
    assert report.skipped == {duplicate.name: f"the same as {snapshots().name}"}
    assert_same(plain, tmp_path / "lake")
    assert check_lake(LakeStore(str(tmp_path / "lake"))).faults == []


def test_each_of_many_captures_is_compared_once(tmp_path):
    """With those of its fingerprint only: 2,000 captures took two million comparisons."""
    read = []

    class Survey(CaptureSurvey):
        @property
        def fingerprint(self):
            read.append(self.location.name)
            return self.location.name.rpartition("-")[2]

        @fingerprint.setter
        def fingerprint(self, value):
            pass

    names = [f"{folder}-{number}" for number in range(40) for folder in ("one", "two")]
    for name in names:
        (tmp_path / name).write_text(name.rpartition("-")[2])
    (tmp_path / "two-7").write_text("other content of the same fingerprint")
    surveys = [Survey(Location.parse(str(tmp_path / name)), 9, True, "") for name in names]
    report = IngestReport("unit")
    deduplicate(surveys, report)
    assert [each.location.name for each in surveys] == [
        name for name in names if name.startswith("one") or name == "two-7"
    ]
    assert report.skipped["two-8"] == "the same as one-8"
    assert len(report.skipped) == 39
    assert len(read) <= 3 * len(names)


@pytest.mark.parametrize("first", ["plain", "packed"])
def test_a_later_compressed_copy_is_a_duplicate(plain, tmp_path, first):
    captures = [snapshots(), packed(snapshots(), tmp_path)]
    one, other = captures if first == "plain" else captures[::-1]
    lake = tmp_path / "lake"
    assert ingest([str(one)], str(lake)).committed
    for again in (other, other, one):
        report = ingest([str(again)], str(lake))
        assert list(report.skipped) == [again.name]
        assert not report.captures
    assert_same(plain, lake)


def test_a_capture_that_is_known_by_its_compressed_bytes_stays_known(tmp_path, monkeypatch):
    """Lakes of 0.1 know it so."""
    duplicate = packed(snapshots(), tmp_path)
    stored = content_hash(Location.parse(str(duplicate)), duplicate.stat().st_size)
    lake = tmp_path / "lake"
    monkeypatch.setattr(fingerprint.HashingSource, "content_hash", stored)
    monkeypatch.setattr(fingerprint.HashingSource, "fingerprint", "")
    ingest([str(duplicate)], str(lake))
    monkeypatch.undo()
    known = LakeStore(str(lake)).delta("ingests").to_pyarrow_table()
    assert known["content_hash"].to_pylist() == [stored]
    assert list(ingest([str(duplicate)], str(lake)).skipped) == [duplicate.name]


def test_captures_of_equal_size_head_and_tail_are_each_known(tmp_path, monkeypatch):
    monkeypatch.setattr(fingerprint, "FINGERPRINT_BYTES", 1000)
    one = next(Path(day()).glob("*Incremental_A.pcap"))
    content = bytearray(one.read_bytes())
    content[len(content) // 2] ^= 1
    other = tmp_path / "other.pcap"
    other.write_bytes(content)
    lake = tmp_path / "lake"
    for capture in (one, other):
        assert ingest([str(capture)], str(lake)).committed
    for capture in (one, other, one):
        report = ingest([str(capture)], str(lake))
        assert list(report.skipped) == [capture.name]


def test_another_file_under_the_name_of_a_streamed_one_is_ingested(tmp_path):
    """It begins with the same packet and is shorter: only its bytes identify it as another."""
    source = next(Path(day()).glob("*Incremental_A.pcap"))
    with read_packets(source) as reader:
        packets = [(packet.time_ns, packet.data) for packet in reader]
    folder = tmp_path / "captures"
    folder.mkdir()
    file = folder / "day.pcap"

    def write(chosen):
        with PcapWriter(file) as writer:
            for time_ns, data in chosen:
                writer.write(time_ns, data)

    half = packets[: len(packets) // 2]
    write(half)
    lake = tmp_path / "lake"
    stream = StreamIngest(RollingFiles(str(folder), 0), str(lake))
    follow_locally(stream, StreamPace(once=True), lambda _report: None)
    assert ingest([str(file)], str(lake)).skipped == {"day.pcap": "by a stream"}
    before = len(rows(lake, "packets"))
    other = [packets[0], *packets[len(half) : len(half) + len(half) // 2]]
    write(other)
    report = ingest([str(file)], str(lake))
    assert not report.skipped
    assert len(rows(lake, "packets")) == before + len(other)
    assert check_lake(LakeStore(str(lake))).faults == []
