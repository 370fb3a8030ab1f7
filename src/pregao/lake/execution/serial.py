"""Runner in this process, one task after another."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Self

from pregao.lake.execution.runner import Advanced, Job, Result, Task, ignore_progress
from pregao.lake.execution.worker_memory import begin_job


class SerialRunner:
    """Runs tasks in this process."""

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
        begin_job(job)
        results = []
        size = messages = 0
        for task in tasks:
            result = job.work(task)
            results.append(result)
            more_size, more_messages = job.amounts(task, result)
            size, messages = size + more_size, messages + more_messages
            advanced(size, messages)
        return results

    def close(self) -> None:
        """Do nothing: it has no workers."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
