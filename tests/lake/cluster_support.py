"""A Spark cluster on loopback: a master, and workers that can be started and killed."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pyspark
import pytest

from pregao.lake.execution.class_archive import archive_options
from pregao.lake.execution.spark_session import require_java


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def stop_processes(started):
    """Ask processes and all that they started to end, and end them."""
    for process in started:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
    for process in started:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(60)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(60)


def java_environment():
    """Return environment variables with Java and Spark for programs that do not start Pregão."""
    home = Path(pyspark.__file__).parent
    found = {"JAVA_HOME": str(require_java().home), "SPARK_HOME": str(home)}
    return {**found, **archived_classes()}


def archived_classes():
    """Lets every Java take the archive of Spark's classes, if an earlier one has made it.

    Pregão's own sessions ask for it themselves; masters, workers, executors and what
    `spark-submit` starts do not.
    """
    require_java()
    options = archive_options(pyspark.__version__, Path(pyspark.__file__).parent / "jars")
    return {"JDK_JAVA_OPTIONS": options} if "SharedArchiveFile" in options else {}


def paths(environment):
    """An environment in which the commands of this Python are found first."""
    first = str(Path(sys.executable).parent)
    return {**environment, "PATH": f"{first}{os.pathsep}{environment.get('PATH', '')}"}


class LoopbackCluster:
    """A master and its workers, of one core and 1 GB each."""

    def __init__(self, folder):
        self.folder = folder
        self.page = free_port()
        port = free_port()
        self.url = f"spark://127.0.0.1:{port}"
        self.workers = {}
        self._master = self._start(
            "master", "master.Master", "--port", port, "--webui-port", self.page
        )

    def _start(self, name, kind, *arguments):
        home = Path(pyspark.__file__).parent
        environment = {
            **paths(os.environ),
            **java_environment(),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        }
        environment.pop("PYSPARK_PYTHON", None)
        with (self.folder / f"{name}.log").open("wb") as log:
            command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{kind}"]
            return subprocess.Popen(
                [*command, "--host", "127.0.0.1", *map(str, arguments)],
                stdout=log,
                stderr=log,
                env=environment,
                cwd=self.folder,
                start_new_session=True,
            )

    def start_worker(self):
        """Start another worker; return its folder."""
        work = self.folder / f"worker-{len(self.workers) + 1}"
        limits = ("--cores", 1, "--memory", "1g", "--webui-port", free_port(), "-d", work)
        self.workers[work] = self._start(work.name, "worker.Worker", *limits, self.url)
        return work

    def kill_worker(self, work):
        """Kill a worker and its executors, as if its machine had gone."""
        os.killpg(self.workers[work].pid, signal.SIGKILL)
        self.workers[work].wait(60)

    def wait_for_workers(self):
        """Wait until the master knows all workers that live; at most a minute and a half."""
        address = f"http://127.0.0.1:{self.page}/json/"
        alive = [process for process in self.workers.values() if process.poll() is None]
        for _ in range(180):
            # A master that begins answers this page with another one.
            with (
                contextlib.suppress(OSError, ValueError),
                urllib.request.urlopen(address, timeout=5) as answer,
            ):
                if json.load(answer)["aliveworkers"] >= len(alive):
                    return
            if any(process.poll() is not None for process in [self._master, *alive]):
                break
            time.sleep(0.5)
        logs = "\n".join(log.read_text()[-2000:] for log in self.folder.glob("*.log"))
        pytest.fail(f"the cluster did not start:\n{logs}")

    def stop(self):
        """End all processes."""
        stop_processes([self._master, *self.workers.values()])
