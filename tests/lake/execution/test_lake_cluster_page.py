"""docs/cluster.md followed word for word, on two workers, one of which is killed in the middle."""

import contextlib
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import time
from types import SimpleNamespace
from unittest.mock import MagicMock

import pytest

from pregao.errors import UsageError
from pregao.lake.datasource.data_source import register
from pregao.lake.execution import cluster_check
from pregao.lake.execution.cluster_check import ClusterStatus, ClusterWorker, no_executor, read_page
from pregao.lake.ingest.pipeline import ingest
from tests.lake.cluster_support import archived_classes, paths
from tests.lake.days import day, rows, tables
from tests.lake.execution.test_lake_cluster_standalone import LARGE
from tests.lake.lake_support import ROOT

PAGE = (ROOT / "docs" / "cluster.md").read_text()
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ORDERS = "umdf_order_mbo_50"
WITHOUT = "".join(f" --exclude {name}" for name in LARGE)


ONE_PROCESS = """
import contextlib, io, json, shlex, sys
from pregao.cli.main import run

outputs = {}
for text in json.load(sys.stdin):
    sys.argv = shlex.split(text)
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        try:
            run()
        except SystemExit as ended:
            if ended.code:
                sys.exit(f"{text}: {ended.code}")
    outputs[" ".join(sys.argv[:2])] = out.getvalue()
print(json.dumps(outputs))
"""


def blocks(section):
    """The blocks of a section: the language, and the text."""
    text = PAGE.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    return _BLOCK.findall(text)


