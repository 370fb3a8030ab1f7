"""The Spark session, configured for this work; users' settings win over ours."""

from __future__ import annotations

import contextlib
import importlib.resources
import logging
import os
import re
import signal
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pregao.errors import UsageError
from pregao.extras import require
from pregao.lake.spark import daemon
from pregao.lake.spark.class_archive import archive_options, settings_folder
from pregao.lake.spark.delta_connector import DELTA_CATALOG, DELTA_EXTENSION, uses_connector
from pregao.lake.spark.executors import require_executors
from pregao.lake.spark.java import require_java
from pregao.lake.spark.remote import is_remote, remote_master, remote_session
from pregao.lake.spark.spark_errors import sentence

# Java says this once at every start, and nobody can do anything about it.
_NOISE = "Using incubator modules"
# The last lines that Java wrote to its standard error.
_SAID: deque[str] = deque(maxlen=20)
_INTERRUPTS: list[int] = []
_GIGABYTE = 1 << 30
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_MASTER = re.compile(r"local(\[|-cluster\[|$)|spark://|yarn$|k8s://")
_LOCAL = re.compile(r"local(?:\[(\*|\d+)\])?$")
_ATTEMPTS = 4
"""How often Spark tries a task on this machine; on a cluster that is its own default."""
_LOOPBACK = re.compile(r"spark://(127\.0\.0\.1|localhost|\[::1\])[:,]")


def spark_session(
    master: str | None = None, conf: Mapping[str, str] | None = None, app: str = "pregao"
) -> Any:
    """Start Spark, or take the session that runs in this process.

    What counts, from most to least: ``conf`` and ``master``, what ``spark-submit`` was given or
    ``spark-defaults.conf`` says, our settings.
    """
    if master is not None and remote_master(master, {}) is None:
        check_master(retrying(master))
    if (running := running_session(master, conf or {})) is not None:
        return running
    if (server := remote_master(master, conf or {})) is not None:
        return remote_session(server, conf or {})
    in_submit = "PYSPARK_GATEWAY_PORT" in os.environ
    if not in_submit:
        require("pyspark")
        require_java()
    from pyspark import SparkConf, SparkContext
    from pyspark import __version__ as pyspark_version
    from pyspark.logger import PySparkLogger
    from pyspark.sql import SparkSession

    given = dict(SparkConf().getAll()) if in_submit else spark_defaults()
    chosen = {**given, **(conf or {})}
    if master is not None:
        chosen["spark.master"] = master
    where = retrying(chosen.get("spark.master") or os.environ.get("MASTER") or "local[*]")
    chosen["spark.master"] = where
    check_master(where)
    chosen.setdefault("spark.app.name", app)
    settings = {**our_settings(where, chosen), **chosen}
    if not (in_submit or _JAVA_OPTIONS in chosen or "spark.driver.extraClassPath" in chosen):
        settings[_JAVA_OPTIONS] += f" {archive_options(pyspark_version, _jars())}".rstrip()
    if _stays_here(where):
        # Spark looks up the machine's name otherwise, which fails on many a laptop.
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    # Spark's Python workers take their interpreter from here, on every kind of master.
    os.environ["PYSPARK_PYTHON"] = settings["spark.pyspark.python"]
    builder = SparkSession.builder
    for key, value in settings.items():
        builder = builder.config(key, value)
    # It logs the stack of every exception that it also raises.
    PySparkLogger.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    if not in_submit and SparkContext._gateway is None:
        _launch(settings)
    try:
        session = builder.getOrCreate()
    except Exception as error:
        # Whatever it is (Java's exceptions come in many classes), the user's question is why.
        said = f" {_SAID[-1]}" if _SAID else ""
        raise UsageError(f"Spark did not start on {where}: {sentence(error)}{said}") from error
    interrupt_surely()
    if where.startswith("spark://"):
        require_executors(session, settings)
    return session


def was_interrupted() -> bool:
    """Did an interrupt come since Spark was started? What Java says then is of no interest."""
    return bool(_INTERRUPTS)


