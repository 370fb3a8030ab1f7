"""Runner in local worker processes, one per core, which are kept for later jobs.

Jobs run in this process until the first one that is large enough to start workers for.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import sys
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any

from pregao.errors import PregaoError
from pregao.lake.execution.fork_server import ForkServer
from pregao.lake.execution.runner import (
    Advanced,
    Job,
    JobProgress,
    Result,
    Runner,
    SerialRunner,
    Task,
    ignore_progress,
)
from pregao.lake.execution.worker import RECEIVED

SMALL_JOB = 1_000_000
"""Maximum number of messages of a job for which no processes are started.

Measured in processor time: an ingest takes 0.6 s per million messages and books 0.8 s, starting
processes 1.5 s, in the background at first. So a command that runs both stages takes as long either
way with 1 to 2 million messages.
"""
MAX_ATTEMPTS = 3
WORKER_MEMORY = 1 << 30
"""Memory that a worker may need, which limits the default number of workers."""


@dataclass(slots=True)
class _Worker:
    """Worker process and the connection to it."""

    process: int
    connection: Connection
    idle: bool = False
    """Whether it has completed a task and not yet received the next one."""


class ProcessRunner(Runner):
    """Runs tasks in worker processes, which start at the first large job.

    If a worker dies, for example because the system has no more memory, its task runs again in a
    new one, up to `MAX_ATTEMPTS` times. A task that an idle worker never received had no attempt.
    """

    def __init__(self, workers: int = 0) -> None:
        self._parallelism = workers or _default_workers()
        self._serial = SerialRunner()
        self._server: ForkServer | None = None
        self._idle: list[_Worker] = []

    @property
    def parallelism(self) -> int:
        """Number of tasks that run at the same time."""
        return self._parallelism

    def expect(self, job: Job[Task, Result], messages: int) -> None:
        """Start the server of the workers, in the background, if the job is not small."""
        if messages > SMALL_JOB:
            self._running_server(job)

    def run(
        self,
        job: Job[Task, Result],
        tasks: Sequence[Task],
        advanced: Advanced = ignore_progress,
    ) -> list[Result]:
        """Run the tasks and return their results, in the order of the tasks.

        After an error no further task starts, and the error of the first of those that failed is
        raised when the running ones have ended.
        """
        small = self._server is None and sum(map(job.messages, tasks)) <= SMALL_JOB
        if len(tasks) < 2 or small:
            return self._serial.run(job, tasks, advanced)
        try:
            results, errors = self._run(job, tasks, advanced)
        except BaseException:
            # Interrupted, for example: the results of running tasks are not needed any more.
            self.close()
            raise
        if errors:
            raise errors[min(errors)]
        return [results[number] for number in range(len(tasks))]

    def close(self) -> None:
        """End the workers, busy or not; a later job starts them again."""
        self._serial.close()
        server, self._server = self._server, None
        idle, self._idle = self._idle, []
        if server is not None:
            server.close()
        for worker in idle:
            worker.connection.close()

    def _run(
        self, job: Job[Task, Result], tasks: Sequence[Task], advanced: Advanced
    ) -> tuple[dict[int, Result], dict[int, BaseException]]:
        """Run tasks in workers; return results and errors by number of the task."""
        results: dict[int, Result] = {}
        errors: dict[int, BaseException] = {}
        attempts = [0] * len(tasks)
        waiting = deque(range(len(tasks)))
        running: dict[Any, tuple[int, _Worker]] = {}
        progress = JobProgress(advanced)
        while running or (waiting and not errors):
            while waiting and not errors and len(running) < self._parallelism:
                number = waiting.popleft()
                worker = self._worker(job)
                attempts[number] += 1
                running[worker.connection] = number, worker
                _send(worker, job, tasks[number])
            for connection in wait(list(running)):
                number, worker = running[connection]
                answer = _receive(worker)
                if answer == RECEIVED:
                    worker.idle = False
                    continue
                del running[connection]
                if answer is None:
                    code = self._remove(worker)
                    attempts[number] -= worker.idle
                    if attempts[number] < MAX_ATTEMPTS:
                        waiting.appendleft(number)
                    else:
                        errors[number] = _death_error(job, number, len(tasks), code)
                    continue
                worker.idle = True
                self._idle.append(worker)
                result, error = pickle.loads(answer)  # noqa: S301 - our own worker
                if error is not None:
                    errors[number] = error
                    continue
                results[number] = result
                progress.add(job.amounts(tasks[number], result))
        return results, errors

    def _worker(self, job: Job[Any, Any]) -> _Worker:
        """Return an idle worker, or start one."""
        while self._idle:
            worker = self._idle.pop()
            if not worker.connection.poll():
                return worker
            self._remove(worker)  # killed since its last task
        return _Worker(*self._running_server(job).fork())

    def _running_server(self, job: Job[Any, Any]) -> ForkServer:
        """Return the server that forks the workers; start it if none is running."""
        if self._server is None:
            self._server = ForkServer(job.work, job.prepare)
        return self._server

    def _remove(self, worker: _Worker) -> int:
        """Remove a worker that has died; return its exit code."""
        worker.connection.close()
        return 0 if self._server is None else self._server.wait(worker.process)


def _send(worker: _Worker, job: Job[Any, Any], task: Any) -> None:
    pickled = pickle.dumps((job, task))
    with contextlib.suppress(OSError):  # it has died, which receiving from it shows
        worker.connection.send_bytes(pickled)


def _receive(worker: _Worker) -> bytes | None:
    """Return what a worker sent; None if it has died."""
    try:
        return worker.connection.recv_bytes()
    except (EOFError, OSError):
        return None


def _death_error(job: Job[Any, Any], number: int, count: int, code: int) -> PregaoError:
    """Return the error of a task whose workers died."""
    what = f"its worker process exited with {code}"
    if code < 0:
        names = {int(known): known.name for known in signal.Signals}
        what = f"{names.get(-code, f'signal {-code}')} ended its worker process"
    advice = ""
    if code == -signal.SIGKILL:
        advice = " The system may have had too little memory: close other programs and try again."
    return PregaoError(
        f"Task {number + 1} of {count} of the {job.name} job failed: {what}, in each of "
        f"{MAX_ATTEMPTS} attempts.{advice}"
    )


def _default_workers() -> int:
    """Return the number of cores, or fewer if there is too little memory for as many workers."""
    cores = os.cpu_count() or 1
    if sys.platform == "linux":
        cores = len(os.sched_getaffinity(0))
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return max(1, min(cores, memory // WORKER_MEMORY))
