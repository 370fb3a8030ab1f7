"""Progress of a stage's tasks."""

from __future__ import annotations


class TaskProgress:
    """Listener for the progress of tasks, shown by the command line."""

    def started(self, total_bytes: int, tasks: int) -> None:
        """Called before tasks run, with their totals."""

    def advanced(self, done_bytes: int, messages: int) -> None:
        """Called with the bytes and messages processed so far."""

    def step(self, words: str) -> None:
        """Called when another step begins, with its description."""
