"""Progress bar of an ingest on standard error, if that is a terminal."""

from __future__ import annotations

import sys
from typing import Any


def ingest_progress(quiet: bool) -> Any:
    """Return a progress bar on standard error, or a silent one if that is not a terminal."""
    from pregao.lake.ingest.runner import TaskProgress

    class Silent(TaskProgress):
        def __enter__(self) -> TaskProgress:
            return self

        def __exit__(self, *_error: object) -> None:
            return None

    if quiet or not sys.stderr.isatty():
        return Silent()
    return IngestBar()


class IngestBar:
    """Progress bar with bytes, messages per second and remaining time."""

    def __init__(self) -> None:
        from rich.progress import (
            BarColumn,
            DownloadColumn,
            TextColumn,
            TimeRemainingColumn,
        )
        from rich.progress import Progress as RichProgress

        from pregao.cli.terminal import console

        self._bar = RichProgress(
            TextColumn("{task.description}"),
            BarColumn(),
            DownloadColumn(),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(),
            console=console(sys.stderr),
            transient=True,
        )
        self._task = self._bar.add_task("starting", total=None, rate="")

    def __enter__(self) -> IngestBar:
        self._bar.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._bar.stop()

    def started(self, total_bytes: int, tasks: int) -> None:
        """Start the bar for tasks that read `total_bytes` in total."""
        self._bar.reset(
            self._task, total=total_bytes, description=f"decoding in {tasks} tasks", rate=""
        )

    def advanced(self, done_bytes: int, messages: int) -> None:
        """Update the bar with the bytes and messages processed so far."""
        seconds = self._bar.tasks[0].elapsed or 0
        rate = f"{messages / seconds / 1e6:.2f} M messages/s" if seconds and messages else ""
        self._bar.update(self._task, completed=done_bytes, rate=rate)

    def step(self, words: str) -> None:
        """Show the name of the current step."""
        self._bar.update(self._task, description=words)
