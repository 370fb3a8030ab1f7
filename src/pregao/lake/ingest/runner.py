"""Execution and progress of an ingest's tasks: in this process, or on Spark.

Spark receives ranges of captures and returns manifests, never rows.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from pregao.lake.execution.spark_runner import JobKind, counter, map_on_spark
from pregao.lake.ingest.merging import TaskManifest, merge_staged
from pregao.lake.ingest.task import IngestTask, run_task
from pregao.lake.ingest.window import forget_scratch
from pregao.lake.storage.filesystem import Location
from pregao.lake.storage.parquet import WrittenFile

Runner = Callable[[list[IngestTask], "TaskProgress"], list[TaskManifest]]
"""Runs tasks, locally or on Spark."""
Merger = Callable[[Location, dict[tuple[str, int], list[str]]], list[WrittenFile]]
"""Merges small tables, given the paths of the tasks' parts by table and day."""
_KIND = JobKind("ingest", forget_scratch)


class TaskProgress:
    """Listener for the progress of tasks, shown by the command line."""

    def started(self, total_bytes: int, tasks: int) -> None:
        """Called before tasks run, with their totals."""

    def advanced(self, done_bytes: int, messages: int) -> None:
        """Called with the bytes and messages processed so far."""

    def step(self, words: str) -> None:
        """Called when another step begins, with its description."""


def run_locally(tasks: list[IngestTask], progress: TaskProgress) -> list[TaskManifest]:
    """Run the tasks in this process, one after another."""
    manifests = []
    done = messages = 0
    for task in tasks:
        manifest = run_task(task)
        manifests.append(manifest)
        done += sum(bytes_of(task, piece_number) for piece_number in range(len(task.pieces)))
        messages += manifest.sums.messages.total()
        progress.advanced(done, messages)
    return manifests


def merge_locally(lake: Location, groups: dict[tuple[str, int], list[str]]) -> list[WrittenFile]:
    """Merge small tables in this process."""
    with ThreadPoolExecutor(8) as pool:  # with remote storage, latency dominates
        merging = [
            pool.submit(merge_staged, lake, table, day, paths)
            for (table, day), paths in groups.items()
        ]
        return [each.result() for each in merging]


def bytes_of(task: IngestTask, number: int) -> int:
    """Return the number of bytes of its capture that a piece owns."""
    piece = task.pieces[number]
    end = task.sizes[piece.capture] if piece.end is None else piece.end
    return end - (piece.start or 0)


def on_spark(spark: Any) -> Runner:
    """Return a runner that runs each task as a Spark task."""

    def run(tasks: list[IngestTask], progress: TaskProgress) -> list[TaskManifest]:
        sizes = {task.number: _size(task) for task in tasks}
        done_bytes = counter(spark)
        done_messages = counter(spark)

        def work(blob: bytes) -> TaskManifest:
            task: IngestTask = pickle.loads(blob)  # noqa: S301 - our own task, sent by our own driver
            manifest = run_task(task)
            done_bytes.add(sizes[task.number])
            done_messages.add(manifest.sums.messages.total())
            return manifest

        def watch() -> None:
            progress.advanced(done_bytes.value, done_messages.value)

        results = map_on_spark(spark, [pickle.dumps(task) for task in tasks], work, watch, _KIND)
        return sorted(results, key=lambda manifest: manifest.task)

    return run


def merge_on_spark(spark: Any) -> Merger:
    """Return a merger of small tables on a Spark session."""

    def merge(lake: Location, groups: dict[tuple[str, int], list[str]]) -> list[WrittenFile]:
        items = [pickle.dumps((lake, table, day, paths)) for (table, day), paths in groups.items()]

        def work(blob: bytes) -> WrittenFile:
            return merge_staged(*pickle.loads(blob))  # noqa: S301 - sent by our own driver

        return map_on_spark(spark, items, work, lambda: None, _KIND)

    return merge


def _size(task: IngestTask) -> int:
    return sum(bytes_of(task, number) for number in range(len(task.pieces)))
