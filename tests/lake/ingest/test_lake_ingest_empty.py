"""Captures with nothing to ingest, or damaged ones among others: reported, and nothing left."""

import struct
from pathlib import Path

import pytest

from pregao.capture import PcapWriter, udp_frame
from pregao.cli.main import run
from pregao.errors import CaptureError, NothingFoundError, UsageError
from pregao.lake.ingest.options import IngestOptions
from pregao.lake.ingest.pipeline import ingest
from pregao.lake.ingest.verify import check_lake, unsound
from pregao.lake.storage.lake_store import LakeStore
from tests.lake.days import assert_same, day, rows

START_NS = 1_779_360_000_000_000_000


def capture_of(path, frames):
    with PcapWriter(path) as writer:
        for number, frame in enumerate(frames):
            writer.write(START_NS + number, frame)
    return str(path)


def refused(tmp_path, captures, match, **options):
    lake = tmp_path / "lake"
    with pytest.raises(NothingFoundError, match=match):
        ingest(captures, str(lake), IngestOptions(**options))
    assert not lake.exists()
    lake.mkdir()
    with pytest.raises(NothingFoundError, match=match):
        ingest(captures, str(lake), IngestOptions(**options))
    assert list(lake.iterdir()) == []


def test_a_capture_of_fix_fast(tmp_path):
    frames = [
        udp_frame("10.0.0.1", 1, "233.1.1.1", 5, struct.pack(">IHHH", n, 1, 1, 40) + bytes(40))
        for n in range(1, 20)
    ]
    capture = capture_of(tmp_path / "old.pcap", frames)
    refused(tmp_path, [capture], "looks like UMDF FIX/FAST")


def test_a_filter_that_matches_nothing(tmp_path):
    refused(tmp_path, [str(day())], "No packet is of channel 99; .* channels? 5", channels=(99,))


def test_a_folder_without_captures(tmp_path, capsys, monkeypatch):
    (tmp_path / "empty").mkdir()
    refused(tmp_path, [str(tmp_path / "empty")], "no captures found")
    refused_pattern = [str(tmp_path / "*.pcap")]
    with pytest.raises(NothingFoundError):
        ingest(refused_pattern, str(tmp_path / "lake"))
    with pytest.raises(UsageError) as caught:
        ingest([str(tmp_path / "misspelt")], str(tmp_path / "lake"))
    assert not isinstance(caught.value, NothingFoundError)
    arguments = ["ingest", str(tmp_path / "empty"), "--lake", "lake", "--engine", "local"]
    monkeypatch.setattr("sys.argv", ["pregao", *arguments])
    with pytest.raises(SystemExit) as ended:
        run()
    assert ended.value.code == 1
    assert "no captures found" in capsys.readouterr().err


@pytest.fixture
def with_damage(tmp_path):
    """The day, one of its captures damaged in the middle, and a file that is no capture."""
    folder = tmp_path / "day"
    folder.mkdir()
    for capture in Path(day()).glob("*.pcap"):
        content = bytearray(capture.read_bytes())
        if "Snapshot" in capture.name:
            content[len(content) // 2 :] = b"\xff" * (len(content) - len(content) // 2)
        (folder / capture.name).write_bytes(content)
    (folder / "other.pcap").write_bytes(b"hello world" * 99)
    return folder


@pytest.mark.parametrize("size", [IngestOptions().target_bytes, 60_000])
def test_damaged_captures_can_be_left_out(with_damage, tmp_path, size):
    lake = tmp_path / "lake"
    with pytest.raises(CaptureError):
        ingest([str(with_damage)], str(lake), IngestOptions(target_bytes=size))
    report = ingest(
        [str(with_damage)], str(lake), IngestOptions(target_bytes=size, skip_damaged=True)
    )
    assert report.committed
    damaged = {path.name for path in with_damage.glob("*Snapshot*")} | {"other.pcap"}
    assert set(report.damaged) == set(report.json()["damaged"]) == damaged
    assert all(name in why for name, why in report.damaged.items())
    alone = tmp_path / "alone"
    sound = [str(path) for path in with_damage.iterdir() if path.name not in damaged]
    ingest(sound, str(alone))
    assert_same(alone, lake)
    assert check_lake(LakeStore(str(lake))).faults == []


def test_nothing_but_damaged_captures(tmp_path):
    (tmp_path / "other.pcap").write_bytes(b"hello world" * 99)
    refused(tmp_path, [str(tmp_path / "other.pcap")], "No capture can be read", skip_damaged=True)


def test_the_command_lists_skipped_captures(with_damage, tmp_path, capsys, monkeypatch):
    arguments = ["ingest", str(with_damage), "--lake", str(tmp_path / "lake"), "--engine", "local"]
    monkeypatch.setattr("sys.argv", ["pregao", *arguments, "--skip-damaged"])
    with pytest.raises(SystemExit) as ended:
        run()
    assert not ended.value.code
    output = capsys.readouterr().out
    assert "damaged captures skipped" in output
    assert "other.pcap" in output


def test_damaged_pages_are_found_by_a_deep_check(tmp_path, capsys, monkeypatch):
    ingest([str(next(Path(day()).glob("*Incremental_A.pcap")))], str(tmp_path))
    assert unsound(LakeStore(str(tmp_path)), deep=True) == []
    file = max((tmp_path / "umdf_order_mbo_50").rglob("*.parquet"), key=lambda f: f.stat().st_size)
    content = bytearray(file.read_bytes())
    third = len(content) // 3
    content[third : third + 2048] = b"\xff" * 2048
    file.write_bytes(content)
    assert unsound(LakeStore(str(tmp_path))) == []
    faults = unsound(LakeStore(str(tmp_path)), deep=True)
    assert faults
    assert all(file.name in fault and "the column" in fault for fault in faults)
    assert rows(tmp_path, "packets")
    for arguments, words in (((), "--deep"), (("--deep",), "is damaged")):
        command = ["pregao", "lake", "check", "--lake", str(tmp_path), *arguments]
        monkeypatch.setattr("sys.argv", command)
        with pytest.raises(SystemExit):
            run()
        assert words in capsys.readouterr().out
