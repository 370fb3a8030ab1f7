"""Java's archive of Spark's classes: made once, used by all later starts."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from pregao.lake.spark.class_archive import archive_options

USE, MAKE = "-XX:SharedArchiveFile=", "-XX:ArchiveClassesAtExit="


@pytest.fixture(name="jars")
def spark_on_a_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    java, jars = tmp_path / "java", tmp_path / "jars"
    for folder in (java, jars):
        folder.mkdir()
    (java / "release").write_text('JAVA_VERSION="17.0.15"\n')
    monkeypatch.setenv("JAVA_HOME", str(java))
    monkeypatch.setenv("PREGAO_CACHE_DIR", str(tmp_path / "cache"))
    return jars


def made_by(options: str, content: bytes = b"classes", age_s: float = 0) -> Path:
    """What a Java with these options leaves behind."""
    assert options.startswith(MAKE)
    made = Path(options.removeprefix(MAKE).split()[0])
    made.write_bytes(content)
    os.utime(made, (time.time() - age_s,) * 2)
    return made


def test_the_first_start_makes_what_later_ones_use(jars: Path) -> None:
    made = made_by(archive_options("4.2.0", jars), age_s=60)
    used = Path(archive_options("4.2.0", jars).removeprefix(USE).split()[0])
    assert used.read_bytes() == b"classes"
    assert used.parent == made.parent
    assert not made.exists()


def test_what_is_still_being_written_is_not_used(jars: Path) -> None:
    made_by(archive_options("4.2.0", jars))
    assert archive_options("4.2.0", jars).startswith(MAKE)


def test_nothing_that_java_left_empty_is_used(jars: Path) -> None:
    made = made_by(archive_options("4.2.0", jars), b"", age_s=2 * 3600)
    assert archive_options("4.2.0", jars).startswith(MAKE)
    assert not made.exists()


def test_two_make_it_at_most(jars: Path) -> None:
    for _ in range(2):
        made_by(archive_options("4.2.0", jars))
    assert archive_options("4.2.0", jars) == ""


def test_who_came_second_is_cleared_away(jars: Path) -> None:
    made = made_by(archive_options("4.2.0", jars), age_s=60)
    assert archive_options("4.2.0", jars).startswith(USE)
    late = made.with_name(f"late{made.name}")
    late.write_bytes(b"another")
    assert archive_options("4.2.0", jars).startswith(USE)
    assert not late.exists()


@pytest.mark.parametrize("other", ["spark", "java", "jars"])
def test_another_java_or_spark_has_another_archive(jars: Path, other: str) -> None:
    made_by(archive_options("4.2.0", jars), age_s=60)
    assert archive_options("4.2.0", jars).startswith(USE)
    if other == "java":
        (jars.parent / "java" / "release").write_text('JAVA_VERSION="21.0.1"\n')
    elif other == "jars":
        (jars.parent / "others").mkdir()
        jars = jars.parent / "others"
    assert archive_options("4.1.0" if other == "spark" else "4.2.0", jars).startswith(MAKE)


def test_without_a_place_to_keep_it_java_starts_as_ever(
    jars: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PREGAO_CACHE_DIR", str(tmp_path / "a place with spaces"))
    assert archive_options("4.2.0", jars) == ""
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    assert archive_options("4.2.0", jars) == ""
