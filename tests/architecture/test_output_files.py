"""Outputs follow no link at their path, and take no name that someone could foresee."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pregao.capture import PcapWriter
from pregao.errors import CaptureError, UsageError
from pregao.safe_io.output_files import (
    NewFiles,
    check_report,
    open_new,
    open_output,
    replace_file,
    temporary_name,
    write_report,
)


@pytest.fixture(name="precious")
def file_of_another(tmp_path: Path) -> Path:
    path = tmp_path / "precious"
    path.write_bytes(b"precious")
    return path


@pytest.fixture(name="link", params=["to a file", "to nothing"])
def planted_link(tmp_path: Path, precious: Path, request: pytest.FixtureRequest) -> Path:
    link = tmp_path / "out.pcap"
    link.symlink_to(precious if request.param == "to a file" else tmp_path / "nothing")
    return link


def unharmed(precious: Path) -> None:
    assert precious.read_bytes() == b"precious"
    assert not (precious.parent / "nothing").exists()
    assert list(precious.parent.glob(".*.part")) == []


def test_a_link_is_refused_without_force(precious: Path, link: Path) -> None:
    with pytest.raises(UsageError, match="already exists"), NewFiles(force=False) as files:
        files.create(link)
    assert link.is_symlink()
    unharmed(precious)


def test_a_link_is_replaced_with_force(precious: Path, link: Path) -> None:
    with NewFiles(force=True) as files:
        files.create(link).write(b"new")
    assert not link.is_symlink()
    assert link.read_bytes() == b"new"
    unharmed(precious)


def test_a_file_that_appears_in_between_is_kept(tmp_path: Path, precious: Path) -> None:
    out = tmp_path / "out"
    files = NewFiles(force=False)
    files.create(out).write(b"new")
    out.symlink_to(precious)
    with pytest.raises(UsageError, match="already exists"), files:
        pass
    assert out.is_symlink()
    unharmed(precious)


def test_not_even_between_the_last_check_and_the_rename(
    tmp_path: Path, precious: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, plain = tmp_path / "out", os.link

    def late(source: Path, target: Path) -> None:
        out.write_bytes(b"of another")
        plain(source, target)

    monkeypatch.setattr(os, "link", late)
    with pytest.raises(UsageError, match="already exists"), NewFiles(force=False) as files:
        files.create(out).write(b"new")
    assert out.read_bytes() == b"of another"
    unharmed(precious)


def test_a_temporary_name_never_exists(
    precious: Path, link: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert temporary_name(link) != temporary_name(link)
    monkeypatch.setattr("pregao.safe_io.output_files.temporary_name", lambda _: link)
    with (
        pytest.raises(UsageError, match="cannot be written: File exists"),
        NewFiles(force=True) as files,
    ):
        files.create(link.with_name("other"))
    with pytest.raises(FileExistsError):
        open_new(link)
    unharmed(precious)


def test_captures_and_lines_are_not_written_through_a_link(precious: Path, link: Path) -> None:
    with pytest.raises(CaptureError, match="cannot be written: it is a symbolic link"):
        PcapWriter(link)
    for append in (False, True):
        with pytest.raises(OSError, match="it is a symbolic link"):
            open_output(link, append=append)
    unharmed(precious)


def test_a_report_replaces_a_link(precious: Path, link: Path) -> None:
    check_report(link)
    assert link.is_symlink()
    write_report(link, {"a": 1})
    assert not link.is_symlink()
    assert link.read_text() == '{\n "a": 1\n}\n'
    unharmed(precious)


def test_plain_files_are_written_again_and_appended_to(tmp_path: Path) -> None:
    path = tmp_path / "x"
    for append, expected in ((False, b"ab"), (False, b"ab"), (True, b"abab")):
        with open_output(path, append=append) as file:
            file.write(b"ab")
        assert path.read_bytes() == expected
    replace_file(path, b"c")
    assert path.read_bytes() == b"c"


def test_devices_and_pipes_stay_what_they_are(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    replace_file(pipe, b"through")
    assert os.read(reader, 99) == b"through"
    os.close(reader)
    assert pipe.is_fifo()
    replace_file(Path("/dev/null"), b"x")
    with open_output(Path("/dev/null")) as file:
        file.write(b"x")
    assert Path("/dev/null").is_char_device()
