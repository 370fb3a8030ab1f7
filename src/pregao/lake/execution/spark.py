"""Runner on Spark: every task is one of Spark's, and rows never pass through Java.

Spark runs a task again if its worker dies.
"""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from pregao.errors import PregaoError
from pregao.lake.execution.background_start import BackgroundSpark
from pregao.lake.execution.runner import Advanced, Job, Result, Runner, Task, ignore_progress
from pregao.lake.execution.spark_session import is_remote, sentence
from pregao.lake.execution.worker import run_task

_POLL_SECONDS = 0.05

Outcome = tuple[bytes, bool]
"""Pickled result or error of a task, and whether it failed."""

_SCHEMA = "number int, outcome binary, failed boolean"
_MANY = 1 << 20


def parallelism_of(spark: Any) -> int:
    """Return the number of tasks that the server runs at the same time."""
    # The server cuts a range into as many partitions as it has cores.
    parts = spark.range(_MANY).selectExpr("spark_partition_id() AS part")
    return 1 + int(parts.selectExpr("max(part)").first()[0])


def collect_remotely(
    spark: Any, tasks: list[bytes], attempt: Callable[[bytes], Outcome]
) -> list[Outcome]:
    """Apply a function to every pickled task, each in a task of Spark, and return the outcomes."""

    def work(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            outcomes = [attempt(task) for task in batch.column("task").to_pylist()]
            columns = [
                batch.column("number"),
                pa.array([blob for blob, _ in outcomes], pa.binary()),
                pa.array([failed for _, failed in outcomes], pa.bool_()),
            ]
            yield pa.RecordBatch.from_arrays(columns, ["number", "outcome", "failed"])

    numbers = pa.array(range(len(tasks)), pa.int32())
    table = pa.table({"number": numbers, "task": pa.array(tasks, pa.binary())})
    spread = spark.createDataFrame(table).repartitionById(len(tasks), "number")
    rows = spread.mapInArrow(work, _SCHEMA).collect()
    return [
        (bytes(row["outcome"]), row["failed"])
        for row in sorted(rows, key=lambda row: row["number"])
    ]


class SparkRunner(Runner):
    """Runs tasks on a Spark session, classic or of Spark Connect.

    A session that starts in the background is waited for at the first job.
    """

    def __init__(self, session: Any) -> None:
        self._session = session

    @property
    def session(self) -> Any:
        """Spark session."""
        started = self._session
        return started.session() if isinstance(started, BackgroundSpark) else started

    @property
    def parallelism(self) -> int:
        """Number of tasks that run at the same time."""
        session = self.session
        if is_remote(session):
            return parallelism_of(session)
        return int(session.sparkContext.defaultParallelism)

    def run(
        self,
        job: Job[Task, Result],
        tasks: Sequence[Task],
        advanced: Advanced = ignore_progress,
    ) -> list[Result]:
        """Run the tasks and return their results, in the order of the tasks.

        Without accumulators, which Spark Connect lacks, there is no progress.
        """
        if not tasks:
            return []
        session = self.session
        pickled = [pickle.dumps(task) for task in tasks]
        if is_remote(session):
            outcomes = _watched(lambda: collect_remotely(session, pickled, _attempt(job, None)))
        else:
            context = session.sparkContext
            totals = context.accumulator(0), context.accumulator(0)
            tasks_on_spark = context.parallelize(pickled, len(pickled)).map(_attempt(job, totals))
            outcomes = _watched(
                tasks_on_spark.collect, lambda: advanced(totals[0].value, totals[1].value)
            )
        values = []
        for blob, failed in outcomes:
            value = pickle.loads(blob)  # noqa: S301 - from our own tasks
            if failed:
                raise value
            values.append(value)
        return values

    def close(self) -> None:
        """Do nothing: the session belongs to the caller, and ends its workers."""


def _attempt(job: Job[Any, Any], totals: tuple[Any, Any] | None) -> Callable[[bytes], Outcome]:
    """Return the function that runs a pickled task in a worker, and adds to its job's progress."""

    def attempt(pickled: bytes) -> Outcome:
        task = pickle.loads(pickled)  # noqa: S301 - sent by our own driver
        try:
            result = run_task(job, task)
        except PregaoError as error:
            return pickle.dumps(error), True
        if totals is not None:
            for total, amount in zip(totals, job.amounts(task, result), strict=True):
                total.add(amount)
        return pickle.dumps(result), False

    return attempt


def _watched(
    fetch: Callable[[], list[Outcome]], watch: Callable[[], None] = lambda: None
) -> list[Outcome]:
    """Fetch outcomes in a thread, so that this one shows progress and can be interrupted."""
    outcomes: list[Outcome] = []
    failed: list[BaseException] = []

    def collect() -> None:
        try:
            outcomes.extend(fetch())
        except BaseException as caught:
            failed.append(caught)

    thread = threading.Thread(target=collect, daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(_POLL_SECONDS)
        watch()
    if failed:
        raise PregaoError(f"A Spark task failed: {sentence(failed[0])}") from failed[0]
    return outcomes
