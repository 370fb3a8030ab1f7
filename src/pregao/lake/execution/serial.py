"""Runner in this process, one task after another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pregao.lake.execution.runner import (
    Advanced,
    Job,
    JobProgress,
    Result,
    Runner,
    Task,
    ignore_progress,
)


class SerialRunner(Runner):
    """Runs tasks in this process."""

    def __init__(self) -> None:
        self._last: Job[Any, Any] | None = None

    @property
    def parallelism(self) -> int:
        """Number of tasks that run at the same time."""
        return 1

    def run(
        self,
        job: Job[Task, Result],
        tasks: Sequence[Task],
        advanced: Advanced = ignore_progress,
    ) -> list[Result]:
        """Run the tasks and return their results, in order."""
        if self._last is not None and self._last.name != job.name:
            self._last.release()
        self._last = job
        progress = JobProgress(advanced)
        results = []
        for task in tasks:
            results.append(job.work(task))
            progress.add(job.amounts(task, results[-1]))
        return results

    def close(self) -> None:
        """Release what the last job keeps."""
        last, self._last = self._last, None
        if last is not None:
            last.release()
