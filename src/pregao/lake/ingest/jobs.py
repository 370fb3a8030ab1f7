"""Jobs of an ingest: tasks that read captures, and tasks that merge what those staged."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from pregao.lake.execution.runner import Job, Runner
from pregao.lake.ingest.merging import StagedTable, TaskManifest, merge_staged
from pregao.lake.ingest.task import IngestTask, run_task
from pregao.lake.ingest.window import forget_scratch
from pregao.lake.storage.filesystem import Location
from pregao.lake.storage.parquet import WrittenFile

_BYTES_PER_MESSAGE = 250
"""Estimated bytes of captures per message, of both feeds together."""
_FEW_ROWS = 500_000
"""Number of staged rows below which merging runs in this process, whatever the runner."""
_MERGE_THREADS = 8
"""With remote storage, latency dominates."""


@dataclass(frozen=True, slots=True)
class MergeTask:
    """Staged tables to merge into one file, and their rows."""

    lake: Location
    table: str
    day: int
    paths: tuple[str, ...]
    rows: int


def merge_tasks(lake: Location, staged: Iterable[StagedTable]) -> list[MergeTask]:
    """Return a task for each day of each staged table."""
    groups: dict[tuple[str, int], list[StagedTable]] = {}
    for part in staged:
        groups.setdefault((part.table, part.day), []).append(part)
    return [
        MergeTask(lake, table, day, tuple(p.path for p in parts), sum(p.rows for p in parts))
        for (table, day), parts in sorted(groups.items())
    ]


def merge(tasks: list[MergeTask], runner: Runner) -> list[WrittenFile]:
    """Merge staged tables; a few rows in this process, which is faster than dispatching tasks."""
    if sum(task.rows for task in tasks) >= _FEW_ROWS:
        return runner.run(MERGE, tasks)
    with ThreadPoolExecutor(_MERGE_THREADS) as pool:
        return list(pool.map(_merge, tasks))


def _merge(task: MergeTask) -> WrittenFile:
    return merge_staged(task.lake, task.table, task.day, list(task.paths))


def _rows(task: MergeTask) -> int:
    return task.rows


def _merged(task: MergeTask, _file: WrittenFile) -> tuple[int, int]:
    return 1, task.rows


def _bytes(task: IngestTask) -> int:
    """Return the bytes of captures that a task owns."""
    total = 0
    for piece in task.pieces:
        end = task.sizes[piece.capture] if piece.end is None else piece.end
        total += end - (piece.start or 0)
    return total


def _estimated_messages(task: IngestTask) -> int:
    return _bytes(task) // _BYTES_PER_MESSAGE


def _ingested(task: IngestTask, manifest: TaskManifest) -> tuple[int, int]:
    return _bytes(task), manifest.sums.messages.total()


INGEST = Job("ingest", run_task, _estimated_messages, _ingested, forget_scratch)
"""Reads captures; its progress is in bytes."""
MERGE = Job("merge", _merge, _rows, _merged)
"""Merges staged tables; its progress is in tables."""