def interrupt_surely() -> None:
    """Let an interrupt be one also where Java, which gets it too, has ended already.

    Spark's own handler asks Java to cancel its jobs first, and fails there.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    asked: Any = signal.getsignal(signal.SIGINT)
    if not callable(asked) or getattr(asked, "surely", False):
        return

    def interrupted(number: int, frame: Any) -> None:
        _INTERRUPTS.append(number)
        with contextlib.suppress(Exception):
            asked(number, frame)
        raise KeyboardInterrupt

    interrupted.surely = True  # type: ignore[attr-defined]
    signal.signal(signal.SIGINT, interrupted)


def missing_interpreter(spark: Any) -> str | None:
    """The workers' Python if it is named by a relative path that leads nowhere on this machine.

    Spark plans reads of Python data sources beside the driver, with the interpreter of the workers.
    """
    if is_remote(spark):
        return None
    python = str(spark.sparkContext.pythonExec)
    relative = "/" in python and not python.startswith("/")
    return python if relative and not Path(python).exists() else None


def retrying(master: str) -> str:
    """A local master under which a task whose worker died is tried again, as on a cluster."""
    matched = _LOCAL.match(master)
    return f"local[{matched[1] or 1},{_ATTEMPTS}]" if matched else master


def check_master(master: str) -> None:
    """Refuse what is no master of Spark."""
    if not _MASTER.match(master):
        raise UsageError(
            f"{master} is no master of Spark; there are local[*], local[N], spark://HOST:PORT, "
            "yarn, k8s://https://HOST:PORT and sc://HOST:PORT (Spark Connect)."
        )


def running_session(master: str | None, conf: Mapping[str, str]) -> Any:
    """The session of this process with settings added, if there is one."""
    if "pyspark.sql" not in sys.modules:
        return None
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active is None:
        return None
    if is_remote(active):
        if master is not None and remote_master(master, {}) is None:
            raise UsageError(f"Spark Connect is used in this process; stop it before {master}.")
        for key, value in conf.items():
            active.conf.set(key, value)
        return active
    there = active.sparkContext.master
    if master is not None and retrying(master) != there and master != there:
        raise UsageError(
            f"Spark runs on {there} in this process; stop that session before one on {master}."
        )
    for key, value in conf.items():
        if active.conf.get(key, None) != value:
            if not active.conf.isModifiable(key):
                raise UsageError(f"Spark runs already, and {key} is fixed from its start on.")
            active.conf.set(key, value)
    return active


def _jars() -> Path:
    """Where the Java part of Spark is."""
    from pyspark.find_spark_home import _find_spark_home

    return Path(_find_spark_home()) / "jars"


def _launch(settings: Mapping[str, str]) -> None:
    """Start Java with its standard error led through us, so that known noise can be left out."""
    from pyspark import SparkConf, SparkContext, java_gateway
    from pyspark.errors import PySparkException

    reading, writing = os.pipe()
    started = threading.Event()
    pump = threading.Thread(target=_pump, args=(reading, started), daemon=True)
    pump.start()
    try:
        conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
        launch: Any = java_gateway.launch_gateway
        gateway = launch(conf, popen_kwargs={"stderr": writing})
    except (PySparkException, OSError) as error:
        words = " ".join(line for line in _SAID if not line.startswith("at "))
        raise UsageError(f"Java did not start for Spark: {words or error}") from error
    finally:
        os.close(writing)
    started.set()
    SparkContext._ensure_initialized(gateway=gateway, conf=conf)


def _pump(reading: int, started: threading.Event) -> None:
    """Remember the last of what Java says, and hand it on once it runs.

    What it says before that is noise, or the reason why it does not start: that is told otherwise.
    """
    with open(reading, "rb") as lines:
        for line in without_noise(lines):
            if words := line.strip():
                _SAID.append(words)
            if started.is_set():
                with contextlib.suppress(OSError, ValueError):
                    sys.stderr.write(line)
                    sys.stderr.flush()


def without_noise(lines: Iterable[bytes]) -> Iterator[str]:
    """The lines without what Java says at every start, and what Spark says where it ends early.

    When enough rows are there (``show``, ``limit``), Spark closes the pipe to its Python workers,
    each of which then prints how it could not write any more.
    """
    trace: list[str] = []
    open_traces = 0  # several workers may write at once, a line each in turn
    for raw in lines:
        line = raw.decode(errors="replace")
        begins = line.startswith("Traceback (most recent call last)")
        if trace or begins:
            trace.append(line)
            open_traces += 1 if begins else 0 if line.startswith(" ") else -1
            if not open_traces:
                yield from [] if _closed_pipes(trace) else trace
                trace = []
        elif _NOISE not in line:
            yield line
    yield from trace


def _closed_pipes(trace: list[str]) -> bool:
    """Are these traces only of workers whose pipe Spark closed?"""
    places = [line for line in trace if line.lstrip().startswith("File")]
    reasons = [line for line in trace if not line.startswith((" ", "Traceback"))]
    return all("daemon.py" in place for place in places) and all(
        reason.startswith("BrokenPipeError") for reason in reasons
    )


def our_settings(master: str, chosen: Mapping[str, str]) -> dict[str, str]:
    """What we set for a master, before the user's own choices."""
    log = importlib.resources.files("pregao.lake") / "log4j2.properties"
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        # Every column that is named would be told to Java with the line that names it, which takes
        # longer than the plan itself; errors are told in words of our own.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.python.worker.reuse": "true",
        # Thousands of files are listed faster by the driver than by a job.
        "spark.sql.sources.parallelPartitionDiscovery.threshold": "1000000",
        "spark.sql.sources.partitionColumnTypeInference.enabled": "true",
        "spark.sql.warehouse.dir": str(Path(tempfile.gettempdir()) / "pregao-warehouse"),
        "spark.driver.maxResultSize": "0",
        _JAVA_OPTIONS: f"-Dlog4j2.configurationFile={log}",
    }
    python = os.environ.get("PYSPARK_PYTHON") or sys.executable
    settings["spark.pyspark.python"] = python
    if master.startswith("local"):
        if python == sys.executable:
            settings["spark.python.daemon.module"] = daemon.MODULE
        settings["spark.driver.memory"] = f"{driver_gigabytes(machine_memory())}g"
        settings["spark.sql.shuffle.partitions"] = str(max(8, 2 * _cores()))
        if sys.platform == "linux":  # elsewhere the temporary folder's name may be too long for it
            # A task that talks to its worker over TCP waits for some 40 ms, again and again.
            settings["spark.python.unix.domain.socket.enabled"] = "true"
    if _stays_here(master):
        settings["spark.driver.host"] = "127.0.0.1"
        settings["spark.driver.bindAddress"] = "127.0.0.1"
    for name in ("PREGAO_CACHE_DIR", "NUMBA_CACHE_DIR"):
        if value := os.environ.get(name):
            settings[f"spark.executorEnv.{name}"] = value
    if uses_connector(chosen):
        settings["spark.sql.extensions"] = DELTA_EXTENSION
        settings["spark.sql.catalog.spark_catalog"] = DELTA_CATALOG
        # The connector reads a table's log in fifty tasks, of which ours fills a few.
        settings["spark.databricks.delta.snapshotPartitions"] = "4"
    return settings


