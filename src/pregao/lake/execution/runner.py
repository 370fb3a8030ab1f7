"""Interface of the runners: a stage describes its tasks as a job, and any runner executes it.

A runner knows no stage. A job's functions are of a module, because runners send them to other
processes by name; its tasks and results are pickled.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import TracebackType
from typing import Any, Generic, Protocol, Self, TypeVar


class EngineName(StrEnum):
    """Where work on a lake runs: in local processes, or on Spark."""

    LOCAL = "local"
    SPARK = "spark"


Task = TypeVar("Task")
Result = TypeVar("Result")

Advanced = Callable[[int, int], None]
"""Called with the progress of a job: the totals so far of both amounts."""


def _nothing() -> None:
    """Do nothing."""


def ignore_progress(size: int, messages: int) -> None:
    """Ignore the progress of a job."""


@dataclass(frozen=True, slots=True)
class Job(Generic[Task, Result]):
    """Tasks of one kind: the function that runs one of them, and what a runner has to know."""

    name: str
    """Name in error messages. Consecutive jobs of one name share the memory of a worker."""
    work: Callable[[Task], Result]
    """Runs a task. It may be called again for the same task, if a worker process dies."""
    messages: Callable[[Task], int]
    """Estimates the messages that a task reads: small jobs are not worth starting processes."""
    amounts: Callable[[Task, Result], tuple[int, int]]
    """Returns what a finished task adds to the progress: its size, and its messages."""
    release: Callable[[], None] = _nothing
    """Releases what the tasks of this job keep in a worker, before a job of another name."""
    prepare: Callable[[], None] = _nothing
    """Loads what every task needs, in a process of which workers are copies, if there is one."""


class Runner(Protocol):
    """Runs the tasks of jobs; closes its workers at the end of a ``with`` block."""

    @property
    def parallelism(self) -> int:
        """Number of tasks that run at the same time."""

    def expect(self, job: Job[Task, Result], messages: int) -> None:  # noqa: ARG002
        """Announce a job of a number of messages: a runner may start workers in the background."""
        return

    def run(
        self,
        job: Job[Task, Result],
        tasks: Sequence[Task],
        advanced: Advanced = ignore_progress,
    ) -> list[Result]:
        """Run the tasks and return their results, in the order of the tasks.

        Raises:
            PregaoError: A task failed, or its worker process died at every attempt.
        """

    def close(self) -> None:
        """Close the workers and release what jobs keep; a later job starts them again."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


class JobProgress:
    """Sums what finished tasks of a job add to its progress."""

    def __init__(self, advanced: Advanced) -> None:
        self._advanced = advanced
        self._size = self._messages = 0

    def add(self, amounts: tuple[int, int]) -> None:
        """Add the amounts of a finished task."""
        self._size += amounts[0]
        self._messages += amounts[1]
        self._advanced(self._size, self._messages)


class TaskProgress:
    """Listener for the progress of tasks, shown by the command line."""

    def started(self, total_bytes: int, tasks: int) -> None:
        """Called before tasks run, with their totals."""

    def advanced(self, done_bytes: int, messages: int) -> None:
        """Called with the bytes and messages processed so far."""

    def step(self, words: str) -> None:
        """Called when another step begins, with its description."""


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
