"""Processes that a test kills or lets race: forked from one that has imported the lake already.

A new Python process would import for a second what it needs for a tenth of one.
"""

import multiprocessing
import os
import sys
import traceback
from pathlib import Path
from tempfile import mkdtemp

from tests.waiting import PATIENCE_S

ROOT = Path(__file__).parents[1]
# It would make a folder of its own, and complain when that is gone with the run's. The path of a
# socket must be short.
_SOCKETS = mkdtemp(prefix="f", dir=os.environ.get("PREGAO_TESTS_SHARED"))
multiprocessing.current_process()._config.setdefault("tempdir", _SOCKETS)
_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(
    [
        "pregao.lake.drop",
        "pregao.lake.ingest.pipeline",
        "pregao.lake.datasource.rolling_files",
        "pregao.lake.streaming.stream",
        "tests.lake.lake_support",
    ]
)


class Forked:
    """A piece of Python that runs with these arguments, as ``python -c`` would run it."""

    def __init__(self, code: str, *arguments: object) -> None:
        self._error_file = Path(mkdtemp(prefix="pregao-forked-")) / "error"
        words = [str(argument) for argument in arguments]
        self._process = _FORKS.Process(
            target=_run, args=(code, words, dict(os.environ), str(self._error_file))
        )
        self._process.start()

    def poll(self) -> int | None:
        """Return how it ended, or None while it runs."""
        return self._process.exitcode

    def wait(self, seconds: float = PATIENCE_S) -> int:
        """Return its exit code, or the negative number of the signal that ended it."""
        self._process.join(seconds)
        if self._process.exitcode is None:
            self._process.kill()
            self._process.join()
            raise AssertionError(f"It had not ended after {seconds:g} s.")
        code = self._process.exitcode
        self._process.close()
        if self._error_file.exists():
            raise AssertionError(f"It ended with an error.\n{self._error_file.read_text()}")
        return code


def _run(code: str, arguments: list[str], environment: dict[str, str], error_file: str) -> None:
    os.chdir(ROOT)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["-c", *arguments]
    try:
        exec(compile(code, "<forked>", "exec"), {"__name__": "__main__"})
    except Exception:
        Path(error_file).write_text(traceback.format_exc())
        raise