def spark_defaults() -> dict[str, str]:
    """The settings of ``spark-defaults.conf``, if there is one."""
    folder = settings_folder()
    if folder is None:
        return {}
    try:
        text = (folder / "spark-defaults.conf").read_text()
    except OSError:
        return {}
    settings = {}
    for line in map(str.strip, text.splitlines()):
        if line and not line.startswith("#"):
            key, _, value = re.sub(r"\s*[=:\s]\s*", " ", line, count=1).partition(" ")
            settings[key] = value.strip()
    return settings


def driver_gigabytes(memory: int) -> int:
    """The memory of the driver: a quarter of the machine's, from 1 to 8 GB.

    The heavy work is done outside of Java, by Python workers that need the rest.
    """
    return max(1, min(8, memory // (4 * _GIGABYTE)))


def machine_memory() -> int:
    """The bytes of memory of this machine or container."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for name in ("memory.max", "memory/memory.limit_in_bytes"):
        try:
            limit = (Path("/sys/fs/cgroup") / name).read_text().strip()
        except OSError:
            continue
        if limit.isdigit():
            total = min(total, int(limit))
    return total


def parse_conf(pairs: list[str] | None) -> dict[str, str]:
    """Settings as the command line gives them: ``KEY=VALUE``."""
    settings = {}
    for pair in pairs or []:
        key, equals, value = pair.partition("=")
        if not equals or not key.startswith("spark."):
            raise UsageError(f"--conf takes spark.NAME=VALUE, not {pair!r}.")
        settings[key] = value
    return settings


def _stays_here(master: str) -> bool:
    """Are all processes on this machine?"""
    return master.startswith("local") or _LOOPBACK.match(f"{master},") is not None


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
