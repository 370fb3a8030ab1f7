"""Runner of the tasks of a build of books on Spark."""

from __future__ import annotations

import pickle
from typing import Any

from pregao.lake.books.build import BookRunner
from pregao.lake.books.task import BookManifest, BookTask, run_book_task
from pregao.lake.execution.spark_runner import JobKind, counter, map_on_spark
from pregao.lake.ingest.runner import TaskProgress

_KIND = JobKind("books")


def books_on_spark(spark: Any) -> BookRunner:
    """Return a runner that runs each task as a Spark task."""

    def run(tasks: list[BookTask], progress: TaskProgress) -> list[BookManifest]:
        done = counter(spark)
        messages = counter(spark)

        def work(blob: bytes) -> BookManifest:
            manifest = run_book_task(pickle.loads(blob))  # noqa: S301 - sent by our own driver
            done.add(1)
            messages.add(manifest.counts["messages"])
            return manifest

        def watch() -> None:
            progress.advanced(done.value, messages.value)

        blobs = [pickle.dumps(task) for task in tasks]
        return map_on_spark(spark, blobs, work, watch, _KIND)

    return run
