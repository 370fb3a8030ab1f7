"""Spark sessions, local or remote: configuration, Java, Spark Connect, and readable errors.

Users' settings override ours. Java is found, and its version checked, before Spark starts. A
session on a Spark Connect server (``sc://HOST:PORT``) needs no local Java and has no RDDs. Errors
of Spark become one-line messages that a user can act on.
"""

from __future__ import annotations

import contextlib
import importlib.resources
import logging
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pregao.errors import PregaoError, UsageError
from pregao.extras import require
from pregao.lake.execution import worker_daemon
from pregao.lake.execution.class_archive import archive_options, settings_folder
from pregao.lake.execution.cluster_check import require_executors
from pregao.lake.execution.delta_connector import DELTA_CATALOG, DELTA_EXTENSION, uses_connector

OLDEST_JAVA = 17
"""Minimum Java version of the supported Spark releases."""

_JAVA_RELEASE = re.compile(r'^JAVA_VERSION="([^"]+)"', re.MULTILINE)
_PRINTED_VERSION = re.compile(r'version "([^"]+)"')

# The last line of a Python traceback that a task raised with one of our errors.
_OUR_ERRORS = re.compile(r"^(?:pyspark\.\S+: )?pregao\.errors\.\w+: (.+)$", re.MULTILINE)
_PYTHON_ERROR = re.compile(
    r"^([A-Za-z_][\w.]*(?:Error|Exception|Interrupt|Exit)): (.*)$", re.MULTILINE
)
_CONDITION = re.compile(r"\[[A-Z0-9_.]+\]\s*")
_SQL_STATE = re.compile(r"\s*SQLSTATE: [0-9A-Z]{5}")
_CAUSE = re.compile(r"^Caused by: (?:[\w.$]+: )?(.+)$", re.MULTILINE)
_POSITION = re.compile(r"line (\d+),? pos (\d+)")
_POSITION_AT_END = re.compile(r"[;( ]*line \d+,? pos \d+[;) ]*$")
_JAVA_ERROR = re.compile(r"An error occurred while calling [^\n]*\n: (?:[\w.$]+: )?(.+)")
_NO_PACKAGE = "ModuleNotFoundError: No module named 'pregao'"
_MAX_ERROR_TEXT = 500

SCHEME = "sc://"
_CONNECT_PORT = 15002
_ANSWER_SECONDS = 10
_CONNECT_SETTINGS = {"spark.sql.session.timeZone": "UTC"}

# Java logs this at every start, and users cannot change it.
_NOISE = "Using incubator modules"
# Last lines that Java wrote to its standard error.
_JAVA_LINES: deque[str] = deque(maxlen=20)
_INTERRUPTS: list[int] = []
_GIGABYTE = 1 << 30
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_MASTER = re.compile(r"local(\[|-cluster\[|$)|spark://|yarn$|k8s://")
_LOCAL = re.compile(r"local(?:\[(\*|\d+)\])?$")
_ATTEMPTS = 4
"""Attempts per task on a local master; a cluster uses its own default."""
_LOOPBACK = re.compile(r"spark://(127\.0\.0\.1|localhost|\[::1\])[:,]")


# --- Java ---


@dataclass(frozen=True, slots=True)
class JavaInstallation:
    """Java installation: its home, and its major version."""

    home: Path
    version: int


def find_java(environment: Mapping[str, str] | None = None) -> JavaInstallation:
    """Return the first Java that is new enough: of JAVA_HOME, on the PATH, or macOS's own."""
    environment = os.environ if environment is None else environment
    seen: list[str] = []
    for where, program in _candidates(environment):
        version = java_version(program)
        if version is None:
            seen.append(f"{where} ({program}) does not run")
        elif version < OLDEST_JAVA:
            seen.append(f"{where} ({program}) is Java {version}")
        else:
            return JavaInstallation(program.resolve().parent.parent, version)
    found = f"; {'; '.join(seen)}" if seen else ", and none was found"
    raise UsageError(
        f"Spark needs Java {OLDEST_JAVA} or newer{found}. {_advice()} "
        "Then try again, or set JAVA_HOME to its folder."
    )


def require_java() -> JavaInstallation:
    """Find Java and make Spark use it; raise `UsageError` without one, before Spark starts."""
    java = find_java()
    os.environ["JAVA_HOME"] = str(java.home)
    return java