class Reader:
    """A follower of the page, with a cluster, a shared folder and its own memory limit."""

    def __init__(self, cluster, folder):
        self.cluster = cluster
        # A command that has one task needs one executor; the other would only be started.
        self.cores = 1
        self.shared = folder / "shared"
        self.folder = folder / "here"
        self.folder.mkdir(parents=True)
        shutil.copytree(day(duration="12s"), self.shared / "captures" / "2026-05-21")

    def words(self, text):
        """The page's text with the reader's own names."""
        for theirs, mine in {
            "/shared": str(self.shared),
            "spark://head:7077": self.cluster.url,
            "memory=4g": f"memory=512m --conf spark.cores.max={self.cores}",
            "/opt/pregao/bin/python": sys.executable,
            # The workers of the test have these; unpacking them would take a minute.
            "pack environment.tar.gz": "pack environment.tar.gz --exclude "
            + " --exclude ".join(LARGE),
        }.items():
            text = text.replace(theirs, mine)
        return text

    def start(self, block):
        """Type a shell block."""
        return subprocess.Popen(
            ["bash", "-e", "-c", self.words(block)],
            cwd=self.folder,
            env=self.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def end(self, process):
        """Output of a block, when it has ended."""
        out, err = process.communicate(timeout=600)
        assert process.returncode == 0, err[-3000:]
        return out

    def follow_in_one_process(self, section):
        """Output of Pregão's commands, one after another; Spark is started once."""
        texts = [self.words(text).replace("\\\n", " ") for _, text in blocks(section)]
        done = subprocess.run(
            [sys.executable, "-c", ONE_PROCESS],
            input=json.dumps(texts),
            cwd=self.folder,
            env=self.environment(),
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        return json.loads(done.stdout.splitlines()[-1])

    def environment(self):
        more = {"COLUMNS": "200", "SPARK_LOCAL_IP": "127.0.0.1"}
        return {**paths(os.environ), **archived_classes(), **more}

    def follow(self, section):
        """Run a section; return the result of each command, by its first words."""
        outputs = {}
        for language, text in blocks(section):
            if language == "python":
                name = text.partition("\n")[0].removeprefix("# ")
                (self.folder / name).write_text(self.words(text))
            else:
                outputs[" ".join(text.split()[:2])] = self.end(self.start(text))
        return outputs


@pytest.fixture(scope="module")
def reader(cluster, tmp_path_factory):
    return Reader(cluster, tmp_path_factory.mktemp("reader"))


@pytest.fixture(scope="module")
def refused(reader):
    """A command that requests more than the cluster has: it waits while others are inspected."""
    command = blocks("Packages on the workers")[1][1].replace("memory=4g", "memory=900g")
    running = reader.start(command.replace("/shared/lake", "/shared/none"))
    yield running
    running.kill()
    running.communicate()


@pytest.fixture(scope="module")
def local_lake(tmp_path_factory):
    """The day, ingested without a cluster."""
    lake = tmp_path_factory.mktemp("here") / "lake"
    ingest([str(day(duration="12s"))], str(lake))
    return lake


def test_packages_on_the_workers_and_a_worker_dies_in_the_middle(reader, local_lake):
    install, command = [text for _, text in blocks("Packages on the workers")]
    assert "pip install 'pregao-" in install
    assert "[lake]'" in install
    more = command.replace("pregao ingest", "pregao ingest --range-size 40k", 1)
    doomed = reader.cluster.start_worker()
    reader.cluster.wait_for_workers()
    reader.cores = 3
    running = reader.start(more)
    reader.cores = 1
    for _ in range(6000):
        if any("Running task" in log.read_text() for log in doomed.glob("app-*/*/stderr")):
            break
        time.sleep(0.02)
    assert running.poll() is None
    reader.cluster.kill_worker(doomed)
    reader.end(running)
    messages = [name for name in tables(local_lake) if name.startswith("umdf_")]
    assert len(messages) > 10
    for name in messages:
        assert rows(reader.shared / "lake", name) == rows(local_lake, name), name


@pytest.mark.usefixtures("refused")
def test_an_archive_serves_every_command(reader, local_lake):
    outputs = reader.follow_in_one_process("An archive")
    assert set(outputs) == {
        f"pregao {name}" for name in ("pack", "ingest", "books", "analytics", "query", "stream")
    }
    lake = reader.shared / "packed"
    assert (
        rows(lake, ORDERS) == rows(reader.shared / "streamed", ORDERS) == rows(local_lake, ORDERS)
    )
    assert len(rows(lake, "ticks")) > 0
    trades = sum(not row["busted"] for row in rows(lake, "trades"))
    assert trades > 0
    assert re.search(rf"\b{trades:,}\b", outputs["pregao query"])


def test_spark_submit_runs_the_command_line_and_scripts(reader, local_lake):
    if not (reader.folder / "environment.tar.gz").exists():
        pack = blocks("An archive")[0][1]
        reader.end(reader.start(pack))
    texts = blocks("spark-submit")
    assert [language for language, _ in texts] == ["python", "", "python", ""]
    out = reader.follow("spark-submit")
    assert rows(reader.shared / "submitted", ORDERS) == rows(local_lake, ORDERS)
    copies = int(re.search(r"orders: (\d+)", out["spark-submit --master"]).group(1))
    # Both feeds' copies of every order, and the orders of snapshots are of another template.
    assert copies >= len(rows(local_lake, ORDERS)) > 0


def test_a_cluster_without_executors_reports_its_resources(reader, refused):
    _, err = refused.communicate(timeout=120)
    words = " ".join(err.split())
    assert refused.returncode == 2
    assert "started no executor in 15 s. Each requires 921,600 MB of memory and 1 core" in words
    assert "the largest with 1,024 MB and 1 core" in words
    assert "--conf spark.executor.memory=1024m" in words
    assert not (reader.shared / "none").exists()


SMALL = ClusterWorker(cores=1, memory=1024, free_cores=1, free_memory=1024)
BUSY = ClusterWorker(cores=8, memory=8192, free_cores=0, free_memory=512)


@pytest.mark.parametrize(
    ("cluster", "words"),
    [
        (None, "see the resources of the cluster on its master's web page"),
        (ClusterStatus((), False), "the cluster has no workers. Start one"),
        (
            ClusterStatus((SMALL,), False),
            "1 worker, the largest with 1,024 MB and 1 core. Request less",
        ),
        (ClusterStatus((SMALL, BUSY), False), "at most 1,024 MB and 1 core are free. Wait"),
        (ClusterStatus((BUSY,), False), "at most 512 MB and 0 cores are free. Wait"),
        (ClusterStatus((BUSY,), True), "cannot connect to the driver"),
    ],
)
def test_why_no_executor_came(cluster, words):
    message = no_executor("spark://head:7077", 15, 2, 4096, cluster)
    assert message.startswith(
        "spark://head:7077 started no executor in 15 s. Each requires 4,096 MB"
    )
    assert words in message


@pytest.mark.parametrize(("granted", "seconds"), [(True, 120), (False, 15)])
def test_the_time_that_was_waited_for_an_executor_is_stated(monkeypatch, granted, seconds):
    clock = itertools.count(0, 0.4)
    cluster = ClusterStatus((BUSY,), granted)
    monkeypatch.setattr(cluster_check, "time", SimpleNamespace(
        monotonic=lambda: next(clock), sleep=lambda _seconds: None
    ))  # fmt: skip
    monkeypatch.setattr(cluster_check, "cluster_status", lambda _context: cluster)
    monkeypatch.setattr(cluster_check, "_requested_memory", lambda _context: 1024)
    spark = MagicMock()
    spark.sparkContext.master = "spark://head:7077"
    spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size.return_value = 1
    with pytest.raises(UsageError, match=f"head:7077 started no executor in {seconds} s. Each"):
        cluster_check.require_executors(spark, {})
    spark.stop.assert_called_once()


def test_the_page_of_a_master_is_read():
    worker = {"cores": 2, "memory": 10, "coresfree": 1, "memoryfree": 5, "state": "ALIVE"}
    page = {
        "workers": [worker, {**worker, "state": "DEAD"}],
        "activeapps": [{"id": "app-1", "cores": 0}, {"id": "app-2", "cores": 2}],
    }
    assert read_page(page, "app-1") == ClusterStatus((ClusterWorker(2, 10, 1, 5),), False)
    assert read_page(page, "app-2").granted


def test_an_interpreter_that_only_workers_have_is_reported_before_a_read(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    context = SimpleNamespace(pythonExec="./environment/bin/python")
    with pytest.raises(UsageError, match=r"with the workers' Python, \./environment/bin/python"):
        register(SimpleNamespace(sparkContext=context))
    (tmp_path / "environment" / "bin").mkdir(parents=True)
    (tmp_path / "environment" / "bin" / "python").touch()
    with contextlib.suppress(AttributeError):
        register(SimpleNamespace(sparkContext=context))
