"""Progress bar of a command on standard error, if that is a terminal."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Any


class ReadingProgress:
    """Progress bar for each capture while it is read; does nothing without a terminal."""

    def __init__(self, what: str, *, quiet: bool = False) -> None:
        self._what = what
        self._bar: Any = None
        self._task: Any = None
        self._name: Any = None
        if not quiet and sys.stderr.isatty():
            # Imported late: rich takes 0.1 s to import, which scripts should not pay.
            from rich.markup import escape
            from rich.progress import Progress as Bar

            from pregao.cli.terminal import console

            self._name = escape
            self._bar = Bar(console=console(sys.stderr), transient=True)

    def begin(self, name: str, size: int | None) -> None:
        """Start the bar of a capture; `size` is in bytes, None if unknown."""
        if self._bar is not None:
            if self._task is not None:
                self._bar.remove_task(self._task)
            self._task = self._bar.add_task(f"{self._what} {self._name(name)}", total=size)

    def reached(self, position: int) -> None:
        """Move the bar to a byte position in the capture."""
        if self._bar is not None:
            self._bar.update(self._task, completed=position)

    def __enter__(self) -> ReadingProgress:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