def java_version(program: Path) -> int | None:
    """Return the major version of a Java, from its release file or its output; None if unknown."""
    try:
        release = (program.resolve().parent.parent / "release").read_text(errors="replace")
        if matched := _JAVA_RELEASE.search(release):
            return _major(matched.group(1))
    except OSError:
        pass
    try:
        output = subprocess.run(  # noqa: S603 - the user's own Java
            [program, "-version"], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return None
    matched = _PRINTED_VERSION.search(output.stderr + output.stdout)
    return None if matched is None else _major(matched.group(1))


def _major(version: str) -> int | None:
    """Return the major version: 17 of ``17.0.15``; in the scheme before 9, 8 of ``1.8.0_412``."""
    numbers = re.findall(r"\d+", version)
    if not numbers:
        return None
    return int(numbers[1]) if numbers[0] == "1" and len(numbers) > 1 else int(numbers[0])


def _candidates(environment: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    if home := environment.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(home) / "bin" / "java"
    if program := shutil.which("java", path=environment.get("PATH")):
        yield "the PATH", Path(program)
    if sys.platform == "darwin":
        output = subprocess.run(  # noqa: S603 - a fixed command
            ["/usr/libexec/java_home", "-v", f"{OLDEST_JAVA}+"],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        if output.returncode == 0:
            yield "java_home", Path(output.stdout.strip()) / "bin" / "java"


def _advice() -> str:
    if sys.platform == "darwin":
        return "Install it with `brew install openjdk@17`."
    if shutil.which("apt-get"):
        return "Install it with `sudo apt-get install openjdk-17-jre-headless`."
    if shutil.which("dnf"):
        return "Install it with `sudo dnf install java-17-openjdk-headless`."
    return "Install a Java runtime from your system, or from adoptium.net."


# --- Errors ---


def sentence(error: BaseException) -> str:
    """Return the essence of an error of Spark or of a task: no stack, one line."""
    text = str(error)
    if isinstance(error, PregaoError):
        return text
    if _NO_PACKAGE in text:
        return (
            "the workers' Python has no Pregão; install it there, or send an archive: see "
            "docs/cluster.md."
        )
    if matched := _OUR_ERRORS.findall(text):
        return _shortened(matched[-1])
    if "Traceback (most recent call last)" in text and (matched := _PYTHON_ERROR.findall(text)):
        kind, text_of_error = matched[-1]
        return _shortened(f"{kind.rpartition('.')[2]}: {text_of_error}")
    if (matched := _CAUSE.findall(text)) and not _CONDITION.search(text):
        return _shortened(matched[-1])
    if matched_java := _JAVA_ERROR.match(text):
        return _shortened(matched_java.group(1))
    # The first line is the error; advice, the query, its plan and the stack follow.
    first = _SQL_STATE.sub("", _CONDITION.sub("", text)).strip().partition("\n")[0]
    position = _POSITION.search(text)
    if position is None:
        return _shortened(first)
    where = f" (line {position.group(1)}, character {int(position.group(2)) + 1})"
    return _shortened(_POSITION_AT_END.sub("", first)) + where


def _shortened(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _MAX_ERROR_TEXT else text[: _MAX_ERROR_TEXT - 1] + "…"


# --- Spark Connect ---


def is_remote(spark: Any) -> bool:
    """Whether it is a session of Spark Connect."""
    return any(each.__module__.startswith("pyspark.sql.connect") for each in type(spark).__mro__)


def remote_master(master: str | None, conf: Mapping[str, str]) -> str | None:
    """Return the named Spark Connect server, or None."""
    if master is None:
        master = conf.get("spark.remote") or conf.get("spark.master")
        master = master or os.environ.get("SPARK_REMOTE")
    return master if master is not None and master.startswith(SCHEME) else None


def remote_session(url: str, conf: Mapping[str, str]) -> Any:
    """Open a session on a server; fails immediately where Spark would retry for minutes."""
    require("pyspark")
    try:
        from pyspark.sql.connect.session import SparkSession
    except ImportError as error:  # Spark raises its own subclass
        raise UsageError(
            "Spark Connect requires more packages: pip install 'pregao[connect]'."
        ) from error
    _check_server(url)
    from pyspark.sql import SparkSession as AnySession

    logging.getLogger("pyspark.sql.connect").setLevel(logging.CRITICAL)
    try:
        spark: Any = SparkSession.getActiveSession()
        if spark is None:
            builder: Any = AnySession.builder
            spark = builder.remote(url).getOrCreate()
        for key, value in {**_CONNECT_SETTINGS, **conf}.items():
            if key not in ("spark.remote", "spark.master", "spark.app.name"):
                spark.conf.set(key, value)
    except Exception as error:
        raise UsageError(f"Spark did not start on {url}: {sentence(error)}") from error
    return spark


def _check_server(url: str) -> None:
    """Raise `UsageError` if no server answers."""
    parts = urlsplit(url)
    try:
        host, port = parts.hostname, parts.port or _CONNECT_PORT
    except ValueError:
        host = None
    if not host:
        raise UsageError(f"A Spark Connect server must be sc://HOST:PORT, was {url}.")
    try:
        socket.create_connection((host, port), _ANSWER_SECONDS).close()
    except OSError as error:
        raise UsageError(
            f"No Spark Connect server answers at {host}:{port}: {error.strerror or error}."
        ) from error


# --- Local sessions ---


def spark_session(
    master: str | None = None, conf: Mapping[str, str] | None = None, app: str = "pregao"
) -> Any:
    """Start Spark, or return the session that runs in this process.

    Settings by precedence: ``conf`` and ``master``, the arguments of ``spark-submit`` or
    ``spark-defaults.conf``, our settings.
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
    if _is_local(where):
        # Otherwise Spark resolves the host name, which fails on many laptops.
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    # Spark's Python workers read their interpreter from here, with every kind of master.
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
        # Java's exceptions have many classes; the user needs only the reason.
        last_line = f" {_JAVA_LINES[-1]}" if _JAVA_LINES else ""
        raise UsageError(f"Spark did not start on {where}: {sentence(error)}{last_line}") from error
    interrupt_surely()
    if where.startswith("spark://"):
        require_executors(session, settings)
    return session


def was_interrupted() -> bool:
    """Whether an interrupt occurred since Spark started; Java's errors are then irrelevant."""
    return bool(_INTERRUPTS)


def interrupt_surely() -> None:
    """Raise KeyboardInterrupt even if Java, which receives the interrupt too, has already exited.

    Spark's own handler first asks Java to cancel its jobs, and fails then.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    previous: Any = signal.getsignal(signal.SIGINT)
    if not callable(previous) or getattr(previous, "surely", False):
        return

    def interrupted(number: int, frame: Any) -> None:
        _INTERRUPTS.append(number)
        with contextlib.suppress(Exception):
            previous(number, frame)
        raise KeyboardInterrupt

    interrupted.surely = True  # type: ignore[attr-defined]
    signal.signal(signal.SIGINT, interrupted)


def missing_interpreter(spark: Any) -> str | None:
    """Return the workers' Python if it is a relative path that does not exist locally.

    Spark plans reads of Python data sources next to the driver, with the interpreter of the
    workers.
    """
    if is_remote(spark):
        return None
    python = str(spark.sparkContext.pythonExec)
    relative = "/" in python and not python.startswith("/")
    return python if relative and not Path(python).exists() else None


def retrying(master: str) -> str:
    """Return a local master that retries a task whose worker died, as on a cluster."""
    matched = _LOCAL.match(master)
    return f"local[{matched[1] or 1},{_ATTEMPTS}]" if matched else master


def check_master(master: str) -> None:
    """Raise `UsageError` for an unsupported master."""
    if not _MASTER.match(master):
        raise UsageError(
            f"{master} is not a Spark master; use local[*], local[N], spark://HOST:PORT, "
            "yarn, k8s://https://HOST:PORT or sc://HOST:PORT (Spark Connect)."
        )


def running_session(master: str | None, conf: Mapping[str, str]) -> Any:
    """Return the session of this process with settings added, if there is one."""
    if "pyspark.sql" not in sys.modules:
        return None
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active is None:
        return None
    if is_remote(active):
        if master is not None and remote_master(master, {}) is None:
            raise UsageError(
                f"This process has a Spark Connect session; stop it before using {master}."
            )
        for key, value in conf.items():
            active.conf.set(key, value)
        return active
    current = active.sparkContext.master
    if master is not None and retrying(master) != current and master != current:
        raise UsageError(
            f"Spark runs on {current} in this process; stop that session before using {master}."
        )
    for key, value in conf.items():
        if active.conf.get(key, None) != value:
            if not active.conf.isModifiable(key):
                raise UsageError(
                    f"Spark is already running, and {key} can only be set before it starts."
                )
            active.conf.set(key, value)
    return active


def _jars() -> Path:
    """Return the folder of Spark's jars."""
    from pyspark.find_spark_home import _find_spark_home

    return Path(_find_spark_home()) / "jars"


def _launch(settings: Mapping[str, str]) -> None:
    """Start Java with its standard error piped through us, to filter known noise."""
    from pyspark import SparkConf, SparkContext, java_gateway
    from pyspark.errors import PySparkException

    reading, writing = os.pipe()
    started = threading.Event()
    copier = threading.Thread(target=_copy_errors, args=(reading, started), daemon=True)
    copier.start()
    try:
        conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
        launch: Any = java_gateway.launch_gateway
        gateway = launch(conf, popen_kwargs={"stderr": writing})
    except (PySparkException, OSError) as error:
        lines = " ".join(line for line in _JAVA_LINES if not line.startswith("at "))
        raise UsageError(f"Java did not start for Spark: {lines or error}") from error
    finally:
        os.close(writing)
    started.set()
    SparkContext._ensure_initialized(gateway=gateway, conf=conf)


def _copy_errors(reading: int, started: threading.Event) -> None:
    """Keep the last lines of Java's standard error, and forward it once Java runs.

    Earlier lines are noise, or the reason why it does not start, which the error reports.
    """
    with open(reading, "rb") as lines:
        for line in without_noise(lines):
            if words := line.strip():
                _JAVA_LINES.append(words)
            if started.is_set():
                with contextlib.suppress(OSError, ValueError):
                    sys.stderr.write(line)
                    sys.stderr.flush()


def without_noise(lines: Iterable[bytes]) -> Iterator[str]:
    """Yield the lines except Java's noise at every start, and Spark's noise where it ends early.

    When Spark has enough rows (``show``, ``limit``), it closes the pipe to its Python workers, each
    of which then prints a failed write.
    """
    trace: list[str] = []
    open_traces = 0  # several workers may interleave their lines
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
    """Whether these traces are only of workers whose pipe Spark closed."""
    locations = [line for line in trace if line.lstrip().startswith("File")]
    reasons = [line for line in trace if not line.startswith((" ", "Traceback"))]
    return all("daemon.py" in location for location in locations) and all(
        reason.startswith("BrokenPipeError") for reason in reasons
    )


def our_settings(master: str, chosen: Mapping[str, str]) -> dict[str, str]:
    """Return our settings for a master, which the user's override."""
    log = importlib.resources.files("pregao.lake") / "log4j2.properties"
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        # Otherwise every column name would be sent to Java with its line of code, which takes
        # longer than the plan itself; we write our own error messages.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.python.worker.reuse": "true",
        # The driver lists thousands of files faster than a job.
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
            settings["spark.python.daemon.module"] = worker_daemon.MODULE
        settings["spark.driver.memory"] = f"{driver_gigabytes(machine_memory())}g"
        settings["spark.sql.shuffle.partitions"] = str(max(8, 2 * _cores()))
        if sys.platform == "linux":  # elsewhere the temporary folder's path may be too long
            # Over TCP, a task waits some 40 ms for its worker, repeatedly.
            settings["spark.python.unix.domain.socket.enabled"] = "true"
    if _is_local(master):
        settings["spark.driver.host"] = "127.0.0.1"
        settings["spark.driver.bindAddress"] = "127.0.0.1"
    for name in ("PREGAO_CACHE_DIR", "NUMBA_CACHE_DIR"):
        if value := os.environ.get(name):
            settings[f"spark.executorEnv.{name}"] = value
    if uses_connector(chosen):
        settings["spark.sql.extensions"] = DELTA_EXTENSION
        settings["spark.sql.catalog.spark_catalog"] = DELTA_CATALOG
        # The connector reads a table's log in fifty tasks; ours needs only a few.
        settings["spark.databricks.delta.snapshotPartitions"] = "4"
    return settings


def spark_defaults() -> dict[str, str]:
    """Return the settings of ``spark-defaults.conf``, if it exists."""
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
    """Return the memory of the driver: a quarter of the machine's, from 1 to 8 GB.

    The heavy work runs outside of Java, in Python workers that need the rest.
    """
    return max(1, min(8, memory // (4 * _GIGABYTE)))


def machine_memory() -> int:
    """Return the bytes of memory of this machine or container."""
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
    """Parse settings of the command line: ``KEY=VALUE``."""
    settings = {}
    for pair in pairs or []:
        key, equals, value = pair.partition("=")
        if not equals or not key.startswith("spark."):
            raise UsageError(f"--conf must be spark.NAME=VALUE, was {pair!r}.")
        settings[key] = value
    return settings


def _is_local(master: str) -> bool:
    """Whether all processes are local."""
    return master.startswith("local") or _LOOPBACK.match(f"{master},") is not None


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
