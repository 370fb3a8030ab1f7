"""Java's archive of Spark's classes: made once, used by all later starts."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pregao.lake.execution.class_archive import archive_options

USE, MAKE = "-XX:SharedArchiveFile=", "-XX:ArchiveClassesAtExit="
FOLDERS = ("SPARK_CONF_DIR", "HADOOP_CONF_DIR", "YARN_CONF_DIR")


@pytest.fixture(name="jars")
def spark_on_a_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    java, jars = tmp_path / "java", tmp_path / "jars"
    for folder in (java, jars):
        folder.mkdir()
    (java / "release").write_text('JAVA_VERSION="17.0.15"\n')
    monkeypatch.setenv("JAVA_HOME", str(java))
    monkeypatch.setenv("PREGAO_CACHE_DIR", str(tmp_path / "cache"))
    for name in (*FOLDERS, "SPARK_HOME", "SPARK_DIST_CLASSPATH"):
        monkeypatch.delenv(name, raising=False)
    return jars


def archive_file(options: str, content: bytes = b"classes", age_s: float = 0) -> Path:
    """Files that a Java with these options leaves."""
    assert options.startswith(MAKE)
    made = Path(options.removeprefix(MAKE).split()[0])
    made.write_bytes(content)
    os.utime(made, (time.time() - age_s,) * 2)
    return made


def test_the_first_start_makes_what_later_ones_use(jars: Path) -> None:
    made = archive_file(archive_options("4.2.0", jars), age_s=60)
    used = Path(archive_options("4.2.0", jars).removeprefix(USE).split()[0])
    assert used.read_bytes() == b"classes"
    assert used.parent == made.parent
    assert not made.exists()


def test_incomplete_files_are_not_used(jars: Path) -> None:
    archive_file(archive_options("4.2.0", jars))
    assert archive_options("4.2.0", jars).startswith(MAKE)


def test_nothing_that_java_left_empty_is_used(jars: Path) -> None:
    made = archive_file(archive_options("4.2.0", jars), b"", age_s=2 * 3600)
    assert archive_options("4.2.0", jars).startswith(MAKE)
    assert not made.exists()


def test_at_most_two_processes_make_it(jars: Path) -> None:
    for _ in range(2):
        archive_file(archive_options("4.2.0", jars))
    assert archive_options("4.2.0", jars) == ""


def test_the_second_writer_is_cleared_away(jars: Path) -> None:
    made = archive_file(archive_options("4.2.0", jars), age_s=60)
    assert archive_options("4.2.0", jars).startswith(USE)
    late = made.with_name(f"late{made.name}")
    late.write_bytes(b"another")
    assert archive_options("4.2.0", jars).startswith(USE)
    assert not late.exists()


@pytest.mark.parametrize("other", ["spark", "java", "jars"])
def test_another_java_or_spark_has_another_archive(jars: Path, other: str) -> None:
    archive_file(archive_options("4.2.0", jars), age_s=60)
    assert archive_options("4.2.0", jars).startswith(USE)
    if other == "java":
        (jars.parent / "java" / "release").write_text('JAVA_VERSION="21.0.1"\n')
    elif other == "jars":
        (jars.parent / "others").mkdir()
        jars = jars.parent / "others"
    assert archive_options("4.1.0" if other == "spark" else "4.2.0", jars).startswith(MAKE)


def test_without_a_folder_for_it_java_starts_as_usual(
    jars: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PREGAO_CACHE_DIR", str(tmp_path / "a place with spaces"))
    assert archive_options("4.2.0", jars) == ""
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    assert archive_options("4.2.0", jars) == ""


@pytest.mark.parametrize("variable", [*FOLDERS, "SPARK_HOME"])
def test_none_is_requested_with_a_folder_of_settings_on_the_class_path(
    jars: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, variable: str
) -> None:
    folder = tmp_path / "spark" / "conf"
    folder.mkdir(parents=True)
    monkeypatch.setenv(variable, str(folder.parent if variable == "SPARK_HOME" else folder))
    assert archive_options("4.2.0", jars).startswith(MAKE)  # an empty one does no harm
    (folder / "spark-defaults.conf").write_text("spark.ui.enabled false\n")
    assert archive_options("4.2.0", jars) == ""


@pytest.mark.spark
def test_a_start_with_settings_in_a_folder_prints_nothing_about_archives(tmp_path: Path) -> None:
    conf = tmp_path / "conf"
    conf.mkdir()
    (conf / "spark-defaults.conf").write_text("spark.sql.shuffle.partitions 3\n")
    code = (
        "from pregao.lake import spark_session\n"
        "spark = spark_session('local[1]')\n"
        "print(spark.conf.get('spark.sql.shuffle.partitions'))\n"
        "spark.stop()\n"
    )
    environment = {
        "SPARK_CONF_DIR": str(conf),
        "PREGAO_CACHE_DIR": str(tmp_path / "cache"),
    }
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "3\n", "")
