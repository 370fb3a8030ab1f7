"""Execution and progress of an ingest's tasks; local execution in this process."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from pregao.lake.ingest.merging import TaskManifest, merge_staged
from pregao.lake.ingest.task import IngestTask, run_task
from pregao.lake.storage.filesystem import Location
from pregao.lake.storage.parquet import WrittenFile

Runner = Callable[[list[IngestTask], "TaskProgress"], list[TaskManifest]]
"""Runs tasks, locally or on Spark."""
Merger = Callable[[Location, dict[tuple[str, int], list[str]]], list[WrittenFile]]
"""Merges small tables, given the paths of the tasks' parts by table and day."""


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
