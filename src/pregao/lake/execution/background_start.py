"""Background start of Spark: Java takes seconds."""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pregao.lake.execution.spark_session import (
    check_master,
    interrupt_surely,
    remote_master,
    require_java,
    retrying,
    running_session,
    spark_defaults,
    spark_session,
)

_POLL_SECONDS = 0.1
_DRIVER_MEMORY = "spark.driver.memory"
_HEAP = "1g"
"""Memory of Java for a command that only runs tasks: their rows are never in Java."""
_NEEDED = (
    "google.rpc.error_details_pb2",
    "pyspark.java_gateway",
    "pyspark.logger.worker_io",
    "pyspark.sql",
    "pyspark.testing.utils",
)
"""Modules that Spark's start imports."""


class BackgroundSpark:
    """Local Spark session that starts in the background; any other starts immediately."""

    def __init__(self, master: str | None, conf: Mapping[str, str]) -> None:
        self._session: Any = None
        self._failed: BaseException | None = None
        self._thread: threading.Thread | None = None
        if not _starts_locally(master, conf):
            self._session = spark_session(master, conf)
            return
        require_java()
        conf = {_DRIVER_MEMORY: spark_defaults().get(_DRIVER_MEMORY, _HEAP), **conf}
        # Imported by this thread: if two threads import, an interrupt can deadlock both.
        for module in _NEEDED:
            with contextlib.suppress(ImportError):  # not every PySpark has all of them
                importlib.import_module(module)
        # Not a daemon: this thread removes the temporary files of Java's start.
        self._thread = threading.Thread(target=self._start, args=(master, conf))
        self._thread.start()

    def _start(self, master: str | None, conf: Mapping[str, str]) -> None:
        try:
            self._session = spark_session(master, conf)
        except BaseException as caught:  # raised again by session()
            self._failed = caught

    def abandon(self) -> None:
        """Kill Java while it is still starting, because the session is no longer needed."""
        if self._thread is None or not self._thread.is_alive():
            return
        # Only Linux lists the children; elsewhere Java finishes its start, and ends with this
        # process.
        children = Path(f"/proc/self/task/{self._thread.native_id}/children")
        with contextlib.suppress(OSError):
            for child in children.read_text().split():
                os.kill(int(child), signal.SIGKILL)

    def session(self) -> Any:
        """Return the session as soon as it is ready."""
        if self._thread is not None:
            while self._thread.is_alive():
                self._thread.join(_POLL_SECONDS)  # lets an interrupt through
            self._thread = None
            if self._failed is None:
                _adopt(self._session)
        if self._failed is not None:
            raise self._failed
        return self._session


def _starts_locally(master: str | None, conf: Mapping[str, str]) -> bool:
    """Whether Java must be started locally, for a session that does not exist yet."""
    where = master or conf.get("spark.master") or os.environ.get("MASTER") or "local[*]"
    if remote_master(master, conf) is not None or "PYSPARK_GATEWAY_PORT" in os.environ:
        return False
    check_master(retrying(where))
    return where.startswith("local") and running_session(master, conf) is None


def _adopt(session: Any) -> None:
    """Make it the active session of this thread, which did not start it."""
    jvm = session._jvm
    session._get_j_spark_session_class(jvm).setActiveSession(session._jsparkSession)
    interrupt_surely()
