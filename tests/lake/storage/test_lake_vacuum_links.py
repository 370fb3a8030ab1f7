"""Vacuum stays inside of its lake: links are not followed, names of others are not removed."""

from __future__ import annotations

import json
import os
from importlib import import_module
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pregao.cli.main import app
from pregao.clock import HOUR
from pregao.errors import UsageError
from pregao.lake.storage import local_files
from pregao.lake.storage.filesystem import Location
from pregao.lake.storage.lake_store import STAGING, LakeStore
from pregao.lake.storage.local_files import list_files, remove_file
from pregao.lake.storage.vacuum import _OURS
from pregao.lake.storage.vacuum import vacuum as vacuum_lake
from tests.lake.lake_support import DAY as TODAY
from tests.lake.lake_support import ORDERS, order, write_file

UUID = "01234567-89ab-cdef-0123-456789abcdef"


@pytest.fixture(name="outside")
def folder_of_another(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder outside of the lake with files that look as if they were of it."""
    outside = tmp_path_factory.mktemp("outside")
    for name in (f"part-{UUID}.parquet", f"{TODAY}.json", "notes.parquet"):
        (outside / name).write_bytes(b"precious")
    return outside


def age_all(*folders: str | Path) -> None:
    for folder in folders:
        for path in Path(folder).rglob("*"):
            if path.is_file() and not path.is_symlink():
                old = path.stat().st_mtime_ns - 48 * HOUR
                os.utime(path, ns=(old, old))


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("where", ["orders/date=2020-01-01", f"{STAGING}/task", "planted", STAGING])
def test_nothing_is_removed_through_a_link(
    small_lake: LakeStore, outside: Path, where: str
) -> None:
    lake = Path(small_lake.location.uri)
    link = lake / where
    link.parent.mkdir(exist_ok=True)
    if where == "planted":  # a complete table, with its own log
        (outside / "_delta_log").mkdir()
        log = lake / "orders" / "_delta_log"
        for path in log.glob("*.json"):
            (outside / "_delta_log" / path.name).write_bytes(path.read_bytes())
    link.symlink_to(outside)
    inside = lake / "orders" / f"date={TODAY}" / f"part-{UUID}.parquet"
    inside.write_bytes(b"an orphan")
    age_all(lake, outside)
    before = content(outside / "_delta_log" if where == "planted" else outside)
    for dry_run in (True, False):
        done = vacuum_lake(small_lake, dry_run=dry_run)
        found = [entry.location.relative_to(small_lake.location) for entry in done.files]
        assert found == [f"orders/date={TODAY}/{inside.name}"]
        assert done.links == (where,)
    assert content(outside / "_delta_log" if where == "planted" else outside) == before
    assert not inside.exists()
    assert link.is_symlink()


def test_a_link_to_a_file_is_left(small_lake: LakeStore, outside: Path) -> None:
    target = outside / f"part-{UUID}.parquet"
    link = Path(small_lake.location.uri) / "orders" / f"part-{UUID}.parquet"
    link.symlink_to(target)
    age_all(outside)
    done = vacuum_lake(small_lake, older_than_ns=-HOUR)
    assert done.links == (f"orders/part-{UUID}.parquet",)
    assert target.read_bytes() == b"precious"
    assert link.is_symlink()


def test_a_folder_that_becomes_a_link_before_its_files_are_removed(
    small_lake: LakeStore, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Path(small_lake.location.uri)
    folder = lake / "orders" / "date=2020-01-01"
    folder.mkdir()
    (folder / f"part-{UUID}.parquet").write_bytes(b"an orphan")
    age_all(lake)

    def swapped(root: str, path: str) -> bool:
        if folder.exists() and not folder.is_symlink():
            folder.rename(lake / "moved")
            folder.symlink_to(outside)
        return remove_file(root, path)

    monkeypatch.setattr(import_module("pregao.lake.storage.vacuum"), "remove_file", swapped)
    assert vacuum_lake(small_lake).files == ()
    assert (outside / f"part-{UUID}.parquet").read_bytes() == b"precious"
    assert (lake / "moved" / f"part-{UUID}.parquet").exists()


@pytest.mark.parametrize(
    ("name", "ours"),
    [
        (f"part-{UUID}.parquet", True),
        (f"part-{UUID.replace('-', '')}.parquet", True),
        (f"ingest-{UUID}.parquet", True),
        (f"known-{UUID}.parquet", True),
        (f"part-00000-{UUID}-c000.snappy.parquet", True),
        ("notes.parquet", False),
        ("part-1.parquet", False),
        (f"{UUID}.parquet", False),
        (f"part-{UUID}.parquet.parquet.parquet", False),
    ],
)
def test_only_names_of_writers_are_removed(small_lake: LakeStore, name: str, ours: bool) -> None:
    path = Path(small_lake.location.uri) / "orders" / name
    path.write_bytes(b"")
    age_all(small_lake.location.uri)
    done = vacuum_lake(small_lake)
    assert [entry.name for entry in done.files] == ([name] if ours else [])
    assert done.unknown == (() if ours else (f"orders/{name}",))
    assert path.exists() is not ours


def test_the_names_of_all_writers_are_known(small_lake: LakeStore) -> None:
    """Every file of a lake has a name that would be removed if no table showed it."""
    write_file(small_lake.location, ORDERS, [order(1, 1)])
    entries = small_lake.location.entries(recursive=True)
    names = [entry.name for entry in entries if entry.name.endswith(".parquet")]
    assert len(names) > 5
    assert [name for name in names if not _OURS.fullmatch(name)] == []


def vacuumed(*arguments: str) -> str:
    return CliRunner().invoke(app, ["lake", "vacuum", *arguments]).output


def test_the_command_reports_links_and_names(small_lake: LakeStore, outside: Path) -> None:
    lake = Path(small_lake.location.uri)
    (lake / "orders" / "linked").symlink_to(outside)
    (lake / "orders" / "notes.parquet").write_bytes(b"")
    age_all(lake)
    shown = vacuumed("--lake", str(lake))
    assert (
        "orders/linked is a symbolic link or not a regular file: not followed, not removed."
        in shown
    )
    assert "orders/notes.parquet is in no table, but was not written by Pregão" in shown
    report = json.loads(vacuumed("--lake", str(lake), "--json"))
    assert (report["links"], report["unknown"]) == (["orders/linked"], ["orders/notes.parquet"])


def test_paths_that_leave_the_root_are_refused(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "precious").write_bytes(b"")
    for path in ("../precious", "./../precious", "/precious", "x/../../precious"):
        assert remove_file(str(tmp_path / "root"), path) is False
        assert list(list_files(str(tmp_path / "root"), path))[:1] in (
            [],
            [local_files.LocalFile(path, 0, 0, False)],
        )
    assert (tmp_path / "precious").exists()


def test_a_folder_is_removed_without_what_its_links_name(tmp_path: Path, outside: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "link").symlink_to(outside)
    before = content(outside)
    Location.parse(folder).delete_folder()
    assert not folder.exists()
    (tmp_path / "instead").symlink_to(outside)
    with pytest.raises(UsageError, match="cannot be removed"):
        Location.parse(tmp_path / "instead").delete_folder()
    assert content(outside) == before
