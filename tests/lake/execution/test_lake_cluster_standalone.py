"""A real cluster on loopback, whose workers have Pregão from the archive that we packed."""

import json
import os
import subprocess
import sys
import tarfile

import pytest
import typer
from typer.testing import CliRunner

from pregao.cli.pack import pack as pack_command
from pregao.errors import UsageError
from pregao.lake.execution.environment_archive import launcher, needed, pack
from tests.lake.lake_support import ROOT

JOB = """
import json, os, sys
from pregao.lake.execution.spark_session import spark_session

def look(batches):
    import pyarrow as pa
    import pregao
    from pregao.schemas.bundle import bundled
    from pregao.lake.storage.filesystem import Location
    for batch in batches:
        facts = {
            "pregao": pregao.__file__,
            "messages": len(bundled("umdf", 16).messages),
            "folder": os.getcwd(),
            "place": Location.parse("x").name,
        }
        rows = [json.dumps(facts)] * batch.num_rows
        yield pa.RecordBatch.from_arrays([pa.array(rows)], ["facts"])

spark = spark_session(
    sys.argv[1],
    {
        "spark.executor.memory": "512m",
        "spark.driver.memory": "512m",
        "spark.archives": sys.argv[2] + "#environment",
        "spark.pyspark.python": "./environment/bin/python",
        "spark.executorEnv.PREGAO_PYTHON": sys.executable,
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        "spark.scheduler.maxRegisteredResourcesWaitingTime": "90s",
    },
)
rows = spark.range(0, 8, 1, 4).mapInArrow(look, "facts string").collect()
print(json.dumps([json.loads(row.facts) for row in rows]))
spark.stop()
"""


LARGE = ("deltalake", "duckdb", "numba", "numpy", "pandas", "pyarrow")
"""Packages of the workers' own Python: unpacking them would take a minute."""


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    path = tmp_path_factory.mktemp("packed") / "environment.tar.gz"
    with path.open("wb") as stream:
        packed = pack(stream, exclude=LARGE)
    assert {"pregao", "rich"} <= set(dict(packed.packages))
    return path


def test_a_job_runs_on_both_workers_with_the_packed_environment(standalone_cluster, archive):
    done = subprocess.run(
        [sys.executable, "-c", JOB, standalone_cluster, str(archive)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    rows = json.loads(done.stdout.splitlines()[-1])
    assert len(rows) == 8
    for row in rows:
        assert row["messages"] >= 29
        # It is the archive's copy, not the one that the workers' Python has.
        assert row["pregao"].endswith("/environment/site-packages/pregao/__init__.py")
        assert row["pregao"].startswith(row["folder"])
    assert len({row["folder"] for row in rows}) == 2


def test_an_archive_is_the_same_bytes_every_time_and_runs_anywhere(tmp_path):
    for name in ("a", "b"):
        with (tmp_path / f"{name}.tar.gz").open("wb") as stream:
            packed = pack(stream, root="rich")
    assert (tmp_path / "a.tar.gz").read_bytes() == (tmp_path / "b.tar.gz").read_bytes()
    assert "rich" in dict(packed.packages)
    with tarfile.open(tmp_path / "a.tar.gz") as opened:
        opened.extractall(tmp_path / "there", filter="data")
    environment = {**os.environ, "PREGAO_PYTHON": sys.executable, "PYTHONPATH": ""}
    code = "import rich, sys; print(rich.__file__)"
    python = tmp_path / "there" / "bin" / "python"
    output = subprocess.check_output([python, "-c", code], env=environment, text=True)
    assert output.strip() == str(tmp_path / "there" / "site-packages" / "rich" / "__init__.py")
    environment["PREGAO_PYTHON"] = "python9.9"
    failed = subprocess.run(
        [python, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert failed.returncode == 127
    assert "python9.9 was not found; install Python" in failed.stderr


def test_requirements_follow_from_the_packages():
    everything = {each.metadata["Name"].lower() for each in needed("pregao")}
    assert {"pregao", *LARGE, "llvmlite", "typer"} <= everything
    assert not everything & {"pyspark", "py4j", "pytest"}
    less = {each.metadata["Name"].lower() for each in needed("pregao", ["Numba"])}
    assert everything - less == {"numba", "llvmlite"}
    names = {each.metadata["Name"].lower() for each in needed("typer")}
    assert {"typer", "rich"} <= names
    assert "pytest" not in names
    assert f"python{sys.version_info.major}.{sys.version_info.minor}" in launcher()
    with pytest.raises(UsageError, match="nothing-of-the-kind is not installed"):
        needed("nothing-of-the-kind")


def test_the_command_refuses_names_that_spark_would_not_unpack(tmp_path):
    app = typer.Typer()
    app.command()(pack_command)
    for name, message in [("x.zip", r"end in \.tar\.gz"), ("none/x.tar.gz", "no folder")]:
        result = CliRunner().invoke(app, [str(tmp_path / name)])
        assert isinstance(result.exception, UsageError)
        with pytest.raises(UsageError, match=message):
            raise result.exception
