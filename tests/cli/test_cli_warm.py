"""``pregao warm`` and its list of kernels, and the notice of a compilation."""

import io
import logging
import os
import subprocess
import sys
from collections import Counter
from importlib import import_module

import pytest
from numba import types
from numba.core.dispatcher import Dispatcher

from pregao import _compiled
from pregao._kernel_cache import kernel_sources, module_names
from pregao.cli.warm import listed, text_of, types_of

LISTED = listed()
ADVICE = "run `python packaging/record_kernels.py`"
KERNEL_MODULES = sorted(
    name for name in module_names(kernel_sources()) if name.split(".")[-1].endswith("_kernels")
)


def kernels():
    """All compiled kernels by module and name, without those imported from other modules."""
    for module in KERNEL_MODULES:
        for name, kernel in vars(import_module(module)).items():
            if isinstance(kernel, Dispatcher) and kernel.py_func.__module__ == module:
                yield (module, name), kernel


KERNELS = dict(kernels())


def test_the_list_has_every_kernel_that_no_other_calls():
    """Kernels that others call are compiled with those."""
    called = {each for kernel in KERNELS.values() for each in kernel.py_func.__code__.co_names}
    cached = _compiled._SharedCache
    own = {key for key, kernel in KERNELS.items() if isinstance(kernel._cache, cached)}
    missing = {
        (module, name)
        for module, name in own - {(entry.module, entry.name) for entry in LISTED}
        if name not in called and not name.startswith("_")
    }
    assert missing == set(), ADVICE
    assert len(own) > 100


@pytest.mark.parametrize("entry", LISTED, ids=lambda entry: f"{entry.module}.{entry.name}")
def test_an_entry_names_a_kernel_and_a_type_for_each_argument(entry):
    kernel = KERNELS.get((entry.module, entry.name))
    assert kernel is not None, ADVICE
    kinds = types_of(entry.types)
    assert len(kinds) == kernel.py_func.__code__.co_argcount, ADVICE
    assert text_of(kinds) == entry.types


def test_types_are_written_and_read():
    array = types.Array(types.uint8, 1, "C", readonly=True)
    kinds = (types.boolean, types.int64, array, types.Array(types.int32, 3, "A"))
    kinds += (types.Tuple((types.Array(types.int64, 2, "C"), types.float64)),)
    assert text_of(kinds) == "b1 i8 u1[1Cr] i4[3A] (i8[2C] f8)"
    assert types_of(text_of(kinds)) == kinds


def test_all_is_compiled_once(pregao, monkeypatch, tmp_path):
    monkeypatch.setenv("PREGAO_CACHE_DIR", str(tmp_path))
    entry = next(each for each in LISTED if each.name == "gather_i64")
    monkeypatch.setattr("pregao.cli.warm._list", lambda: f"{entry.line}\n")
    cache = tmp_path / "cache"
    cache.mkdir()
    monkeypatch.setattr(_compiled, "CACHE", cache)
    first, second = pregao("warm"), pregao("warm")
    assert (first.code, second.code) == (0, 0)
    assert first.out.startswith(f"Compiling 1 kernels into {cache}")
    assert "1 kernels compiled in " in first.out
    assert second.out == f"All 1 kernels are compiled already, in {cache}.\n"
    # The worker process had this cache.
    (folder,) = (tmp_path / "numba").iterdir()
    assert [path.name.split("-")[0] for path in folder.rglob("*.nbi")] == ["_kernels.gather_i64"]
    monkeypatch.setattr("pregao.cli.warm._list", lambda: f"{entry.line}\n" * 2)
    assert pregao("warm", "-q").out == ""
    assert "All 2" in pregao("warm").out


def test_without_a_folder_there_is_an_error(pregao, monkeypatch):
    monkeypatch.setattr(_compiled, "CACHE", None)
    result = pregao("warm")
    assert result.code == 2
    assert "No folder for compiled kernels is writable: set PREGAO_CACHE_DIR" in result.err


# --- Notice ---


class Terminal(io.StringIO):
    """A terminal of 50 columns."""

    def __init__(self):
        super().__init__()
        self.shown = []

    def isatty(self):
        return True

    def fileno(self):
        return 99

    def write(self, text):
        self.shown.append(text)
        return len(text)


def kernel_event():
    def work():
        """Stand for a kernel."""

    work.__module__ = "pregao.sbe._kernels"

    class Event:
        data = {"dispatcher": type("D", (), {"py_func": staticmethod(work)})}  # noqa: RUF012

    return Event


@pytest.fixture
def clock(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(_compiled.time, "monotonic", lambda: now[0])
    return now


def test_a_terminal_shows_the_progress_while_kernels_are_compiled(monkeypatch, clock):
    terminal, event = Terminal(), kernel_event()
    monkeypatch.setattr(sys, "stderr", terminal)
    size = os.terminal_size((66, 20))
    monkeypatch.setattr(os, "get_terminal_size", lambda _number: size)
    notice = _compiled.CompilationNotice()
    notice.on_start(event)
    clock[0] += 0.9
    notice.on_start(event)
    notice.on_end(event)
    notice.on_end(event)
    assert terminal.shown == []  # shorter than a second
    notice.on_start(event)
    clock[0] += 7
    notice.on_start(event)
    (line,) = terminal.shown
    assert line == "\r\x1b[Kpregao: compiling kernels, once, up to a minute: 1 compiled in 8 "
    notice.on_end(event)
    notice.on_end(event)
    assert terminal.shown[1:] == ["\r\x1b[K"]


def test_other_programs_get_one_line_for_all_processes(monkeypatch, clock, caplog, tmp_path):
    monkeypatch.setattr(_compiled, "CACHE", tmp_path)
    event = kernel_event()
    for _process in range(2):
        notice = _compiled.CompilationNotice()
        notice.on_start(event)
        clock[0] += 2
        notice.on_start(event)
        notice.on_start(event)
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert "compiling kernels, once, up to a minute (`pregao warm` compiles all)" in caplog.text
    os.utime(tmp_path / "announced", (0, 0))
    notice = _compiled.CompilationNotice()
    notice.on_start(event)
    clock[0] += 2
    notice.on_start(event)
    assert len(caplog.records) == 2


@pytest.mark.parametrize(("setting", "lines"), [("0", 0), ("1", 1)])
def test_a_variable_disables_the_notice(setting, lines, tmp_path):
    code = (
        "from pregao import _compiled; _compiled._NOTICE_AFTER_S = 0; import numpy as np;"
        "from pregao.lake.datasource._kernels import gather_i64 as k; i = np.zeros(1, np.int64);"
        "k(np.zeros(16, np.uint8), i, i.copy())"
    )
    environment = {"PREGAO_CACHE_DIR": str(tmp_path), "PREGAO_COMPILE_NOTICE": setting}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert Counter(done.stderr.splitlines()).total() == lines
    assert done.stdout == ""
