"""Where the time of a day goes: processor seconds of each part of the pipeline, in one process.

`python -m bench lake --profile` prints them, per million messages too; nothing is written.
"""

from __future__ import annotations

import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import wraps
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest.mock import patch

from bench import days
from pregao.lake.analytics import task
from pregao.lake.analytics.registry import ANALYTICS
from pregao.lake.analytics.run import analyse
from pregao.lake.analytics.writing import write_frame
from pregao.lake.books.build import build_books
from pregao.lake.execution.spark_session import spark_session
from pregao.lake.ingest.pipeline import ingest
from pregao.lake.storage.lake_store import LakeStore

PARTS = {
    "survey": ("pregao.lake.ingest.pipeline", "survey"),
    "planning": ("pregao.lake.ingest.pipeline", "make_plan"),
    "hashing": ("pregao.lake.ingest.task", "block_hashes"),
    "reading captures": ("pregao.capture.block_reader", "BlockReader._block"),
    "arbitration": ("pregao.lake.ingest.window_decoder", "arbitrate_window"),
    "walking": ("pregao.umdf.bulk_decoder", "Walker.walk"),
    "events": ("pregao.umdf.event_columns", "EventColumns.number"),
    "columns": ("pregao.sbe.columns", "ColumnDecoder.decode"),
    "rows": ("pregao.lake.ingest.protocols.umdf", "message_rows"),
    "Parquet of messages": ("pregao.lake.ingest.task", "write_rows"),
    "small tables": ("pregao.lake.ingest.pipeline", "merge_staged"),
    "commits": ("pregao.lake.storage.lake_store", "LakeStore.commit"),
    "coverage and plan of books": ("pregao.lake.books.build", "plan_day"),
    "reading back": ("pregao.lake.books.day_loader", "DayReader.messages"),
    "other messages, snapshots": ("pregao.lake.books.day_loader", "DayReader.others"),
    "sequence of messages": ("pregao.feed.replay.day", "follow_sequence"),
    "replay": ("pregao.book.replay", "Replay._replay"),
    "ticks and checkpoints": ("pregao.lake.books.writers", "DayFile.write"),
    "Parquet of analytics": ("pregao.lake.analytics.writing", "write_rows"),
    "merging analytics": ("pregao.lake.analytics.run", "merge"),
    "facts of channels": ("pregao.lake.analytics.task", "_facts"),
}
"""Parts of the pipeline: the function that does each. Its time excludes that of other parts."""


class Stopwatch:
    """Processor time of parts of a program, without that of the parts that they call."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self._running: list[str] = []
        self._since = time.process_time()

    @contextmanager
    def part(self, title: str) -> Iterator[None]:
        """Count the time of a block to a part."""
        self._pass()
        self._running.append(title)
        try:
            yield
        finally:
            self._pass()
            self._running.pop()

    def _pass(self) -> None:
        now = time.process_time()
        if self._running:
            self.seconds[self._running[-1]] += now - self._since
        self._since = now

    def timed(self, title: str, work: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that counts its time to a part."""

        @wraps(work)
        def run(*arguments: Any, **named: Any) -> Any:
            with self.part(title):
                return work(*arguments, **named)

        return run


def start_spark() -> None:
    """Start Spark and stop it; its own processor time is in other processes."""
    start = time.perf_counter()
    spark = spark_session("local[2]")
    spark.range(1).count()
    print(f"  Spark's start and first job: {time.perf_counter() - start:.1f} s", flush=True)
    spark.stop()


@contextmanager
def watched(watch: Stopwatch) -> Iterator[None]:
    """Time the parts of the pipeline."""
    with ExitStack() as patched:
        for title, (module, name) in PARTS.items():
            owner: Any = import_module(module)
            *outer, attribute = name.split(".")
            for each in outer:
                owner = getattr(owner, each)
            work = watch.timed(title, getattr(owner, attribute))
            patched.enter_context(patch.object(owner, attribute, work))
        # A table's rows are built when it is evaluated, or when they are written.
        tables = {
            name: replace(table, build=watch.timed(f"analytics: {name}", table.build))
            for name, table in ANALYTICS.items()
        }
        patched.enter_context(patch.dict(ANALYTICS, tables))

        def write(lake: Any, table: Any, *rest: Any) -> Any:
            with watch.part(f"analytics: {table.name}"):
                return write_frame(lake, table, *rest)

        patched.enter_context(patch.object(task, "write_frame", write))
        yield


def run() -> None:
    """Print the processor time of every part, of a day in this process."""
    captures = str(days.simulated_day())
    with tempfile.TemporaryDirectory(dir=days.folder()) as folder:
        _whole(captures, str(Path(folder) / "kernels"), Stopwatch())  # loads modules and kernels
        watch = Stopwatch()
        messages = _whole(captures, str(Path(folder) / "lake"), watch)
    start_spark()
    print(f"  {messages:,} messages")
    total = sum(watch.seconds.values())
    for title, seconds in sorted(watch.seconds.items(), key=lambda part: -part[1]):
        share, each = 100 * seconds / total, seconds / messages * 1e6
        print(f"  {title:<34} {seconds:>8.2f} s {each:>7.3f} s per million {share:>5.1f} %")
    print(f"  {'all':<34} {total:>8.2f} s {total / messages * 1e6:>7.3f} s per million")


def _whole(captures: str, lake: str, watch: Stopwatch) -> int:
    """Make all tables of a day; return its messages."""
    with watched(watch):
        with watch.part("the rest of the ingest"):
            report = ingest([captures], lake)
        with watch.part("the rest of books"):
            build_books(LakeStore(lake).location)
        with watch.part("the rest of analytics"):
            analyse(LakeStore(lake))
    return report.messages
