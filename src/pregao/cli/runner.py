"""Runner of a command's tasks: Spark, or local processes."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

from pregao.errors import UsageError
from pregao.extras import installed, require
from pregao.lake.engine_names import EngineName

if TYPE_CHECKING:
    from pregao.lake.execution.runner import Runner

MAX_LOCAL_BYTES = 1 << 30
"""Maximum bytes of captures to ingest without Spark if Java is missing and no engine is given."""


@contextmanager
def open_runner(
    engine: EngineName | None,
    master: str | None,
    conf: list[str] | None,
    captures: Sequence[str] = (),
    *,
    quiet: bool = False,
) -> Iterator[Runner]:
    """Start Spark, or use processes if requested, or if nothing is and Spark or Java is missing.

    All stages of a command share the runner. Spark starts in the background. Without Java, raise
    `UsageError` for more than `MAX_LOCAL_BYTES` bytes of captures, so that the user decides.
    """
    from pregao.lake.execution.spark_session import parse_conf

    settings = parse_conf(conf)
    unset = engine is None and master is None and not settings
    if engine is EngineName.LOCAL or (unset and _without_spark(captures, quiet)):
        from pregao.lake.execution.processes import ProcessRunner

        with ProcessRunner() as processes:
            yield processes
        return
    from pregao.lake.execution.background_start import BackgroundSpark
    from pregao.lake.execution.spark import SparkRunner

    starting = BackgroundSpark(master, settings)
    try:
        with SparkRunner(starting) as spark:
            yield spark
    except BaseException:
        starting.abandon()
        raise


def _without_spark(captures: Sequence[str], quiet: bool) -> bool:
    """Whether Spark or Java is missing, which is printed."""
    from pregao.lake.execution.spark_session import find_java
    from pregao.lake.ingest.discovery import find_captures

    if "PYSPARK_GATEWAY_PORT" in os.environ:
        return False
    try:
        require("pyspark")
        find_java()
    except UsageError as error:
        size = sum(entry.size for entry in find_captures(captures)) if captures else 0
        if size > MAX_LOCAL_BYTES:
            raise UsageError(f"{error} Or use --engine local, which does not need Java.") from error
        if not quiet:
            missing = "no Java" if installed("pyspark") else "no Spark"
            typer.echo(
                f"pregao: {missing} found: running without Spark, as with --engine local", err=True
            )
        return True
    return False
