"""A streaming ingest that is killed loses nothing and adds nothing twice."""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

from pregao.lake.ingest.pipeline import ingest
from pregao.lake.ingest.verify import check_lake
from pregao.lake.storage.lake_store import LakeStore
from tests.lake.days import SMALL, assert_same, day
from tests.lake.lake_support import ROOT, python
from tests.waiting import PATIENCE_S, until

FAULTY = {"loss": "A=0.02,B=0.03", "reorder": "0.01", "duplicate": "0.01"}

# Follows a folder and dies at the step of that number: before and after the tasks of a batch, when
# the rows of `ingests` are written, when the unit is intended, and after each table.
DYING = """
import signal
from pregao.lake.execution.runner import SerialRunner
from pregao.lake.streaming.stream_ingest import StreamIngest
from pregao.lake.datasource.rolling_files import RollingFiles
from pregao.lake.streaming.stream import StreamPace, follow_locally

folder, lake, last = sys.argv[1], sys.argv[2], int(sys.argv[3])
steps = 0

def step(name=""):
    global steps
    steps += 1
    if steps == last:
        os.kill(os.getpid(), signal.SIGKILL)

class Dying(SerialRunner):
    def run(self, *arguments):
        step()
        done = super().run(*arguments)
        step()
        return done

plain = LakeStore.commit
LakeStore.commit = lambda self, unit: plain(self, unit, step)
stream = StreamIngest(RollingFiles(folder, 0), lake, runner=Dying())
follow_locally(stream, StreamPace(once=True, max_bytes=60_000), lambda report: None)
"""


def test_killed_at_several_moments(tmp_path):
    """One run after the other dies a little later; the last one may end."""
    folder = day(**SMALL, **FAULTY)
    once, lake = tmp_path / "once", tmp_path / "lake"
    ingest([str(folder)], str(once))
    for last in (1, 3, 4, 9, 26, 33):
        assert python(DYING, folder, lake, last) == -signal.SIGKILL
    assert python(DYING, folder, lake, 0) == 0
    assert_same(once, lake)
    assert check_lake(LakeStore(lake)).faults == []


def test_the_command_killed_with_its_spark(tmp_path):
    """Killed while units are being committed, and started again."""
    folder = day(**SMALL, **FAULTY)
    once, lake = tmp_path / "once", tmp_path / "lake"
    ingest([str(folder)], str(once))
    log = lake / "_intents" / "_delta_log"
    first = start(folder, lake)
    try:
        wait_for(lambda: units(log) >= 1, first)
        os.kill(first.pid, signal.SIGKILL)
        assert first.wait(PATIENCE_S) == -signal.SIGKILL
    finally:
        end(first)
    taken = units(log)
    second = start(folder, lake)
    try:
        assert second.wait(240) == 0
    finally:
        end(second)
    assert units(log) > taken
    assert_same(once, lake)
    assert check_lake(LakeStore(lake)).faults == []


def start(folder, lake):
    """The command with its own Spark, in a separate process group."""
    command = "import typer; from pregao.cli.stream import stream; typer.run(stream)"
    options = ["--once", "--batch-size", "120k", "--master", "local[2]", "--quiet"]
    settings = ["--conf", "spark.driver.memory=1g"]
    return subprocess.Popen(
        [sys.executable, "-c", command, folder, "--lake", lake, *options, *settings],
        cwd=ROOT,
        start_new_session=True,
    )


def end(process):
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(PATIENCE_S)


def units(log: Path) -> int:
    """Return the number of units intended so far."""
    written = [path.read_text() for path in log.glob("*.json")] if log.exists() else []
    return sum('"unit:' in text for text in written)


def wait_for(condition, process):
    def met():
        assert process.poll() is None, "it ended before it could be killed"
        return condition()

    until(met, seconds=2 * PATIENCE_S)
