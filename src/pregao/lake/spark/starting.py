"""Spark started while this process does something else: Java takes seconds for it."""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pregao.lake.ingest import Manifest, Task, TaskProgress
from pregao.lake.spark.java import require_java
from pregao.lake.spark.remote import remote_master
from pregao.lake.spark.runner import merge_on_spark, on_spark
from pregao.lake.spark.session import (
    check_master,
    interrupt_surely,
    retrying,
    running_session,
    spark_session,
)
from pregao.lake.store import Location, Written

_POLL_SECONDS = 0.1
_NEEDED = (
    "google.rpc.error_details_pb2",
    "pyspark.java_gateway",
    "pyspark.logger.worker_io",
    "pyspark.sql",
    "pyspark.testing.utils",
)
"""What Spark's start imports."""


class StartingSpark:
    """A session of Spark on this machine that is being started; any other is there at once."""

    def __init__(self, master: str | None, conf: Mapping[str, str]) -> None:
        self._session: Any = None
        self._failed: BaseException | None = None
        self._thread: threading.Thread | None = None
        if not _takes_time_here(master, conf):
            self._session = spark_session(master, conf)
            return
        require_java()
        # Imported by this thread: where two import at once, an interrupt can block both for good.
        for module in _NEEDED:
            with contextlib.suppress(ImportError):  # not every PySpark has all of it
                importlib.import_module(module)
        # No daemon: what Java's start keeps in the temporary folder is cleared by this thread.
        self._thread = threading.Thread(target=self._start, args=(master, conf))
        self._thread.start()

    def _start(self, master: str | None, conf: Mapping[str, str]) -> None:
        try:
            self._session = spark_session(master, conf)
        except BaseException as caught:  # raised again for who waits for the session
            self._failed = caught

    def abandon(self) -> None:
        """Nobody waits for the session any more: let Java, which is still starting, end now."""
        if self._thread is None or not self._thread.is_alive():
            return
        # Only Linux tells; elsewhere Java starts to the end, and then ends with this process.
        children = Path(f"/proc/self/task/{self._thread.native_id}/children")
        with contextlib.suppress(OSError):
            for child in children.read_text().split():
                os.kill(int(child), signal.SIGKILL)

    def session(self) -> Any:
        """The session, as soon as it is there."""
        if self._thread is not None:
            while self._thread.is_alive():
                self._thread.join(_POLL_SECONDS)  # an interrupt gets through in between
            self._thread = None
            if self._failed is None:
                _adopt(self._session)
        if self._failed is not None:
            raise self._failed
        return self._session

    def run(self, tasks: list[Task], progress: TaskProgress) -> list[Manifest]:
        """Do the tasks of an ingest, once Spark is there: captures are looked into meanwhile."""
        return on_spark(self.session())(tasks, progress)

    def merge(self, lake: Location, groups: dict[tuple[str, int], list[str]]) -> list[Written]:
        """Merge small tables with Spark."""
        return merge_on_spark(self.session())(lake, groups)


def _takes_time_here(master: str | None, conf: Mapping[str, str]) -> bool:
    """Is Java to be started on this machine, for a session that nobody has yet?"""
    where = master or conf.get("spark.master") or os.environ.get("MASTER") or "local[*]"
    if remote_master(master, conf) is not None or "PYSPARK_GATEWAY_PORT" in os.environ:
        return False
    check_master(retrying(where))
    return where.startswith("local") and running_session(master, conf) is None


def _adopt(session: Any) -> None:
    """Make it the session of this thread, which is not the one that started it."""
    jvm = session._jvm
    session._get_j_spark_session_class(jvm).setActiveSession(session._jsparkSession)
    interrupt_surely()
