"""Java is found before Spark starts, Spark is set up our way, and its errors become sentences."""

import stat
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from pregao.errors import CaptureError, UsageError
from pregao.lake.execution import background_start
from pregao.lake.execution.delta_connector import DELTA_EXTENSION, connector_of, uses_connector
from pregao.lake.execution.spark_session import (
    driver_gigabytes,
    find_java,
    java_version,
    machine_memory,
    our_settings,
    parse_conf,
    retrying,
    sentence,
    spark_defaults,
    spark_session,
    without_noise,
)
from pregao.lake.execution.worker_daemon import without_archives


def java_home(folder, version=None, printed=None):
    """A Java installation that states its version in its release file or when it is run."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    if version is not None:
        (folder / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{printed}\" 2024-01-01' >&2\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return folder


@pytest.mark.parametrize(
    ("text", "major"), [("17.0.15", 17), ("1.8.0_412", 8), ("21", 21), ("25-ea", 25)]
)
def test_versions_are_read_from_the_release_file_or_queried(tmp_path, text, major):
    known = java_home(tmp_path / "known", version=text) / "bin" / "java"
    queried = java_home(tmp_path / "queried", printed=text) / "bin" / "java"
    assert java_version(known) == major
    assert java_version(queried) == major
    assert java_version(tmp_path / "none") is None


def test_java_home_comes_first_but_only_if_it_is_new_enough(tmp_path):
    new = java_home(tmp_path / "new", version="21.0.1")
    old = java_home(tmp_path / "old", version="11.0.2")
    good = java_home(tmp_path / "good", version="17.0.9")
    path = str(good / "bin")
    assert find_java({"JAVA_HOME": str(new), "PATH": path}).home == new
    assert find_java({"JAVA_HOME": str(old), "PATH": path}).home == good
    assert find_java({"PATH": path}).version == 17


def test_a_missing_or_old_java_is_reported_with_a_remedy(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "platform", "linux")
    old = java_home(tmp_path / "old", version="1.8.0_412")
    with pytest.raises(UsageError, match=r"needs Java 17 or newer, and none was found\. Install"):
        find_java({"PATH": str(tmp_path)})
    with pytest.raises(UsageError, match=r"JAVA_HOME \(.*java\) is Java 8\. Install.*JAVA_HOME"):
        find_java({"JAVA_HOME": str(old), "PATH": str(tmp_path)})
    with pytest.raises(UsageError, match=r"JAVA_HOME \(.*java\) does not run"):
        find_java({"JAVA_HOME": str(tmp_path / "gone"), "PATH": str(tmp_path)})


def test_tracebacks_without_a_remedy_are_left_out():
    broken = [
        b"Traceback (most recent call last):\n",
        b'  File "/x/pyspark/daemon.py", line 264, in manager\n',
        b"BrokenPipeError: [Errno 32] Broken pipe\n",
    ]
    ours = [
        b"Traceback (most recent call last):\n",
        b'  File "/x/mine.py", line 1, in work\n',
        b"BrokenPipeError: [Errno 32] Broken pipe\n",
    ]
    start = b"WARNING: Using incubator modules: jdk.incubator.vector\n"
    at_once = [line for line in broken for _ in range(2)]
    printed = [start, *broken, b"one\n", *ours, *broken, *at_once, b"two\n", *ours[:2]]
    expected = [line.decode() for line in [b"one\n", *ours, b"two\n", *ours[:2]]]
    assert list(without_noise(printed)) == expected


@pytest.mark.parametrize(
    ("master", "expected"),
    [
        ("local", "local[1,4]"),
        ("local[*]", "local[*,4]"),
        ("local[2]", "local[2,4]"),
        ("local[2,1]", "local[2,1]"),
        ("spark://head:7077", "spark://head:7077"),
        ("yarn", "yarn"),
    ],
)
def test_local_tasks_are_retried_unless_the_user_sets_a_limit(master, expected):
    assert retrying(master) == expected


def test_local_masters_stay_on_this_machine_and_clusters_do_not():
    for master in ("local[*]", "local", "spark://127.0.0.1:7077", "spark://localhost:7077"):
        assert our_settings(master, {})["spark.driver.host"] == "127.0.0.1"
    for master in ("spark://head:7077", "yarn", "k8s://https://head:443"):
        assert "spark.driver.host" not in our_settings(master, {})
        assert "spark.driver.memory" not in our_settings(master, {})


def test_the_log_settings_are_a_file_of_the_package():
    option = our_settings("yarn", {})["spark.driver.extraJavaOptions"]
    assert Path(option.partition("=")[2]).is_file()


def test_worker_python_is_ours_unless_the_user_names_one(monkeypatch):
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    assert our_settings("yarn", {})["spark.pyspark.python"] == sys.executable
    monkeypatch.setenv("PYSPARK_PYTHON", "./environment/bin/python")
    assert our_settings("yarn", {})["spark.pyspark.python"] == "./environment/bin/python"


def test_cache_folders_that_the_user_names_reach_the_executors(monkeypatch):
    monkeypatch.setenv("PREGAO_CACHE_DIR", "/scratch")
    assert our_settings("yarn", {})["spark.executorEnv.PREGAO_CACHE_DIR"] == "/scratch"


@pytest.mark.parametrize(
    ("defaults", "conf", "expected"),
    [
        ({}, {}, "1g"),
        ({"spark.driver.memory": "3g"}, {}, "3g"),
        ({"spark.driver.memory": "3g"}, {"spark.driver.memory": "2g"}, "2g"),
    ],
)
def test_a_command_that_only_runs_tasks_gives_java_a_gigabyte(
    monkeypatch, defaults, conf, expected
):
    started = []
    monkeypatch.setattr(background_start, "running_session", lambda *_given: None)
    monkeypatch.setattr(background_start, "spark_defaults", lambda: defaults)
    monkeypatch.setattr(
        background_start, "spark_session", lambda master, given: started.append((master, given))
    )
    background_start.BackgroundSpark("local[2]", conf)._thread.join()
    assert started == [("local[2]", {"spark.driver.memory": expected})]


def test_the_driver_takes_a_quarter_of_the_machine():
    gigabyte = 1 << 30
    assert [driver_gigabytes(n * gigabyte) for n in (1, 4, 16, 24, 256)] == [1, 1, 4, 6, 8]
    assert machine_memory() >= gigabyte // 4


@pytest.mark.parametrize(
    ("name", "spark"),
    [
        ("io.delta:delta-spark_4.2_2.13:4.4.0", "4.2"),
        ("io.delta:delta-spark_4.1_2.13:4.4.0", "4.1"),
        ("delta-spark_4.2_2.13-4.4.0.jar", "4.2"),
        ("io.delta:delta-spark_2.13:4.4.0", "4.2"),
        ("io.delta:delta-spark_2.13:4.3.1", "4.1"),
        ("delta-spark_2.13-4.0.1.jar", "4.0"),
        ("io.delta:delta-spark_2.12:3.3.2", "3.5"),
        ("io.delta:delta-spark_2.13:9.0.0", None),
        ("delta-spark.jar", None),
    ],
)
def test_the_spark_version_of_a_connector_is_read_from_its_name(name, spark):
    assert connector_of(name).spark == spark
    assert connector_of("delta-storage-4.4.0.jar") is None


def test_deltas_own_connector_is_used_where_it_fits(tmp_path, monkeypatch):
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    assert not uses_connector({"spark.jars": "x.jar"}, "4.2.1")
    fitting = {"spark.jars.packages": "a:b:1,io.delta:delta-spark_4.2_2.13:4.4.0"}
    assert uses_connector(fitting, "4.2.1")
    with pytest.raises(UsageError, match=r"is built for Spark 4\.2, but this is Spark 4\.3\. Use"):
        uses_connector(fitting, "4.3.0")
    with pytest.raises(UsageError, match=r"Spark version of delta-spark\.jar is unknown"):
        uses_connector({"spark.jars": "/x/delta-spark.jar"}, "4.3.0")


def test_a_connector_that_lies_there_is_used_only_if_it_fits(tmp_path, monkeypatch):
    minor = ".".join(pyspark.__version__.split(".")[:2])
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    (tmp_path / "jars").mkdir()
    other = tmp_path / "jars" / "delta-spark_2.12-3.3.2.jar"
    other.touch()
    assert "spark.sql.extensions" not in our_settings("local", {})
    other.rename(tmp_path / "jars" / f"delta-spark_{minor}_2.13-4.4.0.jar")
    assert our_settings("local", {})["spark.sql.extensions"] == DELTA_EXTENSION


def test_spark_defaults_are_read(tmp_path, monkeypatch):
    (tmp_path / "spark-defaults.conf").write_text(
        "# comment\n\nspark.a  1\nspark.b=two words\n  spark.c: x=y\n"
    )
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    assert spark_defaults() == {"spark.a": "1", "spark.b": "two words", "spark.c": "x=y"}
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path / "none"))
    assert spark_defaults() == {}


def test_conf_on_the_command_line_is_key_and_value():
    assert parse_conf(["spark.a=1", "spark.b=x=y"]) == {"spark.a": "1", "spark.b": "x=y"}
    assert parse_conf(None) == {}
    for wrong in ("spark.a", "a=1"):
        with pytest.raises(UsageError, match=r"--conf must be spark\.NAME=VALUE"):
            parse_conf([wrong])


def test_the_session_of_the_process_is_used_and_its_settings_change(spark):
    again = spark_session(conf={"spark.sql.shuffle.partitions": "3"})
    assert again.sparkContext is spark.sparkContext
    assert spark.conf.get("spark.sql.shuffle.partitions") == "3"
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.ui.enabled") == "false"
    with pytest.raises(UsageError, match=r"Spark runs on local\[2,4\] in this process"):
        spark_session("spark://127.0.0.1:1")
    with pytest.raises(UsageError, match=r"spark.driver.memory can only be set before it starts"):
        spark_session(conf={"spark.driver.memory": "9g"})


def _raising(batches):
    raise CaptureError("x.pcap: at byte 7: the record is too long")
    yield from batches


def _dividing(batches):
    for batch in batches:
        1 // (batch.num_rows - batch.num_rows)
        yield batch


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SELECT * FROM nope", "The table or view `nope` cannot be found. Verify"),
        ("SELEC 1", "Syntax error at or near 'SELEC'. (line 1, character 1)"),
        ("SELECT a FROM range(3)", "`a` cannot be resolved. Did you mean"),
        ("SELECT cast('x' AS int)", "The value 'x' of the type"),
        ("SELECT assert_true(id > 9) FROM range(3)", "is not true"),
    ],
)
def test_an_error_of_sql_is_one_line(spark, capfd, text, message):
    with pytest.raises(Exception) as caught:  # noqa: PT011 - Spark has many classes
        spark.sql(text).collect()
    words = sentence(caught.value)
    assert message in words
    assert "\n" not in words
    assert "SQLSTATE" not in words
    assert "at org.apache" not in words
    assert capfd.readouterr().err == ""


def test_an_error_in_a_task_has_the_message_that_the_task_raised(spark, capfd):
    with pytest.raises(Exception) as caught:  # noqa: PT011
        spark.range(2).mapInArrow(_raising, "id long").collect()
    assert sentence(caught.value) == "x.pcap: at byte 7: the record is too long"
    with pytest.raises(Exception) as caught:  # noqa: PT011
        spark.range(2).mapInArrow(_dividing, "id long").collect()
    assert sentence(caught.value).startswith("ZeroDivisionError: integer")
    assert capfd.readouterr().err == ""


def test_an_error_of_java_has_the_message_of_java():
    text = "An error occurred while calling o1.x.\n: java.lang.Y: No room.\n\tat z"
    assert sentence(RuntimeError(text)) == "No room."


def test_a_session_that_cannot_start_is_a_one_line_error():
    """Run in separate processes: this one has a session."""
    code = (
        "import sys\n"
        "from pregao.errors import UsageError\n"
        "from pregao.lake.execution.spark_session import spark_session\n"
        "try: spark_session(sys.argv[1], {'spark.driver.memory': sys.argv[2]})\n"
        "except UsageError as error: print(error)\n"
    )

    def run_code(*arguments):
        return subprocess.run(
            [sys.executable, "-c", code, *arguments],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    done = run_code("nonsense", "1g")
    assert done.stdout.startswith("nonsense is not a Spark master; use local[*]")
    done = run_code("local", "1x")
    assert done.stdout.startswith("Java did not start for Spark: ")
    assert "1x" in done.stdout
    assert done.stdout.count("\n") == 1
    assert done.stderr == ""


def test_our_own_error_is_its_message():
    assert sentence(UsageError("Say please.")) == "Say please."
    assert sentence(ValueError("a\nb")) == "a"
    assert len(sentence(ValueError("x" * 2000))) == 500


def test_python_is_started_with_the_installed_pyspark(tmp_path):
    installed = Path(pyspark.__file__).parent
    archives = [str(path) for path in sorted((installed / "python" / "lib").glob("*.zip"))]
    assert archives
    other = str(tmp_path / "spark" / "python" / "lib" / "pyspark.zip")
    packages = str(installed.parent)
    path = [*archives, other, str(tmp_path), packages]
    assert without_archives(path) == [other, str(tmp_path), packages]
    # Where it is not installed there are only the archives.
    assert without_archives([*archives, str(tmp_path)]) == [*archives, str(tmp_path)]


def test_only_our_own_python_is_started_so(monkeypatch):
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    name = "spark.python.daemon.module"
    assert our_settings("local[2]", {})[name] == "pregao.lake.execution.worker_daemon"
    assert name not in our_settings("spark://somewhere:7077", {})
    monkeypatch.setenv("PYSPARK_PYTHON", "/usr/bin/python3")
    assert name not in our_settings("local[2]", {})


def test_workers_import_the_installed_package(spark):
    def where(_):
        import pyspark.worker

        return pyspark.worker.__file__

    found = spark.sparkContext.parallelize([1], 1).map(where).collect()
    assert found == [str(Path(pyspark.__file__).parent / "worker.py")]
