"""Plugin of pytest that records which functions a test calls, or plants a fault and selects tests.

``PREGAO_REACH`` names the file to which it appends a line of JSON for each test; ``PREGAO_MUTANT``
names a file with the module, its faulty source and the tests to run. No file of the package
changes, so the cache of compiled kernels is as before.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import json
import os
import signal
import sys
import threading
import time
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

TEST_LIMIT_S = 15.0
"""Time limit of one test whose calls are recorded."""
_PACKAGE = "/src/pregao/"


class _Faulty(importlib.machinery.SourceFileLoader):
    source = ""

    def get_code(self, fullname: str) -> CodeType:
        return compile(self.source, self.path, "exec", dont_inherit=True)


class _Finder(importlib.abc.MetaPathFinder):
    """Loads one module from other source than its file has."""

    def __init__(self, module: str, source: str) -> None:
        self._module = module
        self._source = source

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> Any:
        if fullname != self._module:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        assert spec is not None
        assert spec.origin is not None
        loader = spec.loader = _Faulty(fullname, spec.origin)
        loader.source = self._source
        return spec


class _Recorder:
    """Records the functions of the package that each test calls."""

    def __init__(self, report: Path) -> None:
        self._report = report
        self._codes: set[CodeType] = set()
        self._of_files: dict[str, set[str]] = {}
        self._passed = True

    def _note(self, frame: FrameType, event: str, _argument: Any) -> None:
        if event == "call":
            self._codes.add(frame.f_code)

    def _called(self) -> set[str]:
        found = set()
        for code in self._codes:
            _, package, path = code.co_filename.partition(_PACKAGE)
            if package:
                found.add(f"{path} {code.co_qualname}")
        return found

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Any:
        self._codes = set()
        threading.setprofile(self._note)
        sys.setprofile(self._note)
        yield
        sys.setprofile(None)
        # A fixture may serve all tests of its file.
        self._of_files.setdefault(str(item.path), set()).update(self._called())

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Any:
        def late(*_: Any) -> None:
            raise TimeoutError("The test takes too long.")

        previous = signal.signal(signal.SIGALRM, late)
        signal.setitimer(signal.ITIMER_REAL, TEST_LIMIT_S)
        sys.setprofile(self._note)
        began = time.monotonic()
        outcome = yield
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
        if outcome.excinfo is not None:
            return
        functions = sorted(self._called() | self._of_files[str(item.path)])
        record = [item.nodeid, round(time.monotonic() - began, 3), functions]
        with self._report.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")


class _Selector:
    """Runs only some tests, in a given order."""

    def __init__(self, tests: list[str]) -> None:
        self._rank = {test: number for number, test in enumerate(tests)}

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = sorted(
            (each for each in items if each.nodeid in self._rank),
            key=lambda each: self._rank[each.nodeid],
        )


def pytest_configure(config: pytest.Config) -> None:
    """Record calls, or plant the fault."""
    if "PREGAO_REACH" in os.environ:
        config.pluginmanager.register(_Recorder(Path(os.environ["PREGAO_REACH"])))
    if "PREGAO_MUTANT" in os.environ:
        fault = json.loads(Path(os.environ["PREGAO_MUTANT"]).read_text(encoding="utf-8"))
        assert fault["module"] not in sys.modules
        sys.meta_path.insert(0, _Finder(fault["module"], fault["source"]))
        config.pluginmanager.register(_Selector(fault["tests"]))
