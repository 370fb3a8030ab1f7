"""Who does the tasks of an ingest, and who is told how they go on; here: in this process."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from pregao.lake.ingest.manifests import Manifest
from pregao.lake.ingest.merging import merge_staged
from pregao.lake.ingest.tasks import Task, run_task
from pregao.lake.store import Location, Written

Runner = Callable[[list[Task], "TaskProgress"], list[Manifest]]
"""What does the tasks: in this process, or on Spark."""
Merger = Callable[[Location, dict[tuple[str, int], list[str]]], list[Written]]
"""What merges small tables: by table and day, the places where tasks have left their parts."""


class TaskProgress:
    """Is told how work in tasks goes on; the command line shows it."""

    def started(self, total_bytes: int, tasks: int) -> None:
        """The tasks are about to run."""

    def advanced(self, done_bytes: int, messages: int) -> None:
        """So much was done so far."""

    def step(self, words: str) -> None:
        """Something else is being done."""


def run_here(tasks: list[Task], progress: TaskProgress) -> list[Manifest]:
    """Do the tasks in this process, one after another."""
    manifests = []
    done = messages = 0
    for task in tasks:
        manifest = run_task(task)
        manifests.append(manifest)
        done += sum(bytes_of(task, piece_number) for piece_number in range(len(task.pieces)))
        messages += manifest.sums.messages.total()
        progress.advanced(done, messages)
    return manifests


def merge_here(lake: Location, groups: dict[tuple[str, int], list[str]]) -> list[Written]:
    """Merge small tables in this process."""
    with ThreadPoolExecutor(8) as pool:  # where the lake is far away, the time goes into waiting
        merging = [
            pool.submit(merge_staged, lake, table, day, paths)
            for (table, day), paths in groups.items()
        ]
        return [each.result() for each in merging]


def bytes_of(task: Task, number: int) -> int:
    """How many bytes of its capture a piece owns."""
    piece = task.pieces[number]
    end = task.sizes[piece.capture] if piece.end is None else piece.end
    return end - (piece.start or 0)
